use super::*;
use crate::Wrapper;
use crate::seekable::{Compressor, FRAME, TableWriter, Zeros};
use crate::testing::{Pieces, Rng, decode, disk_like, tool};

/// The statuses up to the end, with zeros as they are told.
fn statuses(packed: &[u8], threads: u32, pieces: Pieces) -> Result<Vec<Status>> {
    let limits = Limits { threads, ..Limits::default() };
    let mut decoder = Wrapper::Zstd.decoder(limits, &Bin::default())?.unwrap();
    let (mut pieces, mut piece, mut all) = (pieces.cut(packed).peekable(), Bytes::new(), Vec::new());
    loop {
        match decoder.decode(&mut piece, pieces.peek().is_none())? {
            Status::NeedInput => piece = pieces.next().unwrap(),
            Status::Done => return Ok(all),
            status => all.push(status),
        }
    }
}

fn frames(data: &[u8], lens: &[usize]) -> Vec<Vec<u8>> {
    let mut compressor = Compressor::new(1).unwrap();
    let (mut frames, mut rest) = (Vec::new(), data);
    for &len in lens.iter().cycle() {
        if rest.is_empty() {
            return frames;
        }
        let (part, behind) = rest.split_at(len.min(rest.len()));
        frames.push(compressor.frame(part).unwrap().stored.to_vec());
        rest = behind;
    }
    frames
}

#[test]
fn frames_come_in_order_from_any_number_of_threads() {
    let data = disk_like(12 << 20);
    for lens in [&[FRAME][..], &[1024, FRAME, 3 << 20, 70_000], &[200_000, 1], &[5 << 20, 1 << 20]] {
        let packed = frames(&data, lens).concat();
        for threads in [1, 2, 7] {
            for pieces in [Pieces::Whole, Pieces::Of(100_000), Pieces::Random(3)] {
                let limits = Limits { threads, ..Limits::default() };
                let got = decode(Wrapper::Zstd, limits, &packed, pieces, 1 << 18).unwrap();
                assert!(got == data, "{lens:?} {threads} {pieces:?}");
            }
        }
    }
}

#[test]
fn zeros_are_told_and_not_made() {
    let zeros = Zeros::default();
    let data = disk_like(FRAME);
    let mut packed = frames(&data, &[FRAME]).concat();
    let mut table = TableWriter::default();
    for len in [64 << 20, 64 << 20, 1 << 20, 32 << 20] {
        let frame = zeros.frame(len).unwrap().unwrap();
        packed.extend_from_slice(&frame.stored);
        table.push(&frame);
    }
    packed.extend(frames(&data, &[FRAME]).concat());
    packed.extend_from_slice(&table.finish().unwrap());
    for pieces in [Pieces::Whole, Pieces::Of(7), Pieces::Random(8)] {
        let told = statuses(&packed, 2, pieces).unwrap();
        let told: Vec<u64> = told.iter().map(|status| if let Status::Zeros(len) = status { *len } else { 0 }).collect();
        assert_eq!(told, [0, 64 << 20, 64 << 20, 1 << 20, 32 << 20, 0]);
    }
    // Zeros as others write them, and large frames of something else: decoded as they are.
    for content in [vec![0; 8 << 20], vec![9; 64 << 20]] {
        let packed = tool("zstd", &["-cq", &format!("--stream-size={}", content.len())], &content);
        let limits = Limits::default();
        assert!(decode(Wrapper::Zstd, limits, &packed, Pieces::Whole, 1 << 18).unwrap() == content);
    }
}

