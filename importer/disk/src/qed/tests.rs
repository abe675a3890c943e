use super::*;
use fixtures::content::Pattern;

use crate::testing::{self, ORDERS, Order};

fn open(file: &[u8]) -> Result<Qed> {
    Qed::open(&file[..file.len().min(64 << 10)], Some(file.len() as u64))
}

fn guest(file: &[u8], order: Order) -> Result<Vec<u8>> {
    testing::read(&mut open(file)?, file, order, true).map(|disk| disk.bytes())
}

/// An image by hand: clusters of 4 KiB, tables of one; header, L1 at 4 KiB, L2 at 8 KiB, data at 12 and 16 KiB. The disk
/// has two L2 tables' worth (2 MiB each) and a half cluster more.
fn small() -> Vec<u8> {
    let mut file = vec![0; 20 << 10];
    put32(&mut file, 0, u32::from_le_bytes(*b"QED\0"));
    put32(&mut file, 4, 4096);
    put32(&mut file, 8, 1);
    put32(&mut file, 12, 1);
    put64(&mut file, 40, 4096);
    put64(&mut file, 48, (4 << 20) + 2048);
    put64(&mut file, 4096 + 8, 8192);
    put64(&mut file, 8192 + 3 * 8, 12288);
    put64(&mut file, 8192 + 4 * 8, 1);
    put64(&mut file, 8192 + 5 * 8, 16384);
    file[12288..16384].fill(0xaa);
    file[16384..20480].fill(0xbb);
    file
}

