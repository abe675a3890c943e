//! What users of other tools have met, each case by its number (HT01 …), where no other test shows it.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use dvcr_transport::{Client, Config, Result, Retry};
use fixtures::http::{Authority, Object, Reply, Seen, Server, Settings};

use super::sample;

const LEN: usize = 6 << 20;

fn hasty() -> Config {
    let retry = Retry { attempts: 4, first: Duration::from_millis(1), longest: Duration::from_millis(2) };
    Config { retry, insecure: true, ..Config::default() }
}

async fn fetch(url: &str, config: Config) -> Result<Vec<u8>> {
    let (_, mut transfer) = Client::new(config)?.resource(url)?.open().await?;
    let mut bytes = Vec::new();
    while let Some(more) = transfer.next().await? {
        bytes.extend_from_slice(&more);
    }
    Ok(bytes)
}

fn disk() -> Vec<u8> {
    sample(LEN.try_into().unwrap())
}

fn start_of(seen: &Seen) -> usize {
    let first = |range: &str| range.strip_prefix("bytes=")?.split_once('-')?.0.parse().ok();
    seen.header("range").and_then(first).unwrap_or(0)
}

/// HT01: the mirror is chosen once; one that fails is replaced by asking the origin once, at the same offset.
#[tokio::test]
async fn a_mirror_is_kept_until_it_fails() {
    let data = disk();
    let object = Object::new(data.clone());
    let asked = AtomicUsize::new(0);
    // Good for two requests.
    let one = Server::start(move |seen| match asked.fetch_add(1, Ordering::SeqCst) {
        0..2 => object.answer(seen),
        _ => Reply::new(404),
    });
    let object = Object::new(data.clone());
    let two = Server::start(move |seen| object.answer(seen));
    let lacks = Server::start(|_| Reply::new(404));
    let mirrors = [one.url("/a"), two.url("/b"), lacks.url("/c")];
    let hop = AtomicUsize::new(0);
    let origin = Server::start(move |_| Reply::redirect(302, mirrors[hop.fetch_add(1, Ordering::SeqCst) % 3].clone()));
    let got = fetch(&origin.url("/disk"), Config { connections: 1, ..hasty() }).await.unwrap();
    assert!(got == data);
    assert_eq!((origin.seen().len(), one.seen().len(), lacks.seen().len()), (2, 3, 0));
    assert_eq!(start_of(&two.seen()[0]), start_of(&one.seen()[2]));
}

/// HT02: a stale mirror the first time, a good one the second.
#[tokio::test]
async fn a_stale_mirror_costs_one_more_request_to_the_origin() {
    let data = disk();
    let object = Object::new(data.clone());
    let hop = AtomicUsize::new(0);
    let server = Server::start(move |seen| match seen.target.as_str() {
        "/disk" if hop.fetch_add(1, Ordering::SeqCst) == 0 => Reply::redirect(302, "/stale"),
        "/disk" => Reply::redirect(302, "/good"),
        "/good" => object.answer(seen),
        _ => Reply::new(404),
    });
    assert!(fetch(&server.url("/disk"), hasty()).await.unwrap() == data);
    let stale = server.seen().iter().filter(|seen| seen.target == "/stale").count();
    let origin = server.seen().iter().filter(|seen| seen.target == "/disk").count();
    assert_eq!((origin, stale), (2, 1));
}

/// HT03: no ranges, whether the server says so or not, is one streaming GET.
#[tokio::test]
async fn a_server_without_ranges_is_asked_once() {
    let data = disk();
    for says in [None, Some("none"), Some("bytes")] {
        let object = Object::new(data.clone()).without_ranges();
        let server = Server::start(move |seen| match says {
            Some(says) => object.answer(seen).header("accept-ranges", says),
            None => object.answer(seen),
        });
        assert!(fetch(&server.url("/disk"), hasty()).await.unwrap() == data, "{says:?}");
        assert_eq!(server.seen().len(), 1, "{says:?}");
    }
}

/// HT05: an address that is signed for GET only.
#[tokio::test]
async fn nothing_but_get_is_ever_sent() {
    let data = disk();
    for ranges in [true, false] {
        let object = Object::new(data.clone());
        let object = if ranges { object } else { object.without_ranges() };
        let server = Server::start(move |seen| match seen.method.as_str() {
            "GET" => object.answer(seen),
            _ => Reply::new(403),
        });
        assert!(fetch(&server.url("/disk?X-Amz-Signature=1"), hasty()).await.unwrap() == data);
        assert!(server.seen().iter().all(|seen| seen.method == "GET"));
    }
}

