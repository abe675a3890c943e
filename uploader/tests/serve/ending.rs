//! How the program ends that waits for one image, and what it tells of that.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::program::{Place, begin, curl, disk, got, text};

fn report(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

#[test]
fn it_ends_well_when_the_disk_is_complete() {
    let place = Place::new();
    let image = place.file("image.img", disk(2));
    let path = place.path().join("report.json");
    let server = place.serve_with(&["--exit-after", "0", "--report", text(&path)]);
    curl(&["-T", text(&image), &server.url("/upload")]).says(200, "complete");
    let (code, said) = server.end();
    assert_eq!(code, Some(0), "{said}");
    let report = report(&path);
    assert_eq!((&report["outcome"], &report["source"]["bytes"]), (&"succeeded".into(), &(2 << 20).into()));
}

#[test]
fn it_answers_for_a_while_before_it_ends() {
    let place = Place::new();
    let image = place.file("image.img", disk(1));
    let server = place.serve_with(&["--exit-after", "600"]);
    curl(&["-T", text(&image), &server.url("/v1beta1/upload-async"), "-X", "POST"]).says(200, "");
    server.until(|status| status["phase"] == "Succeeded");
    server.signal("TERM");
    let (code, said) = server.end();
    assert_eq!(code, Some(0), "{said}");
}

#[test]
fn an_image_that_is_refused_ends_it_only_where_that_is_wanted() {
    let place = Place::new();
    let page = place.file("page", "<html>".repeat(5000));
    let image = place.file("image.img", disk(1));
    let path = place.path().join("report.json");
    let wrong = ["--checksum", "md5:00000000000000000000000000000000"];
    for (file, options, code, reason) in [
        (&page, &[][..], 5, "NotADiskImage"),
        (&image, &wrong, 7, "VerificationFailed"),
        (&image, &["--size", "512Ki"], 8, "TargetTooSmall"),
    ] {
        let options = [&["--once", "--report", text(&path)], options].concat();
        let server = place.serve_with(&options);
        let answer = curl(&["-T", text(file), &server.url("/upload")]);
        assert!(answer.status >= 400, "{answer:?}");
        let (ended, said) = server.end();
        assert_eq!(ended, Some(code), "{said}");
        assert!(said.lines().last().unwrap().starts_with("uploader: "), "{said}");
        assert_eq!(report(&path)["reason"], reason);
        assert!(place.left().is_empty());
    }
}

#[test]
fn a_connection_that_is_cut_ends_nothing() {
    let place = Place::new();
    let disk = disk(6);
    let image = place.file("image.img", &disk);
    let server = place.serve_with(&["--once", "--exit-after", "0"]);
    let mut slow = begin(&["-T", text(&image), "--limit-rate", "1M", &server.url("/upload")]);
    server.until(|status| status["offset"].as_u64() > Some(1 << 20));
    slow.kill().unwrap();
    slow.wait().unwrap();
    curl(&["-X", "DELETE", &server.url("/upload")]).says(200, "ready");
    curl(&["-T", text(&image), &server.url("/upload")]).says(200, "complete");
    assert_eq!(server.end().0, Some(0));
    place.assert_disk(&disk);
}

#[test]
fn it_does_not_wait_for_ever() {
    let place = Place::new();
    let path = place.path().join("report.json");
    let server = place.serve_with(&["--expiry", "1", "--report", text(&path)]);
    let (code, said) = server.end();
    assert_eq!(code, Some(3));
    assert!(said.ends_with("uploader: nothing was uploaded for 1 s: begin again\n"), "{said}");
    assert_eq!(report(&path)["reason"], "Expired");
    // The reason of a failed image counts more than that no other followed.
    let server = place.serve_with(&["--expiry", "1", "--report", text(&path)]);
    let page = place.file("page", "<html>".repeat(5000));
    curl(&["-T", text(&page), &server.url("/upload")]).says(400, "HTML");
    assert_eq!(server.end().0, Some(5));
    assert_eq!(report(&path)["reason"], "NotADiskImage");
}

#[test]
fn a_signal_ends_it_and_nothing_looks_complete() {
    let place = Place::new();
    let image = place.file("image.img", disk(8));
    let path = place.path().join("report.json");
    let server = place.serve_with(&["--report", text(&path)]);
    let mut slow = begin(&["-T", text(&image), "--limit-rate", "1M", &server.url("/upload")]);
    server.until(|status| status["offset"].as_u64() > Some(1 << 20));
    server.signal("TERM");
    server.until_refused();
    slow.kill().unwrap();
    got(slow);
    let (code, said) = server.end();
    assert_eq!(code, Some(143), "{said}");
    assert_eq!(report(&path)["reason"], "Interrupted");
    assert!(!place.target().exists());
}
