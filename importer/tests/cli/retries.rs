//! Sources that break and come back.

use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};

use fixtures::http::{Object, Reply, Server};

use super::program::{Place, image, run};

/// HT13.
#[test]
fn a_server_that_always_breaks_off_is_read_to_the_end() {
    let place = Place::new();
    for name in ["raw-noise", "qcow2-64k-v1.1-zlib"] {
        let made = image(name, &place);
        let object = Object::new(fs::read(&made.path).unwrap());
        let server = Server::start(move |seen| {
            let reply = object.answer(seen);
            if reply.body_len() > 150_000 { reply.fault_at(150_000, Reply::cut) } else { reply }
        });
        run(&mut place.copy(server.url("/disk"))).succeeded();
        place.assert_copied(&made.raw(), name);
    }
}

#[test]
fn what_is_waited_for_is_told_with_the_progress() {
    let place = Place::new();
    let server = Server::start(|_| Reply::new(503).header("retry-after", "0"));
    let ran = run(place.copy(server.url("/disk")).args(["--progress", "json"]));
    let line = ran.stderr.lines().rfind(|line| line.starts_with('{')).unwrap();
    let told: serde_json::Value = serde_json::from_str(line).unwrap();
    let why = told["waiting"].as_str().unwrap();
    assert!(why.contains("/disk") && why.contains("503"), "{line}");
}

#[test]
fn what_stays_broken_is_told_after_as_many_attempts_as_allowed() {
    let place = Place::new();
    let count = std::sync::Arc::<AtomicUsize>::default();
    let seen = std::sync::Arc::clone(&count);
    let server = Server::start(move |_| {
        seen.fetch_add(1, Ordering::Relaxed);
        Reply::new(503).header("retry-after", "0")
    });
    let line = run(place.copy(server.url("/disk")).args(["--attempts", "3"])).failed(3);
    assert!(line.contains("503") && line.contains("after 3 attempts"), "{line}");
    assert_eq!(count.load(Ordering::Relaxed), 3);
    run(place.copy(server.url("/disk")).args(["--attempts", "0"])).failed(2);
    run(place.copy(server.url("/disk")).env("MILLRACE_ATTEMPTS", "many")).failed(2);
    run(place.copy(server.url("/disk")).args(["--connections", "0"])).failed(2);
}
