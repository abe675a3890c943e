//! Transfers: what fails is tried again, and nothing is ever mixed.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use dvcr_transport::{Client, Config, Error, Kind, Resource, Result, Retry, Transfer};
use fixtures::http::{Object, Reply, Seen, Server};

use super::sample;

const LEN: usize = 9 << 20;

fn hasty() -> Config {
    let retry = Retry { attempts: 4, first: Duration::from_millis(1), longest: Duration::from_millis(2) };
    Config { retry, ..Config::default() }
}

fn resource(server: &Server, config: Config) -> Resource {
    Client::new(config).unwrap().resource(&server.url("/disk")).unwrap()
}

async fn read(mut transfer: Transfer) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    while let Some(more) = transfer.next().await? {
        assert!(!more.is_empty());
        bytes.extend_from_slice(&more);
    }
    assert_eq!(transfer.next().await?, None);
    Ok(bytes)
}

async fn fetch(server: &Server, config: Config) -> Result<Vec<u8>> {
    let (_, transfer) = resource(server, config).open().await?;
    read(transfer).await
}

async fn failure(server: &Server) -> Error {
    match resource(server, hasty()).open().await {
        Ok((_, transfer)) => read(transfer).await.unwrap_err(),
        Err(error) => error,
    }
}

/// How many bytes of a body were asked for and could be sent.
fn asked(seen: &[Seen]) -> usize {
    let range = |seen: &Seen| {
        let (first, last) = seen.header("range")?.strip_prefix("bytes=")?.split_once('-').unwrap();
        Some(last.parse().map_or(LEN, |last: usize| LEN.min(last + 1)) - first.parse::<usize>().unwrap())
    };
    seen.iter().map(|seen| range(seen).unwrap_or(LEN)).sum()
}

/// Cuts an answer after `len` bytes, if it has more.
fn cut_after(reply: Reply, len: usize) -> Reply {
    if reply.body_len() > len { reply.fault_at(len, Reply::cut) } else { reply }
}

#[tokio::test]
async fn an_object_with_ranges_is_read_once_and_in_order() {
    let data = sample(LEN.try_into().unwrap());
    for connections in [1, 2, 8] {
        let object = Object::new(data.clone());
        let server = Server::start(move |seen| object.answer(seen));
        let got = fetch(&server, Config { connections, ..hasty() }).await.unwrap();
        assert!(got == data, "{connections}");
        let seen = server.seen();
        assert_eq!(asked(&seen), LEN, "{connections}: nothing is asked for twice");
        assert!(server.connections() <= connections, "{connections}");
        assert!(seen[1..].iter().all(|seen| seen.header("if-range") == Some("\"v1\"")));
    }
}

#[tokio::test]
async fn whoever_wants_the_start_asks_for_little() {
    let object = Object::new(sample(LEN.try_into().unwrap()));
    let server = Server::start(move |seen| object.answer(seen));
    let (_, mut transfer) = resource(&server, hasty()).open().await.unwrap();
    while !transfer.at_rest() {
        assert!(transfer.next().await.unwrap().is_some());
        assert_eq!(server.seen().len(), 1);
    }
    drop(transfer);
    assert!(asked(&server.seen()) <= 512 << 10);
}

#[tokio::test]
async fn ranges_come_in_the_order_asked_and_apart() {
    let data = sample(LEN.try_into().unwrap());
    let object = Object::new(data.clone());
    let server = Server::start(move |seen| object.answer(seen));
    let resource = resource(&server, hasty());
    let (object, start) = resource.open().await.unwrap();
    drop(start);
    let ranges = [5 << 20..(5 << 20) + 7, 100..5 << 20, 3..3, 8 << 20..9 << 20];
    let mut transfer = resource.read(&object, ranges.clone());
    for range in ranges.into_iter().filter(|range| !range.is_empty()) {
        let mut at = range.start;
        while at < range.end {
            let bytes = transfer.next().await.unwrap().unwrap();
            let from = usize::try_from(at).unwrap();
            assert!(data[from..].starts_with(&bytes));
            at += bytes.len() as u64;
        }
        assert_eq!(at, range.end);
    }
    assert_eq!(transfer.next().await.unwrap(), None);
}

