//! Who sends much and is refused early still gets to know why.

#![allow(clippy::unwrap_used, reason = "this is a test; clippy allows it only inside the test functions")]

mod support;

use fixtures::http::{Answer, Call, Wire};
use support::{begin, blob, dvcr, noise};

/// Sends all of this before it looks at the answer: a connection that is reset meanwhile fails the test.
#[track_caller]
fn sends_it_all(wire: &Wire, call: &Call) -> Answer {
    let mut connection = wire.connect().unwrap();
    connection.write(call).unwrap();
    let answer = connection.answer(false).unwrap();
    assert!(answer.complete, "{}", call.line());
    answer
}

/// More than the buffers of two sockets hold.
const MUCH: usize = 48 << 20;

#[test]
fn whatever_is_refused_the_answer_arrives() {
    let registry = dvcr().with("--quota").with("1Mi").start();
    let wire = registry.wire();
    let much = noise(MUCH, 1);
    let digest = blob(&much).digest();
    let chunk = |place: &str| Call::new("PATCH", place).body(much.clone());
    let place = begin(&wire, "a");
    let elsewhere = format!("{}-{}", 10, 9 + MUCH);
    let cases = [
        (chunk(&begin(&wire, "a")), 507),
        (Call::new("PUT", &format!("{}?digest={digest}", begin(&wire, "a"))).body(much.clone()), 507),
        (Call::new("POST", &format!("/v2/a/blobs/uploads/?digest={digest}")).body(much.clone()), 507),
        (chunk("/v2/a/blobs/uploads/00000000-0000-4000-8000-000000000000"), 404),
        (chunk(&place).header("Content-Range", &elsewhere), 416),
        (Call::new("PUT", &place).body(much.clone()), 400),
        (Call::new("PUT", "/v2/a/manifests/v1").body(much.clone()), 413),
        (Call::new("POST", "/v2/a/tags/list").body(much.clone()), 405),
        (Call::new("PUT", "/nowhere").body(much.clone()), 404),
    ];
    for (call, status) in cases {
        let answer = sends_it_all(&wire, &call);
        let said = String::from_utf8_lossy(&answer.body);
        assert_eq!(answer.status, status, "{}: {said}", call.line());
        assert_eq!(answer.header("connection"), Some("close"), "{}: {said}", call.line());
    }
    // Without a length it is known late that it is too much.
    let pieces: Vec<&[u8]> = much.chunks(1 << 20).collect();
    let place = begin(&wire, "a");
    assert_eq!(sends_it_all(&wire, &Call::new("PATCH", &place).chunked(&pieces)).status, 507);
    for method in ["GET", "PATCH"] {
        let answer = wire.send(&Call::new(method, &place)).unwrap();
        assert_eq!((answer.status, answer.json()["errors"][0]["code"].as_str()), (507, Some("INSUFFICIENT_STORAGE")));
    }
}

#[test]
fn so_it_does_to_strangers() {
    let registry = dvcr().login("admin", "geheim").start();
    let call = Call::new("PUT", "/v2/a/manifests/v1").body(noise(MUCH, 1));
    assert_eq!(sends_it_all(&registry.wire(), &call).status, 401);
}

#[test]
fn who_waits_to_be_asked_sends_nothing() {
    let registry = dvcr().login("admin", "geheim").start();
    let mut connection = registry.wire().connect().unwrap();
    let head = "PUT /v2/a/manifests/v1 HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\nExpect: 100-continue\r\n\r\n";
    connection.write_raw(head.as_bytes()).unwrap();
    assert_eq!(connection.interim().unwrap(), 401, "not 100");
}

#[test]
fn a_body_that_was_read_keeps_the_connection() {
    let registry = dvcr().start();
    let mut connection = registry.wire().connect().unwrap();
    let wrong = Call::new("PUT", "/v2/a/manifests/v1").body(noise(100_000, 1));
    for _ in 0..2 {
        let answer = connection.send(&wrong).unwrap();
        assert_eq!((answer.status, answer.header("connection")), (400, None));
    }
}
