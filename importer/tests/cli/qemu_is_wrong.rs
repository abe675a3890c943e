//! Where qemu-img gives a wrong disk and exit 0, or never ends: each of these was seen with qemu-img 10.0.

use std::fs;
use std::path::{Path, PathBuf};

use fixtures::content::Pattern;
use fixtures::images::SIZE;
use fixtures::{run as tool_run, tool};

use super::program::{Place, image, reported, run, run_piped};

/// What qemu-img makes of it, which must succeed: otherwise there is nothing to be better at.
fn by_qemu(path: &Path, format: Option<&str>) -> PathBuf {
    let out = path.with_extension("by-qemu");
    let mut convert = tool("qemu-img");
    convert.arg("convert").args(format.into_iter().flat_map(|format| ["-f", format])).args(["-O", "raw"]);
    tool_run(convert.arg(path).arg(&out));
    out
}

/// Refused, by ranges and through a pipe, with this code and these words.
#[track_caller]
fn refused(place: &Place, path: &Path, code: i32, words: &[&str]) {
    for piped in [false, true] {
        let mut command = place.copy(if piped { Path::new("-") } else { path });
        command.args(["--progress", "none"]);
        let ran = if piped { run_piped(&mut command, path) } else { run(&mut command) };
        let line = ran.failed(code);
        assert!(words.iter().all(|word| line.contains(word)), "{line}");
        assert_eq!(place.left(), [""; 0], "{line}");
    }
}

#[test]
fn a_file_that_ends_early_is_no_disk() {
    let place = Place::new();
    for name in ["qcow2-64k-v1.1", "vmdk-sparse"] {
        let made = image(name, &place);
        let whole = made.raw();
        let bytes = fs::read(&made.path).unwrap();
        let cut = place.file(&format!("{name}.cut"), &bytes[..bytes.len() * 6 / 10]);
        let wrong = by_qemu(&cut, Some(made.format));
        assert!(fixtures::differ(&wrong, &whole).is_some(), "{name}: qemu-img has found all of it");
        refused(&place, &cut, 5, &["end"]);
    }
}

#[test]
fn a_qcow2_whose_table_lies_behind_its_end_is_no_disk() {
    let place = Place::new();
    let path = place.path().join("empty.qcow2");
    tool_run(tool("qemu-img").args(["create", "-q", "-f", "qcow2"]).arg(&path).arg("1T"));
    let mut bytes = fs::read(&path).unwrap();
    bytes[40..48].copy_from_slice(&(1u64 << 40).to_be_bytes());
    fs::write(&path, bytes).unwrap();
    let wrong = by_qemu(&path, Some("qcow2"));
    assert_eq!(wrong.metadata().unwrap().len(), 1 << 40);
    fs::remove_file(wrong).unwrap();
    refused(&place, &path, 5, &["end"]);
}

#[test]
fn a_differencing_vhd_is_no_disk_without_its_parent() {
    let place = Place::new();
    let path = image("vhd-dynamic-exact", &place).path;
    let mut bytes = fs::read(&path).unwrap();
    // The copy of the footer in front, and the footer: type 4, and the checksum that belongs to it.
    let end = bytes.len() - 512;
    for at in [0, end] {
        bytes[at + 60..at + 64].copy_from_slice(&4u32.to_be_bytes());
        bytes[at + 64..at + 68].fill(0);
        let sum: u32 = bytes[at..at + 512].iter().map(|byte| u32::from(*byte)).sum();
        bytes[at + 64..at + 68].copy_from_slice(&(!sum).to_be_bytes());
    }
    let path = place.file("differencing.vhd", bytes);
    by_qemu(&path, Some("vpc"));
    refused(&place, &path, 6, &["differencing"]);
}

#[test]
fn the_footer_of_a_fixed_vhd_is_not_part_of_the_disk() {
    let place = Place::new();
    let made = image("vhd-fixed-exact", &place);
    let guest = Pattern::Mixed.disk(place.path(), SIZE);
    let wrong = by_qemu(&made.path, None);
    assert_eq!(wrong.metadata().unwrap().len(), SIZE + 512);
    for piped in [false, true] {
        let report = if piped {
            let path = place.path().join("piped.json");
            run_piped(place.copy("-").arg("--report").arg(&path), &made.path).succeeded();
            super::program::report(&path)
        } else {
            let (ran, report) = reported(&mut place.copy(&made.path), &place);
            ran.succeeded();
            report
        };
        place.assert_copied(&guest, "fixed VHD");
        assert_eq!(report["image"]["format"], "vhd", "piped={piped}");
        assert_eq!(report["image"]["virtualSize"], SIZE, "piped={piped}");
    }
}

/// qemu-img follows such a chain for ever, so it is not asked here.
#[test]
fn a_chain_of_backing_files_without_end_is_not_followed() {
    let place = Place::new();
    let (a, b) = (place.path().join("a.qcow2"), place.path().join("b.qcow2"));
    for path in [&a, &b] {
        tool_run(tool("qemu-img").args(["create", "-q", "-f", "qcow2"]).arg(path).arg("1M"));
    }
    for (path, backing) in [(&a, &b), (&b, &a)] {
        tool_run(tool("qemu-img").args(["rebase", "-u", "-F", "qcow2", "-b"]).arg(backing).arg(path));
    }
    refused(&place, &a, 6, &["backing", b.to_str().unwrap()]);
}
