//! The walk as it is driven in earnest: a stream in chunks, read once.

use bytes::Bytes;

use super::build::{self, GRAIN, SECTOR};
use super::*;
use crate::plan::{Limits, Op, Pass, Piece, Plan};

/// Streams a file in chunks; gives the disk and how often it had to be read.
fn stream(file: &[u8], chunk: usize, known_len: bool) -> (Vec<u8>, u32) {
    let len = known_len.then_some(file.len() as u64);
    let vmdk = open(file, len).unwrap();
    let mut disk = vec![0xaa; usize::try_from(vmdk.header.size()).unwrap()];
    let mut ops = Vec::new();
    // Nothing may be held but what is being read.
    let limits = Limits { held: 4096, tables: 1 << 20 };
    let mut plan = Plan::streaming(Box::new(vmdk), len, limits, &mut ops).unwrap();
    loop {
        for bytes in file.chunks(chunk) {
            plan.push(Piece::Bytes(Bytes::copy_from_slice(bytes)), &mut ops).unwrap();
        }
        let pass = plan.end_pass(&mut ops).unwrap();
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
            return (disk, plan.pass());
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
                let (found, passes) = stream(image, chunk, known_len);
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
    let (found, passes) = stream(&image, GRAIN, true);
    assert!(found == disk);
    assert_eq!(passes, 2);
}
