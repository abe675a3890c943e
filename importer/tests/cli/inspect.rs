//! `importer inspect`: what an image is, from its metadata alone.

use std::os::unix::fs::FileExt;

use fixtures::content::Pattern;
use fixtures::images::Image;
use fixtures::nginx::{Nginx, Request};
use fixtures::{oracle, run as tool_run, tool};
use serde_json::json;

use super::program::{Place, Ran, image, importer, recipe, reported, run, run_piped};

/// One of each format, and how we call it.
const FORMATS: [(&str, &str); 14] = [
    ("qcow2-64k-v1.1", "qcow2"),
    ("qcow2-64k-subclusters-written", "qcow2"),
    ("vmdk-sparse", "vmdk"),
    ("vmdk-stream", "vmdk"),
    ("vdi", "vdi"),
    ("vhd-dynamic", "vhd"),
    ("vhd-fixed", "vhd"),
    ("vhdx", "vhdx"),
    ("qed", "qed"),
    ("parallels", "parallels"),
    ("raw", "raw"),
    ("iso", "iso"),
    ("qcow2.gzip", "qcow2"),
    ("vmdk-stream.tar-gnu", "vmdk"),
];

fn inspect(source: impl AsRef<std::ffi::OsStr>) -> Ran {
    run(importer().arg("inspect").arg(source).arg("--json")).succeeded()
}

fn virtual_size(image: &Image) -> u64 {
    oracle::info(&image.inner, image.format)["virtual-size"].as_u64().unwrap()
}

#[test]
fn every_format_is_told_with_its_size() {
    let place = Place::new();
    for (name, format) in FORMATS {
        let (recipe, made) = (recipe(name), image(name, &place));
        let ran = inspect(&made.path);
        assert_eq!(ran.stderr, "", "{name}");
        let told = ran.json();
        assert_eq!(told["format"], format, "{name}");
        assert_eq!(told["virtualSize"], virtual_size(&made), "{name}");
        assert_eq!(told["wrappers"], json!(recipe.wrappers), "{name}");
        assert_eq!(told["cdrom"], recipe.cdrom, "{name}");
        let mut keys: Vec<_> = told.as_object().unwrap().keys().collect();
        keys.sort_unstable();
        assert_eq!(keys, ["allocated", "cdrom", "features", "format", "virtualSize", "wrappers"], "{name}");
        assert!(told["features"].is_object(), "{name}");
    }
}

/// A copy comes to the footer, and says vhd.
#[test]
fn what_only_the_end_tells_is_left_open() {
    let place = Place::new();
    let made = image("vhd-fixed.gzip", &place);
    assert_eq!(inspect(&made.path).json()["features"]["maybe"], "vhd");
    let told = run(importer().arg("inspect").arg(&made.path)).succeeded().stdout;
    assert!(told.starts_with("format: raw (or a fixed VHD: its footer is at the end)\nwrappers: gzip\n"), "{told}");
    let plain = image("raw", &place);
    assert!(run(importer().arg("inspect").arg(&plain.path)).succeeded().stdout.starts_with("format: raw\n"));
}

#[test]
fn what_is_allocated_is_what_qemu_maps() {
    let place = Place::new();
    for name in ["qcow2-64k-v1.1", "qcow2-4k-discarded", "qcow2-empty", "qcow2-64k-zeroed"] {
        let made = image(name, &place);
        let cluster = 1u64 << 16;
        let mapped: u64 = made.map().iter().filter(|run| run.data).map(|run| run.length).sum();
        let told = inspect(&made.path).json()["allocated"].as_u64().unwrap();
        // The last cluster of the disk is cut; it is stored whole.
        assert!((mapped..mapped + cluster).contains(&told), "{name}: {mapped} are mapped, {told} told");
    }
}

#[test]
fn features_are_named() {
    let place = Place::new();
    let made = image("qcow2-64k-subclusters-zstd-written", &place);
    let told = inspect(&made.path).json();
    assert_eq!(told["features"]["clusterSize"], 65536);
    assert_eq!(told["features"]["compression"], "zstd");
    let made = image("qcow2-64k-snapshots", &place);
    assert_eq!(inspect(&made.path).json()["features"]["snapshots"], 2);
    let ran = run(importer().arg("inspect").arg(&made.path)).succeeded();
    for line in ["format: qcow2", "virtual size: 8392192 (8.0 MiB)", "cluster size: 65536", "snapshots: 2"] {
        assert!(ran.stdout.lines().any(|is| is == line), "{line}: {}", ran.stdout);
    }
}

#[test]
fn only_metadata_is_fetched() {
    let place = Place::new();
    let disk = Pattern::Noise.disk(place.path(), 64 << 20);
    for format in ["qcow2", "vdi", "vhdx"] {
        let path = place.path().join(format);
        tool_run(tool("qemu-img").args(["convert", "-f", "raw", "-O", format]).arg(&disk).arg(&path));
        let server = Nginx::serve(place.path());
        assert_eq!(inspect(server.url(format)).json()["virtualSize"], 64 << 20, "{format}");
        let log = server.finish();
        // Half a MiB tells what it is; then come the tables.
        let (start, tables): (Vec<_>, Vec<_>) = log.iter().partition(|request| request.range == "bytes=0-524287");
        let sum = |requests: &[&Request]| requests.iter().map(|request| request.body).sum::<u64>();
        assert!(start.len() == 1 && sum(&start) <= 512 << 10, "{format}: {log:?}");
        assert!(!tables.is_empty() && sum(&tables) < 512 << 10, "{format}: {log:?}");
    }
}

#[test]
fn standard_input_is_inspected_too() {
    let place = Place::new();
    let made = image("qcow2-64k-v1.1-zlib", &place);
    let ran = run_piped(importer().args(["inspect", "-", "--json"]), &made.path).succeeded();
    assert_eq!(ran.json()["virtualSize"], virtual_size(&made));
}

#[test]
fn what_is_no_image_fails_as_in_a_copy() {
    let place = Place::new();
    let page = place.file("page.qcow2", "<html>".repeat(200));
    assert!(run(importer().arg("inspect").arg(page)).failed(5).contains("page.qcow2"));
    run(importer().arg("inspect").arg(place.path().join("missing"))).failed(4);
}

#[test]
fn holes_of_a_raw_file_are_not_allocated() {
    let place = Place::new();
    let path = place.file("sparse.raw", vec![7; 1 << 20]);
    let file = std::fs::File::options().write(true).open(&path).unwrap();
    file.set_len(1 << 30).unwrap();
    file.write_all_at(&vec![8; 1 << 20], 512 << 20).unwrap();
    let told = inspect(&path).json()["allocated"].as_u64().unwrap();
    assert_eq!(told, 2 << 20);
    let (ran, report) = reported(&mut place.copy(&path), &place);
    ran.succeeded();
    assert_eq!(report["mode"], "ranged");
    assert_eq!(report["image"]["allocated"], told);
}
