use super::*;
use crate::cluster::Zstd;
use crate::testing::{Folder, Rng, decodes_to, disk_like, sha256, tool};
use crate::{Error, Kind, Limits, Result, Wrapper};

/// A file of frames of these lengths with its table, and the frames.
fn file(data: &[u8], cut: &[usize], level: i32) -> (Vec<u8>, Vec<Frame>) {
    let mut compressor = Compressor::new(level).unwrap();
    let (mut stored, mut table, mut frames, mut rest) = (Vec::new(), TableWriter::default(), Vec::new(), data);
    for &len in cut.iter().cycle() {
        if rest.is_empty() {
            break;
        }
        let (part, behind) = rest.split_at(len.min(rest.len()));
        let frame = compressor.frame(part).unwrap();
        table.push(&frame);
        stored.extend_from_slice(&frame.stored);
        frames.push(frame);
        rest = behind;
    }
    stored.extend_from_slice(&table.finish().unwrap());
    (stored, frames)
}

fn table_of(file: &[u8]) -> Result<SeekTable> {
    let footer = file.last_chunk().ok_or_else(|| Error::new(Kind::Truncated, "no footer"))?;
    let len = table_len(footer)?.ok_or_else(|| Error::new(Kind::NotFound, "no table"))?;
    let len = usize::try_from(len).unwrap();
    let from = file.len().checked_sub(len).ok_or_else(|| Error::new(Kind::Truncated, "no table"))?;
    SeekTable::parse(Bytes::copy_from_slice(&file[from..]), file.len() as u64)
}

#[test]
fn every_decoder_reads_it() {
    let data = disk_like(3_000_000);
    for level in [1, 3] {
        let (file, _) = file(&data, &[1 << 20, 1024, 300_000], level);
        assert!(tool("zstd", &["-dcq"], &file) == data);
        tool("zstd", &["-tq"], &file);
        decodes_to(Wrapper::Zstd, Limits::default(), &file, &data);
        // What it is made of, as libzstd's tool tells: a length and a checksum in every frame.
        let folder = Folder::new(&format!("seekable-{level}"));
        let path = folder.0.join("file.zst");
        std::fs::write(&path, &file).unwrap();
        let listed = std::process::Command::new("zstd").arg("-lv").arg(&path).output().unwrap();
        let listed = String::from_utf8(listed.stdout).unwrap();
        assert!(listed.contains("(3000000 B)") && listed.contains("XXH64"), "{listed}");
        assert!(listed.contains("Zstandard Frames: 7") && listed.contains("Skippable Frames: 1"), "{listed}");
    }
}

/// A layer that was pushed once must be found again, so the same disk must give the same bytes with the next release of
/// this program. If libzstd has changed, this is to be known, and said in the changelog.
#[test]
fn the_bytes_are_settled() {
    let data = disk_like(2_500_000);
    let zeros = Zeros::default();
    let zeros: Vec<u8> = (0..7).flat_map(|log| zeros.frame(1 << (20 + log)).unwrap().unwrap().stored).collect();
    let digests = [sha256(&file(&data, &[FRAME], 1).0), sha256(&file(&data, &[FRAME], 3).0), sha256(&zeros)];
    assert_eq!(
        digests,
        [
            "db571fd143992e1d6c13c40d8dc837b1e650089225833e43d164f777b59a88c5",
            "3e04d54aaf19faf8ceef56816665ae27b1336eb2a2560ceeaf91ba32fbbff053",
            "42bc5a41bc20a18f626eb16fe4026ba4c4f35f65fd191e6b9391185b048cd128",
        ]
    );
}

/// The context is used again for frame after frame, and may not remember the one before.
#[test]
fn a_frame_depends_on_nothing_but_its_bytes() {
    let mut rng = Rng::new(5);
    let data = disk_like(4 << 20);
    let mut used = Compressor::new(LEVEL).unwrap();
    for _ in 0..40 {
        let from = rng.below(data.len() - 1);
        let len = 1 + rng.below((data.len() - from).min(FRAME));
        let part = &data[from..from + len];
        assert_eq!(used.frame(part).unwrap(), Compressor::new(LEVEL).unwrap().frame(part).unwrap());
    }
    assert_eq!(used.frame(b"").unwrap().len, 0);
}