/// HT13.
#[tokio::test]
async fn a_connection_that_breaks_all_the_time_costs_little_more() {
    let data = sample(LEN.try_into().unwrap());
    let object = Object::new(data.clone());
    let server = Server::start(move |seen| cut_after(object.answer(seen), 300 << 10));
    let got = fetch(&server, hasty()).await.unwrap();
    assert!(got == data);
    assert!(server.seen().len() >= LEN / (300 << 10), "progress renews the budget of four attempts");
}

#[tokio::test]
async fn an_object_without_ranges_goes_on_behind_the_known_front() {
    let data = sample(LEN.try_into().unwrap());
    for etag in [Some("\"v1\""), Some("W/\"weak\""), None] {
        for chunked in [false, true] {
            let object = Object::new(data.clone()).without_ranges().etag(etag);
            let tries = AtomicUsize::new(0);
            let server = Server::start(move |seen| {
                let reply = object.answer(seen);
                let reply = if chunked { reply.chunked() } else { reply };
                match tries.fetch_add(1, Ordering::Relaxed) {
                    0 => reply.fault_at(1 << 20, Reply::cut),
                    1 => reply.fault_at(100, Reply::reset),
                    2 => reply.fault_at(5 << 20, Reply::cut),
                    _ => reply,
                }
            });
            let got = fetch(&server, hasty()).await.unwrap();
            assert!(got == data, "{etag:?} {chunked}");
            let seen: Vec<_> = server.seen().iter().map(|seen| seen.header("range").map(str::to_owned)).collect();
            assert_eq!(seen.len(), 4, "{etag:?} {chunked}: {seen:?}");
        }
    }
}

#[tokio::test]
async fn nothing_is_mixed_with_another_object() {
    let before = sample(LEN.try_into().unwrap());
    let mut after = before.clone();
    after[5] ^= 1;
    for (ranges, etag) in [(true, true), (false, true), (false, false)] {
        let tag = |version| etag.then_some(if version == 1 { "\"v1\"" } else { "\"v2\"" });
        let make = |bytes: &[u8], version| {
            let object = Object::new(bytes.to_vec()).etag(tag(version));
            if ranges { object } else { object.without_ranges() }
        };
        let (old, new) = (make(&before, 1), make(&after, 2));
        let tries = AtomicUsize::new(0);
        let server = Server::start(move |seen| match tries.fetch_add(1, Ordering::Relaxed) {
            0 => cut_after(old.answer(seen), 300 << 10),
            _ => new.answer(seen),
        });
        let error = failure(&server).await;
        assert_eq!(error.kind(), Kind::Changed, "{ranges} {etag}: {error}");
        assert!(error.is_transient() && error.to_string().contains("changed"), "{error}");
    }
    // Shorter than what came of it.
    let tries = AtomicUsize::new(0);
    let server = Server::start(move |_| match tries.fetch_add(1, Ordering::Relaxed) {
        0 => Reply::ok(before.clone()).chunked().fault_at(1000, Reply::cut),
        _ => Reply::ok(before[..500].to_vec()).chunked(),
    });
    assert_eq!(failure(&server).await.kind(), Kind::Changed);
}

#[tokio::test]
async fn a_server_that_stops_giving_ranges_is_read_once() {
    let data = sample(LEN.try_into().unwrap());
    let (with, without) = (Object::new(data.clone()), Object::new(data.clone()).without_ranges());
    let tries = AtomicUsize::new(0);
    let server = Server::start(move |seen| match tries.fetch_add(1, Ordering::Relaxed) {
        0..=2 => with.answer(seen),
        _ => without.answer(seen),
    });
    let got = fetch(&server, hasty()).await.unwrap();
    assert!(got == data);
    // Some connections may have asked before the first was found out.
    let wholes = server.seen().len() - 3;
    assert!((2..=9).contains(&wholes), "{wholes}");
}

#[tokio::test]
async fn a_range_without_a_proof_is_not_used() {
    let data = sample(LEN.try_into().unwrap());
    let object = Object::new(data.clone()).etag(None);
    let server = Server::start(move |seen| object.answer(seen));
    let (object, transfer) = resource(&server, hasty()).open().await.unwrap();
    assert!(!object.ranges);
    assert!(read(transfer).await.unwrap() == data);
    let seen = server.seen();
    assert_eq!(seen.len(), 2);
    assert_eq!(seen[1].header("range"), None);
    // Unless it is all there is.
    let object = Object::new(data[..1000].to_vec()).etag(None);
    let server = Server::start(move |seen| object.answer(seen));
    assert!(fetch(&server, hasty()).await.unwrap() == data[..1000]);
    assert_eq!(server.seen().len(), 1);
}

