//! A sample of what was written, to find out later whether it is still there.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

/// The checksums of some blocks, spread evenly over all that was written.
///
/// They tell a target that was replaced, truncated, formatted or rolled back from the one that was left; not one of which
/// a few bytes were changed on purpose. Only with a checksum of the source is every byte of it looked at.
#[derive(Debug, Default)]
pub(super) struct Sample(Mutex<Marks>);

/// What is stored of a [`Sample`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Marks {
    /// How many writes there were.
    seen: u64,
    marks: Vec<Mark>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Mark {
    at: u64,
    len: u32,
    crc: u32,
}

impl Sample {
    /// The sample that `marks` began.
    pub(super) fn resume(&self, marks: Marks) {
        *self.lock() = marks;
    }

    /// `bytes` were written at `at`.
    pub(super) fn wrote(&self, at: u64, bytes: &[u8]) {
        let block = bytes.get(..BLOCK).unwrap_or(bytes);
        if block.is_empty() {
            return;
        }
        let mut marks = self.lock();
        marks.seen += 1;
        // Each write has the same chance to stay (reservoir sampling). Which ones do need not be hard to guess.
        let place = usize::try_from(scatter(marks.seen) % marks.seen).unwrap_or(usize::MAX);
        let mark = || Mark { at, len: u32::try_from(block.len()).unwrap_or_default(), crc: crc32fast::hash(block) };
        if marks.marks.len() < MARKS {
            marks.marks.push(mark());
        } else if let Some(old) = marks.marks.get_mut(place) {
            *old = mark();
        }
    }

    /// What is to be stored.
    pub(super) fn marks(&self) -> Marks {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Marks> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Marks {
    /// Whether `file` still holds what they are of. Reads 256 KiB at most.
    pub(super) fn hold(&self, file: &File) -> io::Result<bool> {
        for mark in &self.marks {
            let mut block = vec![0; usize::try_from(mark.len).unwrap_or(usize::MAX).min(BLOCK)];
            match file.read_exact_at(&mut block, mark.at) {
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(false),
                result => result?,
            }
            if crc32fast::hash(&block) != mark.crc {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// `SplitMix64`: a number that looks like any.
fn scatter(number: u64) -> u64 {
    let mut z = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

const BLOCK: usize = 4096;
const MARKS: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_holds_and_what_was_lost_does_not() {
        let file = tempfile::tempfile().unwrap();
        let sample = Sample::default();
        for at in 0..1000u32 {
            let bytes = [at.to_le_bytes(); 2048].concat();
            file.write_all_at(&bytes, u64::from(at) * 8192).unwrap();
            sample.wrote(u64::from(at) * 8192, &bytes);
        }
        let marks = sample.marks();
        assert_eq!((marks.seen, marks.marks.len()), (1000, MARKS));
        // Of the whole, not of its start or its end.
        assert!(marks.marks.iter().filter(|mark| mark.at < 500 * 8192).count().abs_diff(32) < 16);
        assert!(marks.hold(&file).unwrap());
        let mark = &marks.marks[17];
        file.write_all_at(b"x", mark.at + 4095).unwrap();
        assert!(!marks.hold(&file).unwrap());
        file.set_len(4096).unwrap();
        assert!(!marks.hold(&file).unwrap());
    }
}
