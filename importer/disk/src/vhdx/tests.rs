mod image;
mod logs;

use image::{Head, Image, LOCATOR, MIB, PARAMETERS, UNKNOWN, at_mib, noise, parameters, put, seal, sector, size};

use super::*;
use crate::testing::{Disk, ORDERS, Order, cut_at, each_built, flip, read, rows};

fn read_all(file: &[u8], order: Order) -> Result<Disk> {
    let head = &file[..file.len().min(65536)];
    let told = read(&mut Vhdx::open(head, Some(file.len() as u64))?, file, order, true);
    let untold = read(&mut Vhdx::open(head, None)?, file, order, false);
    match (told, untold) {
        (Ok(told), Ok(untold)) => {
            assert!(told == untold);
            Ok(told)
        }
        (told, untold) => {
            assert!(told.is_err() && untold.is_err(), "{:?} {:?}", told.err(), untold.err());
            told
        }
    }
}

fn assert_refused(image: &Image, kind: Kind, text: &str) {
    let refused = read_all(&image.bytes(), Order::Forward).unwrap_err();
    assert_eq!(refused.kind(), kind, "{refused}");
    assert!(refused.to_string().contains(text), "{refused} has no {text}");
    assert!(refused.to_string().starts_with("vhdx: "), "{refused}");
}

#[test]
fn blocks_are_found_zero_or_cut() {
    let image = Image::new();
    for order in ORDERS {
        let disk = read_all(&image.bytes(), order).unwrap().bytes();
        assert_eq!(disk.len(), 2 * MIB + 8192);
        assert!(disk[..MIB] == image.data[1].1);
        assert!(disk[MIB..2 * MIB].iter().all(|byte| *byte == 0));
        assert!(disk[2 * MIB..] == image.data[0].1[..8192]);
    }
    // A file whose last block ends with the disk is whole.
    let bat = vec![at_mib(4), 2, at_mib(5)];
    let disk = read_all(&Image { bat, ..Image::new() }.bytes()[..5 * MIB + 8192], Order::Forward).unwrap();
    assert!(disk.bytes()[2 * MIB..] == image.data[1].1[..8192]);
}

#[test]
fn the_table_may_come_before_the_metadata_or_after() {
    let image = Image {
        regions: vec![(image::METADATA, 2 << 20, 1 << 20, 1), (image::BAT, 3 << 20, 1 << 20, 1)],
        metadata_at: 2 * MIB,
        bat_at: 3 * MIB,
        ..Image::new()
    };
    let same = read_all(&Image::new().bytes(), Order::Forward).unwrap();
    for order in ORDERS {
        assert!(read_all(&image.bytes(), order).unwrap() == same);
    }
}

#[test]
fn items_far_from_the_table_are_fetched() {
    let far = |mut item: image::Item, at: u32| {
        item.2 = at;
        item
    };
    let image = Image::new()
        .with_item(far(parameters(1 << 20, 1), (1 << 20) - 8))
        .with_item(far(size(2 * (1 << 20) + 8192), 131_070))
        .with_item(far(sector(4096), 200_000));
    let same = read_all(&Image::new().bytes(), Order::Forward).unwrap();
    for order in ORDERS {
        assert!(read_all(&image.bytes(), order).unwrap() == same);
    }
}

#[test]
fn states_of_blocks() {
    for state in [0, 1, 2, 3, 5] {
        // What is left in the other bits of such an entry says nothing.
        for rest in [0, 4 << 20, u64::MAX << 3] {
            let image = Image { bat: vec![at_mib(5), rest & !7 | state, at_mib(4)], ..Image::new() };
            let disk = read_all(&image.bytes(), Order::Forward).unwrap().bytes();
            assert!(disk[MIB..2 * MIB].iter().all(|byte| *byte == 0), "state {state}");
        }
    }
    assert_refused(&Image { bat: vec![2, 4, 2], ..Image::new() }, Kind::Corrupt, "unknown state 4");
    assert_refused(&Image { bat: vec![2, 4 << 20 | 7, 2], ..Image::new() }, Kind::Corrupt, "partly in a parent");
}

