//! Clients that are slow, cut off, wrong, or two.

mod support;

use fixtures::http::Call;
use support::{begin, blob, dvcr, noise, output};

#[test]
fn a_wrong_digest_leaves_nothing() {
    let registry = dvcr().start();
    let wire = registry.wire();
    let wrong = blob(b"other").digest();
    let place = begin(&wire, "a");
    let answer = wire.send(&Call::new("PUT", &format!("{place}?digest={wrong}")).body(noise(1 << 20, 1))).unwrap();
    assert_eq!((answer.status, answer.json()["errors"][0]["code"].as_str()), (400, Some("DIGEST_INVALID")));
    assert_eq!(wire.send(&Call::new("GET", &place)).unwrap().status, 404);
    let single = Call::new("POST", &format!("/v2/a/blobs/uploads/?digest={wrong}")).body(noise(1 << 20, 1));
    assert_eq!(wire.send(&single).unwrap().status, 400);
    for folder in ["uploads", "tmp", "repositories"] {
        let left: Vec<_> = registry.root().join(folder).read_dir().unwrap().collect();
        assert!(left.is_empty(), "{folder}: {left:?}");
    }
    assert!(output("check", registry.root(), &[]).starts_with("0 blobs"));
}

#[test]
fn who_names_another_digest_the_next_time_is_believed() {
    let registry = dvcr().start();
    let wire = registry.wire();
    let place = begin(&wire, "a");
    let patch = Call::new("PATCH", &place).body(&b"abc"[..]);
    assert_eq!(wire.send(&patch).unwrap().status, 202);
    // Cut in the middle of the body.
    let mut cut = wire.connect().unwrap();
    let sha512 = "0".repeat(128);
    let head = format!("PUT {place}?digest=sha512:{sha512} HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\ndef");
    cut.write_raw(head.as_bytes()).unwrap();
    drop(cut);
    // Until the server has noticed.
    let offset = || wire.send(&Call::new("GET", &place)).unwrap().header("range").map(str::to_owned);
    while offset().as_deref() != Some("0-5") {}
    let put = Call::new("PUT", &format!("{place}?digest={}", blob(b"abcdef").digest())).body(&b""[..]);
    let answer = wire.send(&put).unwrap();
    assert_eq!(answer.status, 201, "{}", String::from_utf8_lossy(&answer.body));
}

#[test]
fn two_push_the_same_at_once() {
    let registry = dvcr().start();
    let wire = registry.wire();
    let bytes = noise(6 << 20, 1);
    let digest = blob(&bytes).digest();
    std::thread::scope(|scope| {
        for n in 0..6 {
            let (wire, bytes, digest) = (&wire, &bytes, &digest);
            scope.spawn(move || {
                let repository = ["a", "b"][n % 2];
                let place = begin(wire, repository);
                let put = Call::new("PUT", &format!("{place}?digest={digest}")).body(bytes.clone());
                assert_eq!(wire.send(&put).unwrap().status, 201);
                let answer = wire.send(&Call::new("GET", &format!("/v2/{repository}/blobs/{digest}"))).unwrap();
                assert!(answer.status == 200 && answer.body == *bytes);
            });
        }
    });
    assert!(output("check", registry.root(), &[]).starts_with("1 blobs (6.0 MiB)"));
}

#[test]
fn who_sends_nothing_is_let_go_and_can_go_on() {
    let registry = dvcr().with("--timeout").with("1s").start();
    let wire = registry.wire();
    let place = begin(&wire, "a");
    let bytes = noise(100_000, 1);
    // Half a body, and then silence on an open connection.
    let mut slow = wire.connect().unwrap();
    let head = format!("PATCH {place} HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n");
    slow.write_raw(head.as_bytes()).unwrap();
    slow.write_raw(&bytes[..40_000]).unwrap();
    let answer = slow.answer(false).unwrap();
    assert_eq!(answer.status, 408, "{}", String::from_utf8_lossy(&answer.body));
    let answer = wire.send(&Call::new("GET", &place)).unwrap();
    assert_eq!(answer.header("range"), Some("0-39999"));
    let rest = Call::new("PUT", &format!("{place}?digest={}", blob(&bytes).digest()));
    let rest = rest.header("Content-Range", "bytes 40000-99999/100000").body(&bytes[40_000..]);
    assert_eq!(wire.send(&rest).unwrap().status, 201);
    // A head that never ends.
    let mut slow = wire.connect().unwrap();
    slow.write_raw(b"GET /v2/ HTTP/1.1\r\nHost: x\r\nX-Slow: ").unwrap();
    assert!(slow.answer(false).map_or(true, |answer| answer.status == 408), "the connection is closed");
}

