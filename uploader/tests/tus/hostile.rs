//! What people should not send.

use std::fs;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use fixtures::devices::LoopDevice;
use fixtures::http::{Call, Wire};
use fixtures::{run, tool};

use crate::world::{ONE, SECRET, SIZE, World, creation, patch, text};

/// The reason comes with the first bytes, which say how large the disk is.
#[test]
fn a_disk_that_is_too_large_for_its_device_is_refused_by_its_header() {
    let Some(device) = LoopDevice::filled(4 << 20, 512, 0) else { return };
    let world = World::onto(device.path());
    let image = world.file("large.qcow2", b"");
    run(tool("qemu-img").args(["create", "-q", "-f", "qcow2"]).arg(&image).arg("1T"));
    let image = fs::read(image).unwrap();
    let create = Call::new("POST", "/upload").header("Upload-Length", &image.len().to_string());
    assert_eq!(world.wire().send(&create).unwrap().status, 201);
    // All but the last byte: it is refused without the end.
    let answer = world.wire().send(&patch("/upload", 0).body(&image[..image.len() - 1])).unwrap();
    let mut answer = answer;
    for _ in 0..10_000 {
        if answer.status != 204 && answer.status != 200 {
            break;
        }
        // The bytes were taken before they were looked at.
        answer = world.wire().send(&Call::new("HEAD", "/upload")).unwrap();
    }
    assert!((400..500).contains(&answer.status), "{}", answer.status);
    let said = world.status("/upload");
    assert_eq!(said["phase"], "Failed");
    assert!(said["report"]["message"].as_str().unwrap().contains("large"), "{said}");
    let again = world.wire().send(&patch("/upload", 0).body([0])).unwrap();
    assert!((400..500).contains(&again.status) && again.status != 409, "{}", text(&again));
}

#[test]
fn names_are_text_wherever_they_come_back() {
    let world = World::folder(&[]);
    let name = "<img src=x onerror=alert(1)>\u{202e}.img";
    let metadata = format!("filename {}", STANDARD.encode(name));
    let path = world.create(SIZE, &metadata);
    for accept in ["text/html", "*/*", "application/json"] {
        for call in [
            Call::new("GET", &path),
            creation(SIZE).header("Upload-Metadata", &metadata).header("Tus-Resumable", "1.0.0"),
        ] {
            let answer = Wire::new(world.address).send(&call.header("Accept", accept)).unwrap();
            let kind = answer.header("content-type").unwrap().to_owned();
            let harmless = kind.starts_with("text/plain") || kind == "application/json" || !text(&answer).contains('<');
            assert!(harmless, "{kind}: {}", text(&answer));
            assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
        }
    }
    for wrong in ["a\nb", "a\0b", "a/../../b", "..", "a\r\nSet-Cookie: x=y", &"x".repeat(201)] {
        let call = creation(SIZE).header("Upload-Metadata", &format!("filename {}", STANDARD.encode(wrong)));
        let answer = world.wire().send(&call).unwrap();
        assert_eq!(answer.status, 400, "{wrong:?}");
        assert!(answer.header("set-cookie").is_none());
    }
}

#[test]
fn new_uploads_need_the_token_and_no_secret_is_logged() {
    let token = tempfile::NamedTempFile::new().unwrap();
    fs::write(token.path(), SECRET).unwrap();
    let world = World::folder(&["--token-file", token.path().to_str().unwrap()]);
    for wrong in [None, Some("Bearer wrong"), Some("Basic czNjcjN0"), Some(""), Some("Bearer"), Some(SECRET)] {
        let call = creation(SIZE);
        let call = wrong.map_or(call.clone(), |wrong| call.header("Authorization", wrong));
        let answer = world.wire().send(&call).unwrap();
        assert_eq!((answer.status, answer.header("www-authenticate")), (401, Some("Bearer")), "{wrong:?}");
    }
    let known = world.wire().header("Authorization", &format!("bearer {SECRET}"));
    let path = known.send(&creation(SIZE)).unwrap().location();
    // Whoever has the address needs no token.
    let image = fs::read(world.image()).unwrap();
    assert_eq!(world.wire().send(&patch(&path, 0).body(&image[..])).unwrap().status, 204);
    let (log, secret) = (world.log(), path.rsplit('/').next().unwrap());
    assert!(log.contains("an upload has begun"), "{log}");
    assert!(!log.contains(secret) && !log.contains(SECRET), "{log}");

    let world = World::one(&[]);
    assert_eq!(world.wire().send(&patch(ONE, 0).body(&image[..1000])).unwrap().status, 204);
    world.wire().send(&patch(ONE, 7)).unwrap();
    world.wire().send(&patch(&format!("{ONE}x"), 7)).unwrap();
    assert!(!world.log().contains(SECRET), "{}", world.log());
}
