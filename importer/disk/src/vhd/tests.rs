use super::*;
use crate::testing::{Disk, ORDERS, Order, cut_at, each_built, flip, read, rows};

/// Makes a VHD by hand, with whatever its footer and header shall say.
struct Image {
    disk_type: u32,
    creator: [u8; 4],
    current_size: u64,
    chs: (u16, u8, u8),
    version: u32,
    saved_state: bool,
    header_at: u64,
    header_version: u32,
    table_at: u64,
    entries: u32,
    block_size: u32,
    table: Vec<u32>,
    /// What follows the table, which is 512 bytes long.
    data: Vec<u8>,
}

const BLOCKS_AT: usize = 2048;

impl Image {
    /// Three blocks of 4 KiB, of which the last is cut by the end of the disk.
    fn new() -> Self {
        Self {
            disk_type: 3,
            creator: *b"win ",
            current_size: 2 * 4096 + 512,
            chs: (4, 4, 1),
            version: 0x10000,
            saved_state: false,
            header_at: 512,
            header_version: 0x10000,
            table_at: 1536,
            entries: 3,
            block_size: 4096,
            table: vec![4 + 9, u32::MAX, 4],
            data: (0..2 * 4608u32).map(|i| (i / 7) as u8).collect(),
        }
    }

    fn footer(&self) -> [u8; 512] {
        let mut footer = [0; 512];
        let mut put = |at: usize, bytes: &[u8]| footer[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, b"conectix");
        put(8, &2u32.to_be_bytes());
        put(12, &self.version.to_be_bytes());
        put(16, &self.header_at.to_be_bytes());
        put(28, &self.creator);
        put(40, &self.current_size.to_be_bytes());
        put(48, &self.current_size.to_be_bytes());
        put(56, &self.chs.0.to_be_bytes());
        put(58, &[self.chs.1, self.chs.2]);
        put(60, &self.disk_type.to_be_bytes());
        put(84, &[u8::from(self.saved_state)]);
        seal(&mut footer, 64);
        footer
    }

    fn header(&self) -> [u8; 1024] {
        let mut header = [0; 1024];
        let mut put = |at: usize, bytes: &[u8]| header[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, b"cxsparse");
        put(8, &[0xff; 8]);
        put(16, &self.table_at.to_be_bytes());
        put(24, &self.header_version.to_be_bytes());
        put(28, &self.entries.to_be_bytes());
        put(32, &self.block_size.to_be_bytes());
        let parent: Vec<u8> = "C:\\disks\\pa\u{1b}rent.vhd".encode_utf16().flat_map(u16::to_be_bytes).collect();
        put(64, &parent);
        seal(&mut header, 36);
        header
    }

    fn bytes(&self) -> Vec<u8> {
        let mut file = self.footer().to_vec();
        file.extend(self.header());
        file.extend(self.table.iter().flat_map(|entry| entry.to_be_bytes()));
        file.resize(BLOCKS_AT, 0xff);
        file.extend(&self.data);
        file.extend(self.footer());
        file
    }
}

/// Puts the checksum right.
fn seal(bytes: &mut [u8], field: usize) {
    let sum = super::checksum::checksum(bytes, field);
    bytes[field..field + 4].copy_from_slice(&sum.to_be_bytes());
}

fn read_all(file: &[u8], order: Order) -> Result<Disk> {
    let head = &file[..file.len().min(65536)];
    let told = read(&mut Vhd::open_dynamic(head, Some(file.len() as u64))?, file, order, true);
    let untold = read(&mut Vhd::open_dynamic(head, None)?, file, order, false);
    // With a head as short as can be, the header comes as a page.
    let short = read(&mut Vhd::open_dynamic(&head[..512], None)?, file, order, false);
    match (told, untold, short) {
        (Ok(told), Ok(untold), Ok(short)) => {
            assert!(told == untold && told == short);
            Ok(told)
        }
        (told, untold, short) => {
            assert!(told.is_err() && untold.is_err() && short.is_err());
            told
        }
    }
}

