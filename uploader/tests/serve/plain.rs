//! Plain clients: the whole image in one request, and what becomes of it when that is cut.

use std::io::{Read, Write};
use std::thread;

use crate::program::{Place, Server, begin, curl, disk, got, names, text};

#[test]
fn any_usual_way_to_send_bytes_works() {
    let place = Place::new();
    let disk = disk(5);
    let image = place.file("image.img", &disk);
    let file = text(&image);
    let form = format!("@{file}");
    let ways: [&[&str]; 7] = [
        &["-T", file],
        &["-X", "POST", "-T", file],
        &["--data-binary", &form],
        &["-T", file, "-H", "transfer-encoding: chunked"],
        &["-T", file, "-H", "expect: 100-continue", "--expect100-timeout", "60"],
        &["-T", file, "--limit-rate", "10M"],
        &["-T", file, "--http2-prior-knowledge"],
    ];
    for way in ways {
        let server = place.serve();
        let url = server.url("/upload");
        curl(&[way, &[url.as_str()]].concat()).says(200, "the disk is complete");
        place.assert_disk(&disk);
        std::fs::remove_file(place.target()).unwrap();
    }
}

#[test]
fn bodies_are_known_by_what_they_are() {
    let place = Place::new();
    let disk = disk(3);
    let image = place.file("image.img", &disk);
    let qcow2 = place.path().join("image.qcow2");
    fixtures::run(fixtures::tool("qemu-img").args(["convert", "-O", "qcow2"]).args([&image, &qcow2]));
    for name in ["gzip", "xz", "zstd", "bzip2"] {
        for inner in [&image, &qcow2] {
            let wrapped = place.path().join("wrapped");
            fixtures::images::wrapper_named(name).apply(inner, &wrapped);
            let server = place.serve();
            curl(&["-T", text(&wrapped), &server.url("/upload")]).says(200, "complete");
            place.assert_disk(&disk);
            let status = server.status();
            assert_eq!(status["report"]["image"]["wrappers"][0], name);
            assert_eq!(status["phase"], "Succeeded");
            std::fs::remove_file(place.target()).unwrap();
        }
    }
}

#[test]
fn what_was_cut_goes_on_where_it_was() {
    let place = Place::new();
    let disk = disk(12);
    let image = place.file("image.img", &disk);
    let server = place.serve();
    let url = server.url("/upload");
    // A client that dies in the middle.
    let mut slow = begin(&["-T", text(&image), "--limit-rate", "2M", &url]);
    server.until(|status| status["offset"].as_u64() > Some(2 << 20));
    slow.kill().unwrap();
    slow.wait().unwrap();
    let mut last = 0;
    for _ in 0..3 {
        let offset = server.status()["offset"].as_u64().unwrap();
        assert!(offset >= last && offset < 12 << 20, "{offset}");
        last = offset;
    }
    // Its last bytes may still have been on their way: the newer request ends the older one.
    let resumed = |at: u64| curl(&["-T", text(&image), "-C", &at.to_string(), "-X", "PUT", &url]);
    resumed(last + 1).says(416, "the upload is at byte");
    let offset = server.status()["offset"].as_u64().unwrap();
    resumed(offset).says(200, "complete");
    place.assert_disk(&disk);
    curl(&["-T", text(&image), &url]).says(409, "nothing more to upload");
}

#[test]
fn what_was_given_up_in_the_middle_can_be_sent_again() {
    let place = Place::new();
    let disk = disk(10);
    let image = place.file("image.img", &disk);
    let server = place.serve();
    let url = server.url("/upload");
    let mut slow = begin(&["-T", text(&image), "--limit-rate", "2M", &url]);
    server.until(|status| status["offset"].as_u64() > Some(3 << 20));
    // One that sends at the same time is refused, whatever it sends.
    curl(&["-T", text(&image), &url]).says(409, "another request");
    slow.kill().unwrap();
    slow.wait().unwrap();
    curl(&["-X", "DELETE", &url]).says(200, "ready for an upload");
    curl(&["-T", text(&image), &url]).says(200, "complete");
    place.assert_disk(&disk);
}

#[test]
fn a_second_upload_does_not_end_one_whose_bytes_are_all_there() {
    let place = Place::new();
    // Many small clusters, which take a while behind the last byte.
    let server = place.serve();
    let disk = disk(8);
    let image = place.file("image.img", &disk);
    let url = server.url("/upload");
    let first = begin(&["-T", text(&image), &url]);
    server.until(|status| status["phase"] != "Waiting");
    let mut others: Vec<_> = (0..8).map(|_| begin(&["-T", text(&image), &url])).collect();
    for other in others.drain(..) {
        got(other).says(409, "");
    }
    got(first).says(200, "complete");
    place.assert_disk(&disk);
}

