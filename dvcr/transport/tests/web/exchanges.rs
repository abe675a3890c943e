//! Requests of any kind, and objects whose credentials are renewed.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use dvcr_transport::{
    Address, Ask, Client, Config, Credentials, Kind, Method, Payload, Renewal, Reply as Answer, Result,
};
use fixtures::http::{Authority, Object, Reply, Server, Settings, Taking};

use super::sample;

fn client(config: Config) -> Client {
    Client::new(config).unwrap()
}

async fn ask(server: &Server, path: &str, ask: Ask) -> Result<Answer> {
    client(Config::default()).ask(&Address::parse(&server.url(path)).unwrap(), ask).await
}

fn pieces(bytes: &[u8]) -> Payload {
    Payload::pieces(bytes.chunks(1000).map(Bytes::copy_from_slice))
}

#[tokio::test]
async fn what_is_sent_arrives_with_its_length() {
    let server = Server::start(|seen| Reply::new(201).header("x-method", &*seen.method).body("made"));
    let sent = sample(300_000);
    for method in [Method::Post, Method::Put, Method::Patch] {
        let answer =
            ask(&server, "/a?b=c", Ask::new(method).header("content-type", "text/x").payload(pieces(&sent))).await;
        let answer = answer.unwrap();
        assert_eq!((answer.status, answer.header("x-method").is_some()), (201, true));
        assert_eq!(answer.bytes(10).await.unwrap(), "made");
        let seen = server.seen().pop().unwrap();
        assert_eq!((seen.target.as_str(), seen.header("content-type")), ("/a?b=c", Some("text/x")));
        assert_eq!((seen.header("content-length"), seen.body == sent), (Some("300000"), true));
    }
    // A server may want a length where there is nothing, and never one of nothing that is only asked for.
    ask(&server, "/", Ask::new(Method::Post)).await.unwrap();
    assert_eq!(server.seen().pop().unwrap().header("content-length"), Some("0"));
    ask(&server, "/", Ask::new(Method::Delete)).await.unwrap();
    let answer = ask(&server, "/", Ask::new(Method::Get)).await.unwrap();
    assert_eq!(server.seen().pop().unwrap().header("content-length"), None);
    assert_eq!(answer.bytes(3).await.unwrap_err().kind(), Kind::Protocol);
}

#[tokio::test]
async fn what_is_fed_arrives_as_it_comes() {
    let authority = Authority::new("test");
    let identity = authority.issue(&["127.0.0.1"]);
    let secure =
        Server::with(Settings { identity: Some(identity), http2: true, ..Settings::default() }, |_| Reply::new(202));
    let plain = Server::start(|_| Reply::new(202));
    let sent = sample(700_000);
    for (server, len) in [(&plain, None), (&plain, Some(700_000)), (&secure, None), (&secure, Some(700_000))] {
        let (feeder, payload) = Payload::fed(len);
        let feed = async {
            for piece in sent.chunks(50_000) {
                assert!(feeder.put(Ok(Bytes::copy_from_slice(piece))).await);
            }
            drop(feeder);
        };
        let client = client(Config { insecure: true, ..Config::default() });
        let address = Address::parse(&server.url("/")).unwrap();
        let (answer, ()) = tokio::join!(client.ask(&address, Ask::new(Method::Patch).payload(payload)), feed);
        assert_eq!(answer.unwrap().status, 202);
        assert!(server.seen().pop().unwrap().body == sent);
    }
}

#[tokio::test]
async fn a_refusal_before_all_is_sent_is_read() {
    let settings = Settings { taking: Box::new(|_| Taking::Answer(10)), ..Settings::default() };
    let server = Server::with(settings, |_| Reply::new(413).body("too large"));
    let (feeder, payload) = Payload::fed(Some(1 << 30));
    let feed = async { while feeder.put(Ok(Bytes::from_static(&[7; 1000]))).await {} };
    let asked = async {
        let answer = ask(&server, "/", Ask::new(Method::Put).payload(payload)).await.unwrap();
        let status = answer.status;
        // Reading it to its end lets the sending end too.
        (status, answer.bytes(100).await.unwrap())
    };
    let (answer, ()) = tokio::join!(asked, feed);
    assert_eq!(answer, (413, Bytes::from_static(b"too large")));
}