#[test]
fn blocks_are_found_behind_their_bitmaps() {
    let image = Image::new();
    for order in ORDERS {
        let disk = read_all(&image.bytes(), order).unwrap().bytes();
        assert_eq!(disk.len(), 2 * 4096 + 512);
        assert_eq!(disk[..4096], image.data[4608 + 512..2 * 4608]);
        assert!(disk[4096..8192].iter().all(|byte| *byte == 0));
        assert_eq!(disk[8192..], image.data[512..1024]);
    }
}

/// FM18, and the table of `Footer::is_chs`: which of geometry and size field is the size of the disk.
#[test]
fn size_rule_per_creator() {
    let size = |creator: &[u8; 4], chs| {
        let image = Image { creator: *creator, current_size: 100_000 * 512, chs, entries: 1 << 20, ..Image::new() };
        Vhd::open_dynamic(&image.bytes(), None).unwrap().virtual_size
    };
    let chs = (99, 17, 59);
    for creator in [b"vpc ", b"qemu"] {
        assert_eq!(size(creator, chs), 99 * 17 * 59 * 512, "{creator:?}");
        assert_eq!(size(creator, (65535, 16, 255)), 100_000 * 512, "the largest geometry says nothing");
        assert_eq!(size(creator, (0, 16, 255)), 100_000 * 512, "nor does an empty one");
    }
    for creator in [b"qem2", b"win ", b"d2v ", b"tap\0", b"CTXS", b"wa\0\0", b"vbox", b"vs  ", b"\0\0\0\0", b"new!"] {
        assert_eq!(size(creator, chs), 100_000 * 512, "{creator:?}");
    }
}

#[test]
fn features_name_what_it_is() {
    let file = Image { saved_state: true, creator: *b"vp\x07c", ..Image::new() }.bytes();
    let vhd = Vhd::open_dynamic(&file, None).unwrap();
    let features = vhd.features();
    assert!(features.contains(&Feature::flag("savedState", true)));
    assert!(features.contains(&Feature::text("creator", "vp?c")));
    assert!(features.contains(&Feature::number("blockSize", 4096)));
    assert!(features.contains(&Feature::text("sizeFrom", "currentSize")));
    assert_eq!(vhd.name(), "vhd");
}

