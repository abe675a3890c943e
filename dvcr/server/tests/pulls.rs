//! What arrives is what was pushed, however it is sent: past our memory, through it, or with TLS.

#![allow(clippy::unwrap_used, reason = "this is a test; clippy allows it only inside the test functions")]

mod support;

use fixtures::http::{Answer, Call, Connection, Wire};
use support::{begin, blob, dvcr, noise};

/// Pushes a blob to the repository `a`; gives where it is.
fn give(wire: &Wire, bytes: &[u8]) -> String {
    let digest = blob(bytes).digest();
    let put = Call::new("PUT", &format!("{}?digest={digest}", begin(wire, "a"))).body(bytes);
    assert_eq!(wire.send(&put).unwrap().status, 201);
    format!("/v2/a/blobs/{digest}")
}

/// Some ranges of so many bytes: around what is sent at a time, and around what is too little to be sent directly.
fn ranges(len: usize) -> Vec<(usize, usize)> {
    let mut ranges = vec![(0, len), (0, 1), (len - 1, len), (1, len - 1)];
    for size in [64 << 10, 1 << 20, 2 << 20] {
        for near in [size - 1, size, size + 1] {
            ranges.extend([(0, near), (near, len), (near, near + 1), (777, 777 + near)]);
        }
    }
    ranges.into_iter().filter(|(at, end)| at < end && *end <= len).collect()
}

fn ask(place: &str, (at, end): (usize, usize)) -> Call {
    Call::new("GET", place).header("Range", &format!("bytes={at}-{}", end - 1))
}

fn expect(answer: &Answer, bytes: &[u8], (at, end): (usize, usize)) {
    assert_eq!((answer.status, answer.complete), (206, true), "{at}..{end}");
    assert!(answer.body == bytes[at..end], "{at}..{end}: other bytes, {} of them", answer.body.len());
}

#[test]
fn every_part_in_every_way() {
    let bytes = noise((4 << 20) + 12_345, 1);
    for registry in [dvcr().start(), dvcr().tls().start()] {
        let wire = registry.wire();
        let place = give(&wire, &bytes);
        let mut one = wire.connect().unwrap();
        let answer = one.send(&Call::new("GET", &place)).unwrap();
        assert!(answer.status == 200 && answer.complete && answer.body == bytes);
        for range in ranges(bytes.len()) {
            expect(&one.send(&ask(&place, range)).unwrap(), &bytes, range);
        }
        for small in [1, 1000, (64 << 10) - 1, 64 << 10] {
            let place = give(&wire, &bytes[..small]);
            assert!(one.send(&Call::new("GET", &place)).unwrap().body == bytes[..small]);
        }
    }
}

#[test]
fn requests_that_do_not_wait_for_answers() {
    let registry = dvcr().start();
    let wire = registry.wire();
    let bytes = noise(3 << 20, 2);
    let place = give(&wire, &bytes);
    let ranges = ranges(bytes.len());
    let mut one = wire.connect().unwrap();
    for range in &ranges {
        one.write(&ask(&place, *range)).unwrap();
        one.write(&Call::new("HEAD", &place)).unwrap();
        one.write(&Call::new("GET", "/v2/a/manifests/v1")).unwrap();
    }
    for range in ranges {
        expect(&one.answer(false).unwrap(), &bytes, range);
        assert_eq!(one.answer(true).unwrap().status, 200);
        assert_eq!(one.answer(false).unwrap().status, 404);
    }
}

#[test]
fn who_reads_late_gets_all_of_it_whatever_became_of_its_name() {
    let registry = dvcr().start();
    let wire = registry.wire();
    let bytes = noise(32 << 20, 3);
    let place = give(&wire, &bytes);
    let mut crowd: Vec<Connection> = (0..8).map(|_| wire.connect().unwrap()).collect();
    for one in &mut crowd {
        one.write(&Call::new("GET", &place)).unwrap();
    }
    let pulls = |count: usize| {
        let metrics = wire.send(&Call::new("GET", "/metrics")).unwrap().body;
        String::from_utf8(metrics).unwrap().contains(&format!("dvcr_pulls {count}\n"))
    };
    while !pulls(8) {
        std::thread::yield_now();
    }
    // Half of them go away in the middle.
    crowd.truncate(4);
    while !pulls(4) {
        std::thread::yield_now();
    }
    let hex = &blob(&bytes).digest()["sha256:".len()..].to_owned();
    std::fs::remove_file(registry.root().join("blobs/sha256").join(&hex[..2]).join(hex)).unwrap();
    for one in &mut crowd {
        let answer = one.answer(false).unwrap();
        assert!(answer.complete && answer.body == bytes);
    }
}

#[test]
fn a_blob_that_was_cut_is_never_filled_up() {
    let registry = dvcr().start();
    let wire = registry.wire();
    let bytes = noise(3 << 20, 4);
    let place = give(&wire, &bytes);
    let hex = &blob(&bytes).digest()["sha256:".len()..].to_owned();
    let content = registry.root().join("blobs/sha256").join(&hex[..2]).join(hex);
    // Its length is asked for when it is opened, so it has to be cut while it is being sent: 32 of them, to be sure that
    // some are.
    let mut crowd: Vec<Connection> = (0..32).map(|_| wire.connect().unwrap()).collect();
    for one in &mut crowd {
        one.write(&Call::new("GET", &place)).unwrap();
    }
    std::fs::set_permissions(&content, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
    std::fs::File::options().write(true).open(&content).unwrap().set_len(1 << 20).unwrap();
    for one in &mut crowd {
        let Ok(answer) = one.answer(false) else { continue };
        assert!(answer.body == bytes[..answer.body.len()], "{} bytes", answer.body.len());
        assert!(answer.body.len() == bytes.len() || !answer.complete || answer.body.len() == 1 << 20);
    }
}
