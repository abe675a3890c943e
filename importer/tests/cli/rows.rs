//! What users of other tools have met, each case by its number (HT09 …), where it is the whole program that counts.

use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};

use fixtures::http::{Object, Reply, Server};
use fixtures::sha256_file;

use super::program::{Place, image, reported, run};

/// HT09, HT13: a server that resets all the time, and a hash of all that came.
#[test]
fn resets_do_not_spoil_the_hash() {
    let place = Place::new();
    let made = image("raw.gzip", &place);
    let len = usize::try_from(made.path.metadata().unwrap().len()).unwrap();
    let object = Object::new(fs::read(&made.path).unwrap());
    let server = Server::start(move |seen| {
        let reply = object.answer(seen);
        let at = (len * 34 / 100).max(100_000);
        if reply.body_len() > at { reply.fault_at(at, Reply::reset) } else { reply }
    });
    let checksum = format!("sha256:{}", sha256_file(&made.path));
    let mut command = place.copy(server.url("/disk"));
    let (ran, report) = reported(command.args(["--progress", "none", "--checksum", &checksum]), &place);
    ran.succeeded();
    assert_eq!(report["source"]["digest"], checksum);
    place.assert_copied(&made.raw(), "resets");
    assert!(server.seen().len() > 1);
}

/// HT34: bad syntax is refused before anything is asked, a name that does not exist after few tries; both are final.
#[test]
fn an_address_that_is_none_is_told() {
    let place = Place::new();
    for (address, code) in [
        ("htp://host/x", 2),
        ("htp:/x", 2),
        ("http:/host/x", 2),
        ("http://ho st/x", 2),
        ("http://host:99999/x", 2),
        ("http://[::1/x", 2),
    ] {
        run(place.copy(address).args(["--progress", "none"])).failed(code);
        assert_eq!(place.left(), [""; 0], "{address}");
    }
    for source in ["http://no-such-host.invalid/disk", "docker://no-such-host.invalid/a:v1"] {
        // Nor is it there without proof.
        for options in [&["--progress", "none"][..], &["--progress", "none", "--insecure"]] {
            let line = run(place.copy(source).args(options)).failed(4);
            assert!(line.contains("no host named no-such-host.invalid"), "{line}");
        }
    }
}

/// HT33: the store says when to come back.
#[test]
fn a_busy_store_is_waited_for() {
    let place = Place::new();
    let made = image("qcow2-64k-v1.1-zlib", &place);
    let object = Object::new(fs::read(&made.path).unwrap());
    let asked = AtomicUsize::new(0);
    let server = Server::start(move |seen| match asked.fetch_add(1, Ordering::SeqCst) {
        0 | 2 => Reply::new(503).header("retry-after", "1").body("<Error><Code>SlowDown</Code></Error>"),
        _ => object.answer(seen),
    });
    run(place.copy(server.url("/disk")).args(["--progress", "none"])).succeeded();
    place.assert_copied(&made.raw(), "busy");
}

/// HT-R1: a guard that forbids ranges; `curl -L` gets it.
#[test]
fn a_server_that_forbids_ranges_is_read_in_the_whole() {
    let place = Place::new();
    let made = image("qcow2-64k-v1.1-zlib", &place);
    for status in [403, 501] {
        let object = Object::new(fs::read(&made.path).unwrap());
        let server = Server::start(move |seen| match seen.header("range") {
            Some(_) => Reply::new(status),
            None => object.answer(seen),
        });
        run(place.copy(server.url("/disk")).args(["--progress", "none"])).succeeded();
        place.assert_copied(&made.raw(), "in the whole");
    }
}