#[test]
fn what_is_refused_and_how() {
    let good = Image::new;
    let cases = [
        (Kind::External, "C:\\disks\\pa?rent.vhd", Image { disk_type: 4, ..good() }),
        (Kind::Corrupt, "fixed disk", Image { disk_type: 2, ..good() }),
        (Kind::Corrupt, "type 6", Image { disk_type: 6, ..good() }),
        (Kind::Unsupported, "2.0", Image { version: 0x20000, ..good() }),
        (Kind::Unsupported, "2.0", Image { header_version: 0x20000, ..good() }),
        (Kind::Corrupt, "0x100", Image { header_at: 256, ..good() }),
        (Kind::Corrupt, "0xffffffffffffffff", Image { header_at: u64::MAX, ..good() }),
        (Kind::Corrupt, "no dynamic disk header", Image { header_at: 1024, ..good() }),
        (Kind::Corrupt, "5000", Image { block_size: 5000, ..good() }),
        (Kind::Corrupt, "2048", Image { block_size: 2048, ..good() }),
        (Kind::Corrupt, "0 bytes", Image { block_size: 0, ..good() }),
        (Kind::Corrupt, "2 blocks", Image { entries: 2, ..good() }),
        (Kind::Oversized, "1073741825 entries", Image { entries: (1 << 30) + 1, ..good() }),
        (Kind::Oversized, "2040 GiB", Image { current_size: (2040 << 30) + 1, ..good() }),
        (Kind::Oversized, "18446744073709551615", Image { current_size: u64::MAX, ..good() }),
        (Kind::Corrupt, "overlaps the footer", Image { table_at: 508, ..good() }),
        (Kind::Corrupt, "overlaps the header", Image { table_at: 1535, ..good() }),
        (Kind::Corrupt, "beyond any file", Image { table_at: u64::MAX - 100, ..good() }),
        (Kind::Corrupt, "overlaps the footer", Image { table: vec![0, u32::MAX, u32::MAX], ..good() }),
        (Kind::Corrupt, "overlaps the header", Image { table: vec![1, u32::MAX, u32::MAX], ..good() }),
        (Kind::Corrupt, "overlaps the block table", Image { table: vec![3, u32::MAX, u32::MAX], ..good() }),
        (Kind::Corrupt, "same place", Image { table: vec![4, u32::MAX, 4], ..good() }),
        (Kind::Corrupt, "same place", Image { table: vec![4, u32::MAX, 12], ..good() }),
        (Kind::Truncated, "0xfffffffc", Image { table: vec![0x7ff_fffe, u32::MAX, 4], ..good() }),
        (Kind::Truncated, "block table", Image { table_at: 1 << 40, ..good() }),
    ];
    for (kind, text, image) in cases {
        let file = image.bytes();
        let refused = read_all(&file, Order::Forward).unwrap_err();
        assert_eq!(refused.kind(), kind, "{refused}");
        let text = text.replace("0xfffffffc", "ends before the end of the block");
        assert!(refused.to_string().contains(&text), "{refused} has no {text}");
        assert!(refused.to_string().starts_with("vhd: "), "{refused}");
        // Whether the header is within the head or comes as a page makes no difference.
        let late =
            Vhd::open_dynamic(&file[..512], None).and_then(|mut vhd| read(&mut vhd, &file, Order::Forward, true));
        assert_eq!(late.unwrap_err().kind(), kind, "{refused}");
    }
    for (at, what) in [(8, "footer"), (511, "footer"), (520, "header"), (1535, "header")] {
        let mut file = good().bytes();
        file[at] ^= 1;
        let refused = read_all(&file, Order::Forward).unwrap_err();
        assert_eq!(refused.kind(), Kind::Corrupt);
        assert!(refused.to_string().contains(&format!("{what} is damaged")), "{refused}");
    }
    assert_eq!(Vhd::open_dynamic(&[0; 512], None).unwrap_err().kind(), Kind::NotADisk);
}

#[test]
fn a_table_with_room_to_grow_is_read_as_far_as_needed() {
    let image = Image { table_at: 65536, entries: 1 << 20, block_size: 2 << 20, table: vec![], ..Image::new() };
    let mut file = image.bytes();
    file.resize(65536 + 4, 0xff);
    assert!(read_all(&file, Order::Forward).unwrap().parts.is_empty());
    // The space of the whole table is taken.
    file[65536..].copy_from_slice(&4u32.to_be_bytes());
    assert_eq!(read_all(&file, Order::Forward).unwrap_err().kind(), Kind::Corrupt);
}

#[test]
fn a_last_block_that_is_cut_with_the_disk_and_a_missing_footer_do_not_matter() {
    let mut image = Image { table: vec![4, u32::MAX, 4 + 9], ..Image::new() };
    image.data.truncate(4608 + 1024);
    let mut file = image.bytes();
    file.truncate(file.len() - 512);
    let disk = read_all(&file, Order::Forward).unwrap().bytes();
    assert_eq!(disk[8192..], image.data[4608 + 512..]);
    file.pop();
    assert_eq!(read_all(&file, Order::Forward).unwrap_err().kind(), Kind::Truncated);
}

#[test]
fn every_cut_is_truncated_and_nothing_panics() {
    let file = Image::new().bytes();
    let data_end = BLOCKS_AT + 2 * 4608;
    cut_at(&file, &[0, 8, 512, 1024, 1536, 1548, BLOCKS_AT, BLOCKS_AT + 4608, data_end], |cut| {
        let result = read_all(cut, Order::Forward);
        if cut.len() < data_end {
            assert_eq!(result.unwrap_err().kind(), Kind::Truncated, "cut at {}", cut.len());
        }
    });
}

