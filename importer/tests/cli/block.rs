//! Block devices that hold something else before, and targets without room.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::Path;

use fixtures::devices::{LoopDevice, TinyTmpfs};
use fixtures::images::SIZE;
use fixtures::sha256_file;

use super::program::{Place, copy, image, reported, run};

/// One of each format.
const FORMATS: [&str; 11] = [
    "qcow2-64k-v1.1-zlib",
    "qcow2-16k-subclusters-used",
    "vmdk-sparse",
    "vmdk-stream",
    "vdi",
    "vhd-dynamic",
    "vhdx",
    "qed",
    "parallels",
    "raw",
    "qcow2.gzip",
];

/// The first `len` bytes of both are the same.
#[track_caller]
fn assert_same(device: &Path, expected: &Path, what: &str) {
    let expected = fs::read(expected).unwrap();
    let mut found = vec![0; expected.len()];
    File::open(device).unwrap().read_exact(&mut found).unwrap();
    let first = found.iter().zip(&expected).position(|(found, expected)| found != expected);
    assert_eq!(first, None, "{what}");
}

#[test]
fn a_device_reads_as_the_image_whatever_it_held() {
    reads_as_the_image(512, &FORMATS);
}

/// The size of the disks here is no multiple of 4096, nor are the subclusters.
#[test]
fn a_device_of_large_sectors_reads_as_the_image() {
    reads_as_the_image(4096, &["qcow2-16k-subclusters-used", "vmdk-stream", "raw"]);
}

fn reads_as_the_image(sector: u32, names: &[&str]) {
    let place = Place::new();
    // One device for all: each image finds what the one before has left.
    let Some(device) = LoopDevice::filled(16 << 20, sector, 0xff) else { return };
    for name in names {
        let made = image(name, &place);
        let expected = made.raw();
        let (ran, report) = reported(&mut copy(&made.path, device.path()), &place);
        ran.succeeded();
        assert_same(device.path(), &expected, name);
        assert_eq!(report["target"]["reference"], device.path().to_str().unwrap());
        assert_eq!(report["target"]["size"], expected.metadata().unwrap().len(), "{name}");
    }
    let mut last = [0; 512];
    File::open(device.path()).unwrap().read_exact_at(&mut last, (16 << 20) - 512).unwrap();
    assert_eq!(last, [0xff; 512], "what lies behind the disk is not ours");
}

#[test]
fn a_device_that_is_too_small_stays_as_it_was() {
    let place = Place::new();
    let Some(device) = LoopDevice::filled(8 << 20, 512, 0xff) else { return };
    let before = sha256_file(device.path());
    // The last is smaller.
    for name in &FORMATS[..10] {
        let line = run(copy(image(name, &place).path, device.path()).args(["--progress", "none"])).failed(8);
        assert!(line.contains("too small") && line.contains(&(8 << 20).to_string()), "{name}: {line}");
        assert_eq!(sha256_file(device.path()), before, "{name}");
    }
}

/// Only at its end it is known how large a raw disk in a wrapper is.
#[test]
fn a_device_that_proves_too_small_has_no_first_sector() {
    let place = Place::new();
    let Some(device) = LoopDevice::filled(2 << 20, 512, 0xff) else { return };
    let line = run(copy(image("raw.gzip", &place).path, device.path()).args(["--progress", "none"])).failed(8);
    assert!(line.contains("too small"), "{line}");
    let mut head = [1; 512];
    File::open(device.path()).unwrap().read_exact(&mut head).unwrap();
    assert_eq!(head, [0; 512]);
}

#[test]
fn a_device_that_can_only_be_read_is_8() {
    let place = Place::new();
    let backing = place.file("backing", vec![0xff; 16 << 20]);
    let Some(device) = LoopDevice::read_only(&backing) else { return };
    let line = run(copy(image("vdi", &place).path, device.path()).args(["--progress", "none"])).failed(8);
    assert!(line.contains(device.path().to_str().unwrap()), "{line}");
}

#[test]
fn a_disk_that_does_not_fit_leaves_nothing() {
    let place = Place::new();
    let Some(tmpfs) = TinyTmpfs::mount(1 << 20) else { return };
    for (name, options) in [("raw-noise", &[][..]), ("qcow2-64k-v1.1", &[]), ("vdi", &["--preallocate"])] {
        let mut command = copy(image(name, &place).path, tmpfs.path().join("disk.raw"));
        let line = run(command.args(["--progress", "none"]).args(options)).failed(8);
        assert!(line.contains("disk.raw") && line.contains("make room"), "{name}: {line}");
        assert_eq!(super::program::names(tmpfs.path()), [""; 0], "{name}");
    }
    // With room for the data, though not for the disk.
    tmpfs.resize(7 << 20).unwrap();
    let made = image("qcow2-64k-installed", &place);
    run(&mut copy(&made.path, tmpfs.path().join("disk.raw"))).succeeded();
    assert!(made.raw().metadata().unwrap().len() == SIZE);
    assert_eq!(fixtures::differ(&tmpfs.path().join("disk.raw"), &made.raw()), None);
}