#[tokio::test]
async fn a_cut_while_sending_says_how_far_it_was() {
    let settings = Settings { taking: Box::new(|_| Taking::Cut(100)), ..Settings::default() };
    let server = Server::with(settings, |_| Reply::new(201));
    let error = ask(&server, "/x", Ask::new(Method::Put).payload(pieces(&sample(1000)))).await.unwrap_err();
    assert_eq!((error.kind(), error.is_transient()), (Kind::Cut, true));
    assert!(error.to_string().starts_with(&format!("{}: ", server.url("/x"))), "{error}");
    assert!(error.to_string().contains("1000 bytes that were sent"), "{error}");
}

#[tokio::test]
async fn a_server_that_takes_nothing_is_left() {
    let settings = Settings { taking: Box::new(|_| Taking::Stall(100)), ..Settings::default() };
    let server = Server::with(settings, |_| Reply::new(201));
    let client = client(Config { idle_timeout: Duration::from_millis(200), ..Config::default() });
    let address = Address::parse(&server.url("/")).unwrap();
    // More than fits into the buffers of any kernel.
    let huge = Payload::pieces(std::iter::repeat_n(Bytes::from(vec![7; 1 << 20]), 64));
    let error = client.ask(&address, Ask::new(Method::Put).payload(huge)).await.unwrap_err();
    assert_eq!((error.kind(), error.is_transient()), (Kind::Stalled, true));
    assert!(error.to_string().contains("took nothing for 200ms, after "), "{error}");
    let error = client.ask(&address, Ask::new(Method::Put).payload(pieces(b"small"))).await.unwrap_err();
    assert!(error.to_string().contains("did not answer within 200ms"), "{error}");
}

#[tokio::test]
async fn whoever_feeds_slowly_is_not_the_servers_fault() {
    let server = Server::start(|_| Reply::new(201));
    let client = client(Config { idle_timeout: Duration::from_millis(100), ..Config::default() });
    let address = Address::parse(&server.url("/")).unwrap();
    let (feeder, payload) = Payload::fed(None);
    // Time passes only when it is told to, as long as something blocks: the server is real.
    tokio::time::pause();
    let (done, told) = std::sync::mpsc::channel::<()>();
    let still = tokio::task::spawn_blocking(move || told.recv());
    let feed = async {
        for _ in 0..4 {
            for _ in 0..15 {
                tokio::time::advance(Duration::from_millis(10)).await;
            }
            if !feeder.put(Ok(Bytes::from_static(b"x"))).await {
                break;
            }
        }
        drop(feeder);
    };
    let (answer, ()) = tokio::join!(client.ask(&address, Ask::new(Method::Patch).payload(payload)), feed);
    assert_eq!(answer.unwrap().status, 201);
    drop(done);
    assert!(still.await.unwrap().is_err());
}

#[tokio::test]
async fn credentials_stay_where_they_belong() {
    let elsewhere = Server::start(|_| Reply::ok("x"));
    let target = elsewhere.url("/there");
    let server = Server::start(move |seen| match seen.target.as_str() {
        "/away" => Reply::redirect(307, &target),
        "/near" => Reply::redirect(308, "/here"),
        "/see" => Reply::redirect(302, "/here"),
        _ => Reply::ok("x"),
    });
    let ask_with = async |method, path| {
        let asked = Ask { authorization: Some("Bearer s3cret".into()), ..Ask::new(method) }.payload(pieces(b"body"));
        ask(&server, path, asked).await.unwrap()
    };
    ask_with(Method::Put, "/away").await;
    let seen = elsewhere.seen().pop().unwrap();
    assert_eq!((seen.header("authorization"), seen.body.as_slice()), (None, &b"body"[..]));
    let answer = ask_with(Method::Post, "/near").await;
    assert_eq!(answer.final_url.to_string(), server.url("/here"));
    let seen = server.seen().pop().unwrap();
    assert_eq!((seen.header("authorization"), seen.body.as_slice()), (Some("Bearer s3cret"), &b"body"[..]));
    // What is to be repeated as something else is for the caller to judge.
    let answer = ask_with(Method::Post, "/see").await;
    assert_eq!((answer.status, answer.location().unwrap().unwrap().to_string()), (302, server.url("/here")));
}

