use super::*;
use fixtures::content::Pattern;

use crate::testing::{self, ORDERS, Order};

fn open(file: &[u8]) -> Result<Parallels> {
    Parallels::open(&file[..file.len().min(64 << 10)], Some(file.len() as u64))
}

fn guest(file: &[u8], order: Order) -> Result<Vec<u8>> {
    testing::read(&mut open(file)?, file, order, true).map(|disk| disk.bytes())
}

/// An image by hand: clusters of 8 sectors, a BAT of 20 for 19½ of them, data at 4, 8 and 12 KiB in no order.
fn small(magic: &[u8; 16]) -> Vec<u8> {
    let mut file = vec![0; 16 << 10];
    file[..16].copy_from_slice(magic);
    for (at, value) in [(16, 2), (28, 8), (32, 20), (36, 156), (48, 8)] {
        put(&mut file, at, value);
    }
    let unit = if magic == OLD { 8 } else { 1 };
    for (index, cluster) in [(0, 3), (2, 1), (19, 2)] {
        put(&mut file, 64 + 4 * index, cluster * unit);
    }
    for (at, byte) in [(4096, 0xaa), (8192, 0xbb), (12288, 0xcc)] {
        file[at..at + 4096].fill(byte);
    }
    file
}

const OLD: &[u8; 16] = b"WithoutFreeSpace";
const NEW: &[u8; 16] = b"WithouFreSpacExt";

