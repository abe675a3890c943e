//! tus 1.0.0, request by request.

use std::fs;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use fixtures::http::{Call, Wire};

use crate::world::{ONE, SIZE, World, creation, offset, patch, text};

fn encoded(text: &str) -> String {
    STANDARD.encode(text)
}

fn named(name: &str) -> String {
    format!("filename {}", encoded(name))
}

fn code(world: &World, call: &Call) -> u16 {
    world.wire().send(call).unwrap().status
}

#[test]
fn a_server_says_what_it_can() {
    let world = World::folder(&[]);
    for path in ["/files", "/files/"] {
        // Without a version, as the protocol has it.
        let answer = Wire::new(world.address).send(&Call::new("OPTIONS", path)).unwrap();
        assert_eq!((answer.status, answer.header("tus-version")), (204, Some("1.0.0")));
        let extensions = answer.header("tus-extension").unwrap();
        for extension in
            ["creation", "creation-with-upload", "creation-defer-length", "checksum", "expiration", "termination"]
        {
            assert!(extensions.split(',').any(|given| given == extension), "{extension}");
        }
        assert!(answer.header("tus-checksum-algorithm").unwrap().split(',').any(|name| name == "sha1"));
        assert!(answer.header("accept-patch").unwrap().contains("application/partial-upload"));
    }
}

#[test]
fn an_image_comes_in_parts() {
    let world = World::folder(&[]);
    let image = fs::read(world.image()).unwrap();
    let metadata = format!("{},filetype {}", named("jammy.img"), encoded("application/octet-stream"));
    let path = world.create(SIZE, &metadata);
    assert!(path.starts_with("/files/") && path.len() == "/files/".len() + 32, "{path}");
    for (from, to) in [(0, 1), (1, 3_000_000), (3_000_000, image.len())] {
        let head = world.wire().send(&Call::new("HEAD", &path)).unwrap();
        assert_eq!((head.status, offset(&head)), (200, from as u64));
        for (name, value) in [
            ("upload-length", &*SIZE.to_string()),
            ("upload-metadata", &metadata),
            ("cache-control", "no-store"),
            ("tus-resumable", "1.0.0"),
        ] {
            assert_eq!(head.header(name), Some(value), "{name}");
        }
        let expires = httpdate::parse_http_date(head.header("upload-expires").unwrap()).unwrap();
        assert!(expires > std::time::SystemTime::now());
        let answer = world.wire().send(&patch(&path, from as u64).body(&image[from..to])).unwrap();
        assert_eq!((answer.status, offset(&answer)), (204, to as u64), "{}", text(&answer));
        assert_eq!(answer.header("upload-expires").is_some(), to < image.len());
    }
    assert!(world.disk("jammy.raw") == image);
    assert_eq!(world.status(&path)["phase"], "Succeeded");
    assert_eq!(world.offset(&path), SIZE);
    // The last byte may be sent again, by a client that did not get the answer; more may not.
    assert_eq!(code(&world, &patch(&path, SIZE - 1).body([0])), 204);
    assert_eq!(code(&world, &patch(&path, SIZE)), 204);
    assert_eq!(code(&world, &patch(&path, SIZE).body([0])), 403);
    assert_eq!(code(&world, &patch(&path, 0).body([0])), 403);
    assert_eq!(world.left(), ["jammy.raw"]);
    // The name is taken now.
    let again = world.wire().send(&creation(SIZE).header("Upload-Metadata", &metadata)).unwrap();
    assert_eq!((again.status, &*text(&again)), (403, "there is a disk of that name already: jammy.raw"));
}