#[tokio::test]
async fn less_than_asked_is_completed() {
    let data = sample(LEN.try_into().unwrap());
    let bytes = data.clone();
    let server = Server::start(move |seen| {
        let (first, last) = seen.header("range").unwrap()[6..].split_once('-').unwrap();
        let first: usize = first.parse().unwrap();
        let end = LEN.min(first + 200_000).min(last.parse::<usize>().unwrap() + 1);
        Reply::new(206)
            .header("content-range", format!("bytes {first}-{}/{LEN}", end - 1))
            .header("etag", "\"v1\"")
            .body(bytes[first..end].to_vec())
    });
    assert!(fetch(&server, hasty()).await.unwrap() == data);
}

/// HT33.
#[tokio::test]
async fn busy_servers_are_asked_again_and_final_answers_are_not() {
    let data = sample(100_000);
    for (status, header) in [(503, Some("0")), (429, None), (500, None), (408, None), (502, Some("soon"))] {
        let object = Object::new(data.clone());
        let tries = AtomicUsize::new(0);
        let server = Server::start(move |seen| match (tries.fetch_add(1, Ordering::Relaxed), header) {
            (0 | 1, Some(wait)) => Reply::new(status).header("retry-after", wait),
            (0 | 1, None) => Reply::new(status),
            _ => object.answer(seen),
        });
        assert!(fetch(&server, hasty()).await.unwrap() == data, "{status}");
    }
    for status in [401, 404, 407, 410, 451] {
        let server = Server::start(move |_| Reply::new(status));
        assert_eq!(failure(&server).await.kind(), Kind::Status(status));
        assert_eq!(server.seen().len(), 1, "{status}");
    }
    let server = Server::start(|_| Reply::new(502));
    let error = failure(&server).await;
    assert!(error.to_string().ends_with("(after 4 attempts)"), "{error}");
    assert_eq!(server.seen().len(), 4);
    // Whoever says "in an hour" is not waited for.
    let server = Server::start(|_| Reply::new(503).header("retry-after", "3600"));
    assert_eq!(failure(&server).await.retry_after(), Some(Duration::from_secs(3600)));
    assert_eq!(server.seen().len(), 1);
}

/// HT08, HT41.
#[tokio::test]
async fn a_server_that_stands_still_is_left() {
    let data = sample(LEN.try_into().unwrap());
    let object = Object::new(data.clone());
    let tries = AtomicUsize::new(0);
    let server = Server::start(move |seen| {
        let reply = object.answer(seen);
        let stalls = tries.fetch_add(1, Ordering::Relaxed) < 3 && reply.body_len() > 1000;
        if stalls { reply.fault_at(1000, Reply::stall) } else { reply }
    });
    let config = Config { idle_timeout: Duration::from_millis(200), ..hasty() };
    assert!(fetch(&server, config).await.unwrap() == data);
}

#[tokio::test]
async fn an_answer_of_another_range_is_an_error() {
    for range in ["bytes 1-512/9437184", "bytes 0-524288/9437184", "bytes 0-1/2, bytes 3-4/5", "octets 0-9/10"] {
        let server = Server::start(move |_| {
            Reply::new(206).header("content-range", range).header("etag", "\"v1\"").body(vec![0; 512])
        });
        let error = failure(&server).await;
        assert_eq!(error.kind(), Kind::Protocol, "{range}: {error}");
        assert_eq!(server.seen().len(), 2, "once with a range and once without");
    }
}

#[tokio::test]
async fn ranges_that_can_not_be_relied_on_are_not_asked_for_again() {
    let data = sample(LEN.try_into().unwrap());
    type Fault = fn(Reply, &Seen) -> Reply;
    let faults: [Fault; 4] = [
        // RFC 9110, 15.3.7: a part need not repeat what If-Range has compared.
        |reply, _| Reply::new(206).header("content-range", reply.header_of("content-range")).body(reply.data()),
        |reply, _| Reply::new(206).header("etag", "\"v1\"").body(reply.data()),
        |reply, _| Reply::new(206).header("etag", "\"v1\"").header("content-range", "bytes 1-2/3").body(reply.data()),
        |_, _| Reply::new(206).header("content-type", "multipart/byteranges; boundary=x").body("--x"),
    ];
    for (number, fault) in faults.into_iter().enumerate() {
        for first in [0, 1, 3] {
            let object = Object::new(data.clone());
            let tries = AtomicUsize::new(0);
            let server = Server::start(move |seen| {
                let reply = object.answer(seen);
                let ranged = seen.header("range").is_some();
                if ranged && tries.fetch_add(1, Ordering::Relaxed) >= first { fault(reply, seen) } else { reply }
            });
            let got = fetch(&server, hasty()).await.unwrap_or_else(|error| panic!("{number} {first}: {error}"));
            assert!(got == data, "{number} {first}");
        }
    }
}