fn put(file: &mut [u8], at: usize, value: u32) {
    file[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

#[test]
fn reads_both_variants() {
    let mut expected = vec![0; 156 * 512];
    expected[..4096].fill(0xcc);
    expected[8192..12288].fill(0xaa);
    expected[19 * 4096..].fill(0xbb);
    for magic in [OLD, NEW] {
        for order in ORDERS {
            assert!(guest(&small(magic), order).unwrap() == expected, "{order:?}");
        }
    }
}

#[test]
fn refuses_by_name() {
    type Change = fn(&mut Vec<u8>);
    let cases: [(&[u8; 16], Change, Kind, &str); 20] = [
        (NEW, |f| f[3] = b'H', Kind::NotADisk, "parallels: no Parallels signature"),
        (NEW, |f| f.truncate(63), Kind::Truncated, "parallels: the file ends inside the header, after 63 bytes"),
        (
            NEW,
            |f| put(f, 16, 3),
            Kind::Unsupported,
            "parallels: version 3 is not supported, only 2 is (at offset 0x10)",
        ),
        (NEW, |f| put(f, 28, 0), Kind::Corrupt, "parallels: a cluster of 0 sectors"),
        (NEW, |f| put(f, 28, u32::MAX), Kind::Corrupt, "parallels: a cluster of 4294967295 sectors"),
        (NEW, |f| put(f, 32, 19), Kind::Corrupt, "parallels: the BAT has 19 entries, the disk of 79872 bytes needs 20"),
        (NEW, |f| put(f, 32, 1 << 30), Kind::Oversized, "parallels: a BAT of 1073741824 entries"),
        (NEW, |f| put(f, 40, 1), Kind::Corrupt, "parallels: the BAT has 20 entries, the disk of 2199023335424 bytes"),
        (NEW, |f| put(f, 40, 1 << 30), Kind::Oversized, "parallels: a disk of 4611686018427388060 sectors"),
        (NEW, |f| put(f, 40, u32::MAX), Kind::Oversized, "parallels: a disk of 18446744069414584476 sectors"),
        (NEW, |f| put(f, 48, 0), Kind::Corrupt, "parallels: the data area at 0x0 begins inside the BAT"),
        (
            OLD,
            |f| put(f, 32, 2000),
            Kind::Corrupt,
            "parallels: the data area at 0x1000 begins inside the BAT, which ends at",
        ),
        (OLD, |f| put(f, 64, 0x100), Kind::Truncated, "parallels: the cluster at 0x20000 lies past"),
        (
            NEW,
            |f| {
                put(f, 32, 2000);
                put(f, 48, 16);
            },
            Kind::Corrupt,
            "parallels: the cluster at 0x1000 lies in the BAT, which ends at 0x1f80 (at offset 0x48)",
        ),
        (
            NEW,
            |f| put(f, 64, 1),
            Kind::Corrupt,
            "parallels: two blocks of the disk lie in the same place of the file (at offset 0x48)",
        ),
        (
            OLD,
            |f| put(f, 64, 16),
            Kind::Corrupt,
            "parallels: two blocks of the disk lie in the same place of the file (at offset 0x8c)",
        ),
        (OLD, |f| put(f, 64, 17), Kind::Corrupt, "parallels: two blocks of the disk lie in the same place of the file"),
        (
            NEW,
            |f| put(f, 64, 4),
            Kind::Truncated,
            "parallels: the cluster at 0x4000 lies past the end of the file (16384",
        ),
        (
            OLD,
            |f| put(f, 64, 24 + 8),
            Kind::Truncated,
            "parallels: the cluster at 0x4000 lies past the end of the file",
        ),
        (NEW, |f| put(f, 64, u32::MAX), Kind::Truncated, "parallels: the cluster at 0xffffffff000 lies past the end"),
    ];
    for (magic, change, kind, message) in cases {
        let mut file = small(magic);
        change(&mut file);
        let error = guest(&file, Order::Forward).unwrap_err();
        assert_eq!((error.kind(), error.to_string().starts_with(message)), (kind, true), "{message}\n{error}");
    }
}

#[test]
fn the_old_variant_has_short_sizes_and_may_leave_out_the_data_offset() {
    let expected = guest(&small(OLD), Order::Forward).unwrap();
    let mut file = small(OLD);
    put(&mut file, 40, 77);
    put(&mut file, 48, 0);
    assert!(guest(&file, Order::Forward).unwrap() == expected);
    // By the specification the data then begins at the first sector behind the BAT.
    put(&mut file, 64, 0);
    put(&mut file, 64 + 2 * 4, 1);
    put(&mut file, 64 + 19 * 4, 9);
    assert!(guest(&file, Order::Forward).unwrap()[8192..8192 + 4096 - 512] == file[512..4096]);
}

#[test]
fn flags_and_extension_are_reported_and_change_nothing() {
    let mut file = small(NEW);
    put(&mut file, 44, 0x746f_6e59);
    put(&mut file, 52, 1);
    put(&mut file, 56, 1 << 20);
    let features = open(&file).unwrap().features();
    assert!(features.contains(&Feature::flag("dirty", true)) && features.contains(&Feature::flag("extension", true)));
    assert!(guest(&file, Order::Forward).unwrap() == guest(&small(NEW), Order::Forward).unwrap());
    assert_eq!(open(&small(NEW)).unwrap().features().len(), 2);
}

#[test]
fn every_cut_is_noticed() {
    testing::assert_cuts_are_noticed(&small(NEW), &[63, 64, 143, 144, 4097, 16383], Parallels::open);
}

#[test]
fn the_largest_table_costs_only_its_pages() {
    let mut file = small(NEW);
    put(&mut file, 28, 1 << 22);
    put(&mut file, 28, i32::MAX as u32 / 513);
    put(&mut file, 32, i32::MAX as u32 / 4);
    put(&mut file, 36, 0);
    put(&mut file, 40, 0x0007_0000);
    put(&mut file, 48, 1 << 23);
    let mut image = Parallels::open(&file, None).unwrap();
    let mut found = Found::default();
    image.start(&mut found).unwrap();
    let bytes: u64 = found.pages.iter().map(|page| u64::from(page.len)).sum();
    assert_eq!(bytes, image.header.bat_used * 4);
    assert!(bytes > 1 << 30 && found.pages.len() <= 32768, "{bytes} {}", found.pages.len());
}

#[test]
fn flipped_bits_give_a_disk_or_an_error() {
    for magic in [OLD, NEW] {
        testing::assert_no_change_is_our_fault(&small(magic), &[(16, 64), (64, 160)], 2000, open);
    }
}

/// Images that qemu writes: by conversion, by use, and of an empty disk.
#[test]
fn agrees_with_qemu() {
    testing::assert_agrees_with_qemu("parallels", open);
}

#[test]
fn agrees_with_qemu_about_every_size() {
    let dir = tempfile::tempdir().unwrap();
    let raw = Pattern::Mixed.disk(dir.path(), (9 << 20) + 5 * 512);
    let disk = std::fs::read(&raw).unwrap();
    let out = dir.path().join("disk.hds");
    for cluster in [512, 63 * 512, 252 << 10, 1 << 20, 16 << 20] {
        let options = format!("cluster_size={cluster}");
        let mut convert = fixtures::tool("qemu-img");
        fixtures::run(convert.args(["convert", "-f", "raw", "-O", "parallels", "-o", &options]).args([&raw, &out]));
        assert!(guest(&std::fs::read(&out).unwrap(), Order::Shuffled(3)).unwrap() == disk, "{options}");
        // When qemu uses an image with clusters of 63 sectors it finds errors in its own work, and loses data when it
        // repairs them. What is left is read the same.
        let mut io = fixtures::tool("qemu-io");
        fixtures::run(io.args(["-f", "parallels", "-c", "write -P 1 8M 70000", "-c", "write -z 4M 1M"]).arg(&out));
        let used = std::fs::read(fixtures::oracle::raw(&out, "parallels")).unwrap();
        assert!(
            used != disk && guest(&std::fs::read(&out).unwrap(), Order::Backward).unwrap() == used,
            "{options}, used"
        );
    }
}

/// Images by Parallels and by OpenVZ, one of them of 64 GiB with dirty bitmaps.
#[test]
fn agrees_with_qemu_about_images_of_others() {
    let dir = tempfile::tempdir().unwrap();
    let names = ["parallels-v1", "parallels-v2", "parallels-with-bitmap", "860e329aab41}.hds"];
    for row in testing::rows(&names) {
        let file = row.bytes();
        let disk = testing::read(&mut open(&file).unwrap(), &file, Order::Backward, true).unwrap();
        disk.assert_as_index(&row);
        disk.assert_as_qemu(&row.unpacked_file(dir.path()), "parallels");
    }
}