fn put32(file: &mut [u8], at: usize, value: u32) {
    file[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

fn put64(file: &mut [u8], at: usize, value: u64) {
    file[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

#[test]
fn reads_holes_zeros_and_data() {
    let mut expected = vec![0; (4 << 20) + 2048];
    expected[(2 << 20) + 12288..][..4096].fill(0xaa);
    expected[(2 << 20) + 20480..][..4096].fill(0xbb);
    for order in ORDERS {
        assert!(guest(&small(), order).unwrap() == expected, "{order:?}");
    }
    let disk = testing::read(&mut open(&small()).unwrap(), &small(), Order::Forward, false).unwrap();
    assert_eq!(disk.parts.keys().copied().collect::<Vec<_>>(), [(2 << 20) + 12288, (2 << 20) + 20480]);
}

/// The mistakes are at this place, of this kind, and said in these words.
#[test]
fn refuses_by_name() {
    type Change = fn(&mut Vec<u8>);
    let cases: [(Change, Kind, &str); 26] = [
        (|f| f[0] = b'q', Kind::NotADisk, "qed: no QED signature (at offset 0x0)"),
        (|f| f.truncate(63), Kind::Truncated, "qed: the file ends inside the header, after 63 bytes"),
        (|f| put64(f, 16, 8), Kind::Unsupported, "qed: feature bits 0x8 are not known (at offset 0x10)"),
        (|f| put64(f, 16, 1 << 63 | 2), Kind::Unsupported, "qed: feature bits 0x8000000000000000 are not known"),
        (|f| put32(f, 4, 4095), Kind::Corrupt, "qed: cluster size 4095 is not a power of two"),
        (|f| put32(f, 4, 2048), Kind::Corrupt, "qed: cluster size 2048 is not a power of two"),
        (|f| put32(f, 4, 1 << 27), Kind::Corrupt, "qed: cluster size 134217728 is not a power of two"),
        (|f| put32(f, 4, 0), Kind::Corrupt, "qed: cluster size 0 is not a power of two"),
        (|f| put32(f, 8, 0), Kind::Corrupt, "qed: table size 0 is not"),
        (|f| put32(f, 8, 3), Kind::Corrupt, "qed: table size 3 is not"),
        (|f| put32(f, 8, 32), Kind::Corrupt, "qed: table size 32 is not"),
        (|f| put64(f, 48, 1), Kind::Corrupt, "qed: virtual size 1 is not a multiple of 512"),
        (|f| put64(f, 48, 1 << 63), Kind::Oversized, "qed: virtual size 9223372036854775808 is impossible"),
        (|f| put64(f, 48, (1 << 30) + 512), Kind::Corrupt, "qed: virtual size 1073742336 is more than the tables"),
        (|f| put32(f, 12, 2), Kind::Corrupt, "qed: the L1 table at 0x1000 lies in the header (at offset 0x28)"),
        (|f| put32(f, 12, u32::MAX), Kind::Corrupt, "qed: the L1 table at 0x1000 lies in the header"),
        (|f| put64(f, 40, 4097), Kind::Corrupt, "qed: the L1 table at 0x1001 is not on a cluster"),
        (|f| put64(f, 40, 1 << 63), Kind::Corrupt, "qed: the L1 table at 0x8000000000000000 lies beyond any file"),
        (|f| put64(f, 40, 20 << 10), Kind::Truncated, "qed: the L1 table at 0x5000 lies past the end of the file"),
        (|f| put64(f, 4104, 1), Kind::Corrupt, "qed: the L2 table at 0x1 is not on a cluster (at offset 0x1008)"),
        (
            |f| put64(f, 4104, 4096),
            Kind::Corrupt,
            "qed: two blocks of the disk lie in the same place of the file (at offset 0x1008)",
        ),
        (|f| put64(f, 4096, 8192), Kind::Corrupt, "qed: two blocks of the disk lie in the same place of the file"),
        (|f| put64(f, 4104, 20 << 10), Kind::Truncated, "qed: the L2 table at 0x5000 lies past the end"),
        (
            |f| put64(f, 8192, 12288),
            Kind::Corrupt,
            "qed: two blocks of the disk lie in the same place of the file (at offset 0x2018)",
        ),
        (|f| put64(f, 8192, 2), Kind::Corrupt, "qed: the cluster at 0x2 is not on a cluster (at offset 0x2000)"),
        (|f| put64(f, 8192, 24 << 10), Kind::Truncated, "qed: the cluster at 0x6000 lies past the end of the file"),
    ];
    for (change, kind, message) in cases {
        let mut file = small();
        change(&mut file);
        let error = guest(&file, Order::Forward).unwrap_err();
        assert_eq!((error.kind(), error.to_string().starts_with(message)), (kind, true), "{message}\n{error}");
    }
}

#[test]
fn a_table_is_no_data_in_any_order() {
    for (entry, table) in [(8192, 4096), (8192, 8192)] {
        let mut file = small();
        put64(&mut file, entry, table);
        for order in ORDERS {
            assert_eq!(guest(&file, order).unwrap_err().kind(), Kind::Corrupt);
        }
    }
}

#[test]
fn names_the_backing_file_it_needs() {
    let mut file = small();
    put64(&mut file, 16, 5);
    put32(&mut file, 56, 64);
    put32(&mut file, 60, 9);
    file[64..73].copy_from_slice(b"/etc/\x1b[1m");
    let error = open(&file).unwrap_err();
    assert_eq!(error.kind(), Kind::External);
    assert_eq!(
        error.to_string(),
        "qed: it needs its backing file '/etc/?[1m'; flatten it first with qemu-img convert (at offset 0x10)"
    );
    put32(&mut file, 56, u32::MAX);
    assert_eq!(open(&file).unwrap_err().kind(), Kind::External);
}

#[test]
fn an_unclosed_image_is_read_and_reported() {
    let mut file = small();
    put64(&mut file, 16, 2 | 4);
    assert!(open(&file).unwrap().features().contains(&Feature::flag("dirty", true)));
    assert!(guest(&file, Order::Forward).unwrap() == guest(&small(), Order::Forward).unwrap());
}

#[test]
fn every_cut_is_noticed() {
    testing::assert_cuts_are_noticed(&small(), &[63, 64, 4095, 4097, 8191, 20479], Qed::open);
}

#[test]
fn the_largest_disk_costs_nothing() {
    let mut file = small();
    // 64 MiB clusters, tables of 16 of them: 2^80 bytes can be addressed.
    put32(&mut file, 4, 1 << 26);
    put32(&mut file, 8, 16);
    put64(&mut file, 40, 1 << 26);
    put64(&mut file, 48, crate::MAX_VIRTUAL_SIZE);
    let mut qed = Qed::open(&file, None).unwrap();
    let mut found = Found::default();
    qed.start(&mut found).unwrap();
    assert_eq!(found.pages.len(), 1);
    // An L1 entry gives away only so many pages, however large its table.
    let page = found.pages[0];
    let table: Vec<u8> = (0..u64::from(page.len / 8)).flat_map(|index| ((2 + index) << 30).to_le_bytes()).collect();
    let error = qed.expand(&page, &table, &mut found).unwrap_err();
    assert_eq!(error.kind(), Kind::Oversized);
    assert!(found.pages.len() < 200, "{}", found.pages.len());
}

#[test]
fn flipped_bits_give_a_disk_or_an_error() {
    testing::assert_no_change_is_our_fault(&small(), &[(0, 64), (4096, 4112), (8192, 8256)], 3000, open);
}

/// Images that qemu writes: by conversion, by use, and of an empty disk.
#[test]
fn agrees_with_qemu() {
    testing::assert_agrees_with_qemu("qed", open);
}

#[test]
fn agrees_with_qemu_about_every_size() {
    let dir = tempfile::tempdir().unwrap();
    let raw = Pattern::Mixed.disk(dir.path(), (11 << 20) + 3 * 512);
    let disk = std::fs::read(&raw).unwrap();
    let out = dir.path().join("disk.qed");
    // qemu can't open the images it makes with tables of one cluster.
    for (cluster, table) in [(4096, 2), (4096, 16), (16384, 4), (1 << 20, 8)] {
        let options = format!("cluster_size={cluster},table_size={table}");
        let mut convert = fixtures::tool("qemu-img");
        fixtures::run(convert.args(["convert", "-f", "raw", "-O", "qed", "-o", &options]).args([&raw, &out]));
        let file = std::fs::read(&out).unwrap();
        assert!(guest(&file, Order::Shuffled(3)).unwrap() == disk, "{options}");
    }
}

#[test]
fn the_sample_of_libvirt_has_a_backing_file() {
    for row in testing::rows(&["qed_raw-raw-relative"]) {
        let error = open(&row.bytes()).unwrap_err();
        assert_eq!(error.kind(), Kind::External);
        assert!(error.to_string().contains("'raw'"), "{error}");
    }
}
