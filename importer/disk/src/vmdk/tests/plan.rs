//! The walk as it is driven in earnest: a stream in chunks, read once.

use bytes::Bytes;

use super::build::{self, GRAIN, SECTOR};
use super::*;
use crate::Body;
use crate::plan::{Limits, Op, Pass, Piece, Plan};
use crate::testing::{ORDERS, walk};

/// Streams a file in chunks; gives the disk and how often it had to be read.
fn stream(file: &[u8], chunk: usize, known_len: bool) -> Result<(Vec<u8>, u32)> {
    let len = known_len.then_some(file.len() as u64);
    let vmdk = open(file, len)?;
    let mut disk = vec![0xaa; usize::try_from(vmdk.header.size()).unwrap()];
    let mut ops = Vec::new();
    // Nothing may be held but what is being read.
    let limits = Limits { held: 4096, tables: 1 << 20 };
    let mut plan = Plan::streaming(Box::new(vmdk), len, limits, &mut ops)?;
    loop {
        for bytes in file.chunks(chunk) {
            plan.push(Piece::Bytes(Bytes::copy_from_slice(bytes)), &mut ops)?;
        }
        let pass = plan.end_pass(&mut ops)?;
        for op in ops.drain(..) {
            let (guest, bytes) = match op {
                Op::Write { guest, bytes } => (guest, bytes.to_vec()),
                Op::Zero { guest, len } => (guest, vec![0; len as usize]),
                Op::Unpack { guest, len, input, .. } => {
                    let mut bytes = Vec::new();
                    std::io::copy(&mut flate2::read::ZlibDecoder::new(&input[..]), &mut bytes).unwrap();
                    bytes.truncate(len as usize);
                    (guest, bytes)
                }
            };
            let place = &mut disk[guest.0 as usize..][..bytes.len()];
            assert!(place.iter().all(|&byte| byte == 0xaa), "written twice");
            place.copy_from_slice(&bytes);
        }
        if pass == Pass::Done {
            return Ok((disk, plan.pass()));
        }
    }
}

#[test]
fn one_pass_is_enough() {
    let mut disk = build::disk(1100, &[0, 1, 5, 511, 512, 1099, 1100]);
    // 0xaa marks what was not written.
    disk.iter_mut().filter(|byte| **byte == 0xaa).for_each(|byte| *byte = 1);
    let images = [build::sparse(&disk), build::stream_front(&disk), build::stream_behind(&disk).0];
    for (nth, image) in images.iter().enumerate() {
        for chunk in [1, 511, 512, 4096, 65_536, 1 << 20] {
            for known_len in [false, true] {
                let (found, passes) = stream(image, chunk, known_len).unwrap();
                assert!(found == disk, "image {nth} in chunks of {chunk}");
                assert_eq!(passes, 1, "image {nth} in chunks of {chunk}");
            }
        }
    }
}

#[test]
fn tables_behind_the_grains_cost_a_second_pass() {
    let disk = build::disk(20, &[1, 5]);
    let mut image = build::sparse(&disk);
    // The directory and the table move to the end.
    let end = image.len() / SECTOR;
    image.extend_from_within(3 * SECTOR..8 * SECTOR);
    build::put32(&mut image, end * SECTOR, end as u32 + 1);
    build::put64(&mut image, build::at::DIRECTORY, end as u64);
    assert_eq!(assemble(&image, Order::Forward).unwrap(), disk);
    let (found, passes) = stream(&image, GRAIN, true).unwrap();
    assert!(found == disk);
    assert_eq!(passes, 2);
}

/// Where the grains of a stream begin and end, in the order of the file.
fn boundaries(image: &[u8]) -> Vec<usize> {
    let walked = walk(&mut open(image, None).unwrap(), image, Order::Forward, false).unwrap();
    let packed = walked.extents.iter().filter_map(|extent| match extent.body {
        Body::Packed { at, len, .. } => Some((at.0 as usize, len as usize)),
        _ => None,
    });
    let mut places: Vec<_> =
        packed.flat_map(|(at, len)| [at / SECTOR * SECTOR, (at + len).next_multiple_of(SECTOR)]).collect();
    places.sort_unstable();
    places.dedup();
    places
}

/// Nothing in the file itself is damaged there: only the tables tell that more belongs to it.
#[test]
fn a_stream_cut_between_two_grains_is_truncated_and_never_zeros() {
    let disk = build::disk(600, &[0, 1, 2, 512, 600]);
    let dir = tempfile::tempdir().unwrap();
    let by_qemu = fixtures::images::catalogue().into_iter().find(|recipe| recipe.name == "vmdk-stream").unwrap();
    let by_qemu = std::fs::read(by_qemu.build(dir.path()).path).unwrap();
    for image in [build::stream_front(&disk), build::stream_behind(&disk).0, by_qemu] {
        let mut places = boundaries(&image);
        assert!(places.len() > 5);
        // With its tables in front, a stream may end behind its last grain.
        if assemble(&image[..places[places.len() - 1]], Order::Forward).is_ok() {
            places.pop();
        }
        // Some of those of large images: each is read many times.
        let step = places.len().div_ceil(8);
        for &place in places.iter().step_by(step).chain(places.last()) {
            let cut = image[..place].to_vec();
            // As by a transfer that set the length first, too.
            let mut filled = cut.clone();
            filled.resize(image.len(), 0);
            for file in [cut, filled] {
                let ordered = ORDERS.iter().map(|order| assemble(&file, *order).map(|_| ()));
                let streamed = [(1 << 20, true), (1 << 20, false), (777, true), (777, false)]
                    .map(|(chunk, known_len)| stream(&file, chunk, known_len).map(|_| ()));
                for result in ordered.chain([assemble_unsized(&file).map(|_| ())]).chain(streamed) {
                    let error = result.unwrap_err();
                    assert_eq!(error.kind(), Kind::Truncated, "cut at {place:#x} of {:#x}: {error}", image.len());
                }
            }
        }
    }
}