#[test]
fn requests_that_make_no_sense_are_refused_before_their_bodies() {
    let world = World::folder(&[]);
    let path = world.create(SIZE, &named("a"));
    let post = || Call::new("POST", "/files");
    let bytes = |call: Call| call.header("Expect", "100-continue").cut(1 << 40, []);
    let part = |call: Call| call.header("Content-Type", "application/offset+octet-stream");
    for (call, status) in [
        (post(), 400),
        (post().header("Upload-Length", "-1"), 400),
        (post().header("Upload-Length", "0"), 400),
        (post().header("Upload-Length", "9223372036854775808"), 413),
        (post().header("Upload-Defer-Length", "2"), 400),
        (post().header("Upload-Length", "1").header("Upload-Defer-Length", "1"), 400),
        (creation(9).header("Upload-Metadata", "filename ???"), 400),
        (creation(9).header("Upload-Metadata", &named("../a")), 400),
        (creation(9).header("Upload-Metadata", &named(".a")), 400),
        (creation(9).header("Upload-Metadata", &format!("checksum {}", encoded("sha256 12"))), 400),
        (creation(9).header("Upload-Metadata", &named("a")), 409),
        (creation(9).header("Upload-Concat", "partial"), 400),
        (bytes(creation(9)), 415),
        (bytes(part(creation(9))), 413),
        (bytes(patch(&path, 1)), 409),
        (bytes(patch(&path, 0)), 413),
        (bytes(patch("/files/no-such-upload", 0)), 404),
        (bytes(Call::new("PATCH", &path).header("Upload-Offset", "0")), 415),
        (bytes(part(Call::new("PATCH", &path))), 400),
        (patch(&path, 0).header("Upload-Length", "9"), 400),
        (patch(&path, 0).header("Upload-Checksum", "crc32 AAAA").body([0]), 400),
        (Call::new("POST", &path).header("Upload-Length", "9"), 405),
        (Call::new("PUT", &path), 405),
        (Call::new("DELETE", "/files"), 405),
        (Call::new("HEAD", "/files/no-such-upload"), 404),
        (Call::new("HEAD", "/filesystem"), 404),
    ] {
        let mut connection = world.wire().connect().unwrap();
        let answer = connection.send(&call).unwrap();
        assert_eq!(answer.status, status, "{call:?}: {}", text(&answer));
        assert_eq!(answer.header("tus-resumable"), (status != 404).then_some("1.0.0"), "{call:?}");
        assert_eq!(answer.header("upload-offset"), (status == 409 && call.line().starts_with("PATCH")).then_some("0"));
    }
    for version in ["0.2.2", "1.0.1", ""] {
        let call = Call::new("HEAD", &path).header("Tus-Resumable", version);
        let answer = Wire::new(world.address).send(&call).unwrap();
        assert_eq!((answer.status, answer.header("tus-version")), (412, Some("1.0.0")), "{version}");
    }
    let unversioned = Wire::new(world.address).send(&patch(&path, 0)).unwrap();
    assert_eq!(unversioned.status, 412);
    // Nothing of all that has begun anything.
    assert_eq!((world.offset(&path), world.left()), (0, Vec::<String>::new()));
}

#[test]
fn more_than_was_announced_is_refused() {
    let world = World::folder(&[]);
    let image = fs::read(world.image()).unwrap();
    let path = world.create(1 << 20, &named("a"));
    let answer = world.wire().send(&patch(&path, 0).body(&image[..(1 << 20) + 1])).unwrap();
    assert_eq!((answer.status, world.offset(&path)), (413, 0));
    // Without a length it is seen when it is there; what fits counts.
    let answer = world.wire().send(&patch(&path, 0).chunked(&[&image[..1000], &image[1000..(1 << 20) + 1]])).unwrap();
    assert_eq!(answer.status, 413, "{}", text(&answer));
    let at = world.offset(&path);
    assert!(at <= 1 << 20, "{at}");
    let at = usize::try_from(at).unwrap();
    assert_eq!(code(&world, &patch(&path, at as u64).chunked(&[&image[at..1 << 20]])), 204);
    assert!(world.disk("a.raw") == image[..1 << 20]);
}

