use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;

use fixtures::devices::LoopDevice;
use tempfile::{NamedTempFile, TempDir};

use super::*;

/// All of a stream, with what was a hole in it.
fn collect(mut stream: Box<dyn Stream>) -> Result<(Vec<u8>, u64)> {
    let (mut bytes, mut holes) = (Vec::new(), 0);
    while let Some(piece) = stream.next()? {
        assert!(!piece.is_empty());
        match piece {
            Piece::Bytes(piece) => bytes.extend_from_slice(&piece),
            Piece::Hole(len) => {
                holes += len;
                bytes.resize(bytes.len() + usize::try_from(len).unwrap(), 0);
            }
        }
    }
    Ok((bytes, holes))
}

/// A file with data at 0, in the middle and, in a part of a block, at its end.
fn sparse() -> (NamedTempFile, Vec<u8>) {
    let len = (6 << 20) + 700;
    let mut expected = vec![0; len];
    let file = NamedTempFile::new().unwrap();
    file.as_file().set_len(len as u64).unwrap();
    for (at, size) in [(0, 5000), (3 << 20, 2 << 20), (len - 100, 100)] {
        expected[at..at + size].fill(7);
        file.as_file().write_all_at(&expected[at..at + size], at as u64).unwrap();
    }
    (file, expected)
}

#[test]
fn holes_are_told_and_not_read() {
    let (file, expected) = sparse();
    let mut source = FileSource::open(file.path()).unwrap();
    assert_eq!((source.len(), source.ranges(), source.reopens()), (Some(expected.len() as u64), true, true));
    for _ in 0..2 {
        let (bytes, holes) = collect(source.open().unwrap()).unwrap();
        assert!(bytes == expected);
        // 8 KiB, 2 MiB and one or two blocks are not hole.
        assert_eq!(holes, (1 << 20) - 8192 + (2 << 20) + (1 << 20));
    }
}

#[test]
fn any_range_is_what_it_is_in_the_file() {
    let (file, expected) = sparse();
    let mut source = FileSource::open(file.path()).unwrap();
    let len = expected.len() as u64;
    let mut ranges = vec![
        0..0,
        0..1,
        4999..5001,
        1 << 20..(3 << 20) + 1,
        (3 << 20) - 1..len,
        len - 50..len,
        len..len,
        3 << 20..4 << 20,
    ];
    let part = |range: &Range<u64>| {
        expected[usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap()].to_vec()
    };
    for range in &ranges {
        let (bytes, _) = collect(source.range(range.clone()).unwrap()).unwrap();
        assert!(bytes == part(range), "{range:?}");
    }
    // Side by side, up and down, what is known of one part says nothing wrong of the next.
    for _ in 0..2 {
        let (bytes, holes) = collect(source.read(ranges.clone()).unwrap()).unwrap();
        assert!(bytes == ranges.iter().flat_map(part).collect::<Vec<_>>(), "{ranges:?}");
        assert!(holes > 2 << 20);
        ranges.reverse();
    }
    assert_eq!(source.range(0..len + 1).err().unwrap().kind(), Kind::Ours);
}

#[test]
fn a_file_that_is_all_hole_or_empty() {
    let file = NamedTempFile::new().unwrap();
    let (bytes, _) = collect(FileSource::open(file.path()).unwrap().open().unwrap()).unwrap();
    assert!(bytes.is_empty());
    file.as_file().set_len(1 << 46).unwrap_or_else(|_| file.as_file().set_len(1 << 40).unwrap());
    let mut source = FileSource::open(file.path()).unwrap();
    let len = source.len().unwrap();
    let mut stream = source.open().unwrap();
    assert_eq!(stream.next().unwrap(), Some(Piece::Hole(len)));
    assert_eq!(stream.next().unwrap(), None);
}

#[test]
fn a_change_is_noticed() {
    let changes: [fn(&fs::File); 3] = [
        |file| file.set_len(5 << 20).unwrap(),
        |file| file.set_len(7 << 20).unwrap(),
        |file| {
            // The clock of the file system may not have ticked since the file was made.
            file.write_all_at(b"x", 4 << 20).unwrap();
            file.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
        },
    ];
    for change in changes {
        let (file, _) = sparse();
        let mut source = FileSource::open(file.path()).unwrap();
        let mut stream = source.open().unwrap();
        stream.next().unwrap();
        change(file.as_file());
        let error = collect(stream).unwrap_err();
        assert_eq!(error.kind(), Kind::Transient);
        assert!(error.to_string().contains("changed while it was read"), "{error}");
        // Nor is it opened as if it were the same.
        assert_eq!(source.open().err().unwrap().kind(), Kind::Transient);
    }
}

#[test]
fn what_can_not_be_read_is_refused() {
    let dir = TempDir::new().unwrap();
    for (path, what) in [(dir.path().to_path_buf(), "is a directory"), (dir.path().join("no"), "no such file")] {
        let error = FileSource::open(&path).err().unwrap();
        assert_eq!(error.kind(), Kind::Refused);
        assert!(error.to_string().contains(what), "{error}");
    }
}

#[test]
fn a_pipe_is_read_once() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    let expected: Vec<u8> = (0..300_000u32).flat_map(u32::to_le_bytes).collect();
    let content = expected.clone();
    let to = path.clone();
    let writer = std::thread::spawn(move || {
        let mut pipe = OpenOptions::new().write(true).open(to).unwrap();
        pipe.write_all(b"small ").unwrap();
        pipe.write_all(&content).unwrap();
    });
    let mut source = FileSource::open(&path).unwrap();
    assert_eq!((source.len(), source.ranges(), source.reopens()), (None, false, false));
    let (bytes, holes) = collect(source.open().unwrap()).unwrap();
    writer.join().unwrap();
    assert!(bytes.strip_prefix(b"small ").unwrap() == expected && holes == 0);
    assert_eq!(source.open().err().unwrap().kind(), Kind::Ours);
    assert_eq!(source.range(0..1).err().unwrap().kind(), Kind::Ours);
}

#[test]
fn small_pieces_hold_no_large_buffers() {
    let (reader, mut writer) = std::io::pipe().unwrap();
    let mut pipe = Pipe::new(fs::File::from(std::os::fd::OwnedFd::from(reader)), "pipe".to_owned()).unwrap();
    writer.write_all(&[1; 100]).unwrap();
    let Some(Piece::Bytes(bytes)) = pipe.next().unwrap() else { panic!("there are bytes") };
    assert_eq!(bytes.len(), 100);
    assert!(Vec::from(bytes).capacity() < 200);
    drop(writer);
    assert_eq!(pipe.next().unwrap(), None);
    assert_eq!(pipe.next().unwrap(), None);
}

#[test]
fn a_device_is_read_whole() {
    let Some(device) = LoopDevice::filled((3 << 20) + 4096, 512, 0xAB) else { return };
    let mut source = FileSource::open(device.path()).unwrap();
    assert_eq!(source.len(), Some((3 << 20) + 4096));
    let (bytes, holes) = collect(source.open().unwrap()).unwrap();
    assert!(bytes.len() == (3 << 20) + 4096 && bytes.iter().all(|byte| *byte == 0xAB) && holes == 0);
}
