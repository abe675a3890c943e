//! Logs that must be replayed.

use fixtures::{run, tool};

use super::image::{LOG_AT, LOG_GUID, LogEntry, METADATA, Update, log, region_table};
use super::*;
use crate::guid::Guid;

/// `len` bytes of sectors the log writes.
fn fresh(seed: u64) -> Vec<u8> {
    noise(seed + 1000, 4096)
}

/// The table of [`Image::new`] as the log would write it, with these entries.
fn table_sector(entries: &[u64]) -> Vec<u8> {
    let mut sector: Vec<u8> = entries.iter().flat_map(|entry| entry.to_le_bytes()).collect();
    sector.resize(4096, 0);
    sector
}

/// What the disk is when the log of the image is replayed by qemu-img, which must be allowed to write for that.
fn assert_as_repaired(disk: &Disk, file: &[u8]) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("dirty.vhdx");
    std::fs::write(&path, file).unwrap();
    run(tool("qemu-img").args(["check", "-q", "-r", "all", "-f", "vhdx"]).arg(&path));
    disk.assert_as_qemu(&path, "vhdx");
}

#[test]
fn the_log_lies_over_tables_and_blocks() {
    let data = 4 * MIB as u64;
    let updates = vec![
        // Blocks one and three were not in the table yet.
        Update::Data(2 * MIB as u64, table_sector(&[at_mib(5), 2, at_mib(4)])),
        // Within the third block, which ends after 8 KiB, and beyond that end.
        Update::Data(data + 4096, fresh(1)),
        Update::Data(data + 8192, fresh(2)),
        // Around within the first.
        Update::Zero(data + MIB as u64 + 4096, 8192),
        Update::Data(data + MIB as u64 + 8192, fresh(3)),
        Update::Data(data + MIB as u64 + 65536, fresh(4)),
    ];
    let image = Image { bat: vec![0, 0, 0], ..Image::dirty(log(0, &[LogEntry::new(9, 0, updates)])) };
    let mut expected = vec![0; 2 * MIB + 8192];
    put(&mut expected, 0, &noise(5, MIB));
    put(&mut expected, 2 * MIB, &noise(4, MIB)[..4096]);
    put(&mut expected, 2 * MIB + 4096, &fresh(1));
    put(&mut expected, 4096, &[0; 4096]);
    put(&mut expected, 8192, &fresh(3));
    put(&mut expected, 65536, &fresh(4));
    for order in ORDERS {
        let disk = read_all(&image.bytes(), order).unwrap();
        assert!(disk.bytes() == expected, "{order:?}");
    }
    assert_as_repaired(&read_all(&image.bytes(), Order::Forward).unwrap(), &image.bytes());

    let file = image.bytes();
    let mut vhdx = Vhdx::open(&file[..65536], None).unwrap();
    read(&mut vhdx, &file, Order::Forward, true).unwrap();
    assert!(vhdx.features().contains(&Feature::flag("logReplayed", true)));
    assert!(vhdx.features().contains(&Feature::number("logEntries", 1)));
}

#[test]
fn the_log_lies_over_metadata_and_region_tables() {
    // The region table in the file names a metadata region that is nowhere; the log has both tables right.
    let good = Image::new();
    let table = region_table(&good.regions);
    let metadata = &good.bytes()[3 * MIB..3 * MIB + 0x11000];
    let sectors = |at: usize, bytes: &[u8]| -> Vec<Update> {
        bytes.chunks(4096).zip(0..).map(|(sector, n)| Update::Data(at as u64 + n * 4096, sector.to_vec())).collect()
    };
    let updates = [sectors(0x30000, &table), sectors(0x40000, &table), sectors(3 * MIB, metadata)].concat();
    let mut image = Image::dirty(log(200, &[LogEntry::new(1, 200, updates)]));
    image.regions[1] = (METADATA, 9 << 20, 1 << 20, 1);
    image.items.clear();
    let same = read_all(&good.bytes(), Order::Forward).unwrap();
    for order in ORDERS {
        assert!(read_all(&image.bytes(), order).unwrap() == same);
    }
}

