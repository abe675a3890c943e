//! Images that other people made.
#![allow(clippy::unwrap_used, reason = "in a test, that is the failure")]

mod common;

use common::{Way, assert_nothing_left, import_file, tight};
use std::path::{Path, PathBuf};

use fixtures::corpus::{Outcome, Row, corpus};
use fixtures::{differ, sha256_file};

/// What is right where the index says otherwise: its figures are what qemu-img does with a file alone, which the
/// specification of the format does not always allow. `Err` is the exit code.
fn expectation(name: &str, outcome: &Outcome) -> Option<Result<String, u8>> {
    if let Some((_, expected)) = EXCEPTIONS.iter().find(|(known, _)| *known == name) {
        return Some(expected.map(str::to_owned));
    }
    match outcome {
        Outcome::Raw(sha256) => Some(Ok(sha256.clone())),
        Outcome::Invalid(_) => Some(Err(5)),
        _ => None,
    }
}

const EXCEPTIONS: &[(&str, Result<&str, u8>)] = &[];

/// The disk that qemu-img makes of a large image, to compare hole by hole instead of hashing terabytes.
fn by_qemu(row: &Row, file: &Path) -> Option<PathBuf> {
    let tables = !row.format.starts_with("raw") && !row.format.starts_with("iso");
    let large = tables && row.virtual_size.is_some_and(|size| size > LARGE) && matches!(row.outcome, Outcome::Raw(_));
    let format = match row.format.as_str() {
        "vmdk-sparse" => "vmdk",
        "vhd (qemu:vpc)" => "vpc",
        other => other,
    };
    (large && !EXCEPTIONS.iter().any(|(known, _)| *known == row.path)).then(|| fixtures::oracle::raw(file, format))
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
        for way in [Way::Ranged, Way::Again(100_000), Way::Once(70_001)] {
            let result = import_file(&file, way, directory.path(), &tight(directory.path()));
            let Some(expected) = expectation(&row.path, &row.outcome) else {
                // A wrapper around one of the others, most of them: nothing is said of its disk, and it may be large.
                discard(result, directory.path());
                continue;
            };
            let found = match (&result, &disk) {
                (Ok((_, target)), Some(disk)) => match (differ(target, disk), &row.outcome) {
                    (None, Outcome::Raw(sha256)) => Ok(sha256.clone()),
                    (at, _) => Ok(format!("differs from qemu-img at {at:?}")),
                },
                (Ok((_, target)), None) => Ok(sha256_file(target)),
                (Err(error), _) => Err(error.kind().exit_code()),
            };
            if expected != found {
                let error = result.as_ref().err().map(ToString::to_string);
                wrong.push(format!("{} {way:?}: {expected:?} {found:?} {error:?}", row.path));
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
