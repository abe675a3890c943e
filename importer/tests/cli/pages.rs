//! What a web server sends in place of an image: never a disk, and the error says what came.

use std::fs;

use fixtures::http::{Object, Reply, Server};
use fixtures::sha256;

use super::program::{Place, image, run};

/// 151 bytes, as the web server in the report had it.
const INDEX: &str = "<html>\n<head><title>Welcome to the portal</title></head>\n<body>\n<h1>Sign in</h1>\n<p>Your link has \
                     expired. Please log in to go on to the file.</p>\n</body></html>\n";

#[track_caller]
fn refused(place: &Place, url: &str, words: &[&str]) {
    for target in [place.target().to_str().unwrap(), "null:"] {
        let line = run(super::program::copy(url, target).args(["--progress", "none"])).failed(5);
        assert!(line.contains(url) && words.iter().all(|word| line.contains(word)), "{line}");
        assert_eq!(place.left(), [""; 0], "{url}");
    }
    let line = run(super::program::importer().args(["inspect", url])).failed(5);
    assert!(words.iter().all(|word| line.contains(word)), "{line}");
}

/// HT19.
#[test]
fn pages_and_stubs_are_refused_by_what_they_are() {
    let place = Place::new();
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2146\nsize 2147483648\n";
    let denied = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>AccessDenied</Code><Message>Request has \
                  expired</Message></Error>";
    let bodies: [(&str, &str, String, &[&str]); 9] = [
        ("/page", "text/html", INDEX.into(), &["got HTML", "Welcome to the portal", "'<html> <head>"]),
        ("/long", "text/html", format!("<!doctype html>\n{}", "<p>more</p>\n".repeat(20_000)), &["got HTML"]),
        // What it is called changes nothing.
        ("/octets", "application/octet-stream", INDEX.into(), &["got HTML"]),
        ("/denied", "application/xml", denied.into(), &["got XML", "AccessDenied: Request has expired"]),
        ("/json", "application/json", "{\"message\":\"Not Found\"}".into(), &["got JSON", "Not Found"]),
        ("/lfs", "text/plain", pointer.into(), &["git-lfs pointer", "git lfs pull"]),
        ("/found", "text/html", "<a href=\"/login\">Found</a>.\n\n".into(), &["got HTML", "Found"]),
        ("/text", "text/plain", "404 page not found\n".into(), &["got text", "404 page not found"]),
        ("/empty", "application/octet-stream", String::new(), &["empty", "0 bytes"]),
    ];
    let served = bodies.clone();
    let server = Server::start(move |seen| {
        let (way, path) = seen.target[1..].split_once('/').unwrap();
        if way == "moved" {
            return Reply::redirect(302, format!("/plain/{path}"));
        }
        let (_, kind, body, _) = served.iter().find(|(at, ..)| &at[1..] == path).unwrap();
        let reply = match way {
            "ranges" => Object::new(body.clone()).answer(seen),
            "chunked" => Reply::ok(body.clone()).chunked(),
            _ => Reply::ok(body.clone()),
        };
        reply.header("content-type", *kind)
    });
    for (path, _, _, words) in &bodies {
        for way in ["ranges", "plain", "chunked"] {
            refused(&place, &server.url(&format!("/{way}{path}")), words);
        }
        let led = format!("by {}", server.url(&format!("/plain{path}")));
        refused(&place, &server.url(&format!("/moved{path}")), &[*words, [&*led].as_slice()].concat());
    }
}

/// HT19.
#[test]
fn the_kind_and_the_place_of_an_answer_are_told_where_they_explain_it() {
    let place = Place::new();
    let server = Server::start(|seen| match seen.target.as_str() {
        "/disk.qcow2?key=secret" => Reply::redirect(302, "/index.html?back=secret"),
        "/octets" => Reply::ok(INDEX).header("content-type", "application/octet-stream"),
        _ => Reply::ok(INDEX).header("content-type", "Text/HTML; charset=utf-8"),
    });
    let line = run(place.copy(server.url("/disk.qcow2?key=secret")).args(["--progress", "none"])).failed(5);
    let (asked, led) = (server.url("/disk.qcow2?…"), server.url("/index.html?…"));
    let start = format!(
        "importer: {asked} (served as text/html by {led}): not a disk image: got HTML, 'Welcome to the portal', "
    );
    assert!(line.starts_with(&start) && !line.contains("secret"), "{line}");
    let line = run(place.copy(server.url("/octets")).args(["--progress", "none"])).failed(5);
    assert!(!line.contains("served"), "{line}");
}

#[test]
fn a_page_is_a_page_also_where_a_checksum_is_wrong() {
    let place = Place::new();
    let server = Server::start(|_| Reply::ok(INDEX).header("content-type", "text/html"));
    let mut command = place.copy(server.url("/disk.qcow2"));
    let wrong = format!("sha256:{}", sha256(b""));
    let line = run(command.args(["--progress", "none", "--checksum", &wrong])).failed(5);
    assert!(line.contains("got HTML"), "{line}");
}

#[test]
fn a_disk_is_a_disk_whatever_it_is_called() {
    let place = Place::new();
    let made = image("raw-one-sector", &place);
    let bytes = fs::read(&made.path).unwrap();
    let server = Server::start(move |_| Reply::ok(bytes.clone()).header("content-type", "text/html; charset=utf-8"));
    run(&mut place.copy(server.url("/index.html"))).succeeded();
    place.assert_copied(&made.raw(), "served as a page");
}

/// A disk that somebody filled with letters is told from a log by its length, known at the start or only at the end.
#[test]
fn letters_are_a_disk_if_there_are_as_many_as_a_disk_has() {
    let place = Place::new();
    let letters = "All work and no play makes Jack a dull boy.\n".repeat(24_000);
    let disk = place.file("disk.raw", &letters[..1 << 20]);
    let object = Object::new(letters[..1 << 20].to_owned());
    let server = Server::start(move |seen| match seen.target.as_str() {
        "/disk" => object.answer(seen),
        "/chunked" => Reply::ok(letters[..1 << 20].to_owned()).chunked(),
        "/log" => Reply::ok(letters[..1_000_001].to_owned()),
        _ => Reply::ok(letters[..1_000_001].to_owned()).chunked(),
    });
    for path in ["/disk", "/chunked"] {
        run(&mut place.copy(server.url(path))).succeeded();
        place.assert_copied(&disk, path);
    }
    for path in ["/log", "/chunked-log"] {
        let line = run(place.copy(server.url(path)).args(["--progress", "none"])).failed(5);
        assert!(line.contains("got text, and its 1000001 bytes are no whole number of sectors: 'All work"), "{line}");
        assert_eq!(place.left(), [""; 0], "{path}");
    }
    let line = run(super::program::importer().args(["inspect", &server.url("/log")])).failed(5);
    assert!(line.contains("got text"), "{line}");
}
