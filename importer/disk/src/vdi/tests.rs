use super::*;
use crate::testing::{Disk, ORDERS, Order, cut_at, each_built, flip, read};

/// Makes a VDI by hand, with whatever the header shall say.
struct Image {
    kind: u32,
    flags: u32,
    version: u32,
    size: u64,
    block_size: u32,
    block_extra: u32,
    map_at: u32,
    data_at: u32,
    blocks: u32,
    link: [u8; 16],
    parent: [u8; 16],
    /// The map, and the content of the file from `data_at` on.
    map: Vec<u32>,
    data: Vec<u8>,
}

impl Image {
    /// Three blocks of which the last is cut by the end of the disk.
    fn new() -> Self {
        Self {
            kind: 1,
            flags: 0,
            version: 0x10001,
            size: 2 * 4096 + 512,
            block_size: 4096,
            block_extra: 0,
            map_at: 512,
            data_at: 1024,
            blocks: 3,
            link: [0; 16],
            parent: [0; 16],
            map: vec![1, u32::MAX, 0],
            data: (0..3 * 8192u32).map(|i| (i / 7) as u8).collect(),
        }
    }

    fn bytes(&self) -> Vec<u8> {
        let mut file = vec![0; self.data_at as usize];
        let mut put = |at: usize, bytes: &[u8]| file[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, b"<<< made for a test >>>\n");
        put(0x40, &0xbeda_107f_u32.to_le_bytes());
        put(0x44, &self.version.to_le_bytes());
        put(0x48, &0x190u32.to_le_bytes());
        put(0x4c, &self.kind.to_le_bytes());
        put(0x50, &self.flags.to_le_bytes());
        put(0x154, &self.map_at.to_le_bytes());
        put(0x158, &self.data_at.to_le_bytes());
        put(0x168, &512u32.to_le_bytes());
        put(0x170, &self.size.to_le_bytes());
        put(0x178, &self.block_size.to_le_bytes());
        put(0x17c, &self.block_extra.to_le_bytes());
        put(0x180, &self.blocks.to_le_bytes());
        put(0x1a8, &self.link);
        put(0x1b8, &self.parent);
        for (index, entry) in self.map.iter().enumerate() {
            put(self.map_at as usize + index * 4, &entry.to_le_bytes());
        }
        file.extend(&self.data);
        file
    }

    fn refused(&self) -> Error {
        let file = self.bytes();
        read_all(&file, Order::Forward).unwrap_err()
    }
}

fn read_all(file: &[u8], order: Order) -> Result<Disk> {
    let head = &file[..file.len().min(65536)];
    let told = read(&mut Vdi::open(head, Some(file.len() as u64))?, file, order, true);
    let untold = read(&mut Vdi::open(head, None)?, file, order, false);
    match (told, untold) {
        (Ok(told), Ok(untold)) => {
            assert_eq!(told, untold);
            Ok(told)
        }
        (told, untold) => {
            assert!(told.is_err() && untold.is_err());
            told
        }
    }
}

#[test]
fn blocks_are_found_zero_or_cut() {
    let image = Image::new();
    for order in ORDERS {
        let disk = read_all(&image.bytes(), order).unwrap().bytes();
        assert_eq!(disk.len(), 2 * 4096 + 512);
        assert_eq!(disk[..4096], image.data[4096..8192]);
        assert!(disk[4096..8192].iter().all(|byte| *byte == 0));
        assert_eq!(disk[8192..], image.data[..512]);
    }
}

#[test]
fn extra_bytes_come_before_each_block_and_discarded_blocks_are_zero() {
    let image = Image { block_extra: 512, map: vec![DISCARDED, 2, 0], ..Image::new() };
    let disk = read_all(&image.bytes(), Order::Forward).unwrap().bytes();
    assert!(disk[..4096].iter().all(|byte| *byte == 0));
    assert_eq!(disk[4096..8192], image.data[2 * 4608 + 512..3 * 4608]);
    assert_eq!(disk[8192..], image.data[512..1024]);
}

#[test]
fn an_odd_size_is_rounded_up_to_the_sector() {
    let image = Image { size: 2 * 4096 + 1, ..Image::new() };
    assert_eq!(read_all(&image.bytes(), Order::Forward).unwrap().size, 2 * 4096 + 512);
}

#[test]
fn features_name_what_it_is() {
    let vdi = Vdi::open(&Image { kind: 2, ..Image::new() }.bytes(), None).unwrap();
    let features = vdi.features();
    assert!(features.contains(&Feature::text("subformat", "static")));
    assert!(features.contains(&Feature::number("blockSize", 4096)));
    assert!(features.contains(&Feature::text("creator", "<<< made for a test >>>")));
    assert_eq!(vdi.name(), "vdi");
}

