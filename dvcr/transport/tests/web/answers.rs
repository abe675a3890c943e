//! What answers are accepted as.

use dvcr_transport::{Coding, ContentRange, Kind, Request};
use fixtures::http::{Object, Reply, Server};

use super::{failure, read, resource, sample, whole};

const DAY: &str = "Sun, 06 Nov 1994 08:49:37 GMT";

#[tokio::test]
async fn a_range_is_proved_by_the_answer() {
    let content = sample(1000);
    let object = Object::new(content.clone());
    let server = Server::start(move |seen| object.answer(seen));
    let resource = resource(&server, "/");
    let all = resource.get(&Request::from(0..)).await.unwrap();
    assert_eq!((all.status, all.len), (206, Some(1000)));
    assert_eq!(all.range, Some(ContentRange { start: 0, end: 1000, total: Some(1000) }));
    assert_eq!(all.peer, Some(server.address()));
    let validator = all.validator.clone().unwrap();
    assert_eq!(read(all).await.unwrap(), content);

    let part = resource.get(&Request::from(100..200).same(validator.clone())).await.unwrap();
    assert_eq!(part.body.offset(), 100);
    assert!(part.validator.as_ref().unwrap().proves(&validator));
    assert_eq!(read(part).await.unwrap(), content[100..200]);
    assert_eq!(server.seen()[1].header("range"), Some("bytes=100-199"));
    assert_eq!(server.seen()[1].header("if-range"), Some("\"v1\""));

    // A range that goes beyond the end is cut there.
    let tail = resource.get(&Request::from(990..5000)).await.unwrap();
    assert_eq!(tail.range.map(|range| range.end), Some(1000));
    assert_eq!(read(tail).await.unwrap(), content[990..]);
}

/// HT03.
#[tokio::test]
async fn a_server_without_ranges_sends_the_whole() {
    let content = sample(1000);
    let object = Object::new(content.clone()).without_ranges();
    let server = Server::start(move |seen| object.answer(seen));
    let answer = resource(&server, "/").get(&Request::from(500..600)).await.unwrap();
    assert_eq!((answer.status, answer.range, answer.len, answer.body.offset()), (200, None, Some(1000), 0));
    assert_eq!(read(answer).await.unwrap(), content);
}

#[tokio::test]
async fn a_server_that_refuses_ranges_is_asked_without() {
    let server = Server::start(|seen| match seen.header("range") {
        Some(_) => Reply::new(416),
        None => Reply::ok("all of it"),
    });
    let answer = resource(&server, "/").get(&Request::from(0..)).await.unwrap();
    assert_eq!((answer.status, answer.range), (200, None));
    assert_eq!(read(answer).await.unwrap(), b"all of it");
    // It is not asked for ever.
    let server = Server::start(|_| Reply::new(416));
    assert_eq!(failure(&resource(&server, "/")).await.kind(), Kind::Status(416));
    assert_eq!(server.seen().len(), 2);
}

#[tokio::test]
async fn an_empty_object_is_empty() {
    let object = Object::new("");
    let server = Server::start(move |seen| object.answer(seen));
    let answer = resource(&server, "/").get(&Request::from(0..)).await.unwrap();
    assert_eq!((answer.len, answer.body.remaining()), (Some(0), Some(0)));
    assert_eq!(read(answer).await.unwrap(), b"");
    assert_eq!(whole(&resource(&server, "/")).await, b"");
}

#[tokio::test]
async fn an_object_that_changed_is_not_continued() {
    let server = Server::start(|seen| {
        let tag = if seen.target == "/old" { "\"v1\"" } else { "\"v2\"" };
        let reply = Reply::new(206).header("content-range", "bytes 4-7/8").body("efgh");
        match seen.header("range") {
            // A server that ignores If-Range.
            Some("bytes=4-") => reply.header("etag", tag),
            _ => Object::new("abcdefgh").etag(Some(tag)).answer(seen),
        }
    });
    let old = resource(&server, "/old").get(&Request::from(0..)).await.unwrap().validator.unwrap();
    let continued = |path: &'static str| resource(&server, path);
    assert!(continued("/old").get(&Request::from(4..).same(old.clone())).await.is_ok());
    let error = continued("/new").get(&Request::from(4..).same(old.clone())).await.unwrap_err();
    assert_eq!((error.kind(), error.is_transient()), (Kind::Changed, true));
    // One that knows If-Range sends the new object, which is told apart by its proof.
    let new = continued("/new").get(&Request::from(5..).same(old.clone())).await.unwrap();
    assert_eq!((new.range, new.validator.unwrap().proves(&old)), (None, false));
}