/// With blocks of 256 MiB there is a bitmap entry after 16 blocks at 512 bytes a sector, and after 128 at 4096.
#[test]
fn bitmap_entries_lie_between_those_of_blocks() {
    for (bytes, chunk) in [(512, 16), (4096, 128)] {
        let mut bat = vec![0; chunk + 2];
        // A bitmap that nobody needs, at a place that would be refused.
        bat[chunk] = 6;
        bat[chunk + 1] = at_mib(4);
        let disk_size = ((chunk as u64) << 28) + 8192;
        let image = Image { bat, ..Image::new() }
            .with_item(parameters(1 << 28, 0))
            .with_item(size(disk_size))
            .with_item(sector(bytes));
        let disk = read_all(&image.bytes(), Order::Forward).unwrap();
        assert_eq!(disk.size, disk_size);
        assert!(disk.parts == [((chunk as u64) << 28, noise(4, MIB)[..8192].to_vec())].into(), "{bytes}");
    }
}

#[test]
fn features_name_what_it_is() {
    let file = Image::new().with_item(parameters(1 << 20, 1)).with_item(sector(4096)).bytes();
    let mut vhdx = Vhdx::open(&file[..65536], None).unwrap();
    assert_eq!(vhdx.geometry(), None);
    read(&mut vhdx, &file, Order::Forward, true).unwrap();
    let features = vhdx.features();
    for feature in [
        Feature::text("creator", "made for ?a test"),
        Feature::text("subformat", "fixed"),
        Feature::number("blockSize", 1 << 20),
        Feature::number("logicalSectorSize", 4096),
        Feature::flag("logReplayed", false),
    ] {
        assert!(features.contains(&feature), "{feature:?}");
    }
    assert_eq!(vhdx.name(), "vhdx");
}

#[test]
fn the_current_header_counts() {
    // The other one, if it counted, would say that a log of nothing must be replayed.
    let bad = |sequence| Some(Head { sequence, log_guid: image::LOG_GUID, ..Image::new().heads[0].unwrap() });
    let good = Image::new().heads[0];
    for heads in [[good, bad(6)], [bad(6), good], [good, None], [None, good], [good, good]] {
        read_all(&Image { heads, ..Image::new() }.bytes(), Order::Forward).unwrap();
    }
    for heads in [[good, bad(8)], [bad(8), good], [None, bad(1)]] {
        assert_refused(&Image { heads, ..Image::new() }, Kind::Corrupt, "its log holds nothing valid");
    }
    assert_refused(&Image { heads: [good, bad(7)], ..Image::new() }, Kind::Corrupt, "same sequence number");
    assert_refused(&Image { heads: [None, None], ..Image::new() }, Kind::Corrupt, "both headers are damaged");
    assert_refused(&Image::new().with_head(|head| head.version = 2), Kind::Unsupported, "version 2");
    assert_refused(&Image::new().with_head(|head| head.log_at = 4096), Kind::Corrupt, "aligned");
    assert_refused(&Image::new().with_head(|head| head.log_at = 0), Kind::Corrupt, "aligned");
    assert_refused(&Image::new().with_head(|head| head.log_len = 4096), Kind::Corrupt, "aligned");
    assert_refused(&Image::new().with_head(|head| head.log_at = u64::MAX << 20), Kind::Corrupt, "aligned");
    // The version of a log that is empty does not matter, nor does one of no length.
    read_all(&Image::new().with_head(|head| head.log_version = 9).bytes(), Order::Forward).unwrap();
    read_all(&Image::new().with_head(|head| (head.log_len, head.log_at) = (0, 0)).bytes(), Order::Forward).unwrap();
}

#[test]
fn the_first_undamaged_region_table_counts() {
    let mut file = Image::new().bytes();
    file[0x30000 + 40] ^= 1;
    read_all(&file, Order::Forward).unwrap();
    file[0x40000 + 65535] ^= 1;
    let refused = read_all(&file, Order::Forward).unwrap_err();
    assert_eq!((refused.kind(), refused.offset()), (Kind::Corrupt, Some(0x30000)));
}

