//! A set of grains.

use std::collections::BTreeMap;

use crate::{Error, Kind, Result};

/// A set of grain numbers: a bitmap whose blocks of 512 grains exist once one of their grains is in it. It costs about
/// 80 bytes for each block touched (32 MiB with the usual grain), and is cut off at 80 MiB.
#[derive(Debug, Default)]
pub(super) struct GrainSet {
    blocks: BTreeMap<u64, [u64; WORDS]>,
}

impl GrainSet {
    /// Adds a grain. False when it is there already.
    pub fn insert(&mut self, grain: u64) -> Result<bool> {
        let block = self.blocks.entry(grain / BLOCK).or_insert([0; WORDS]);
        let bit = 1u64 << (grain % 64);
        // The word is in the block by construction; `get_mut` instead of an index keeps the parser free of panics.
        let word = usize::try_from(grain % BLOCK / 64).ok().and_then(|word| block.get_mut(word));
        let Some(word) = word else {
            return Err(Error::new(Kind::Ours, "grain outside of its block"));
        };
        let new = *word & bit == 0;
        *word |= bit;
        if self.blocks.len() > MAX_BLOCKS {
            return Err(Error::new(Kind::Oversized, "the grains are strewn over too much space to be followed"));
        }
        Ok(new)
    }

    /// Calls `each` with every run of `0..end` that is not in the set: first grain, and the one behind the last.
    pub fn gaps(&self, end: u64, mut each: impl FnMut(u64, u64)) {
        let mut at = 0;
        for (block, words) in &self.blocks {
            for (first, &word) in (block * BLOCK..).step_by(64).zip(words) {
                let mut done = 0;
                while done < 64 && word >> done != 0 {
                    let rest = word >> done;
                    let start = done + rest.trailing_zeros();
                    let stop = start + (word >> start).trailing_ones();
                    let from = first + u64::from(start);
                    if at < from.min(end) {
                        each(at, from.min(end));
                    }
                    at = first + u64::from(stop);
                    done = stop;
                }
            }
        }
        if at < end {
            each(at, end);
        }
    }
}

const WORDS: usize = 8;

/// Grains in a block: as many as in a grain table.
const BLOCK: u64 = 512;

/// 32 TiB of disk with the usual grain, if any of it is in use everywhere.
const MAX_BLOCKS: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_word_does_not_shift_out() {
        let mut set = GrainSet::default();
        for grain in 0..128 {
            assert!(set.insert(grain).unwrap());
        }
        assert!(!set.insert(127).unwrap());
        let mut gaps = Vec::new();
        set.gaps(130, |start, end| gaps.push((start, end)));
        assert_eq!(gaps, [(128, 130)]);
    }

    proptest::proptest! {
        #[test]
        fn agrees_with_a_list(grains in proptest::collection::vec(0u64..2000, 0..300), end in 1u64..2100) {
            let mut set = GrainSet::default();
            let mut model = [false; 2100];
            for grain in grains {
                let there = std::mem::replace(&mut model[grain as usize], true);
                proptest::prop_assert_eq!(set.insert(grain).unwrap(), !there);
            }
            let mut from_gaps = [true; 2100];
            let mut last = None;
            set.gaps(end, |start, stop| {
                assert!(start < stop && last.is_none_or(|last| last < start), "gaps are joined and ascend");
                last = Some(stop);
                from_gaps[start as usize..stop as usize].fill(false);
            });
            let end = end as usize;
            proptest::prop_assert_eq!(&from_gaps[..end], &model[..end]);
        }
    }
}