/// An entry that wraps around the end of the log, numbers of more than 32 bits, an entry of nothing, and one of more
/// descriptors than fit into its first sector.
#[test]
fn entries_wrap_around_and_have_many_descriptors() {
    let updates = |count: u64| -> Vec<Update> {
        let update = |n: u64| match n % 3 {
            0 => Update::Zero((4 << 20) + n * 8192, 4096),
            _ => Update::Data((4 << 20) + n * 8192, fresh(n)),
        };
        (0..count).map(update).collect()
    };
    for count in [126, 127, 200, 255] {
        let entries = [LogEntry::new(u64::from(u32::MAX), 140, vec![]), LogEntry::new(1 << 32, 140, updates(count))];
        let image = Image::dirty(log(140, &entries));
        let disk = read_all(&image.bytes(), Order::Newest).unwrap();
        let mut expected = vec![0; 2 * MIB + 8192];
        let mut data = [noise(4, MIB), noise(5, MIB)].concat();
        for update in updates(count) {
            match update {
                Update::Zero(at, len) => put(&mut data, at as usize - 4 * MIB, &vec![0; len as usize]),
                Update::Data(at, bytes) => put(&mut data, at as usize - 4 * MIB, &bytes),
            }
        }
        put(&mut expected, 0, &data[MIB..]);
        put(&mut expected, 2 * MIB, &data[..8192]);
        assert!(disk.bytes() == expected, "{count}");
        // qemu can't read more descriptors than fit into one sector.
        if count <= 126 {
            assert_as_repaired(&disk, &image.bytes());
        }
    }
}

/// Which of several entries are replayed: the newest run that is whole, from the entry on that its head names.
#[test]
fn the_active_sequence_is_found() {
    let first = 5 * MIB as u64;
    let write = |place: u64, seed| vec![Update::Data(first + place * 4096, fresh(seed))];
    // Which of the first sectors of the disk are as the log with this number wrote them.
    let replayed = |entries: &[LogEntry], start| {
        let image = Image::dirty(log(start, entries));
        let disk = read_all(&image.bytes(), Order::Forward).unwrap();
        let bytes = disk.bytes();
        let seeds = (0..4).map(|place| (1..9).find(|seed| bytes[place * 4096..][..4096] == fresh(*seed)).unwrap_or(0));
        seeds.collect::<Vec<u64>>()
    };
    let entry = |sequence, tail, place, seed| LogEntry::new(sequence, tail, write(place, seed));

    // Each of these entries has two sectors. The last names the second as the oldest that is still to be written, so the
    // first is not replayed. (qemu does, which makes no difference when it really was written.)
    let three = [entry(5, 0, 0, 1), entry(6, 0, 1, 2), entry(7, 2, 2, 3)];
    assert_eq!(replayed(&three, 0), [0, 2, 3, 0]);
    // Later ones win where they write to the same place, also around the end.
    let same = [entry(5, 253, 0, 1), entry(6, 253, 0, 2), entry(7, 253, 1, 3)];
    assert_eq!(replayed(&same, 253), [2, 3, 0, 0]);
    // Two runs: the one with the higher numbers, wherever it lies.
    assert_eq!(replayed(&[entry(5, 0, 0, 1), entry(9, 2, 1, 2), entry(10, 2, 2, 3)], 0), [0, 2, 3, 0]);
    assert_eq!(replayed(&[entry(9, 0, 1, 2), entry(10, 0, 2, 3), entry(5, 4, 0, 1)], 0), [0, 2, 3, 0]);
    // A newer one that lacks its oldest entry is not whole.
    assert_eq!(replayed(&[entry(5, 0, 0, 1), entry(9, 100, 1, 2)], 0), [1, 0, 0, 0]);
    // What was written under another identifier, or is damaged, was never written.
    let other = LogEntry { guid: Guid([8; 16]), ..entry(6, 0, 1, 2) };
    assert_eq!(replayed(&[entry(5, 0, 0, 1), other], 0), [1, 0, 0, 0]);
    // Padding belongs to its entry.
    let padded = LogEntry { padding: 14, ..entry(5, 0, 0, 1) };
    assert_eq!(replayed(&[padded, entry(6, 0, 1, 2)], 0), [1, 2, 0, 0]);
}