#[test]
fn regions_that_are_refused() {
    let (bat, metadata) = ((image::BAT, 2 << 20, 1 << 20, 1), (image::METADATA, 3 << 20, 1 << 20, 1));
    let cases = [
        (Kind::Corrupt, "no block allocation table", vec![metadata]),
        (Kind::Corrupt, "no metadata region", vec![bat]),
        (Kind::Corrupt, "given twice", vec![bat, metadata, (image::BAT, 6 << 20, 1 << 20, 1)]),
        (Kind::Corrupt, "empty", vec![bat, (image::METADATA, 3 << 20, 0, 1)]),
        (Kind::Corrupt, "aligned", vec![bat, (image::METADATA, 3 << 20, 4096, 1)]),
        (Kind::Corrupt, "aligned", vec![bat, (image::METADATA, 0, 1 << 20, 1)]),
        (Kind::Corrupt, "aligned", vec![bat, (image::METADATA, u64::MAX << 20, 1 << 20, 1)]),
        (Kind::Corrupt, "log and the metadata region overlap", vec![bat, (image::METADATA, 1 << 20, 1 << 20, 1)]),
        (Kind::Corrupt, "overlap", vec![(image::BAT, 2 << 20, 2 << 20, 1), metadata]),
        (Kind::Corrupt, "overlap", vec![bat, metadata, (UNKNOWN, 2 << 20, 1 << 20, 0)]),
        (
            Kind::Unsupported,
            "00000001-0002-0003-0000-000000000004",
            vec![bat, metadata, (UNKNOWN, 9 << 20, 1 << 20, 1)],
        ),
        (Kind::Corrupt, "2048 entries", vec![bat; 2048]),
    ];
    for (kind, text, regions) in cases {
        assert_refused(&Image { regions, ..Image::new() }, kind, text);
    }
    let optional = (UNKNOWN, 9 << 20, 1 << 20, 0);
    let image = Image { regions: vec![optional, bat, metadata], ..Image::new() };
    read_all(&image.bytes(), Order::Forward).unwrap();
}

#[test]
fn metadata_that_is_refused() {
    let item = |guid, flags, at, len| Image::new().with_item((guid, flags, at, vec![0; len]));
    let cases = [
        (Kind::Unsupported, "00000001-0002", item(UNKNOWN, 4, 70_000, 4)),
        // The identifier of a known item means another one when a user set it.
        (Kind::Unsupported, "caa16737", item(PARAMETERS, 5, 70_000, 8)),
        (Kind::Corrupt, "overlap", item(UNKNOWN, 0, 65537, 4)),
        (Kind::Corrupt, "outside", item(UNKNOWN, 0, 65535, 1)),
        (Kind::Corrupt, "too short", item(PARAMETERS, 4, 70_000, 7)),
        (Kind::Corrupt, "too short", item(image::SIZE, 4, 70_000, 7)),
        (Kind::Corrupt, "too short", item(image::SECTOR, 4, 70_000, 3)),
        (Kind::Corrupt, "too short", item(image::SECTOR, 4, 0, 0)),
        (Kind::Corrupt, "block size of 524288", Image::new().with_item(parameters(1 << 19, 0))),
        (Kind::Corrupt, "block size of 536870912", Image::new().with_item(parameters(1 << 29, 0))),
        (Kind::Corrupt, "block size of 3145728", Image::new().with_item(parameters(3 << 20, 0))),
        (Kind::Corrupt, "block size of 0", Image::new().with_item(parameters(0, 0))),
        (Kind::Unsupported, "0x4", Image::new().with_item(parameters(1 << 20, 4))),
        (Kind::Corrupt, "sector of 1024", Image::new().with_item(sector(1024))),
        (Kind::Corrupt, "sectors of 4096", Image::new().with_item(sector(4096)).with_item(size(4608))),
        (Kind::Corrupt, "1 bytes", Image::new().with_item(size(1))),
        (Kind::Oversized, "18446744073709551615", Image::new().with_item(size(u64::MAX))),
        (Kind::Oversized, "64 TiB", Image::new().with_item(size((64 << 40) + 512))),
        (Kind::Corrupt, "too small for 67108864 blocks", Image::new().with_item(size(64 << 40))),
        (Kind::External, "needs its parent;", Image::new().with_item(parameters(1 << 20, 2))),
    ];
    for (kind, text, image) in cases {
        assert_refused(&image, kind, text);
    }
    for missing in 0..3 {
        let mut image = Image::new();
        image.items.remove(missing);
        assert_refused(&image, Kind::Corrupt, "the metadata has no");
    }
    let mut twice = Image::new();
    twice.items.push((PARAMETERS, 4, 70_000, vec![0; 8]));
    assert_refused(&twice, Kind::Corrupt, "given twice");
    let mut many = Image::new().bytes();
    put(&mut many, 3 * MIB + 10, &2048u16.to_le_bytes());
    assert_eq!(read_all(&many, Order::Forward).unwrap_err().kind(), Kind::Corrupt);
    // What need not be understood, or is empty, is no matter; nor are the items that change nothing.
    let mut few = Image::new().with_item((UNKNOWN, 1, 0, vec![]));
    few.items.retain(|(guid, ..)| *guid != image::DISK_ID && *guid != image::PHYSICAL);
    read_all(&few.bytes(), Order::Forward).unwrap();
}

