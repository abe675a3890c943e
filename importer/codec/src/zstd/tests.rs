use super::*;
use crate::testing::{Pieces, decode, decodes_to, disk_like, flips_never_change_data, tool, truncations_fail};
use crate::{Status, Wrapper};

fn check(packed: &[u8], want: &[u8]) {
    decodes_to(Wrapper::Zstd, Limits::default(), packed, want);
}

fn fails(packed: &[u8]) -> Error {
    decode(Wrapper::Zstd, Limits::default(), packed, Pieces::Of(5), 1 << 16).unwrap_err()
}

fn skippable(content: &[u8], nibble: u8) -> Vec<u8> {
    let len = u32::try_from(content.len()).unwrap();
    [&[0x50 | nibble, 0x2a, 0x4d, 0x18][..], &len.to_le_bytes(), content].concat()
}

#[test]
fn what_the_tools_write() {
    let data = disk_like(700_000);
    for (command, args) in [
        ("zstd", &["-cq1"][..]),
        ("zstd", &["-cq3", "--no-check"]),
        ("zstd", &["-cq19", "--single-thread"]),
        ("zstd", &["-cq", "--long=27", "-T0"]),
        ("zstd", &["-cq", "-T2", "-B65536"]),
        ("zstd", &["-cq", "--stream-size=700000"]),
        ("zstd", &["-cq", "--fast=5"]),
        ("pzstd", &["-cq", "-p", "2"]),
    ] {
        check(&tool(command, args, &data), &data);
    }
    check(&tool("zstd", &["-cq"], b""), b"");
}

#[test]
fn many_frames_skippable_frames_and_padding() {
    let (a, b) = (disk_like(70_000), disk_like(300));
    let first = tool("zstd", &["-cq"], &a);
    let second = tool("zstd", &["-cq", "--no-check", "--stream-size=300"], &b);
    let skip = skippable(&[9; 5000], 7);
    let packed = [&skippable(b"", 0)[..], &skip, &first, &skip, &second, &first, &skip].concat();
    let want = [&a[..], &b, &a].concat();
    check(&packed, &want);
    check(&[&packed[..], &[0; 777]].concat(), &want);
    for garbage in [&b"junk"[..], b"\0\0\x28", b"\x28\xb5\x2f\xfe", b"\x04\x22\x4d\x18"] {
        assert_eq!(fails(&[&packed[..], garbage].concat()).kind(), Kind::Trailing);
    }
    // One byte of what may be a frame.
    assert_eq!(fails(&[&packed[..], b"\x28"].concat()).kind(), Kind::Truncated);
    // Zeros come behind a frame, not in front of one.
    assert_eq!(fails(&[&[0; 8], &first[..]].concat()).kind(), Kind::Trailing);
}

#[test]
fn small_frames_one_by_one() {
    // As in a seekable file: whole frames in one input, decoded without a window.
    let data = disk_like(300_000);
    let mut packed = Vec::new();
    for part in data.chunks(10_000) {
        packed.extend(tool("zstd", &["-cq", &format!("--stream-size={}", part.len())], part));
    }
    check(&packed, &data);
    // Frames that leave the output full when the next header comes in pieces.
    for len in [1, 4, 13] {
        let data = disk_like(100);
        let frames =
            data.chunks(len).map(|part| tool("zstd", &["-cq", &format!("--stream-size={}", part.len())], part));
        check(&frames.collect::<Vec<_>>().concat(), &data);
    }
    // The same with a segment.
    let data: Vec<u8> = (0..3_000_000_u32).map(|at| u8::try_from(at / 5000 % 251).unwrap()).collect();
    let frames =
        data.chunks(100_000).map(|part| tool("zstd", &["-cq", &format!("--stream-size={}", part.len())], part));
    check(&frames.collect::<Vec<_>>().concat(), &data);
}

#[test]
fn damage_is_noticed() {
    let data = disk_like(2000);
    let first = tool("zstd", &["-cq"], &data);
    let packed = [&first[..], &skippable(b"xyz", 3), &first].concat();
    let second = first.len() + 11;
    truncations_fail(Wrapper::Zstd, Limits::default(), &packed, |len| len == first.len() || len == second);
    flips_never_change_data(Wrapper::Zstd, Limits::default(), &first, &data);
}

#[test]
fn a_window_beyond_the_limit_is_refused_with_its_size() {
    let packed = tool("zstd", &["-cq", "--long=31"], &disk_like(3000));
    let error = fails(&packed);
    assert_eq!(error.kind(), Kind::Memory);
    let text = error.to_string();
    assert!(text.contains("needs 2048 MiB of memory and 128 MiB are allowed"), "{text}");
    assert!(text.contains("--memory"), "{text}");
    let limits = Limits { memory: 2 << 30, ..Limits::default() };
    assert_eq!(decode(Wrapper::Zstd, limits, &packed, Pieces::Whole, 4096).unwrap(), disk_like(3000));
    // At the limit, and one below it.
    let packed = tool("zstd", &["-cq", "--long=24"], &disk_like(3000));
    for (memory, fits) in [(16 << 20, true), ((16 << 20) - 1, false)] {
        let limits = Limits { memory, ..Limits::default() };
        assert_eq!(decode(Wrapper::Zstd, limits, &packed, Pieces::Of(1), 4096).is_ok(), fits);
    }
}