#[test]
fn eight_at_once_do_not_disturb_each_other() {
    let places: Vec<_> = (0..8).map(|_| Place::new()).collect();
    let disk = disk(4);
    thread::scope(|scope| {
        for place in &places {
            scope.spawn(|| {
                let image = place.file("image.img", &disk);
                let server = place.serve();
                curl(&["-T", text(&image), &server.url("/upload")]).says(200, "complete");
                place.assert_disk(&disk);
            });
        }
    });
}

#[test]
fn a_killed_server_leaves_nothing_that_looks_complete() {
    let place = Place::new();
    let image = place.file("image.img", disk(10));
    let mut server = place.serve();
    let slow = begin(&["-T", text(&image), "--limit-rate", "3M", &server.url("/upload")]);
    server.until(|status| status["offset"].as_u64() > Some(3 << 20));
    server.kill();
    assert_ne!(got(slow).status, 200);
    assert!(!place.target().exists());
    let server = place.serve();
    curl(&["-T", text(&image), &server.url("/upload")]).says(200, "complete");
    assert_eq!(place.left(), ["disk.raw"]);
}

#[test]
fn who_goes_away_behind_the_last_byte_has_still_sent_it() {
    let place = Place::new();
    let disk = disk(2);
    let server = place.serve();
    let head = format!("PUT /upload HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n", disk.len());
    let mut stream = server.send(head);
    stream.write_all(&disk).unwrap();
    drop(stream);
    server.until(|status| status["phase"] == "Succeeded");
    place.assert_disk(&disk);
}

/// UP05: nothing of a body is asked for before it is known that it is wanted.
#[test]
fn expectations_are_answered_before_the_body() {
    let place = Place::new();
    let secret = place.file("token", "0123456789abcdef0123456789abcdef\n");
    let server = place.serve_with(&["--token-file", text(&secret)]);
    let answer = |path: &str, expect: &str| {
        let head = format!(
            "PUT {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 9999999\r\nexpect: {expect}\r\n\r\n"
        );
        let mut stream = server.send(head);
        crate::program::read_line(&mut stream)
    };
    let good = "/upload/0123456789abcdef0123456789abcdef";
    assert!(answer(good, "100-continue").starts_with("HTTP/1.1 100 "));
    assert!(answer(good, "tea").starts_with("HTTP/1.1 417 "));
    for bad in ["/upload/0123456789abcdef0123456789abcdeF", "/upload/", "/upload", "/else"] {
        assert!(answer(bad, "100-continue").starts_with("HTTP/1.1 404 "), "{bad}");
    }
    assert!(answer("/v1beta1/upload", "100-continue").starts_with("HTTP/1.1 401 "));
}

#[test]
fn deckhouse_finds_its_addresses_with_and_without_the_secret() {
    let place = Place::new();
    let disk = disk(1);
    let image = place.file("image.img", &disk);
    for path in ["/upload", "/upload/", "/upload/0123456789abcdefABCDEF0123456789"] {
        let server = place.serve();
        curl(&[&server.url(path)]).says(200, "ready");
        curl(&[&server.url("/healthz")]).says(200, "OK");
        curl(&["-X", "PATCH", &server.url(path)]).says(412, "Tus-Resumable");
        curl(&["-X", "MOVE", &server.url(path)]).says(405, "PUT or POST");
        curl(&["-X", "POST", "-T", text(&image), &server.url(path)]).says(200, "complete");
        place.assert_disk(&disk);
        std::fs::remove_file(place.target()).unwrap();
    }
    let secret = place.file("token", "0123456789abcdef0123456789abcdef\n");
    let server = place.serve_with(&["--token-file", text(&secret)]);
    curl(&["-T", text(&image), &server.url("/upload/0123456789abcdef0123456789abcdef")]).says(200, "complete");
    place.assert_disk(&disk);
}

#[test]
fn a_folder_has_no_upload_before_somebody_asks_for_one() {
    let place = Place::new();
    let root = place.path().join("root");
    let server = Server::start(&["--root", text(&root)]);
    let image = place.file("image.img", disk(1));
    for path in ["/upload", "/upload/0123456789abcdef0123456789abcdef", "/v1beta1/upload"] {
        curl(&["-X", "POST", "-T", text(&image), &server.url(path)]).says(404, "no such upload");
    }
    assert!(names(&root).is_empty());
}

/// A slow sender is not cut as long as something comes; the bytes of a request that stalls are kept.
#[test]
fn only_standing_still_ends_a_request() {
    let place = Place::new();
    let disk = disk(1);
    let server = place.serve_with(&["--timeout", "1"]);
    let head = format!("PUT /upload HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n", disk.len());
    let mut stream = server.send(head);
    stream.write_all(&disk[..300_000]).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 408 ") && answer.contains("go on where the upload is"), "{answer}");
    let status = server.until(|status| status["offset"] == 300_000);
    assert_eq!(status["phase"], "Receiving");
}