#[tokio::test]
async fn a_connection_that_breaks_behind_the_last_byte_has_brought_all() {
    let data = sample(LEN.try_into().unwrap());
    let object = Object::new(data.clone());
    let server = Server::start(move |seen| {
        let reply = object.answer(seen);
        let len = reply.body_len();
        // The end of the chunks never comes.
        reply.chunked().fault_at(len, Reply::cut)
    });
    assert!(fetch(&server, hasty()).await.unwrap() == data);
    assert_eq!(asked(&server.seen()), LEN, "nothing is asked for twice");
}

/// HT-R1: `curl -L` gets it, so we do, also where a guard before the server takes offence at ranges, and when the one
/// answer without breaks.
#[tokio::test]
async fn a_refused_range_is_no_refusal_of_the_object() {
    let data = sample(LEN.try_into().unwrap());
    let refusals = [400, 403, 405, 406, 500, 501].map(Reply::new);
    for refusal in refusals.into_iter().chain([Reply::raw("")]) {
        let object = Object::new(data.clone());
        let (what, wholes) = (format!("{refusal:?}"), AtomicUsize::new(0));
        let server = Server::start(move |seen| match seen.header("range") {
            Some(_) => refusal.clone(),
            None if wholes.fetch_add(1, Ordering::Relaxed) == 0 => object.answer(seen).fault_at(1 << 20, Reply::cut),
            None => object.answer(seen),
        });
        let got = fetch(&server, hasty()).await.unwrap_or_else(|error| panic!("{what}: {error}"));
        assert!(got == data, "{what}");
        // No range is asked for again, in vain.
        let whole: Vec<_> = server.seen().iter().map(|seen| seen.header("range").is_none()).collect();
        assert_eq!(whole[whole.len() - 2..], [true, true], "{what}");
        assert_eq!(whole.iter().filter(|whole| **whole).count(), 2, "{what}");
    }
}

/// HT-R1: a refusal that is meant costs one request more, and is told as it was.
#[tokio::test]
async fn a_real_refusal_is_asked_once_more_without_a_range_and_told() {
    for status in [400, 403, 405, 406, 501] {
        let server = Server::start(move |seen| match seen.header("range") {
            Some(_) => Reply::new(status).body("no, and that is why"),
            None => Reply::new(404),
        });
        let error = failure(&server).await;
        assert_eq!((error.kind(), error.is_transient()), (Kind::Status(status), false), "{error}");
        assert!(error.to_string().contains("that is why"), "{error}");
        assert_eq!(server.seen().len(), 2, "{status}");
    }
    let server = Server::start(|_| Reply::new(500));
    let error = failure(&server).await;
    assert!(error.to_string().ends_with("(after 4 attempts)"), "{error}");
    assert_eq!(server.seen().len(), 5);
}

#[tokio::test]
async fn a_part_that_is_refused_is_of_a_shorter_object_or_read_in_the_whole() {
    let data = sample(LEN.try_into().unwrap());
    for (total, kind) in [(Some(LEN / 100), Some(Kind::Changed)), (Some(LEN), None), (None, None)] {
        let object = Object::new(data.clone());
        let server = Server::start(move |seen| match (seen.header("range"), total) {
            (None | Some("bytes=0-524287"), _) => object.answer(seen),
            (_, Some(total)) => Reply::new(416).header("content-range", format!("bytes */{total}")),
            (_, None) => Reply::new(416),
        });
        match (fetch(&server, hasty()).await, kind) {
            (Ok(got), None) => assert!(got == data, "{total:?}"),
            (Err(error), Some(kind)) => assert_eq!(error.kind(), kind, "{error}"),
            (got, _) => panic!("{total:?}: {:?}", got.map(|got| got.len())),
        }
    }
}