#[test]
fn who_takes_nothing_is_let_go() {
    let registry = dvcr().with("--timeout").with("1s").start();
    let wire = registry.wire();
    let bytes = noise(32 << 20, 1);
    let digest = blob(&bytes).digest();
    let place = begin(&wire, "a");
    assert_eq!(wire.send(&Call::new("PUT", &format!("{place}?digest={digest}")).body(bytes)).unwrap().status, 201);
    let mut lazy = wire.connect().unwrap();
    lazy.write(&Call::new("GET", &format!("/v2/a/blobs/{digest}"))).unwrap();
    // Until it has let go, garbage collection sees that somebody reads.
    let metrics = || String::from_utf8(wire.send(&Call::new("GET", "/metrics")).unwrap().body).unwrap();
    while !metrics().contains("dvcr_pulls 1\n") {
        std::thread::yield_now();
    }
    while !metrics().contains("dvcr_pulls 0\n") {
        std::thread::yield_now();
    }
    assert!(!lazy.answer(false).unwrap().complete);
}

#[test]
fn who_asks_again_takes_over_from_a_connection_that_hangs() {
    let registry = dvcr().start();
    let wire = registry.wire();
    let place = begin(&wire, "a");
    let bytes = noise(100_000, 1);
    let mut hanging = wire.connect().unwrap();
    hanging
        .write_raw(format!("PATCH {place} HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n").as_bytes())
        .unwrap();
    hanging.write_raw(&bytes[..40_000]).unwrap();
    let written = || -> u64 {
        let folder = registry.root().join("uploads").read_dir().unwrap().next().unwrap().unwrap();
        folder.path().join("data").metadata().unwrap().len()
    };
    let put = |from: usize| {
        let call = Call::new("PUT", &format!("{place}?digest={}", blob(&bytes).digest()));
        call.header("Content-Range", &format!("{from}-99999")).body(&bytes[from..])
    };
    let metrics = || String::from_utf8(wire.send(&Call::new("GET", "/metrics")).unwrap().body).unwrap();
    while !metrics().contains("dvcr_pushes 1\n") {
        std::thread::yield_now();
    }
    // Refused, because it does not fit; but the other one has ended, and what it had brought is there.
    let answer = wire.send(&put(99_999)).unwrap();
    assert_eq!(answer.status, 416);
    let len = written();
    assert_eq!(answer.header("range"), Some(format!("0-{}", len.saturating_sub(1)).as_str()));
    assert_eq!(wire.send(&put(usize::try_from(len).unwrap())).unwrap().status, 201);
}

#[test]
fn heads_that_are_too_large() {
    let registry = dvcr().start();
    let wire = registry.wire();
    let mut many = Call::new("GET", "/v2/");
    for n in 0..100 {
        many = many.header(&format!("X-{n}"), "x");
    }
    let cases = [
        Call::new("GET", "/v2/").header("X-Large", &"x".repeat(100_000)),
        Call::new("GET", &format!("/v2/{}/manifests/v1", "x".repeat(100_000))),
        many,
    ];
    for call in cases {
        match wire.send(&call) {
            Ok(answer) => assert!(matches!(answer.status, 400 | 414 | 431), "{}", answer.status),
            Err(error) => assert!(error.contains("no answer"), "{error}"),
        }
    }
    let mut rude = wire.connect().unwrap();
    rude.write_raw(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 a handshake\r\n\r\n").unwrap();
    assert!(rude.answer(false).map_or(true, |answer| answer.status == 400));
    assert_eq!(wire.send(&Call::new("GET", "/v2/")).unwrap().status, 200, "it serves on");
}

/// A crowd that pulls one blob: memory stays below 256 MiB.
#[test]
fn a_thousand_pull_the_same_blob() {
    let registry = dvcr().start();
    let wire = registry.wire();
    let bytes = noise(8 << 20, 1);
    let digest = blob(&bytes).digest();
    let place = begin(&wire, "a");
    assert_eq!(
        wire.send(&Call::new("PUT", &format!("{place}?digest={digest}")).body(bytes.clone())).unwrap().status,
        201
    );
    let open = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let _ = rustix::process::setrlimit(
        rustix::process::Resource::Nofile,
        rustix::process::Rlimit { current: open.maximum, maximum: open.maximum },
    );
    let mut crowd: Vec<_> = (0..1000).map(|_| wire.connect().unwrap()).collect();
    for one in &mut crowd {
        one.write(&Call::new("GET", &format!("/v2/a/blobs/{digest}"))).unwrap();
    }
    // All are served when all have their head.
    let metrics = || String::from_utf8(wire.send(&Call::new("GET", "/metrics")).unwrap().body).unwrap();
    while !metrics().contains("dvcr_pulls 1000\n") {
        std::thread::yield_now();
    }
    let status = std::fs::read_to_string(format!("/proc/{}/status", registry.pid())).unwrap();
    for one in crowd.iter_mut().step_by(50) {
        let answer = one.answer(false).unwrap();
        assert!(answer.complete && answer.body == bytes);
    }
    let peak = std::fs::read_to_string(format!("/proc/{}/status", registry.pid())).unwrap();
    for text in [status, peak] {
        let line = text.lines().find(|line| line.starts_with("VmHWM")).unwrap();
        let kib: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
        assert!(kib <= 256 << 10, "{line}");
    }
}