#[test]
fn blocks_that_are_refused() {
    for (kind, text, bat) in [
        (Kind::Corrupt, "overlaps the header section", vec![6, 2, 2]),
        (Kind::Corrupt, "overlaps the log", vec![at_mib(1), 2, 2]),
        (Kind::Corrupt, "overlaps the block allocation table", vec![2, at_mib(2), 2]),
        (Kind::Corrupt, "overlaps the metadata region", vec![2, 2, at_mib(3)]),
        (Kind::Corrupt, "same place", vec![at_mib(4), 2, at_mib(4)]),
        (Kind::Corrupt, "reserved bits", vec![at_mib(4) | 8, 2, 2]),
        (Kind::Corrupt, "beyond any file", vec![u64::MAX << 20 | 6, 2, 2]),
        (Kind::Truncated, "ends before the end of the block at 0x600000", vec![at_mib(6), 2, 2]),
    ] {
        assert_refused(&Image { bat, ..Image::new() }, kind, text);
    }
    // Blocks of 2 MiB may not overlap by one.
    let image = |bat| Image { bat, len: 8 * MIB, ..Image::new() }.with_item(parameters(2 << 20, 0));
    assert_refused(&image(vec![at_mib(4), at_mib(5)]), Kind::Corrupt, "same place");
    read_all(&image(vec![at_mib(4), at_mib(6)]).bytes(), Order::Forward).unwrap();
    let refused = read_all(&image(vec![at_mib(4), at_mib(5)]).bytes(), Order::Forward).unwrap_err();
    assert_eq!(refused.offset(), Some(2 * MIB as u64 + 8));
}

/// The name of the parent comes from the locator, near the table or far from it, with what a terminal would obey removed.
#[test]
fn the_parent_is_named() {
    let utf16 = |text: &str| text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>();
    let locator = |pairs: &[(&str, &str)]| {
        let mut bytes = vec![0; 20 + 12 * pairs.len()];
        put(&mut bytes, 18, &(pairs.len() as u16).to_le_bytes());
        for (number, (key, value)) in pairs.iter().enumerate() {
            for (place, text) in [(0, utf16(key)), (1, utf16(value))] {
                let (at, len) = (bytes.len() as u32, text.len() as u16);
                put(&mut bytes, 20 + 12 * number + 4 * place, &at.to_le_bytes());
                put(&mut bytes, 20 + 12 * number + 8 + 2 * place, &len.to_le_bytes());
                bytes.extend(text);
            }
        }
        bytes
    };
    let pairs = [("parent_linkage", "{0}"), ("volume_path", "\\\\?\\v"), ("relative_path", "..\\ba\u{1b}[2Jse.vhdx")];
    for at in [70_000, 300_000] {
        let image = Image::new().with_item(parameters(1 << 20, 2)).with_item((LOCATOR, 4, at, locator(&pairs)));
        assert_refused(&image, Kind::External, "its parent \"..\\ba?[2Jse.vhdx\"; merge them first");
        let image = Image::new().with_item(parameters(1 << 20, 2)).with_item((LOCATOR, 4, at, locator(&pairs[..2])));
        assert_refused(&image, Kind::External, "its parent \"\\\\?\\v\"; merge");
        let image = Image::new().with_item(parameters(1 << 20, 2)).with_item((LOCATOR, 4, at, vec![0xff; 100]));
        assert_refused(&image, Kind::External, "its parent; merge");
    }
}

#[test]
fn every_cut_is_truncated_and_nothing_panics() {
    let file = Image::new().bytes();
    let places = [0, 8, 520, 0x10000, 0x20000, 0x30000, 0x40000, 0x50000, MIB, 2 * MIB, 3 * MIB, 3 * MIB + 0x10000];
    cut_at(&file, &[&places[..], &[3 * MIB + 0x10018, 4 * MIB, 4 * MIB + 8192, 5 * MIB, 6 * MIB]].concat(), |cut| {
        let refused = read_all(cut, Order::Forward).unwrap_err();
        let kind = if cut.len() < 8 { Kind::NotADisk } else { Kind::Truncated };
        assert_eq!(refused.kind(), kind, "cut at {:#x}: {refused}", cut.len());
    });
}

