//! No room.

#![allow(clippy::unwrap_used, reason = "this is a test; clippy allows it only inside the test functions")]

mod support;

use fixtures::devices::TinyTmpfs;
use fixtures::http::Call;
use fixtures::oci::push;
use fixtures::registry::Registry;
use support::{begin, blob, dvcr, image, noise, output};

fn nothing_is_left(registry: &Registry) {
    let left: Vec<_> = registry.root().join("uploads").read_dir().unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_full_store_says_so_and_recovers() {
    let Some(disk) = TinyTmpfs::mount(24 << 20) else { return };
    let registry = dvcr().root(&disk.path().join("root")).start();
    let wire = registry.wire();
    let kept = image(&noise(4 << 20, 1));
    push(&wire, "a", "v1", &kept);
    let large = noise(30 << 20, 2);
    let digest = blob(&large).digest();

    // Announced: refused before anything is sent.
    let place = begin(&wire, "a");
    let put = |bytes: &[u8]| Call::new("PUT", &format!("{place}?digest={digest}")).body(bytes);
    let answer = wire.send(&put(&large)).unwrap();
    assert_eq!(answer.status, 507, "{}", String::from_utf8_lossy(&answer.body));
    let error = &answer.json()["errors"][0];
    assert_eq!(error["code"], "INSUFFICIENT_STORAGE");
    assert!(error["message"].as_str().unwrap().contains("the registry is full"), "{error}");

    // Not announced: refused when it is too much, and nothing is left of it.
    let place = begin(&wire, "a");
    let pieces: Vec<&[u8]> = large.chunks(1 << 20).collect();
    let answer = wire.send(&Call::new("PATCH", &place).chunked(&pieces)).unwrap();
    assert_eq!(answer.status, 507, "{}", String::from_utf8_lossy(&answer.body));
    assert_eq!(wire.send(&Call::new("GET", &place)).unwrap().status, 507, "whoever did not hear it hears it again");
    nothing_is_left(&registry);

    // In chunks that are announced: what came before is gone, too.
    let place = begin(&wire, "a");
    let chunk = |bytes: &[u8]| Call::new("PATCH", &place).body(bytes);
    assert_eq!(wire.send(&chunk(&large[..10 << 20])).unwrap().status, 202);
    assert_eq!(wire.send(&chunk(&large[10 << 20..])).unwrap().status, 507);
    assert_eq!(wire.send(&Call::new("GET", &place)).unwrap().status, 507, "whoever did not hear it hears it again");
    nothing_is_left(&registry);

    // What was there is there, and what fits can be pushed.
    for blob in &kept.blobs {
        let answer = wire.send(&Call::new("GET", &format!("/v2/a/blobs/{}", blob.digest()))).unwrap();
        assert_eq!((answer.status, answer.body), (200, blob.bytes.clone()));
    }
    push(&wire, "a", "v2", &image(&noise(4 << 20, 3)));
    assert!(output("check", registry.root(), &[]).contains("all sound"));
    assert_eq!(wire.send(&Call::new("GET", "/healthz")).unwrap().status, 200);

    // To the last block.
    let stat = rustix::fs::statvfs(disk.path()).unwrap();
    let free = usize::try_from(stat.f_bavail * stat.f_frsize).unwrap();
    std::fs::write(disk.path().join("filler"), noise(free - (128 << 10), 4)).unwrap();
    let answer = wire.send(&Call::new("GET", "/healthz")).unwrap();
    assert_eq!(answer.status, 503);
    assert!(String::from_utf8_lossy(&answer.body).contains("full"));
    assert_eq!(wire.send(&Call::new("GET", "/livez")).unwrap().status, 200);
    let metrics = || String::from_utf8(wire.send(&Call::new("GET", "/metrics")).unwrap().body).unwrap();
    assert!(metrics().contains("\ndvcr_store_full 1\n"), "{}", metrics());
    assert_eq!(wire.send(&Call::new("POST", "/v2/a/blobs/uploads/")).unwrap().status, 507);
    assert_eq!(wire.send(&Call::new("GET", "/v2/a/manifests/v2")).unwrap().status, 200);
    // Deleting is what helps, so it has to work.
    assert_eq!(wire.send(&Call::new("DELETE", &format!("/v2/a/manifests/{}", kept.digest()))).unwrap().status, 202);
    output("gc", registry.root(), &["--grace", "0"]);
    assert!(metrics().contains("\ndvcr_store_full 0\n"), "{}", metrics());
    push(&wire, "a", "v3", &image(&noise(1 << 20, 5)));
    assert!(output("check", registry.root(), &[]).contains("all sound"));
}

#[test]
fn a_disk_that_is_full_without_notice_is_told_the_same_way() {
    let Some(disk) = TinyTmpfs::mount(16 << 20) else { return };
    // Nothing is kept in reserve: the disk says it.
    let registry = dvcr().root(&disk.path().join("root")).with("--reserve").with("0").start();
    let wire = registry.wire();
    let place = begin(&wire, "a");
    let large = noise(20 << 20, 2);
    let pieces: Vec<&[u8]> = large.chunks(1 << 20).collect();
    let answer = wire.send(&Call::new("PATCH", &place).chunked(&pieces)).unwrap();
    assert_eq!(answer.status, 507, "{}", String::from_utf8_lossy(&answer.body));
    assert_eq!(wire.send(&Call::new("GET", &place)).unwrap().status, 507, "whoever did not hear it hears it again");
    nothing_is_left(&registry);
    push(&wire, "a", "v1", &image(&noise(4 << 20, 3)));
    assert!(output("check", registry.root(), &[]).contains("all sound"));
}
