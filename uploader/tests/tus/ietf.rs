//! The resumable uploads of the IETF, request by request.

use std::fs;

use fixtures::http::{Call, Wire};

use crate::world::{ONE, SIZE, World, offset, text};

fn append(path: &str, at: u64, complete: &str) -> Call {
    Call::new("PATCH", path)
        .header("Content-Type", "application/partial-upload")
        .header("Upload-Offset", &at.to_string())
        .header("Upload-Complete", complete)
}

#[test]
fn a_whole_image_in_one_request() {
    let world = World::one(&[]);
    let image = fs::read(world.image()).unwrap();
    let wire = Wire::new(world.address);
    let answer = wire.send(&Call::new("POST", ONE).header("Upload-Complete", "?1").body(&image[..])).unwrap();
    assert_eq!((answer.status, answer.header("upload-complete")), (200, Some("?1")), "{}", text(&answer));
    assert!(answer.header("tus-resumable").is_none());
    assert!(world.disk("disk.raw") == image);
}

#[test]
fn an_image_in_parts_of_an_unknown_number() {
    let world = World::folder(&[]);
    let image = fs::read(world.image()).unwrap();
    let wire = Wire::new(world.address);
    let answer =
        wire.send(&Call::new("POST", "/files").header("Upload-Complete", "?0").body(&image[..500_000])).unwrap();
    assert_eq!((answer.status, answer.header("upload-complete")), (201, Some("?0")), "{}", text(&answer));
    assert!(answer.header("upload-limit").unwrap().contains("max-age="));
    let path = answer.location();
    let answer = wire.send(&append(&path, 500_000, "?0").body(&image[500_000..4_000_000])).unwrap();
    assert_eq!((answer.status, answer.header("upload-complete")), (204, Some("?0")), "{}", text(&answer));
    let wrong = wire.send(&append(&path, 5, "?0").body(&image[..5])).unwrap();
    assert_eq!((wrong.status, offset(&wrong)), (409, 4_000_000));
    let wrong = wire.send(&append(&path, 4_000_000, "?1").header("Upload-Length", "9").body(&image[..5])).unwrap();
    assert_eq!(wrong.status, 400);
    let kind = append(&path, 4_000_000, "?1");
    let wrong = Call::new("PATCH", &path).header("Upload-Offset", "4000000").header("Upload-Complete", "?1");
    assert_eq!(wire.send(&wrong.body([0])).unwrap().status, 415);
    let head = Call::new("HEAD", &path).header("Upload-Draft-Interop-Version", "6");
    let asked = wire.send(&head).unwrap();
    assert_eq!((asked.status, offset(&asked), asked.header("upload-complete")), (204, 4_000_000, Some("?0")));
    assert_eq!(asked.header("upload-draft-interop-version"), Some("6"));
    let answer = wire.send(&kind.body(&image[4_000_000..])).unwrap();
    assert_eq!((answer.status, answer.header("upload-complete")), (200, Some("?1")), "{}", text(&answer));
    let asked = wire.send(&head).unwrap();
    assert_eq!((offset(&asked), asked.header("upload-complete")), (SIZE, Some("?1")));
    let name = world.left().pop().unwrap();
    assert!(world.disk(&name) == image);
}

#[test]
fn the_end_may_come_alone_and_what_is_empty_is_refused() {
    let world = World::one(&[]);
    let image = fs::read(world.image()).unwrap();
    let wire = Wire::new(world.address);
    for empty in [Call::new("POST", ONE).header("Upload-Complete", "?1"), append(ONE, 0, "?1")] {
        let answer = wire.send(&empty).unwrap();
        assert_eq!((answer.status, &*text(&answer)), (400, "an image has at least one byte"));
    }
    assert_eq!(wire.send(&Call::new("POST", ONE).header("Upload-Complete", "?0")).unwrap().status, 201);
    assert_eq!(wire.send(&append(ONE, 0, "?0").chunked(&[&image])).unwrap().status, 204);
    let answer = wire.send(&append(ONE, SIZE, "?1")).unwrap();
    assert_eq!((answer.status, answer.header("upload-complete")), (200, Some("?1")), "{}", text(&answer));
    assert!(world.disk("disk.raw") == image);
}

#[test]
fn the_oldest_draft_says_what_is_incomplete() {
    let world = World::one(&[]);
    let image = fs::read(world.image()).unwrap();
    let wire = Wire::new(world.address).header("Upload-Draft-Interop-Version", "3");
    let part = |method: &str, incomplete| Call::new(method, ONE).header("Upload-Incomplete", incomplete);
    let answer = wire.send(&part("POST", "?1").body(&image[..100_000])).unwrap();
    assert_eq!((answer.status, answer.header("upload-incomplete")), (201, Some("?1")), "{}", text(&answer));
    let answer = wire.send(&part("PATCH", "?0").header("Upload-Offset", "100000").body(&image[100_000..])).unwrap();
    assert_eq!((answer.status, answer.header("upload-incomplete")), (200, Some("?0")), "{}", text(&answer));
    let deleted = wire.send(&Call::new("DELETE", ONE)).unwrap();
    assert_eq!(deleted.status, 403);
}
