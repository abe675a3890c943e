use bytes::Bytes;
use fixtures::content::Random;

use super::Ahead;
use crate::{Kind, Piece, Result};

/// A file with a hole in it.
fn file() -> Vec<u8> {
    let mut random = Random::new(1);
    let mut file: Vec<u8> = (0..100_000).map(|_| u8::try_from(random.below(256)).unwrap()).collect();
    file[40_000..60_000].fill(0);
    file
}

/// Uses these parts of `used` before `whole` passes in pieces of random length.
fn passed(used: &[u8], pages: &[(usize, usize)], whole: &[u8], seed: u64) -> Result<()> {
    let mut ahead = Ahead::new("x".into(), true, 64 << 20);
    for &(start, end) in pages {
        ahead.used(start as u64, &used[start..end])?;
    }
    let mut random = Random::new(seed);
    let mut at = 0;
    while at < whole.len() {
        let len = usize::try_from(1 + random.below(9_000)).unwrap().min(whole.len() - at);
        let bytes = &whole[at..at + len];
        ahead.pass(&if bytes.iter().all(|byte| *byte == 0) {
            Piece::Hole(len as u64)
        } else {
            Piece::Bytes(Bytes::copy_from_slice(bytes))
        })?;
        at += len;
    }
    ahead.end()?;
    assert!(ahead.is_proved());
    Ok(())
}

/// Pages beside each other, over each other, twice the same, in the hole, empty, and up to the end.
const PAGES: [(usize, usize); 9] = [
    (0, 512),
    (512, 66_000),
    (30_000, 70_000),
    (30_000, 70_000),
    (30_000, 30_001),
    (45_000, 55_000),
    (60_000, 60_000),
    (99_999, 100_000),
    (100_000, 100_000),
];

#[test]
fn what_is_the_same_passes() {
    let file = file();
    for seed in 0..50 {
        passed(&file, &PAGES, &file, seed).unwrap();
    }
}

#[test]
fn one_bit_anywhere_in_a_page_is_noticed_and_nothing_besides() {
    let file = file();
    let pages = [(1_000, 3_000), (41_000, 42_000), (90_000, 100_000)];
    let mut random = Random::new(2);
    for seed in 0..300 {
        let mut other = file.clone();
        let place = usize::try_from(random.below(100_000)).unwrap();
        other[place] ^= 1 << random.below(8);
        let inside = pages.iter().any(|(start, end)| (*start..*end).contains(&place));
        let result = passed(&other, &pages, &file, seed);
        assert_eq!(result.as_ref().err().map(crate::Error::kind), inside.then_some(Kind::Mismatch), "{place}");
    }
}

#[test]
fn a_stream_that_ends_before_what_was_used_does_not_prove_it() {
    let file = file();
    for end in [0, 500, 29_999, 65_999] {
        assert_eq!(passed(&file, &PAGES[..3], &file[..end], 1).unwrap_err().kind(), Kind::Mismatch, "{end}");
    }
}

#[test]
fn what_is_read_twice_and_differs_is_not_used() {
    let file = file();
    let mut ahead = Ahead::new("x".into(), true, 64 << 20);
    ahead.used(0, &file[..100]).unwrap();
    ahead.used(0, &file[..100]).unwrap();
    assert_eq!(ahead.used(0, &file[1..101]).unwrap_err().kind(), Kind::Mismatch);
}