#[test]
fn headers_are_read_as_the_specification_has_them() {
    let parse = |rest: &[u8]| Header::parse(&[&MAGIC[..], rest].concat());
    let window = |rest: &[u8]| parse(rest).unwrap().unwrap().window;
    assert_eq!(window(&[0x00, 0x00]), 1024);
    assert_eq!(window(&[0x00, 0x0f]), 2048 + 7 * 256);
    assert_eq!(window(&[0x20, 77]), 77);
    assert_eq!(window(&[0x60, 1, 2]), 0x201 + 256);
    assert_eq!(window(&[0xa0, 1, 2, 3, 4]), 0x0403_0201);
    assert_eq!(window(&[0xe0, 1, 2, 3, 4, 5, 6, 7, 8]), 0x0807_0605_0403_0201);
    assert!(!parse(&[0x01, 0, 0]).unwrap().unwrap().dictionary);
    assert!(parse(&[0x03, 0, 0, 0, 0, 1]).unwrap().unwrap().dictionary);
    assert_eq!(parse(&[]), Ok(None));
    assert_eq!(parse(&[0xe3, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6]), Ok(None));
    assert_eq!(parse(&[0x08]).unwrap_err().kind(), Kind::Unsupported);
    // Beyond what libzstd decodes, whatever is allowed.
    let packed = [&MAGIC[..], &[0x00, 0xff, 0, 0, 0, 0]].concat();
    let limits = Limits { memory: u64::MAX, ..Limits::default() };
    let error = decode(Wrapper::Zstd, limits, &packed, Pieces::Whole, 4096).unwrap_err();
    assert_eq!(error.kind(), Kind::Unsupported);
    let packed = [&MAGIC[..], &[0x01, 0x00, 5, 1, 0, 0]].concat();
    assert!(fails(&packed).to_string().contains("dictionary"));
}

/// A content size of 300, a window of 1 KiB, a raw block of four bytes, and an empty last block.
#[test]
fn a_frame_that_ends_before_its_size_is_damaged() {
    let frame = |size: u16| {
        let size = (size - 256).to_le_bytes();
        [&MAGIC[..], &[0x40, 0], &size, &[0x20, 0, 0], b"disk", &[1, 0, 0]].concat()
    };
    for pieces in Pieces::ALL {
        for room in [1, 4096] {
            let error = decode(Wrapper::Zstd, Limits::default(), &frame(300), pieces, room).unwrap_err();
            assert_eq!(error.kind(), Kind::Corrupt, "{pieces:?} {room}: {error}");
        }
    }
    // More than its size, before the file is cut.
    let long = [&MAGIC[..], &[0x40, 0], &44u16.to_le_bytes(), &[0x02, 0x20, 0], b"d", &[0, 0]].concat();
    for room in [1, 4096, 1 << 20] {
        let error = decode(Wrapper::Zstd, Limits::default(), &long, Pieces::Of(3), room).unwrap_err();
        assert_eq!(error.kind(), Kind::Corrupt, "{room}: {error}");
    }
    // The same with a size that is right.
    let right = [&MAGIC[..], &[0x80, 0], &4u32.to_le_bytes(), &[0x20, 0, 0], b"disk", &[1, 0, 0]].concat();
    check(&right, b"disk");
}

/// Segments end in the middle of frames, are looked back into, and are used again, while some pieces are kept by others.
#[test]
fn pieces_given_away_never_change() {
    let part = disk_like(9 << 20);
    // Matches that reach across whole segments.
    let data = [&part[..], &part[..3 << 20], &[0; 5 << 20], &part[1 << 20..]].concat();
    for args in [
        &["-cq1"][..],
        &["-cq3"],
        &["-cq3", "--no-check", "--long=23"],
        &["-cq3", "--long=24"],
        &["-cq", "-T2", "-B600000"],
    ] {
        let packed = tool("zstd", args, &data);
        // A frame of another size of window behind it.
        let packed = [&packed[..], &tool("zstd", &["-cq", "--stream-size=1000"], &data[..1000])].concat();
        for keep in [1, 3, usize::MAX] {
            let mut decoder = Wrapper::Zstd.decoder(Limits::default(), &Bin::default()).unwrap().unwrap();
            let mut pieces = Pieces::Random(7).cut(&packed).peekable();
            let (mut input, mut kept, mut at, mut count) = (Bytes::new(), Vec::new(), 0, 0);
            loop {
                match decoder.decode(&mut input, pieces.peek().is_none()).unwrap() {
                    Status::NeedInput => input = pieces.next().unwrap(),
                    Status::Made(piece) => {
                        let (from, len) = (at % data.len(), piece.len());
                        count += 1;
                        if count % keep == 0 {
                            kept.push((from, piece));
                        } else {
                            let want = [&data[from..], &data[..1000]].concat();
                            assert!(want.starts_with(&piece), "{args:?} {keep} {from}");
                        }
                        at += len;
                    }
                    Status::Zeros(_) => panic!("there are none"),
                    Status::Done => break,
                }
            }
            assert_eq!(at, data.len() + 1000);
            for (from, piece) in kept {
                let want = [&data[from..], &data[..1000]].concat();
                assert!(want.starts_with(&piece), "{args:?} {keep} {from}: it has changed");
            }
        }
    }
}
