//! SIGKILL in the middle of pushes and of garbage collections.

#![allow(clippy::unwrap_used, reason = "this is a test; clippy allows it only inside the test functions")]

mod support;

use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use fixtures::http::{Call, Wire};
use fixtures::oci::Manifest;
use support::{begin, blob, dvcr, image, noise, output};

/// What the registry has said that it has.
#[derive(Default)]
struct Acknowledged {
    /// Repository and digest of blobs.
    blobs: Vec<(String, String)>,
    /// Manifests by repository and tag; only what the tag was last.
    tags: BTreeMap<(String, String), String>,
}

/// Pushes an image and writes down each step that was acknowledged; ends with the first that was not.
fn push(wire: &Wire, repository: &str, tag: &str, image: &Manifest, seen: &Mutex<Acknowledged>) -> Option<()> {
    for blob in &image.blobs {
        let answer = wire.send(&Call::new("POST", &format!("/v2/{repository}/blobs/uploads/"))).ok()?;
        let half = blob.bytes.len() / 2;
        let patch = Call::new("PATCH", &answer.location()).body(blob.bytes.get(..half)?);
        let answer = wire.send(&patch).ok().filter(|answer| answer.status == 202)?;
        let put = Call::new("PUT", &answer.location_with(&format!("digest={}", blob.digest())));
        wire.send(&put.body(blob.bytes.get(half..)?)).ok().filter(|answer| answer.status == 201)?;
        seen.lock().unwrap().blobs.push((repository.to_owned(), blob.digest()));
    }
    let place = format!("/v2/{repository}/manifests/{tag}");
    let put = Call::new("PUT", &place).header("Content-Type", &image.media_type).body(image.bytes.clone());
    wire.send(&put).ok().filter(|answer| answer.status == 201)?;
    seen.lock().unwrap().tags.insert((repository.to_owned(), tag.to_owned()), image.digest());
    Some(())
}

#[test]
fn what_was_acknowledged_is_there_after_any_end() {
    let home = tempfile::tempdir().unwrap();
    let root = home.path().join("root");
    let mut seen = Mutex::new(Acknowledged::default());
    for round in 0..6_usize {
        let registry = dvcr().root(&root).start();
        let wire = registry.wire();
        let mut collector = Command::new(env!("CARGO_BIN_EXE_dvcr"));
        collector.args(["gc", "--grace", "0", "--root"]).arg(&root).stdout(Stdio::null()).stderr(Stdio::null());
        let done = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            let pushers: Vec<_> = (0..3_usize)
                .map(|n| {
                    let (wire, seen, done) = (&wire, &seen, &done);
                    scope.spawn(move || {
                        for turn in 0.. {
                            let image = image(&noise(200_000 + n * 1000, (round * 1000 + turn * 10 + n) as u64));
                            if push(wire, &format!("r/{n}"), &format!("t{}", turn % 3), &image, seen).is_none() {
                                return;
                            }
                            done.fetch_add(1, Ordering::SeqCst);
                        }
                    })
                })
                .collect();
            // So many images in all, and two collections under way, before the end comes.
            let mut running = Vec::new();
            while done.load(Ordering::SeqCst) < 4 + round {
                let mut child = collector.spawn().unwrap();
                if running.is_empty() || round % 2 == 0 {
                    child.wait().unwrap();
                } else {
                    running.push(child);
                }
                std::thread::yield_now();
            }
            let mut last = collector.spawn().unwrap();
            registry.kill();
            last.kill().unwrap();
            last.wait().unwrap();
            for mut child in running {
                child.wait().unwrap();
            }
            for pusher in pushers {
                pusher.join().unwrap();
            }
        });
        let said = output("check", &root, &[]);
        assert!(said.contains("all sound"), "{said}");
        let registry = dvcr().root(&root).start();
        let wire = registry.wire();
        let acknowledged = std::mem::take(seen.get_mut().unwrap());
        // A tag may stand for what was being pushed when the end came, but for nothing that is not there.
        for (repository, tag) in acknowledged.tags.keys() {
            let answer = wire.send(&Call::new("GET", &format!("/v2/{repository}/manifests/{tag}"))).unwrap();
            assert_eq!(answer.status, 200, "{repository}:{tag}");
            for layer in answer.json()["layers"].as_array().unwrap() {
                let layer = layer["digest"].as_str().unwrap();
                let answer = wire.send(&Call::new("GET", &format!("/v2/{repository}/blobs/{layer}"))).unwrap();
                assert_eq!((answer.status, fixtures::sha256(&answer.body)), (200, layer["sha256:".len()..].to_owned()));
            }
        }
        // The last blobs of each repository, whose manifest had not come, are kept for their push.
        for n in 0..3 {
            let repository = format!("r/{n}");
            if let Some((_, digest)) = acknowledged.blobs.iter().rfind(|(of, _)| *of == repository) {
                let answer = wire.send(&Call::new("HEAD", &format!("/v2/{repository}/blobs/{digest}"))).unwrap();
                assert_eq!(answer.status, 200, "{repository} lost {digest}");
            }
        }
        // And so does an upload that was under way: it goes on where it was.
        let place = begin(&wire, "r/again");
        let bytes = noise(100_000, 7);
        assert_eq!(wire.send(&Call::new("PATCH", &place).body(&bytes[..60_000])).unwrap().status, 202);
        registry.kill();
        let registry = dvcr().root(&root).start();
        let wire = registry.wire();
        let answer = wire.send(&Call::new("GET", &place)).unwrap();
        assert_eq!((answer.status, answer.header("range")), (204, Some("0-59999")));
        let rest = Call::new("PUT", &format!("{place}?digest={}", blob(&bytes).digest())).body(&bytes[60_000..]);
        assert_eq!(wire.send(&rest).unwrap().status, 201);
    }
}