#[test]
fn any_bytes_give_a_disk_or_an_error() {
    let file = Image::new().bytes();
    let (mut fine, mut refused) = (0, 0);
    let places = [(0, 1024), (0x10000, 0x10060), (0x20000, 0x20060), (0x30000, 0x30060), (0x40000, 0x40060)];
    let tables = [(2 * MIB, 2 * MIB + 24), (3 * MIB, 3 * MIB + 200), (3 * MIB + 0x10000, 3 * MIB + 0x10030)];
    flip(&file, &[&places[..], &tables[..]].concat(), 400, |file| {
        // As they are, and with the checksums put right, so that the values get through.
        let mut sealed = file.to_vec();
        for (at, len) in [(0x10000, 4096), (0x20000, 4096), (0x30000, 65536), (0x40000, 65536)] {
            seal(&mut sealed[at..at + len]);
        }
        for file in [file, &sealed] {
            match read_all(file, Order::Shuffled(3)) {
                Ok(_) => fine += 1,
                Err(_) => refused += 1,
            }
        }
    });
    assert!(fine > 20 && refused > 20, "{fine} fine, {refused} refused");
}

/// 64 TiB of nothing in blocks of 1 MiB: 512 MiB of table, of which 4 MiB are outstanding.
#[test]
fn a_huge_table_is_asked_for_piece_by_piece() {
    let regions = vec![(image::METADATA, 3 << 20, 1 << 20, 1), (image::BAT, 4 << 20, 600 << 20, 1)];
    let file = Image { regions, bat: vec![], data: vec![], ..Image::new() }.with_item(size(64 << 40)).bytes();
    let mut vhdx = Vhdx::open(&file[..65536], None).unwrap();
    let mut found = Found::default();
    vhdx.start(&mut found).unwrap();
    let empty = vec![0; 4 * 65536];
    let mut pages = 0;
    while let Some(page) = found.pages.pop() {
        assert!(found.pages.len() < 64);
        let at = page.at.0 as usize;
        vhdx.expand(&page, file.get(at..at + page.len as usize).unwrap_or(&empty[..page.len as usize]), &mut found)
            .unwrap();
        pages += 1;
    }
    vhdx.finish(None, &mut found).unwrap();
    assert_eq!(pages, 2 + 8194);
    assert_eq!(found.extents.iter().map(|extent| extent.len).sum::<u64>(), 64 << 40);
}

#[test]
fn as_qemu_img_writes_them() {
    each_built("vhdx", |path, file| {
        let disk = read_all(file, Order::Forward).unwrap();
        disk.assert_as_qemu(path, "vhdx");
        for order in [Order::Backward, Order::Shuffled(2)] {
            assert!(read_all(file, order).unwrap() == disk, "{} {order:?}", path.display());
        }
    });
}

#[test]
fn the_disks_of_the_corpus() {
    let names =
        ["ext2", "fat-parent", "ntfs-dynamic", "ntfs-fixed", "ntfs-parent"].map(|name| format!("dfvfs/{name}.vhdx"));
    let names = names.iter().map(String::as_str);
    let others = ["qemu-iotests/iotest-dynamic-1G.vhdx", "qemu-iotests/test-disk2vhd.vhdx"];
    for row in rows(&names.chain(others).collect::<Vec<_>>()) {
        read_all(&row.bytes(), Order::Forward).unwrap().assert_as_index(&row);
    }
}

#[test]
fn the_differencing_disks_of_the_corpus_are_refused_with_the_name_of_their_parent() {
    for row in rows(&["dfvfs/fat-differential.vhdx", "dfvfs/ntfs-differential.vhdx"]) {
        let refused = read_all(&row.bytes(), Order::Forward).unwrap_err();
        assert_eq!(refused.kind(), Kind::External);
        let parent = row.name().replace("dfvfs/", ".\\").replace("differential", "parent");
        assert!(refused.to_string().contains(&format!("\"{parent}\"")), "{refused}");
    }
}