/// Tokens that are numbers; each is good for so many requests.
#[derive(Debug, Default)]
struct Numbers(AtomicUsize);

impl Credentials for Numbers {
    fn authorization(&self) -> Option<String> {
        match self.0.load(Ordering::SeqCst) {
            0 => None,
            number => Some(format!("Bearer number-{number}")),
        }
    }

    fn renew<'a>(&'a self, used: Option<&'a str>, challenges: &'a [String]) -> Renewal<'a> {
        Box::pin(async move {
            assert_eq!(challenges, ["Bearer realm=\"x\""]);
            if self.authorization().as_deref() == used {
                self.0.fetch_add(1, Ordering::SeqCst);
            }
            Ok(true)
        })
    }
}

#[tokio::test]
async fn a_transfer_goes_on_where_it_was_when_its_credentials_expire() {
    let bytes = sample(9_000_000);
    let object = Object::new(bytes.clone()).etag(None);
    let requests = AtomicUsize::new(0);
    let server = Server::start(move |seen| {
        // Each token is good for three requests; none is worth nothing.
        let good = requests.load(Ordering::SeqCst) / 3 + 1;
        match seen.header("authorization") {
            Some(token) if token == format!("Bearer number-{good}") => {
                requests.fetch_add(1, Ordering::SeqCst);
                object.answer(seen)
            }
            _ => Reply::new(401).header("www-authenticate", "Bearer realm=\"x\""),
        }
    });
    let credentials = Arc::new(Numbers::default());
    let client = client(Config { connections: 1, ..Config::default() });
    let resource = client.content(&server.url("/x"), "sha256:abc", 9_000_000, Some(credentials.clone())).unwrap();
    let (object, mut transfer) = resource.open().await.unwrap();
    assert_eq!((object.len, object.ranges), (Some(9_000_000), true));
    assert_eq!(object.validator.clone().unwrap().to_string(), "sha256:abc, 9000000 bytes");
    let mut got = Vec::new();
    while let Some(piece) = transfer.next().await.unwrap() {
        got.extend_from_slice(&piece);
    }
    assert!(got == bytes);
    assert!(server.seen().iter().all(|seen| seen.header("if-range").is_none()));
    assert!(credentials.0.load(Ordering::SeqCst) >= 2);
}

#[tokio::test]
async fn what_is_known_is_not_believed_otherwise() {
    let server = Server::start(|seen| match seen.target.as_str() {
        "/labelled" => Reply::ok("0123456789").header("content-encoding", "gzip").header("etag", "W/\"x\""),
        "/empty" => Reply::new(416).header("content-range", "bytes */0"),
        _ => Reply::ok("0123456789"),
    });
    let client = client(Config::default());
    let content = |path: &str, len| client.content(&server.url(path), "sha256:abc", len, None).unwrap();
    for path in ["/longer", "/empty"] {
        let error = content(path, 9).open().await.unwrap_err();
        assert_eq!(error.kind(), Kind::Mismatch, "{error}");
        assert!(error.to_string().contains(" bytes of what has to have 9"), "{error}");
    }
    let (object, mut transfer) = content("/labelled", 10).open().await.unwrap();
    assert!(object.codings.is_empty() && !object.ranges);
    assert_eq!(transfer.next().await.unwrap().unwrap(), "0123456789");
}

#[tokio::test]
async fn only_the_named_server_need_not_prove_itself() {
    let start = || {
        let identity = Authority::new("unknown").issue(&["127.0.0.1"]);
        Server::with(Settings { identity: Some(identity), ..Settings::default() }, |_| Reply::ok("x"))
    };
    let (named, other) = (start(), start());
    let client = client(Config { insecure_for: vec![named.address().to_string()], ..Config::default() });
    let get =
        async |server: &Server| client.ask(&Address::parse(&server.url("/")).unwrap(), Ask::new(Method::Get)).await;
    assert_eq!(get(&named).await.unwrap().status, 200);
    assert_eq!(get(&other).await.unwrap_err().kind(), Kind::Tls);
}
