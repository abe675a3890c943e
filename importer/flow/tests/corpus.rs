//! Images that other people made.
#![allow(clippy::unwrap_used, reason = "in a test, that is the failure")]

mod common;

use common::{Way, assert_nothing_left, import_file, tight};
use std::path::{Path, PathBuf};

use fixtures::corpus::{Outcome, Row, corpus};
use fixtures::{differ, sha256, sha256_file};

/// What is right where the index says otherwise: its figures are what qemu-img does when it finds all neighbours and
/// follows them, and what it takes for raw. Alone, and by the specification, it is this.
enum Rule {
    /// Refused with this exit code.
    Exit(u8),
    /// The bytes as they are.
    AsItIs,
    /// A fixed VHD: the bytes without the footer of 512 bytes.
    WithoutFooter,
    /// What qemu-img makes of it after it has repaired a copy.
    Repaired,
}

const RULES: &[(&str, Rule)] = &[
    // A raw disk; qemu-img goes by its name.
    ("dfvfs/apfs_encrypted.dmg.zst", Rule::AsItIs),
    ("dfvfs/fat-parent.vhd.zst", Rule::WithoutFooter),
    ("dfvfs/ntfs-fixed.vhd.zst", Rule::WithoutFooter),
    ("dfvfs/ntfs-parent.vhd.zst", Rule::WithoutFooter),
    // Texts.
    ("govmomi-ovf/sunVHW-DiskTypes-invalid.ovf", Rule::Exit(5)),
    ("govmomi-ovf/sunVHW-DiskTypes_invalidUTF.ovf", Rule::Exit(5)),
    // Formats that are named, not read.
    ("qemu-iotests/empty.bochs", Rule::Exit(5)),
    ("qemu-iotests/simple-dmg.dmg", Rule::Exit(5)),
    ("qemu-iotests/simple-pattern.cloop", Rule::Exit(5)),
    // Its log is replayed; qemu-img does so only when told to repair.
    ("qemu-iotests/iotest-dirtylog-10G-4M.vhdx.zst", Rule::Repaired),
    // Descriptors: the disk is in other files.
    ("vmdk-rs/twoGbMaxExtentSparse.vmdk", Rule::Exit(5)),
    ("vmdk-rs/vmfs_thick.vmdk", Rule::Exit(5)),
];

fn expectation(row: &Row) -> Option<Expected> {
    if let Some((_, rule)) = RULES.iter().find(|(name, _)| *name == row.path) {
        return Some(match rule {
            Rule::Exit(code) => Expected::Exit(vec![*code]),
            Rule::AsItIs => Expected::Disk(row.sha256.clone()),
            Rule::WithoutFooter => {
                let bytes = row.bytes();
                Expected::Disk(sha256(&bytes[..bytes.len() - 512]))
            }
            Rule::Repaired => Expected::Disk(String::new()),
        });
    }
    let external = ["backing", "data file", "differencing", "differential"];
    match &row.outcome {
        _ if external.iter().any(|word| row.note.contains(word) || row.path.contains(word)) => {
            Some(Expected::Exit(if row.format.starts_with("vhd") { vec![5, 6] } else { vec![6] }))
        }
        Outcome::Raw(sha256) => Some(Expected::Disk(sha256.clone())),
        Outcome::Invalid(_) => Some(Expected::Exit(vec![5, 6])),
        _ => None,
    }
}

/// What an import must give.
enum Expected {
    /// A disk with this digest.
    Disk(String),
    /// One of these exit codes.
    Exit(Vec<u8>),
}

/// The disk that qemu-img makes of a large image, to compare hole by hole instead of hashing terabytes.
fn by_qemu(row: &Row, file: &Path) -> Option<PathBuf> {
    if RULES.iter().any(|(name, rule)| *name == row.path && matches!(rule, Rule::Repaired)) {
        let copy = file.with_extension("repaired");
        std::fs::copy(file, &copy).unwrap();
        fixtures::run(fixtures::tool("qemu-img").args(["check", "-q", "-r", "all"]).arg(&copy));
        let disk = fixtures::oracle::raw(&copy, &row.format);
        std::fs::remove_file(copy).unwrap();
        return Some(disk);
    }
    let tables = !row.format.starts_with("raw") && !row.format.starts_with("iso");
    let large = tables && row.virtual_size.is_some_and(|size| size > LARGE) && matches!(row.outcome, Outcome::Raw(_));
    let format = match row.format.as_str() {
        "vmdk-sparse" => "vmdk",
        "vhd (qemu:vpc)" => "vpc",
        other => other,
    };
    large.then(|| fixtures::oracle::raw(file, format))
}

const LARGE: u128 = 64 << 20;

#[test]
fn every_image_gives_its_disk_or_its_refusal_in_every_way() {
    let Some(corpus) = corpus() else { return };
    let directory = tempfile::tempdir().unwrap();
    let mut wrong = Vec::new();
    for row in &corpus.rows {
        let file = row.unpacked_file(directory.path());
        let disk = by_qemu(row, &file);
        for way in [Way::Ranged, Way::InOrder, Way::Again(100_000), Way::Once(70_001)] {
            let result = import_file(&file, way, directory.path(), &tight(directory.path()));
            let Some(expected) = expectation(row) else {
                // A wrapper around one of the others, most of them: nothing is said of its disk, and it may be large.
                discard(result, directory.path());
                continue;
            };
            let right = match (&expected, &result, &disk) {
                (Expected::Disk(_), Ok((_, target)), Some(disk)) => differ(target, disk).is_none(),
                (Expected::Disk(digest), Ok((_, target)), None) => sha256_file(target) == *digest,
                (Expected::Exit(codes), Err(error), _) => codes.contains(&error.kind().exit_code()),
                _ => false,
            };
            if !right {
                let found = result.as_ref().map(|(outcome, _)| outcome);
                wrong.push(format!("{} {way:?}: {found:?}", row.path));
            }
            discard(result, directory.path());
        }
        std::fs::remove_file(file).unwrap();
        disk.map(std::fs::remove_file).transpose().unwrap();
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn discard<T>(result: importer_flow::Result<(T, PathBuf)>, directory: &Path) {
    match result {
        Ok((_, target)) => std::fs::remove_file(target).unwrap(),
        Err(_) => assert_nothing_left(directory),
    }
}
