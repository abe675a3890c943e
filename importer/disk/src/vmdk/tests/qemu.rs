//! Images of the qemu-img of this machine.

use std::path::Path;

use fixtures::images::{catalogue, refused as cannot_be_read};
use fixtures::{oracle, run, tool};

use super::*;
use crate::testing::walk;
use crate::{Body, GuestOffset, HostOffset};

fn check(image: &Path, raw: &Path) {
    let file = std::fs::read(image).unwrap();
    let disk = std::fs::read(raw).unwrap();
    for order in [Order::Forward, Order::Shuffled(3)] {
        assert!(assemble(&file, order).unwrap() == disk, "{} {order:?}", image.display());
    }
    assert!(assemble_unsized(&file).unwrap() == disk, "{}", image.display());
}

#[test]
fn reads_what_qemu_writes() {
    let dir = tempfile::tempdir().unwrap();
    let recipes: Vec<_> = catalogue().into_iter().filter(|recipe| recipe.format == "vmdk").collect();
    assert!(recipes.len() >= 16, "{recipes:?}");
    for recipe in recipes {
        let image = recipe.build(dir.path());
        check(&image.path, &image.raw());
    }
}

#[test]
fn finds_data_where_qemu_does() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["vmdk-sparse-written", "vmdk-sparse-zeroed", "vmdk-stream-unordered"] {
        let recipe = catalogue().into_iter().find(|recipe| recipe.name == name).unwrap();
        let image = recipe.build(dir.path());
        let file = std::fs::read(&image.path).unwrap();
        let mut walked = walk(&mut open(&file, None).unwrap(), &file, Order::Forward, false).unwrap();
        walked.extents.sort_by_key(|extent| extent.guest);
        for run in image.map() {
            // The extent that the run begins in says the same of its first byte.
            let extent = walked.extents.iter().find(|extent| extent.end() > run.start).unwrap();
            let into = run.start - extent.guest.0;
            match (&extent.body, run.data, run.offset) {
                (Body::Zero, false, _) => {}
                (Body::Data { at: HostOffset(at) }, true, offset) => {
                    assert_eq!(Some(at + into), offset, "{name} {run:?}");
                }
                (Body::Packed { .. }, true, None) => assert!(extent.guest <= GuestOffset(run.start), "{name} {run:?}"),
                (body, ..) => panic!("{name}: {run:?} is {body:?}"),
            }
        }
    }
}

#[test]
fn reads_two_tables_in_the_order_of_their_writer() {
    let dir = tempfile::tempdir().unwrap();
    let image = dir.path().join("disk.vmdk");
    for options in ["subformat=monolithicSparse,zeroed_grain=on", "subformat=monolithicSparse"] {
        run(tool("qemu-img").args(["create", "-f", "vmdk", "-o", options]).arg(&image).arg("70M"));
        let mut io = tool("qemu-io");
        let mut state = 7u64;
        for nth in 0..200 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let (sector, len) = ((state >> 33) % (69 << 11), 512 << (state >> 61));
            let verb = if nth % 5 == 4 { "write -z".to_owned() } else { format!("write -P {}", 1 + nth) };
            io.args(["-c", &format!("{verb} {} {len}", sector * 512)]);
        }
        run(io.args(["-f", "vmdk"]).arg(&image));
        check(&image, &oracle::raw(&image, "vmdk"));
    }
}

#[test]
fn refuses_what_is_not_whole() {
    let dir = tempfile::tempdir().unwrap();
    let cases: Vec<_> = cannot_be_read().into_iter().filter(|case| case.name.starts_with("vmdk-")).collect();
    assert!(cases.len() >= 4, "{cases:?}");
    for case in cases {
        let file = std::fs::read(case.build(dir.path())).unwrap();
        let kind = if case.name == "vmdk-parent" { Kind::External } else { Kind::Incomplete };
        let message = refused(&file, kind);
        assert!(message.contains(case.says), "{}: {message}", case.name);
    }
}

#[test]
fn refuses_a_part_of_a_split_disk() {
    let dir = tempfile::tempdir().unwrap();
    let image = dir.path().join("disk.vmdk");
    run(tool("qemu-img").args(["create", "-f", "vmdk", "-o", "subformat=twoGbMaxExtentSparse"]).arg(&image).arg("3G"));
    for part in ["disk-s001.vmdk", "disk-s002.vmdk"] {
        let message = refused(&std::fs::read(dir.path().join(part)).unwrap(), Kind::Incomplete);
        assert!(message.contains("one part of a split disk"), "{message}");
    }
    let message = refused(&std::fs::read(&image).unwrap(), Kind::Incomplete);
    assert!(message.contains("disk-s001.vmdk") && message.contains("disk-s002.vmdk"), "{message}");
}

#[test]
fn reads_a_disk_of_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let image = dir.path().join("disk.vmdk");
    for subformat in ["monolithicSparse", "streamOptimized"] {
        run(tool("qemu-img")
            .args(["create", "-f", "vmdk", "-o", &format!("subformat={subformat}")])
            .arg(&image)
            .arg("0"));
        let file = std::fs::read(&image).unwrap();
        assert!(assemble(&file, Order::Forward).unwrap().is_empty());
        assert!(assemble_unsized(&file).unwrap().is_empty());
    }
}