#[tokio::test]
async fn a_weak_tag_proves_nothing_but_a_date_with_a_length_does() {
    let server = Server::start(|seen| match seen.target.as_str() {
        "/weak" => Object::new("abc").etag(Some("W/\"v1\"")).answer(seen),
        _ => Object::new("abc").etag(Some("W/\"v1\"")).modified(DAY).answer(seen),
    });
    let answer = resource(&server, "/weak").get(&Request::from(0..)).await.unwrap();
    assert_eq!(answer.validator, None);
    let dated = resource(&server, "/dated");
    let validator = dated.get(&Request::from(0..)).await.unwrap().validator.unwrap();
    let rest = dated.get(&Request::from(1..).same(validator)).await.unwrap();
    assert_eq!(server.seen().last().unwrap().header("if-range"), Some(DAY));
    assert_eq!(read(rest).await.unwrap(), b"bc");
}

#[tokio::test]
async fn a_wrong_range_is_an_error() {
    let server = Server::start(|seen| match seen.target.as_str() {
        "/shifted" => Reply::new(206).header("content-range", "bytes 1-3/4").body("bcd"),
        "/none" => Reply::new(206).body("abcd"),
        "/long" => Reply::new(206).header("content-range", "bytes 0-9/10").body("abcd"),
        _ => Reply::new(206).header("content-type", "multipart/byteranges; boundary=x").body("--x"),
    });
    for path in ["/shifted", "/none", "/long", "/multipart"] {
        let error = failure(&resource(&server, path)).await;
        assert_eq!((error.kind(), error.is_transient()), (Kind::Protocol, false), "{error}");
        assert!(error.to_string().starts_with(&server.url(path)), "{error}");
    }
}

#[tokio::test]
async fn bodies_of_every_framing_arrive() {
    let content = sample(300_000);
    let body = content.clone();
    let server = Server::start(move |seen| {
        let reply = body.chunks(7000).fold(Reply::new(200), |reply, chunk| reply.body(chunk.to_vec()));
        match seen.target.as_str() {
            "/length" => reply,
            "/chunked" => reply.chunked(),
            _ => reply.until_close(),
        }
    });
    for (path, len) in [("/length", Some(300_000)), ("/chunked", None), ("/close", None)] {
        let answer = resource(&server, path).get(&Request::from(0..)).await.unwrap();
        assert_eq!((answer.len, answer.body.remaining()), (len, len), "{path}");
        assert_eq!(read(answer).await.unwrap(), content, "{path}");
    }
}

/// HT17.
#[tokio::test]
async fn encodings_are_told_and_lengths_are_of_the_encoded_body() {
    let server = Server::start(|seen| match seen.target.as_str() {
        "/gzip" => Reply::ok("encoded").header("content-encoding", "gzip"),
        "/two" => Reply::ok("encoded").header("content-encoding", "deflate, ZSTD").header("content-encoding", "br"),
        _ => Reply::ok("encoded").header("content-encoding", "rot13"),
    });
    let answer = resource(&server, "/gzip").get(&Request::from(0..)).await.unwrap();
    assert_eq!((answer.codings.as_slice(), answer.len), (&[Coding::Gzip][..], Some(7)));
    let answer = resource(&server, "/two").get(&Request::from(0..)).await.unwrap();
    assert_eq!(answer.codings, [Coding::Deflate, Coding::Zstd, Coding::Brotli]);
    let error = failure(&resource(&server, "/rot13")).await;
    assert_eq!(error.kind(), Kind::Protocol);
    assert!(error.to_string().contains("rot13"), "{error}");
}

#[tokio::test]
async fn a_page_is_told_by_its_type() {
    let server = Server::start(|_| Reply::ok("<html>").header("content-type", "text/html; charset=utf-8"));
    let answer = resource(&server, "/").get(&Request::from(0..)).await.unwrap();
    assert_eq!(answer.content_type.as_deref(), Some("text/html; charset=utf-8"));
}