#[test]
fn the_length_may_come_last() {
    let world = World::folder(&[]);
    let image = fs::read(world.image()).unwrap();
    for way in ["with the last bytes", "alone"] {
        let call =
            Call::new("POST", "/files").header("Upload-Defer-Length", "1").header("Upload-Metadata", &named(way));
        let path = world.wire().send(&call).unwrap().location();
        let head = world.wire().send(&Call::new("HEAD", &path)).unwrap();
        assert_eq!((head.header("upload-defer-length"), head.header("upload-length")), (Some("1"), None));
        let at = if way == "alone" { image.len() } else { 5_000_000 };
        assert_eq!(code(&world, &patch(&path, 0).chunked(&[&image[..at]])), 204);
        assert_eq!(world.offset(&path), at as u64);
        let short = patch(&path, at as u64).header("Upload-Length", "5");
        assert_eq!(code(&world, &short), 400);
        let last = patch(&path, at as u64).header("Upload-Length", &SIZE.to_string()).body(&image[at..]);
        let answer = world.wire().send(&last).unwrap();
        assert_eq!((answer.status, offset(&answer)), (204, SIZE), "{way}: {}", text(&answer));
        assert!(world.disk(&format!("{way}.raw")) == image);
    }
}

#[test]
fn parts_with_checksums_count_when_they_are_right() {
    let world = World::folder(&[]);
    let image = fs::read(world.image()).unwrap();
    let path = world.create(SIZE, &named("a"));
    let with = |at: usize, sum: &str| patch(&path, at as u64).header("Upload-Checksum", sum);
    let sha256 = |bytes: &[u8]| {
        let hex = fixtures::sha256(bytes);
        let digest: Vec<u8> = (0..32).map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap()).collect();
        format!("sha256 {}", STANDARD.encode(digest))
    };
    let first = &image[..3_000_001];
    let wrong = world.wire().send(&with(0, &sha256(&image)).body(first)).unwrap();
    assert_eq!((wrong.status, world.offset(&path)), (460, 0), "{}", text(&wrong));
    // Sent in part: it can't be right.
    let cut = world.wire().send(&with(0, &sha256(first)).cut(first.len() as u64, &first[..100])).unwrap();
    assert_eq!((cut.status, world.offset(&path)), (503, 0));
    assert_eq!(code(&world, &with(0, &sha256(first)).body(first)), 204);
    // What waits in memory is limited, with a length and without.
    let rest = &image[first.len()..];
    let all = [rest, &image[..]].concat();
    assert_eq!(code(&world, &with(first.len(), &sha256(&all)).body(&all[..])), 413);
    let pieces: Vec<&[u8]> = rest.chunks(1000).collect();
    assert_eq!(code(&world, &with(first.len(), &sha256(first)).chunked(&pieces)), 460);
    assert_eq!(world.offset(&path), first.len() as u64);
    assert_eq!(code(&world, &with(first.len(), &sha256(rest)).chunked(&pieces)), 204);
    assert!(world.disk("a.raw") == image);
}

#[test]
fn bytes_may_come_with_the_creation() {
    let world = World::folder(&[]);
    let image = fs::read(world.image()).unwrap();
    let part = |call: Call| call.header("Content-Type", "application/offset+octet-stream");
    let whole = part(creation(SIZE)).header("Upload-Metadata", &named("whole")).body(&image[..]);
    let answer = world.wire().send(&whole).unwrap();
    assert_eq!((answer.status, offset(&answer)), (201, SIZE), "{}", text(&answer));
    assert!(world.disk("whole.raw") == image);
    let some = part(creation(SIZE)).header("Upload-Metadata", &named("some")).body(&image[..1_000_000]);
    let answer = world.wire().send(&some).unwrap();
    assert_eq!((answer.status, offset(&answer)), (201, 1_000_000));
    assert_eq!(code(&world, &patch(&answer.location(), 1_000_000).body(&image[1_000_000..])), 204);
    assert!(world.disk("some.raw") == image);
    // Of one that was cut nobody knows the address: its name is free at once.
    let cut = part(creation(SIZE)).header("Upload-Metadata", &named("cut"));
    world.wire().send(&cut.clone().cut(SIZE, &image[..1_000_000])).ok();
    let again = (0..10_000).map(|_| world.wire().send(&cut).unwrap()).find(|answer| answer.status != 409).unwrap();
    assert_eq!(again.status, 201, "{}", text(&again));
}