#[test]
fn frames_of_zeros_cost_nearly_nothing_and_are_known_again() {
    let zeros = Zeros::default();
    assert_eq!(zeros.frame(FRAME as u64 - 1).unwrap(), None);
    assert_eq!(zeros.frame(0).unwrap(), None);
    assert_eq!(zeros.frame(u64::MAX).unwrap().unwrap().len, 64 << 20);
    let mut unpacker = Zstd::new().unwrap();
    for log in 0..7 {
        let len = FRAME << log;
        let frame = zeros.frame(len as u64 * 2 - 1).unwrap().unwrap();
        assert_eq!(frame.len as usize, len);
        assert!(frame.stored.len() <= 64 + len / (128 << 10) * 4, "{} bytes for {len}", frame.stored.len());
        assert!(is_zeros(&frame.stored, len as u64));
        assert!(!is_zeros(&frame.stored, len as u64 / 2) && !is_zeros(&frame.stored, len as u64 * 2));
        assert!(!is_zeros(&frame.stored[1..], len as u64));
        let mut output = vec![1; len];
        assert_eq!(unpacker.unpack(&frame.stored, &mut output).unwrap(), len);
        assert!(output.iter().all(|&byte| byte == 0));
        assert_eq!(tool("zstd", &["-dcq", "-M1MB"], &frame.stored).len(), len);
        // The very frame is used again.
        assert_eq!(zeros.frame(len as u64).unwrap().unwrap().stored.as_ptr(), frame.stored.as_ptr());
    }
    let mut other = Compressor::new(LEVEL).unwrap();
    assert!(!is_zeros(&other.frame(&vec![1; FRAME]).unwrap().stored, FRAME as u64));
    assert!(!is_zeros(b"", 0) && !is_zeros(b"", FRAME as u64));
}

#[test]
fn any_part_is_found() {
    let data = disk_like(1_000_000);
    let (file, frames) = file(&data, &[1000, 1, 513, 70], 1);
    let table = table_of(&file).unwrap();
    assert_eq!((table.size(), table.frames()), (data.len() as u64, frames.len()));
    assert!(table.marks.len() > 3);
    let mut unpacker = Zstd::new().unwrap();
    let mut rng = Rng::new(9);
    let ends = [0, 999, 1000, data.len() as u64 - 1];
    for at in ends.into_iter().chain((0..300).map(|_| rng.next() % data.len() as u64)) {
        let place = table.places(at).next().unwrap();
        assert!(place.at <= at && at < place.at + u64::from(place.len), "{at} {place:?}");
        let from = usize::try_from(place.stored_at).unwrap();
        let mut output = vec![0; place.len as usize];
        let made = unpacker.unpack(&file[from..from + place.stored as usize], &mut output).unwrap();
        let from = usize::try_from(place.at).unwrap();
        assert!(made == output.len() && data[from..].starts_with(&output));
    }
    assert_eq!(table.places(data.len() as u64).count(), 0);
    assert_eq!(table.places(u64::MAX).count(), 0);
    assert!(table.places(0).map(|place| u64::from(place.len)).eq(frames.iter().map(|frame| u64::from(frame.len))));
}

