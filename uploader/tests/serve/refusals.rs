//! What is refused: early, with the reason, and so that clients show it.

use fixtures::devices::TinyTmpfs;
use fixtures::{run, tool};

use crate::program::{Place, Server, curl, disk, text};

/// UP04: the answer comes while the client still sends, and is not lost.
#[test]
fn a_reason_that_is_known_early_reaches_who_still_sends() {
    let place = Place::new();
    let page = b"<!DOCTYPE html><html><body>Please sign in</body></html>\n".repeat(300 * 1024 * 1024 / 56);
    let page = place.file("page.img", page);
    let huge = place.path().join("huge.qcow2");
    run(tool("qemu-img").args(["create", "-f", "qcow2"]).arg(&huge).arg("10G"));
    // Sparse, so that only its head counts.
    run(tool("truncate").args(["-s", "300M"]).arg(&huge));
    for options in [&[][..], &["-H", "expect:"], &["--http2-prior-knowledge"], &["-H", "transfer-encoding: chunked"]] {
        let server = place.serve_with(&["--size", "1Gi"]);
        let url = server.url("/upload");
        let send = |file| curl(&[&["-T", text(file), &url], options].concat());
        send(&page).says(400, "HTML");
        let refused = send(&huge).says(413, "10737418240");
        assert!(refused.text.lines().count() == 1 && refused.text.ends_with('\n'), "{refused:?}");
        assert!(place.left().is_empty());
        // Another image may follow.
        let image = place.file("image.img", disk(1));
        curl(&["-T", text(&image), &url]).says(200, "complete");
        std::fs::remove_file(place.target()).unwrap();
    }
}

#[test]
fn an_empty_body_and_a_wrong_length_are_refused() {
    let place = Place::new();
    let server = place.serve();
    let empty = place.file("empty", "");
    curl(&["-T", text(&empty), &server.url("/upload")]).says(400, "nothing in the body");
    curl(&["-X", "POST", &server.url("/upload")]).says(400, "nothing in the body");
    // This curl never ends a chunked body in which nothing was.
    let mut stream = server.send("PUT /upload HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n");
    assert_eq!(crate::program::read_line(&mut stream), "HTTP/1.1 400 Bad Request\r\n");
    let image = place.file("image.img", disk(1));
    let range =
        |range: &str| curl(&["-T", text(&image), "-H", &format!("content-range: {range}"), &server.url("/upload")]);
    range("bytes 5-1/3").says(400, "Content-Range makes no sense");
    range("bytes 0-99/100").says(400, "about 100 bytes");
    assert!(place.left().is_empty());
}

#[test]
fn reasons_are_told_in_json_to_who_asks_for_that() {
    let place = Place::new();
    let server = place.serve();
    let page = place.file("page", "<html>".repeat(2000));
    let answer = curl(&["-T", text(&page), "-H", "accept: application/json", &server.url("/upload")]);
    let document: serde_json::Value = serde_json::from_str(&answer.text).unwrap();
    assert_eq!((answer.status, &document["reason"]), (400, &"NotADiskImage".into()), "{document}");
    assert_eq!(server.status()["report"]["reason"], "NotADiskImage");
}

#[test]
fn a_wrong_checksum_leaves_nothing_and_another_try_may_follow() {
    let place = Place::new();
    let disk = disk(2);
    let image = place.file("image.img", &disk);
    let wrong = place.file("wrong.img", &disk[..1 << 20]);
    let checksum = format!("sha256:{}", fixtures::sha256_file(&image));
    let md5 = run(tool("md5sum").arg(&image)).stdout;
    let md5 = format!("md5:{}", String::from_utf8(md5).unwrap().split(' ').next().unwrap());
    let report = place.path().join("report.json");
    let server = place.serve_with(&["--checksum", &checksum, "--checksum", &md5, "--report", text(&report)]);
    let url = server.url("/upload");
    curl(&["-T", text(&wrong), &url]).says(400, "sha256");
    assert!(place.left().is_empty());
    server.until(|_| report.exists());
    let written: serde_json::Value = serde_json::from_slice(&std::fs::read(&report).unwrap()).unwrap();
    assert_eq!((&written["reason"], &written["exitCode"]), (&"VerificationFailed".into(), &7.into()));
    curl(&["-T", text(&image), &url]).says(200, "complete");
    place.assert_disk(&disk);
}

#[test]
fn a_full_target_is_told_as_such_and_nothing_looks_complete() {
    let Some(tmpfs) = TinyTmpfs::mount(2 << 20) else { return };
    let place = Place::new();
    let image = place.file("image.img", disk(6));
    let target = tmpfs.path().join("disk.raw");
    let server = Server::start(&["--target", text(&target)]);
    curl(&["-T", text(&image), &server.url("/upload")]).says(507, "no space left");
    assert!(!target.exists());
}