#[test]
fn an_upload_without_a_name_gets_one() {
    let world = World::folder(&[]);
    let image = fs::read(world.image()).unwrap();
    let (a, b) = (world.create(SIZE, ""), world.create(SIZE, ""));
    assert_eq!(code(&world, &patch(&a, 0).body(&image[..])), 204);
    assert_eq!(code(&world, &patch(&b, 0).body(&image[..])), 204);
    let left = world.left();
    assert!(left.len() == 2 && left.iter().all(|name| name.starts_with("upload-")), "{left:?}");
}

#[test]
fn the_whole_image_may_have_a_checksum() {
    let world = World::folder(&[]);
    let image = fs::read(world.image()).unwrap();
    let sum = |bytes: &[u8]| encoded(&format!("sha256 {}", fixtures::sha256(bytes)));
    let path = world.create(SIZE, &format!("{},checksum {}", named("right"), sum(&image)));
    assert_eq!(code(&world, &patch(&path, 0).body(&image[..])), 204);
    let path = world.create(SIZE, &format!("{},checksum {}", named("wrong"), sum(b"other")));
    let answer = world.wire().send(&patch(&path, 0).body(&image[..])).unwrap();
    assert_eq!(answer.status, 400);
    assert!(text(&answer).contains("sha256 checksum"), "{}", text(&answer));
    assert_eq!(world.left(), ["right.raw"]);
}

#[test]
fn an_upload_is_given_up() {
    let world = World::folder(&[]);
    let image = fs::read(world.image()).unwrap();
    let path = world.create(SIZE, &named("a"));
    // While a request sends, too.
    let mut sending = world.wire().connect().unwrap();
    sending.write(&patch(&path, 0).cut(SIZE, &image[..2_000_000])).unwrap();
    world.wait_for(&path, 2_000_000);
    assert_eq!(code(&world, &Call::new("DELETE", &path)), 204);
    for method in ["HEAD", "DELETE"] {
        assert_eq!(code(&world, &Call::new(method, &path)), 404);
    }
    let again = world.create(SIZE, &named("a"));
    assert_eq!(code(&world, &patch(&again, 0).body(&image[..])), 204);
    assert_eq!(world.left(), ["a.raw"]);
}

#[test]
fn the_newest_request_counts() {
    let world = World::folder(&[]);
    let image = fs::read(world.image()).unwrap();
    let path = world.create(SIZE, &named("a"));
    let mut hung = world.wire().connect().unwrap();
    // It says that it sends all, sends this, and then nothing.
    hung.write_raw(
        format!(
            "PATCH {path} HTTP/1.1\r\nHost: a\r\nTus-Resumable: 1.0.0\r\nUpload-Offset: 0\r\n\
             Content-Type: application/offset+octet-stream\r\nContent-Length: {SIZE}\r\n\r\n"
        )
        .as_bytes(),
    )
    .unwrap();
    hung.write_raw(&image[..1_500_000]).unwrap();
    world.wait_for(&path, 1_500_000);
    let answer = world.wire().send(&patch(&path, 1_500_000).body(&image[1_500_000..])).unwrap();
    assert_eq!((answer.status, offset(&answer)), (204, SIZE), "{}", text(&answer));
    let late = hung.answer(false).unwrap();
    assert_eq!(late.status, 409, "{}", text(&late));
    assert!(world.disk("a.raw") == image);
}