/// HT09: a reset at 34 % costs what was on the way, and no more.
#[tokio::test]
async fn a_reset_is_gone_on_from_where_it_was() {
    let data = disk();
    let object = Object::new(data.clone());
    let (at, resets) = (LEN * 34 / 100, AtomicUsize::new(0));
    let server = Server::start(move |seen| {
        let (reply, start) = (object.answer(seen), start_of(seen));
        let here = start < at && at < start + reply.body_len();
        if here && resets.fetch_add(1, Ordering::SeqCst) == 0 {
            reply.fault_at(at - start, Reply::reset)
        } else {
            reply
        }
    });
    assert!(fetch(&server.url("/disk"), Config { connections: 1, ..hasty() }).await.unwrap() == data);
    let again: Vec<_> = server.seen().into_iter().skip(1).collect();
    assert!(again.iter().all(|seen| seen.header("if-range") == Some("\"v1\"")), "{again:?}");
    // A reset may overtake what was sent before it, not what was given.
    let going_on = again.iter().map(start_of).filter(|start| *start <= at).max().unwrap();
    assert!(going_on >= 512 << 10, "{going_on} of {at}");
}

/// HT33: a store that is too busy in the middle is waited for as it says, and gone on with at the offset.
#[tokio::test]
async fn a_busy_store_is_gone_on_with_at_the_offset() {
    let data = disk();
    for status in [503, 429] {
        for wait in [Some("0"), None] {
            let object = Object::new(data.clone());
            let (asked, starts) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
            let server = Server::start(move |seen| {
                starts.lock().unwrap().push(start_of(seen));
                let busy = Reply::new(status).body("<Code>SlowDown</Code> Please reduce your request rate.");
                match (asked.fetch_add(1, Ordering::SeqCst), wait) {
                    (1 | 2, Some(wait)) => busy.header("retry-after", wait),
                    (1 | 2, None) => busy,
                    (0, _) => object.answer(seen).fault_at(300 << 10, Reply::cut),
                    _ => object.answer(seen),
                }
            });
            let got = fetch(&server.url("/disk"), Config { connections: 1, ..hasty() }).await.unwrap();
            assert!(got == data, "{status} {wait:?}");
            let starts: Vec<_> = server.seen().iter().map(start_of).collect();
            assert_eq!(starts[..4], [0, 300 << 10, 300 << 10, 300 << 10], "{status} {wait:?}");
        }
    }
}

/// HT36: a signed query goes out as it is, also where a redirect brings it.
#[tokio::test]
async fn a_signed_query_is_not_touched_on_the_way() {
    const SIGNED: &str = "/disk?sv=2020&sig=a%2Bb%3D+c&se=2026-09-01T00%3A00Z&sp=r%2f";
    let data = disk();
    let object = Object::new(data.clone());
    let server = Server::start(move |seen| match seen.target.as_str() {
        SIGNED => object.answer(seen),
        "/start" => Reply::redirect(302, SIGNED),
        _ => Reply::new(403),
    });
    for path in [SIGNED, "/start"] {
        assert!(fetch(&server.url(path), hasty()).await.unwrap() == data, "{path}");
    }
}

/// HT-R7: whatever HTTP/2 does in the middle, the bytes are those of the object; after a failure HTTP/1.1 is spoken.
#[tokio::test]
async fn an_http2_transfer_survives_resets_lost_connections_stalls_and_goodbyes() {
    type Fault = fn(Reply) -> Reply;
    // A request that meets the GOAWAY on its way is lost; the next one may be HTTP/1.1.
    let faults: [(&str, Fault, &[u8]); 4] = [
        ("RST_STREAM", |reply| reply.fault_at(300 << 10, Reply::cut), &[1]),
        ("a lost connection", |reply| reply.fault_at(300 << 10, Reply::reset), &[1]),
        ("a stall", |reply| reply.fault_at(300 << 10, Reply::stall), &[1]),
        ("GOAWAY", Reply::goodbye, &[1, 2]),
    ];
    let data = disk();
    for (what, fault, last) in faults {
        for ranges in [true, false] {
            let object = Object::new(data.clone());
            let object = if ranges { object } else { object.without_ranges() };
            let identity = Authority::new("test").issue(&["127.0.0.1"]);
            let settings = Settings { identity: Some(identity), http2: true, ..Settings::default() };
            let server = Server::with(settings, move |seen| {
                let reply = object.answer(seen);
                if seen.version == 2 { fault(reply) } else { reply }
            });
            // The others are told; a machine that is busy for a moment is no stall to them.
            let config = match what {
                "a stall" => Config { idle_timeout: Duration::from_millis(500), ..hasty() },
                _ => Config { idle_timeout: Duration::from_secs(30), ..hasty() },
            };
            let got = fetch(&server.url("/disk"), config).await.unwrap_or_else(|error| panic!("{what}: {error}"));
            assert!(got == data, "{what} {ranges}");
            let versions: Vec<_> = server.seen().iter().map(|seen| seen.version).collect();
            assert!(versions[0] == 2 && last.contains(versions.last().unwrap()), "{what} {ranges}: {versions:?}");
        }
    }
}