/// An entry with any part damaged is none, even when its checksum is right.
#[test]
fn damaged_entries_are_not_replayed() {
    let updates = vec![Update::Data(5 << 20, fresh(1)), Update::Zero((5 << 20) + 4096, 4096)];
    let image = Image::dirty(log(0, &[LogEntry::new(3, 0, updates)]));
    let good = image.bytes();
    read_all(&good, Order::Forward).unwrap();
    let damages: [(usize, &[u8]); 19] = [
        (0, b"logE"),
        (8, &4097u32.to_le_bytes()),
        (8, &4096u32.to_le_bytes()),
        (8, &0u32.to_le_bytes()),
        (8, &(2u32 << 20).to_le_bytes()),
        (12, &8u32.to_le_bytes()),
        (12, &(1u32 << 20).to_le_bytes()),
        (16, &0u64.to_le_bytes()),
        (24, &3u32.to_le_bytes()),
        (24, &u32::MAX.to_le_bytes()),
        (32, &[0; 16]),
        (64, b"zer0"),
        (64 + 16, &(5u64 << 20 | 1).to_le_bytes()),
        (64 + 24, &4u64.to_le_bytes()),
        (96 + 8, &4095u64.to_le_bytes()),
        (96 + 16, &1u64.to_le_bytes()),
        (4096, b"date"),
        (4096 + 4, &1u32.to_le_bytes()),
        (4096 + 4092, &2u32.to_le_bytes()),
    ];
    for (at, bytes) in damages {
        let mut file = good.clone();
        put(&mut file, LOG_AT + at, bytes);
        let refused = read_all(&file, Order::Forward).unwrap_err();
        assert!(refused.to_string().contains("its log holds nothing valid"), "{at} {bytes:?}: {refused}");
        seal(&mut file[LOG_AT..LOG_AT + 8192]);
        let refused = read_all(&file, Order::Forward).unwrap_err();
        assert_eq!((refused.kind(), refused.offset()), (Kind::Corrupt, Some(MIB as u64)), "{at} {bytes:?}: {refused}");
    }
}

#[test]
fn logs_that_are_refused() {
    assert_refused(&Image::dirty(vec![]), Kind::Corrupt, "its log holds nothing valid");
    assert_refused(&Image::dirty(noise(1, MIB)), Kind::Corrupt, "its log holds nothing valid");
    let empty = Image::dirty(vec![]).with_head(|head| (head.log_len, head.log_at) = (0, 0));
    assert_refused(&empty, Kind::Corrupt, "its log holds nothing valid");
    let large = Image::dirty(vec![]).with_head(|head| head.log_len = 17 << 20);
    assert_refused(&large, Kind::Unsupported, "its log of 17825792 bytes");
    let newer = Image::dirty(vec![]).with_head(|head| head.log_version = 1);
    assert_refused(&newer, Kind::Unsupported, "a log of version 1");
    let beyond = LogEntry::new(3, 0, vec![Update::Zero(u64::MAX << 12, 8192)]);
    assert_refused(&Image::dirty(log(0, &[beyond])), Kind::Corrupt, "beyond any file");
}

/// The file was longer when the log was written, or had to become longer.
#[test]
fn lengths_the_log_tells() {
    let update = vec![Update::Data(2 * MIB as u64, table_sector(&[at_mib(5), 2, at_mib(6)]))];
    let flushed = LogEntry { flushed: 7 << 20, last: 7 << 20, ..LogEntry::new(3, 0, update.clone()) };
    assert_refused(&Image::dirty(log(0, &[flushed])), Kind::Truncated, "had 0x700000");

    // The third block, at 6 MiB, was allocated by the log, and the file was not made longer yet.
    let grows = LogEntry { flushed: 6 << 20, last: 7 << 20, ..LogEntry::new(3, 0, update) };
    let file = Image::dirty(log(0, &[grows])).bytes();
    let mut known = Vhdx::open(&file[..65536], Some(file.len() as u64)).unwrap();
    let disk = read(&mut known, &file, Order::Forward, true).unwrap();
    assert!(disk.bytes()[2 * MIB..].iter().all(|byte| *byte == 0));
    // (qemu makes a file longer only when it is to end within a MiB, and then finds it too short.)
    // In a stream of unknown length that is the same as one that was cut.
    let mut stream = Vhdx::open(&file[..65536], None).unwrap();
    assert_eq!(read(&mut stream, &file, Order::Forward, true).unwrap_err().kind(), Kind::Truncated);
}