#[test]
fn methods_may_be_meant() {
    let world = World::folder(&[]);
    let image = fs::read(world.image()).unwrap();
    let path = world.create(SIZE, &named("a"));
    let meant = |method: &str| Call::new("POST", &path).header("X-HTTP-Method-Override", method);
    let call = meant("PATCH").header("Upload-Offset", "0").header("Content-Type", "application/offset+octet-stream");
    assert_eq!(code(&world, &call.body(&image[..100_000])), 204);
    assert_eq!(world.offset(&path), 100_000);
    assert_eq!(code(&world, &meant("DELETE")), 204);
    assert_eq!(code(&world, &meant("DELETE")), 404);
}

#[test]
fn the_one_target_has_an_upload_that_begins_anew() {
    let world = World::one(&[]);
    let image = fs::read(world.image()).unwrap();
    assert_eq!(world.offset(ONE), 0);
    let create = |len: u64| Call::new("POST", ONE).header("Upload-Length", &len.to_string());
    for path in ["/upload", "/upload/another-secret-of-some", "/files"] {
        assert_eq!(code(&world, &Call::new("POST", path).header("Upload-Length", "9")), 404, "{path}");
    }
    let answer = world.wire().send(&create(5000)).unwrap();
    assert_eq!((answer.status, answer.location(), offset(&answer)), (201, ONE.to_owned(), 0));
    // What is no disk fails, says why as often as it is asked, and may be followed by another.
    let page = "<!DOCTYPE html><html><body>Sign in</body></html>".repeat(100);
    let answer = world.wire().send(&patch(ONE, 0).body(&page[..4700])).unwrap();
    let answer = if answer.status == 204 {
        // It came in one piece before it was looked at.
        world.wire().send(&patch(ONE, 4700).body([b' '; 300])).unwrap()
    } else {
        answer
    };
    assert_eq!(answer.status, 400, "{}", text(&answer));
    assert!(text(&answer).contains("HTML"), "{}", text(&answer));
    assert_eq!(code(&world, &Call::new("HEAD", ONE)), 400);
    assert_eq!(code(&world, &patch(ONE, 0).body([0])), 400);
    assert_eq!(world.status(ONE)["report"]["reason"], "NotADiskImage");

    // Somebody else's is not disturbed while it is sent, and forgotten when it is not.
    assert_eq!(code(&world, &create(SIZE)), 201);
    let mut sending = world.wire().connect().unwrap();
    let head = format!(
        "PATCH {ONE} HTTP/1.1\r\nHost: a\r\nTus-Resumable: 1.0.0\r\nUpload-Offset: 0\r\n\
         Content-Type: application/offset+octet-stream\r\nContent-Length: {SIZE}\r\n\r\n"
    );
    sending.write_raw(head.as_bytes()).unwrap();
    sending.write_raw(&image[..1_000_000]).unwrap();
    world.wait_for(ONE, 1_000_000);
    assert_eq!(code(&world, &create(SIZE)), 409);
    drop(sending);
    let made = (0..10_000).map(|_| code(&world, &create(SIZE))).find(|code| *code != 409);
    assert_eq!((made, world.offset(ONE)), (Some(201), 0));
    assert_eq!(code(&world, &patch(ONE, 0).body(&image[..2_000_000])), 204);
    assert_eq!((code(&world, &Call::new("DELETE", ONE)), world.offset(ONE)), (204, 0));

    // A plain client's upload is gone on with, too.
    let plain = Wire::new(world.address);
    plain.send(&Call::new("PUT", ONE).cut(SIZE, &image[..3_000_000])).ok();
    world.wait_for(ONE, 3_000_000);
    assert_eq!(code(&world, &patch(ONE, 3_000_000).body(&image[3_000_000..])), 204);
    assert!(world.disk("disk.raw") == image);
    assert_eq!((code(&world, &create(SIZE)), code(&world, &Call::new("DELETE", ONE))), (403, 403));
}
