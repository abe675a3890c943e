//! Layers of a registry that is honest, or damages what it gives, or lies.

use std::fs;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use fixtures::http::{Object, Reply, Seen, Server};
use fixtures::oci::{Blob, Image, Layer, Manifest, Packing, Tar};
use fixtures::registry::Config;

use super::program::{Place, Ran, image, importer, reported, run};

/// An image whose tables come too late for a stream with the least memory.
const LATE: &str = "qcow2-64k-grown-written";

/// A registry with one image, `x:v1`. Layers are given by `layer`, from the request and all of its bytes.
fn serve(manifest: &Manifest, layer: impl Fn(&Seen, &[u8]) -> Reply + Send + Sync + 'static) -> Server {
    let manifest = manifest.clone();
    Server::start(move |seen| {
        let Some((_, name)) = seen.target.split_once("/v2/x/") else { return Reply::ok("{}") };
        if let Some(digest) = name.strip_prefix("blobs/") {
            let found = manifest.blobs.iter().find(|blob| blob.digest() == digest);
            return match found {
                Some(blob) if blob.media_type.contains("config") => Reply::ok(blob.bytes.clone()),
                Some(blob) => layer(seen, &blob.bytes),
                None => Reply::new(404),
            };
        }
        Reply::ok(manifest.bytes.clone()).header("content-type", &manifest.media_type)
    })
}

fn honest(seen: &Seen, bytes: &[u8]) -> Reply {
    Object::new(bytes.to_vec()).etag(None).answer(seen)
}

fn source(server: &Server) -> String {
    format!("docker://{}/x:v1", server.address())
}

fn container(bytes: &[u8], packing: Packing) -> Manifest {
    Image::new("linux/amd64").layer(Layer::new(&Tar::disk("disk.img", bytes).end(), packing)).build()
}

fn artifact(bytes: &[u8]) -> Manifest {
    let blob = Blob::new("application/octet-stream", bytes);
    let layer = Layer { diff_id: blob.digest(), blob };
    Image::artifact("application/vnd.example.disk").layer(layer).build()
}

/// The range that a request is for.
fn range(seen: &Seen) -> Option<Range<usize>> {
    let (first, last) = seen.header("range")?.strip_prefix("bytes=")?.split_once('-')?;
    Some(first.parse().ok()?..last.parse::<usize>().ok()? + 1)
}

/// Whether a request is none of those for the whole, which are one behind the other.
fn is_aside(seen: &Seen) -> bool {
    const FIRST: usize = 512 << 10;
    const PART: usize = (4 << 20) - (256 << 10);
    range(seen)
        .is_some_and(|range| range.start > 0 && (range.start < FIRST || !(range.start - FIRST).is_multiple_of(PART)))
}

fn copied(place: &Place, server: &Server, args: &[&str]) -> (Ran, serde_json::Value) {
    let mut command = place.copy(source(server));
    reported(command.args(["--memory", "16Mi", "--progress", "none", "--platform", "linux/amd64"]).args(args), place)
}

/// Tables that come late are read by ranges, and everything else once. Without ranges, and where the layer is packed, it
/// is all read twice.
#[test]
fn tables_that_come_late_are_fetched_and_all_else_is_read_once() {
    let place = Place::new();
    let made = image(LATE, &place);
    let bytes = fs::read(&made.path).unwrap();
    let plain = container(&bytes, Packing::Plain);
    let cases = [
        ("plain", plain.clone(), true, "streaming"),
        ("artifact", artifact(&bytes), true, "streaming"),
        ("packed", container(&bytes, Packing::Zstd), true, "two-pass"),
        ("no ranges", plain, false, "two-pass"),
    ];
    for (what, manifest, ranges, mode) in cases {
        let server =
            serve(&manifest, move |seen, bytes| if ranges { honest(seen, bytes) } else { Reply::ok(bytes.to_vec()) });
        let (ran, report) = copied(&place, &server, &[]);
        ran.succeeded();
        place.assert_copied(&made.raw(), what);
        assert_eq!(report["mode"], mode, "{what}");
        let seen = server.seen();
        let whole = manifest.blobs[0].bytes.len();
        let aside = |request: &&Seen| is_aside(request);
        let [besides, main] =
            [seen.iter().filter(aside).collect::<Vec<_>>(), seen.iter().filter(|it| !is_aside(it)).collect()].map(
                |requests| requests.iter().filter_map(|request| range(request)).map(|range| range.len()).sum::<usize>(),
            );
        if mode == "streaming" {
            assert!(besides > 0 && besides < whole / 8, "{what}: {besides} of {whole}");
            assert!((whole..whole + (4 << 20)).contains(&main), "{what}: {main} of {whole}");
            let received = usize::try_from(report["source"]["bytes"].as_u64().unwrap()).unwrap();
            assert!((bytes.len() + besides..=whole + besides).contains(&received), "{what}: {received}");
        } else {
            assert_eq!(besides, 0, "{what}");
        }
    }
}