#[test]
fn what_is_refused_and_how() {
    let good = Image::new;
    let cases = [
        (Kind::External, "undo", Image { kind: 3, ..good() }),
        (Kind::External, "differencing", Image { kind: 4, ..good() }),
        (Kind::External, "differencing", Image { flags: 0x20000, ..good() }),
        (
            Kind::External,
            "04030201-0000-0000-0000-000000000000",
            Image { link: [1, 2, 3, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], ..good() },
        ),
        (Kind::External, "parent", Image { parent: [7; 16], ..good() }),
        (Kind::Corrupt, "type 9", Image { kind: 9, ..good() }),
        (Kind::Unsupported, "0x40", Image { flags: 0x140, ..good() }),
        (Kind::Unsupported, "0.2", Image { version: 2, ..good() }),
        (Kind::Unsupported, "1.2", Image { version: 0x10002, ..good() }),
        (Kind::Corrupt, "3000", Image { block_size: 3000, ..good() }),
        (Kind::Corrupt, "256", Image { block_size: 256, ..good() }),
        (Kind::Corrupt, "0 bytes", Image { block_size: 0, ..good() }),
        (Kind::Corrupt, "100 extra", Image { block_extra: 100, ..good() }),
        (Kind::Corrupt, "3 blocks", Image { size: 3 * 4096 + 1, ..good() }),
        (Kind::Oversized, "18446744073709551615", Image { size: u64::MAX, ..good() }),
        (Kind::Corrupt, "header", Image { map_at: 0x1c4, map: vec![], ..good() }),
        (Kind::Corrupt, "map", Image { data_at: 512 + 8, map: vec![], ..good() }),
        (Kind::Corrupt, "block 3 of an image that has 3", Image { map: vec![0, 3, 1], ..good() }),
        (Kind::Corrupt, "same place", Image { map: vec![1, 0, 1], ..good() }),
        (Kind::Truncated, "block map", Image { blocks: 1 << 29, size: 1 << 41, ..good() }),
    ];
    for (kind, text, image) in cases {
        let mut file = image.bytes();
        if image.blocks == 1 << 29 {
            // Room for the map, by the header.
            file[0x158..0x15c].copy_from_slice(&u32::MAX.to_le_bytes());
        }
        let refused = read_all(&file, Order::Forward).unwrap_err();
        assert_eq!(refused.kind(), kind, "{refused}");
        assert!(refused.to_string().contains(text), "{refused} has no {text}");
        assert!(refused.to_string().starts_with("vdi: "), "{refused}");
    }
    assert_eq!(Vdi::open(&[0; 512], None).unwrap_err().kind(), Kind::NotADisk);
    assert_eq!(Image { block_size: 256, ..good() }.refused().offset(), Some(0x178));
    assert_eq!(Image { map: vec![1, 0, 1], ..good() }.refused().offset(), Some(512 + 8));
}

#[test]
fn a_block_far_beyond_the_file_is_truncated() {
    let most = 1 << 29;
    let image = Image { block_size: 1 << 31, block_extra: 1 << 31, blocks: most, map: vec![most - 1], ..Image::new() };
    let mut file = image.bytes();
    file[0x158..0x15c].copy_from_slice(&u32::MAX.to_le_bytes());
    let refused = read_all(&file, Order::Forward).unwrap_err();
    assert_eq!(refused.kind(), Kind::Truncated, "{refused}");
}

#[test]
fn every_cut_is_truncated_and_nothing_panics() {
    let file = Image::new().bytes();
    cut_at(&file, &[0, 64, 0x48, 512, 516, 524, 1024, 1024 + 512, 1024 + 4096, 1024 + 8192], |cut| {
        let result = read_all(cut, Order::Forward);
        if cut.len() < 1024 + 8192 {
            assert_eq!(result.unwrap_err().kind(), Kind::Truncated, "cut at {}", cut.len());
        }
    });
}

#[test]
fn any_bytes_give_a_disk_or_an_error() {
    let file = Image::new().bytes();
    let mut fine = 0;
    flip(&file, &[(0, 1024)], 20_000, |file| fine += u32::from(read_all(file, Order::Shuffled(3)).is_ok()));
    assert!(fine > 1000, "some changes don't matter: {fine}");
}

#[test]
fn as_qemu_img_writes_them() {
    each_built("vdi", |path, file| {
        let disk = read_all(file, Order::Forward).unwrap();
        disk.assert_as_qemu(path, "vdi");
        for order in ORDERS {
            assert!(read_all(file, order).unwrap() == disk, "{} {order:?}", path.display());
        }
    });
}

/// 64 TiB of nothing: the map has 64 Mi entries in 4096 pages, of which 64 are outstanding.
#[test]
fn a_huge_map_is_asked_for_piece_by_piece() {
    let image = Image { blocks: 1 << 26, size: 1 << 46, block_size: 1 << 20, map: vec![], ..Image::new() };
    let mut file = image.bytes();
    file[0x158..0x15c].copy_from_slice(&(1u32 << 29).to_le_bytes());
    let mut vdi = Vdi::open(&file, None).unwrap();
    let mut found = Found::default();
    vdi.start(&mut found).unwrap();
    let empty = vec![0xff; 65536];
    let mut pages = 0;
    while let Some(page) = found.pages.pop() {
        assert!(found.pages.len() < 64);
        vdi.expand(&page, &empty, &mut found).unwrap();
        pages += 1;
    }
    vdi.finish(None, &mut found).unwrap();
    assert_eq!(pages, 4096);
    assert_eq!(found.extents.iter().map(|extent| extent.len).sum::<u64>(), 1 << 46);
}
