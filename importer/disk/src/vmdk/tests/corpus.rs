//! Real images by others, compared with the digests that qemu-img gave.

use fixtures::corpus::{Outcome, corpus};
use fixtures::{run, sha256, tool};

use super::*;
use crate::testing::ORDERS;

#[test]
fn whole_images() {
    let Some(corpus) = corpus() else { return };
    for name in [
        "dfvfs/ext2.vmdk",
        "vmdk-rs/monolithicSparse.vmdk",
        "vmdk-rs/streamOptimized.vmdk",
        "vmdk-rs/streamOptimizedWithMarkers.vmdk",
    ] {
        let row = corpus.row(name);
        let image = row.bytes();
        for order in ORDERS {
            let disk = assemble(&image, order).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(Outcome::Raw(sha256(&disk)), row.outcome, "{name}");
        }
        assert!(assemble_unsized(&image).is_ok(), "{name}");
    }
}

#[test]
fn a_stream_of_16_gib() {
    let Some(corpus) = corpus() else { return };
    let dir = tempfile::tempdir().unwrap();
    let theirs = corpus.row("qemu-iotests/iotest-version3.vmdk").unpacked_file(dir.path());
    let image = std::fs::read(&theirs).unwrap();
    let disk = read(&mut open(&image, None).unwrap(), &image, Order::Forward, false).unwrap();
    assert_eq!(disk.size, 16 << 30);
    // Compared by qemu-img, which skips the holes on both sides.
    let ours = dir.path().join("raw");
    disk.write(&ours);
    run(tool("qemu-img").args(["compare", "-f", "vmdk", "-F", "raw"]).args([&theirs, &ours]));
}

#[test]
fn parts_and_attacks() {
    let Some(corpus) = corpus() else { return };
    for (name, kind, words) in [
        ("vmdk-rs/monolithicFlat.vmdk", Kind::Incomplete, "\"monolithicFlat-flat.vmdk\""),
        ("vmdk-rs/twoGbMaxExtentFlat.vmdk", Kind::Incomplete, "\"twoGbMaxExtentFlat-f001.vmdk\""),
        ("vmdk-rs/twoGbMaxExtentSparse.vmdk", Kind::Incomplete, "\"twoGbMaxExtentSparse-s001.vmdk\""),
        ("vmdk-rs/twoGbMaxExtentSparse-s001.vmdk", Kind::Incomplete, "one part of a split disk"),
        ("vmdk-rs/vmfs_thick.vmdk", Kind::Incomplete, "\"vmfs_thick-flat.vmdk\""),
        ("vmdk-rs/vmfs_thick-000001.vmdk", Kind::External, "vmfsSparse"),
        ("kubevirt-cdi/invalid-qcow-large-memory.img", Kind::Oversized, "grain directory of 159072863 entries"),
        ("qemu-iotests/afl9.vmdk", Kind::Corrupt, "sector 251658241"),
    ] {
        let message = refused(&corpus.row(name).bytes(), kind);
        assert!(message.contains(words), "{name}: {message}");
    }
}