/// Ranges that give something else than the whole are noticed, whatever that makes of the image.
#[test]
fn ranges_that_lie_leave_no_target() {
    let place = Place::new();
    let bytes = fs::read(image(LATE, &place).path).unwrap();
    for manifest in [container(&bytes, Packing::Plain), artifact(&bytes)] {
        let lies: [fn(usize, u8) -> u8; 4] = [
            |_, _| 0,
            |_, _| 0xff,
            |at, byte| if at.is_multiple_of(8) { byte ^ 0x80 } else { byte },
            |at, byte| if at % 8 == 5 { byte ^ 1 } else { byte },
        ];
        for (number, lie) in lies.into_iter().enumerate() {
            let server = serve(&manifest, move |seen, bytes| {
                let mut lied = bytes.to_vec();
                for at in range(seen).filter(|_| is_aside(seen)).into_iter().flatten() {
                    lied[at] = lie(at, lied[at]);
                }
                honest(seen, &lied)
            });
            let (ran, report) = copied(&place, &server, &[]);
            assert!(ran.failed(7).contains("another than in the whole"), "{number}");
            assert_eq!(report["reason"], "VerificationFailed");
            assert!(place.left().is_empty(), "{number}");
        }
    }
}

/// A registry gives a layer with one bit flipped so many times.
fn flipping(manifest: &Manifest, times: usize) -> Server {
    let flipped = AtomicUsize::new(0);
    serve(manifest, move |seen, bytes| {
        let mut bytes = bytes.to_vec();
        let place = bytes.len() / 3;
        let is_there = range(seen).is_some_and(|range| range.contains(&place)) && !is_aside(seen);
        if is_there && flipped.fetch_add(1, Ordering::SeqCst) < times {
            bytes[place] ^= 0x10;
        }
        honest(seen, &bytes)
    })
}

/// RG-R4: damage on the way may be gone when the layer is read again. It is read again once.
#[test]
fn a_layer_that_was_damaged_on_its_way_is_read_once_more() {
    let place = Place::new();
    for (name, packing) in [("raw", Packing::Plain), ("raw", Packing::Gzip), ("qcow2-64k-v1.1", Packing::Zstd)] {
        let made = image(name, &place);
        let manifest = container(&fs::read(&made.path).unwrap(), packing);
        let server = flipping(&manifest, 1);
        let (ran, report) = copied(&place, &server, &[]);
        assert!(ran.stderr.contains("it was right when it was read again"), "{name} {packing:?}: {}", ran.stderr);
        ran.succeeded();
        assert_eq!(report["outcome"], "succeeded");
        place.assert_copied(&made.raw(), name);
        let server = flipping(&manifest, usize::MAX);
        let said = copied(&place, &server, &[]).0.failed(7);
        assert!(said.contains(&manifest.blobs[0].digest()), "{said}");
        assert!(place.left().is_empty());
    }
}