#[test]
fn any_bytes_give_a_disk_or_an_error() {
    let file = Image::new().bytes();
    let mut fine = 0;
    flip(&file, &[(0, BLOCKS_AT)], 10_000, |file| {
        // As they are, and with the checksums put right, so that the values get through.
        let mut sealed = file.to_vec();
        seal(&mut sealed[..512], 64);
        seal(&mut sealed[512..1536], 36);
        for file in [file, &sealed] {
            fine += u32::from(read_all(file, Order::Shuffled(3)).is_ok());
        }
    });
    assert!(fine > 1000, "some changes don't matter: {fine}");
}

fn tail(file: &[u8]) -> &[u8; 512] {
    file.last_chunk().unwrap()
}

#[test]
fn the_footer_of_a_fixed_disk_is_found_whole_or_refused() {
    let footer = Image { disk_type: 2, current_size: 1 << 20, creator: *b"vpc ", ..Image::new() }.footer();
    // Its geometry is 8 KiB, but the bytes are there.
    let fixed = fixed_footer(&footer, (1 << 20) + 512).unwrap().unwrap();
    assert_eq!(fixed, FixedVhd { virtual_size: 1 << 20, creator: "vpc".to_owned(), saved_state: false });
    assert!(fixed.features().contains(&Feature::text("subformat", "fixed")));
    // More in front of the footer than the disk: the rest is not part of it.
    assert_eq!(fixed_footer(&footer, (1 << 20) + 4096).unwrap().unwrap().virtual_size, 1 << 20);
    // Of 511 bytes, from before Virtual PC 2004.
    let mut old = [0; 512];
    old[1..].copy_from_slice(&footer[..511]);
    assert_eq!(fixed_footer(&old, (1 << 20) + 511).unwrap().unwrap().virtual_size, 1 << 20);
    // Not a footer at all.
    assert_eq!(fixed_footer(&[0; 512], 512).unwrap(), None);
    assert_eq!(fixed_footer(b"conectiX".repeat(64).as_slice().try_into().unwrap(), 512).unwrap(), None);

    let refused = |footer: &[u8; 512], len| fixed_footer(footer, len).unwrap_err();
    let mut damaged = footer;
    damaged[300] ^= 0x10;
    let error = refused(&damaged, (1 << 20) + 512);
    assert_eq!((error.kind(), error.offset()), (Kind::Corrupt, Some(1 << 20)));
    assert_eq!(refused(&footer, (1 << 20) + 511).kind(), Kind::Truncated);
    for disk_type in [3, 4] {
        let error = refused(&Image { disk_type, ..Image::new() }.footer(), 1 << 20);
        assert_eq!(error.kind(), Kind::Corrupt);
        assert!(error.to_string().contains("does not start as one"), "{error}");
    }
    for current_size in [0, 1000] {
        let error = refused(&Image { disk_type: 2, current_size, ..Image::new() }.footer(), 1 << 20);
        assert_eq!(error.kind(), Kind::Corrupt);
    }
}

#[test]
fn any_footer_gives_a_disk_or_an_error() {
    let footer = Image { disk_type: 2, current_size: 4096, ..Image::new() }.footer();
    flip(&footer, &[(0, 512)], 5000, |footer| {
        let mut sealed: [u8; 512] = footer.try_into().unwrap();
        seal(&mut sealed, 64);
        for footer in [footer.try_into().unwrap(), sealed] {
            if let Ok(Some(fixed)) = fixed_footer(&footer, 4096 + 512) {
                assert!(fixed.virtual_size <= 4096 && fixed.virtual_size > 0);
            }
        }
    });
}

#[test]
fn as_qemu_img_writes_them() {
    let (mut fixed, mut dynamic) = (0, 0);
    each_built("vpc", |path, file| {
        if let Ok(Some(found)) = fixed_footer(tail(file), file.len() as u64) {
            assert_eq!(found.virtual_size, file.len() as u64 - 512);
            let disk = Disk { size: found.virtual_size, parts: [(0, file[..file.len() - 512].to_vec())].into() };
            disk.assert_as_qemu(path, "vpc");
            fixed += 1;
            return;
        }
        let disk = read_all(file, Order::Forward).unwrap();
        disk.assert_as_qemu(path, "vpc");
        for order in ORDERS {
            assert!(read_all(file, order).unwrap() == disk, "{} {order:?}", path.display());
        }
        // qemu rounds a size up to a geometry, unless it is told not to.
        let exact = path.to_string_lossy().contains("-exact");
        assert!(!exact || disk.size == fixtures::images::SIZE, "{}: {}", path.display(), disk.size);
        dynamic += 1;
    });
    assert!(fixed >= 3 && dynamic >= 7, "{fixed} fixed, {dynamic} dynamic");
}