#[test]
fn a_table_is_as_the_specification_has_it() {
    let frame = |stored: usize, len| Frame { stored: vec![0; stored].into(), len };
    let mut writer = TableWriter::default();
    writer.push(&frame(0x1234, 0x0010_0000));
    writer.push(&frame(9, 0));
    let written = writer.finish().unwrap();
    #[rustfmt::skip]
    let want = [
        0x5e, 0x2a, 0x4d, 0x18, 25, 0, 0, 0,
        0x34, 0x12, 0, 0, 0, 0, 0x10, 0,
        9, 0, 0, 0, 0, 0, 0, 0,
        2, 0, 0, 0, 0, 0xb1, 0xea, 0x92, 0x8f,
    ];
    assert_eq!(written, want[..]);
    let table = SeekTable::parse(written, 0x1234 + 9 + 33).unwrap();
    let first = Place { at: 0, len: 0x0010_0000, stored_at: 0, stored: 0x1234, checksum: None };
    assert_eq!(table.places(0).next(), Some(first));
    // The same with checksums, and with the bits nobody uses.
    #[rustfmt::skip]
    let with_checksums = [
        0x5e, 0x2a, 0x4d, 0x18, 21, 0, 0, 0,
        100, 0, 0, 0, 7, 0, 0, 0, 1, 2, 3, 4,
        1, 0, 0, 0, 0x83, 0xb1, 0xea, 0x92, 0x8f,
    ];
    let table = SeekTable::parse(Bytes::copy_from_slice(&with_checksums), 129).unwrap();
    let place = Place { at: 0, len: 7, stored_at: 0, stored: 100, checksum: Some(0x0403_0201) };
    assert_eq!(table.places(6).collect::<Vec<_>>(), [place]);
    // No frames at all.
    let empty = TableWriter::default().finish().unwrap();
    assert_eq!(SeekTable::parse(empty, 17).unwrap().size(), 0);
}

#[test]
fn hostile_tables_are_refused_before_anything_is_allocated() {
    let (file, _) = file(&disk_like(5000), &[1000], 1);
    let table_at = file.len() - (8 + 5 * 8 + 9);
    let kind = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut file = file.clone();
        change(&mut file);
        table_of(&file).map(|_| ()).unwrap_err().kind()
    };
    let end = file.len();
    assert_eq!(kind(&|file| file[end - 9..end - 5].fill(0xff)), Kind::Oversized);
    assert_eq!(kind(&|file| file[end - 9..end - 5].copy_from_slice(&(MAX_FRAMES + 1).to_le_bytes())), Kind::Oversized);
    assert_eq!(kind(&|file| file[end - 9..end - 5].copy_from_slice(&MAX_FRAMES.to_le_bytes())), Kind::Truncated);
    assert_eq!(kind(&|file| file[end - 9] = 4), Kind::Corrupt);
    assert_eq!(kind(&|file| file[end - 5] = 0x04), Kind::Unsupported);
    assert_eq!(kind(&|file| file[end - 1] ^= 1), Kind::NotFound);
    assert_eq!(kind(&|file| file[table_at] ^= 1), Kind::Corrupt);
    assert_eq!(kind(&|file| file[table_at + 4] += 1), Kind::Corrupt);
    assert_eq!(kind(&|file| file[table_at + 8] += 1), Kind::Corrupt);
    assert_eq!(kind(&|file| file[table_at + 8..table_at + 12].fill(0)), Kind::Corrupt);
    assert_eq!(kind(&|file| file[table_at + 8..table_at + 12].fill(0xff)), Kind::Corrupt);
    assert_eq!(kind(&|file| drop(file.drain(..1))), Kind::Corrupt);
    assert_eq!(kind(&|file| file.truncate(end - 1)), Kind::NotFound);
    assert_eq!(kind(&|file| file.clear()), Kind::Truncated);
    // What is cut in front: too little for a table, and nothing.
    for len in [0, 1, 8, 9, 16, 17, 56] {
        let tail = Bytes::copy_from_slice(&file[end - len..]);
        assert_eq!(SeekTable::parse(tail, end as u64).unwrap_err().kind(), Kind::Corrupt, "{len}");
    }
    let error = SeekTable::parse(Bytes::copy_from_slice(&file[table_at..]), 3).unwrap_err().to_string();
    assert!(error.starts_with("zstd seek table: its frames have"), "{error}");
}

#[test]
fn a_table_of_too_many_frames_is_not_written() {
    let frame = Frame { stored: Bytes::from_static(&[0; 9]), len: 1 };
    let mut writer = TableWriter::default();
    for _ in 0..MAX_FRAMES {
        writer.push(&frame);
    }
    let last = writer.clone().finish().unwrap();
    assert_eq!(table_len(last.last_chunk().unwrap()).unwrap(), Some(last.len() as u64));
    writer.push(&frame);
    writer.push(&frame);
    assert_eq!(writer.finish(), None);
}