/// A length that is not that of the manifest is a mismatch, wherever it is noticed.
#[test]
fn another_length_is_a_mismatch() {
    let place = Place::new();
    let bytes = fs::read(image("raw", &place).path).unwrap();
    for packing in [Packing::Plain, Packing::Gzip] {
        let manifest = container(&bytes, packing);
        for change in [-1_i64, 1] {
            let wrong = manifest.clone().edit(|json| {
                let size = json["layers"][0]["size"].as_i64().unwrap();
                json["layers"][0]["size"] = (size + change).into();
            });
            let answers: [fn(&Seen, &[u8]) -> Reply; 2] = [honest, |_, bytes| Reply::ok(bytes.to_vec())];
            for answer in answers {
                let server = serve(&wrong, answer);
                copied(&place, &server, &[]).0.failed(7);
                assert!(place.left().is_empty());
                run(importer().args(["inspect", &source(&server)])).failed(7);
            }
            let layout = tempfile::tempdir().unwrap();
            fixtures::oci::write_layout(layout.path(), &[("v1", &wrong)]);
            let source = format!("oci:{}:v1", layout.path().display());
            run(importer().args(["inspect", &source])).failed(7);
            run(&mut place.copy(&source)).failed(7);
            assert!(place.left().is_empty());
        }
    }
    // So for the configuration.
    let manifest = container(&bytes, Packing::Plain).edit(|json| {
        let size = json["config"]["size"].as_i64().unwrap();
        json["config"]["size"] = (size + 1).into();
    });
    copied(&place, &serve(&manifest, honest), &[]).0.failed(7);
}

/// What was read of a layer before an interruption was never proved: it starts over, and says so.
#[test]
fn a_copy_from_a_registry_is_never_continued_in_the_middle() {
    let place = Place::new();
    let made = image("raw", &place);
    let manifest = container(&fs::read(&made.path).unwrap(), Packing::Plain);
    let broken = Arc::new(Mutex::new(true));
    let breaks = Arc::clone(&broken);
    let server = serve(&manifest, move |seen, bytes| {
        let reply = honest(seen, bytes);
        let late = range(seen).is_some_and(|range| range.start > 0);
        if late && *breaks.lock().unwrap() { Reply::new(503) } else { reply }
    });
    let why = "this copy can't be continued if it is interrupted: the layers of an image are read from their start";
    let (ran, _) = copied(&place, &server, &["--resume"]);
    assert_eq!(ran.code, 3, "{}", ran.stderr);
    assert!(ran.stderr.contains(why) && !ran.stderr.contains("run the same command"), "{}", ran.stderr);
    *broken.lock().unwrap() = false;
    let (ran, report) = copied(&place, &server, &["--resume"]);
    assert!(ran.stderr.contains(why) || ran.stderr.contains("starting over"), "{}", ran.stderr);
    ran.succeeded();
    assert_eq!(report.get("resumedFrom"), None);
    place.assert_copied(&made.raw(), "from its start");
}

/// RG01, RG04: a layer goes on where it broke, and an error says which of two registries it is of, and where.
#[test]
fn what_breaks_goes_on_and_what_stays_broken_is_told_by_its_side() {
    let place = Place::new();
    let made = image("raw", &place);
    let manifest = container(&fs::read(&made.path).unwrap(), Packing::Plain);
    let whole = manifest.blobs[0].bytes.len();
    let breaking = serve(&manifest, |seen, bytes| {
        let reply = honest(seen, bytes);
        let len = reply.body_len();
        if len > 100_000 { reply.fault_at(len - 5_000, Reply::cut) } else { reply }
    });
    copied(&place, &breaking, &[]).0.succeeded();
    place.assert_copied(&made.raw(), "broken");
    let fetched: usize = breaking.seen().iter().filter_map(range).map(|range| range.len()).sum();
    assert!(fetched < whole + (1 << 20), "{fetched} of {whole}");

    let broken = serve(&manifest, |seen, bytes| {
        if range(seen).is_some_and(|range| range.start > 0) { Reply::new(502) } else { honest(seen, bytes) }
    });
    let good = serve(&manifest, honest);
    // It takes nothing.
    let full = Server::start(|seen| match seen.method.as_str() {
        "GET" => Reply::ok("{}"),
        "HEAD" => Reply::new(404),
        _ => Reply::new(500),
    });
    let takes = Config::distribution().start();
    for (from, to, side, server, offset) in [
        (&broken, takes.address(), "source registry", &broken, "offset 524288"),
        (&good, full.address(), "target registry", &full, ""),
    ] {
        let mut command = importer();
        command.args(["copy", &source(from), &format!("docker://{to}/y:v1"), "--platform", "linux/amd64"]);
        let said = run(&mut command).failed(3);
        let named = said.contains(side) && said.contains(&server.address().to_string()) && said.contains(offset);
        assert!(named, "{side}: {said}");
    }
}