#[test]
fn the_dynamic_disks_of_the_corpus() {
    let dir = tempfile::tempdir().unwrap();
    for row in rows(&[
        "dfvfs/ext2.vhd",
        "dfvfs/ntfs-dynamic.vhd",
        "qemu-iotests/d2v-zerofilled.vhd",
        "qemu-iotests/hyperv2012r2-dynamic.vhd",
        "qemu-iotests/virtualpc-dynamic.vhd",
    ]) {
        let disk = read_all(&row.bytes(), Order::Forward).unwrap();
        disk.assert_as_index(&row);
        disk.assert_as_qemu(&row.unpacked_file(dir.path()), "vpc");
    }
}

/// qemu-img reads these as if the parent were empty: exit 0 and a wrong disk.
#[test]
fn the_differencing_disks_of_the_corpus_are_refused_with_the_name_of_their_parent() {
    for row in rows(&["dfvfs/fat-differential.vhd", "dfvfs/ntfs-differential.vhd"]) {
        let file = row.bytes();
        let refused = Vhd::open_dynamic(&file[..65536], Some(row.size)).unwrap_err();
        assert_eq!(refused.kind(), Kind::External);
        let parent = row.name().replace("dfvfs/", "C:\\Projects\\dfvfs\\test_data\\").replace("differential", "parent");
        assert!(refused.to_string().contains(&parent), "{refused}");
    }
}

#[test]
fn the_damaged_disks_of_the_corpus_are_refused() {
    for row in rows(&["dfvfs/image.vhd", "dfvfs/image-differential.vhd"]) {
        let refused = read_all(&row.bytes(), Order::Forward).unwrap_err();
        assert_eq!(refused.kind(), Kind::Corrupt, "{refused}");
        assert!(refused.to_string().contains("checksum"), "{refused}");
    }
    // A block table of 2^30 + 1 entries for a disk of 34 KiB, in a file that ends within its header.
    for row in rows(&["qemu-iotests/afl5.img"]) {
        let mut file = row.bytes();
        assert_eq!(Vhd::open_dynamic(&file, Some(row.size)).unwrap_err().kind(), Kind::Truncated);
        assert_eq!(read_all(&file, Order::Forward).unwrap_err().kind(), Kind::Truncated);
        // Were it whole, and its blocks of a size that is read, the size of the table would be refused.
        file.resize(4096, 0);
        file[544..548].copy_from_slice(&(2u32 << 20).to_be_bytes());
        seal(&mut file[512..1536], 36);
        for file_len in [None, Some(4096)] {
            let refused = Vhd::open_dynamic(&file, file_len).unwrap_err();
            assert_eq!(refused.kind(), Kind::Oversized);
            assert!(refused.to_string().contains("1073741825"), "{refused}");
        }
    }
}

/// qemu-img takes these for raw disks: its disk is by the footer longer than the right one.
#[test]
fn the_fixed_disks_of_the_corpus_end_before_their_footer() {
    for row in rows(&["dfvfs/fat-parent.vhd", "dfvfs/ntfs-fixed.vhd", "dfvfs/ntfs-parent.vhd"]) {
        let fixed = fixed_footer(tail(&row.bytes()), row.size).unwrap().unwrap();
        assert_eq!((fixed.virtual_size, fixed.creator.as_str()), (4_194_304, "win"), "{}", row.path);
        assert_eq!(row.virtual_size, Some(4_194_304 + 512), "{}: is qemu wrong no more?", row.path);
    }
}