/// Whatever is in a stream, all numbers of threads say the same of it: the same bytes, or the same error at the same place.
#[test]
fn threads_decide_nothing() {
    let data = disk_like(3 << 20);
    let frames = frames(&data, &[70_000, 400_000, 1000]);
    let skippable = [0x55, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3];
    let unsized_frame = tool("zstd", &["-cq"], &data[..200_000]);
    let large = tool("zstd", &["-cq", &format!("--stream-size={}", data.len()), "--no-check"], &data);
    let parts: Vec<&[u8]> = frames.iter().map(Vec::as_slice).collect();
    let mut rng = Rng::new(77);
    let mut streams = vec![Vec::new(), vec![0x28], vec![0; 5], parts.concat()];
    for end in [&[0_u8; 3][..], &[0; 700], b"junk", &[0x28], &[0x28, 0xb5, 0x2f, 0xfd], b"\0\0\x28\xb5", &skippable] {
        streams.push([&parts[..3].concat(), end].concat());
    }
    for other in [&unsized_frame[..], &large, &skippable] {
        streams.push([parts[0], other, parts[1], parts[2]].concat());
        streams.push([other, parts[0], other].concat());
    }
    let whole = [parts[0], parts[1], parts[2], parts[4]].concat();
    for _ in 0..60 {
        streams.push(whole[..rng.below(whole.len())].to_vec());
        let mut damaged = whole.clone();
        damaged[rng.below(whole.len())] ^= 1 << rng.below(8);
        streams.push(damaged);
    }
    // Damage in the headers, which is where the two read different things.
    for at in (0..24).chain((0..24).map(|at| parts[0].len() + at)) {
        let mut damaged = whole.clone();
        damaged[at] ^= 1 << rng.below(8);
        streams.push(damaged);
    }
    for (number, stream) in streams.iter().enumerate() {
        let read = |threads, pieces| {
            let limits = Limits { threads, ..Limits::default() };
            decode(Wrapper::Zstd, limits, stream, pieces, 1 << 18)
        };
        let one = read(1, Pieces::Whole);
        for (threads, pieces) in [(2, Pieces::Whole), (3, Pieces::Of(50_000)), (2, Pieces::Random(number as u64))] {
            match (&one, read(threads, pieces)) {
                (Ok(one), Ok(more)) => assert!(*one == more, "{number}"),
                (Err(one), Err(more)) => assert_eq!(one.kind(), more.kind(), "{number}: {one}, {more}"),
                (one, more) => {
                    panic!("{number}: {:?}, and {:?}", one.as_ref().map(Vec::len), more.map(|all| all.len()))
                }
            }
        }
    }
}

#[test]
fn a_damaged_frame_is_told_with_its_place_behind_all_that_is_good() {
    let data = disk_like(6 * FRAME);
    let frames = frames(&data, &[FRAME]);
    let at: usize = frames.iter().take(3).map(Vec::len).sum();
    let mut packed = frames.concat();
    packed[at + frames[3].len() / 2] ^= 0x10;
    let limits = Limits::default();
    let mut decoder = Wrapper::Zstd.decoder(limits, &Bin::default()).unwrap().unwrap();
    let (mut input, mut made) = (Bytes::from(packed), 0);
    let error = loop {
        match decoder.decode(&mut input, true) {
            Ok(Status::Made(bytes)) => made += bytes.len(),
            Ok(status) => panic!("{status:?}"),
            Err(error) => break error,
        }
    };
    assert!((3 * FRAME..4 * FRAME).contains(&made), "{made}");
    assert_eq!(error.kind(), Kind::Corrupt);
    let told = usize::try_from(error.offset().unwrap()).unwrap();
    assert!((at..=at + frames[3].len()).contains(&told), "{told}, {at}");
}

#[test]
fn what_waits_is_bounded() {
    let data = disk_like(64 << 20);
    let packed = Bytes::from(frames(&data, &[FRAME]).concat());
    let mut decoder = Parallel::new(Limits { threads: 4, ..Limits::default() }, &Bin::default()).unwrap();
    let (mut input, mut total) = (packed, 0);
    loop {
        match decoder.decode(&mut input, true).unwrap() {
            Status::Made(bytes) => total += bytes.len(),
            Status::Zeros(len) => total += usize::try_from(len).unwrap(),
            Status::Done => break,
            Status::NeedInput => panic!("there is no more"),
        }
        assert!(decoder.in_flight <= IN_FLIGHT + FRAME as u64 && decoder.frames.len() <= FRAMES);
    }
    assert_eq!(total, data.len());
    assert_eq!(decoder.consumed(), decoder.at);
}
