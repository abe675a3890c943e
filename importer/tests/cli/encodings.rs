//! Servers that encode what they send, though they are asked not to.

use std::fs;

use fixtures::http::{Reply, Server};
use fixtures::tool;

use super::program::{Place, image, run};

/// HT17: undone once, and the announced length is that of what was sent.
#[test]
fn an_encoding_is_undone_once() {
    let place = Place::new();
    let made = image("raw-noise", &place);
    let packed =
        |program: &str, args: &[&str]| tool(program).args(args).arg("-c").arg(&made.path).output().unwrap().stdout;
    let zlib = packed("pigz", &["-z"]);
    let bare = zlib[2..zlib.len() - 4].to_vec();
    for (coding, bytes) in [
        ("gzip", packed("gzip", &[])),
        ("x-gzip", packed("gzip", &[])),
        ("zstd", packed("zstd", &["-q"])),
        ("deflate", zlib),
        // RFC 9110, 8.4.1.2: some servers send it without the frame of zlib.
        ("deflate", bare),
    ] {
        let server = Server::start(move |_| Reply::ok(bytes.clone()).header("content-encoding", coding));
        run(place.copy(server.url("/disk.raw")).args(["--progress", "none"])).succeeded();
        place.assert_copied(&made.raw(), coding);
        assert!(server.seen().iter().all(|seen| seen.header("accept-encoding") == Some("identity")));
    }
    // What was compressed before, and by the server again, is unpacked twice; what it only says it did, once.
    let twice = image("raw.gzip", &place);
    let bytes = fs::read(&twice.path).unwrap();
    let server = Server::start(move |_| Reply::ok(bytes.clone()).header("content-encoding", "gzip"));
    run(place.copy(server.url("/disk.raw")).args(["--progress", "none"])).succeeded();
    place.assert_copied(&twice.raw(), "once");
}

/// HT17: what can't be undone is refused by its name, with what to do.
#[test]
fn an_encoding_that_is_not_read_is_named() {
    let place = Place::new();
    for (coding, words) in [("br", "br (Brotli)"), ("compress", "\"compress\"")] {
        let server = Server::start(move |_| Reply::ok(vec![7; 4096]).header("content-encoding", coding));
        let line = run(place.copy(server.url("/disk.raw")).args(["--progress", "none"])).failed(4);
        assert!(
            line.contains(words) && line.contains("turn it off") && line.contains(&server.url("/disk.raw")),
            "{line}"
        );
        assert_eq!(place.left(), [""; 0]);
    }
}