/// Logs made to keep a reader busy: each sector could start a chain, or an entry that holds all others.
#[test]
fn scanning_takes_bounded_work() {
    // From each sector on, entries follow each other to the end of the ring, where the last names one that is damaged as
    // the oldest: 256 chains, none of them whole.
    let chain: Vec<LogEntry> = (0..256).map(|n| LogEntry::new(n + 1, 0, vec![])).collect();
    let mut broken = log(0, &chain);
    assert_eq!(read_all(&Image::dirty(broken.clone()).bytes(), Order::Forward).unwrap().size, 2 * (1 << 20) + 8192);
    broken[100] ^= 1;
    assert_refused(&Image::dirty(broken), Kind::Corrupt, "its log holds nothing valid");
    // Every sector an entry as long as the ring, all but its header padding.
    let mut nested = vec![0; MIB];
    for sector in nested.chunks_mut(4096) {
        put(sector, 0, &LogEntry::new(1, 0, vec![]).bytes()[..64]);
        put(sector, 8, &(MIB as u32).to_le_bytes());
        put(sector, 32, &LOG_GUID.0);
    }
    assert_refused(&Image::dirty(nested), Kind::Corrupt, "within each other");
}

#[test]
fn any_log_gives_a_disk_or_an_error() {
    let updates =
        |seed: u64| vec![Update::Data((5 << 20) + seed * 4096, fresh(seed)), Update::Zero(4 << 20, seed * 4096)];
    let entries = [LogEntry::new(5, 0, updates(1)), LogEntry::new(6, 0, updates(2))];
    let file = Image::dirty(log(0, &entries)).bytes();
    let (mut fine, mut refused) = (0, 0);
    let headers = [(LOG_AT, LOG_AT + 128), (LOG_AT + 8192, LOG_AT + 8192 + 128)];
    flip(
        &file,
        &[&headers[..], &[(LOG_AT + 4096, LOG_AT + 4104), (LOG_AT + 8188, LOG_AT + 8192)]].concat(),
        400,
        |file| {
            let mut sealed = file.to_vec();
            seal(&mut sealed[LOG_AT..LOG_AT + 8192]);
            seal(&mut sealed[LOG_AT + 8192..LOG_AT + 16384]);
            for file in [file, &sealed] {
                // Whether the length is known matters here.
                for file_len in [None, Some(file.len() as u64)] {
                    let read = Vhdx::open(&file[..65536], file_len)
                        .and_then(|mut vhdx| read(&mut vhdx, file, Order::Forward, true));
                    match read {
                        Ok(_) => fine += 1,
                        Err(_) => refused += 1,
                    }
                }
            }
        },
    );
    assert!(fine > 20 && refused > 20, "{fine} fine, {refused} refused");
}

#[test]
fn a_cut_within_the_log_is_truncated() {
    let file = Image::dirty(log(0, &[LogEntry::new(5, 0, vec![])])).bytes();
    cut_at(&file, &[MIB, 2 * MIB - 4096, 2 * MIB, 3 * MIB, 6 * MIB], |cut| {
        assert_eq!(read_all(cut, Order::Forward).unwrap_err().kind(), Kind::Truncated, "{:#x}", cut.len());
    });
}

/// Left behind by a Hyper-V that lost power. qemu-img reads it only once it was repaired.
#[test]
fn the_dirty_disk_of_the_corpus() {
    for row in rows(&["qemu-iotests/iotest-dirtylog-10G-4M.vhdx"]) {
        let file = row.bytes();
        let disk = read_all(&file, Order::Forward).unwrap();
        assert_eq!(disk.size, 10 << 30);
        assert_as_repaired(&disk, &file);
        assert!(read_all(&file, Order::Backward).unwrap() == disk);
    }
}
