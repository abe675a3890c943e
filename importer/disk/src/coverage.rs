//! Which guest ranges were seen, for formats that say so only as they go.

use std::collections::BTreeMap;

use crate::{Error, Kind, Result};

/// A set of disjoint ranges that refuses overlap. Ranges that touch are joined, so a writer that goes upwards costs one
/// entry; at most [`Coverage::MAX_RANGES`] entries are kept (about 48 bytes each).
#[derive(Debug, Default)]
pub struct Coverage {
    ranges: BTreeMap<u64, u64>,
}

impl Coverage {
    /// The largest number of separate ranges kept.
    pub const MAX_RANGES: usize = 1 << 18;

    /// Adds `start..end`. Refuses a range that overlaps one already there, and more than [`Self::MAX_RANGES`] ranges.
    pub fn insert(&mut self, start: u64, end: u64) -> Result<()> {
        if start >= end {
            return Ok(());
        }
        let before = self.ranges.range(..=start).next_back().map(|(&s, &e)| (s, e));
        let after = self.ranges.range(start..).next().map(|(&s, &e)| (s, e));
        let overlaps = before.is_some_and(|(_, e)| e > start) || after.is_some_and(|(s, _)| s < end);
        if overlaps {
            return Err(Error::new(Kind::Corrupt, format!("guest range {start:#x}..{end:#x} is given twice")));
        }
        let mut from = start;
        let mut to = end;
        if let Some((s, e)) = before
            && e == start
        {
            from = s;
        }
        if let Some((s, e)) = after
            && s == end
        {
            self.ranges.remove(&s);
            to = e;
        }
        self.ranges.insert(from, to);
        if self.ranges.len() > Self::MAX_RANGES {
            return Err(Error::new(Kind::Oversized, "the image is too fragmented to be followed in bounded memory"));
        }
        Ok(())
    }

    /// The ranges of `0..size` that were never added, in order.
    pub fn gaps(&self, size: u64) -> impl Iterator<Item = (u64, u64)> + '_ {
        let starts = self.ranges.iter().map(|(&s, &e)| (s, e)).chain(std::iter::once((size, size)));
        let mut at = 0;
        starts.filter_map(move |(s, e)| {
            let gap = (at, s.min(size));
            at = at.max(e);
            (gap.0 < gap.1).then_some(gap)
        })
    }

    /// How many bytes were added.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.ranges.iter().map(|(s, e)| e - s).sum()
    }

    /// Whether nothing was added.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joins_refuses_and_lists_gaps() {
        let mut seen = Coverage::default();
        seen.insert(10, 20).unwrap();
        seen.insert(30, 40).unwrap();
        seen.insert(20, 30).unwrap();
        assert_eq!(seen.ranges.len(), 1);
        for (start, end) in [(10, 11), (5, 11), (39, 41), (0, 100), (15, 16)] {
            assert_eq!(seen.insert(start, end).unwrap_err().kind(), Kind::Corrupt, "{start}..{end}");
        }
        assert_eq!(seen.gaps(50).collect::<Vec<_>>(), [(0, 10), (40, 50)]);
        assert_eq!(seen.gaps(35).collect::<Vec<_>>(), [(0, 10)]);
        assert_eq!(seen.len(), 30);
    }

    proptest::proptest! {
        #[test]
        fn agrees_with_a_bitmap(ops in proptest::collection::vec((0u64..64, 1u64..8), 0..40)) {
            let mut seen = Coverage::default();
            let mut model = [false; 80];
            for (start, len) in ops {
                let range = start as usize..(start + len) as usize;
                let free = model[range.clone()].iter().all(|taken| !taken);
                proptest::prop_assert_eq!(seen.insert(start, start + len).is_ok(), free);
                if free {
                    model[range].fill(true);
                }
            }
            let mut from_gaps = [true; 80];
            for (start, end) in seen.gaps(80) {
                from_gaps[start as usize..end as usize].fill(false);
            }
            proptest::prop_assert_eq!(from_gaps, model);
        }
    }
}
