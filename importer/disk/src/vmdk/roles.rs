//! Which ranges of the file hold metadata.

use crate::{Error, Kind, Result};

/// Ranges that must not overlap, and that no data may touch.
#[derive(Debug, Default)]
pub(super) struct Roles {
    /// Start and end, ascending and apart.
    ranges: Vec<(u64, u64)>,
}

impl Roles {
    /// The ranges, `(start, end)` in any order; refused when two of them overlap.
    pub fn new(mut ranges: Vec<(u64, u64)>) -> Result<Self> {
        ranges.sort_unstable();
        for (&(_, end), &(start, _)) in ranges.iter().zip(ranges.iter().skip(1)) {
            if start < end {
                return Err(Error::new(Kind::Corrupt, "two tables lie over each other").at(start));
            }
        }
        Ok(Self { ranges })
    }

    /// Whether any of the ranges shares a byte with `start..end`.
    pub fn touches(&self, start: u64, end: u64) -> bool {
        let next = self.ranges.partition_point(|&(_, behind)| behind <= start);
        self.ranges.get(next).is_some_and(|&(from, _)| from < end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_overlap_and_finds_touch() {
        let roles = Roles::new(vec![(30, 40), (0, 10), (10, 20)]).unwrap();
        for (start, end, touches) in [
            (0, 1, true),
            (9, 11, true),
            (20, 30, false),
            (19, 20, true),
            (25, 31, true),
            (40, 99, false),
            (5, 99, true),
        ] {
            assert_eq!(roles.touches(start, end), touches, "{start}..{end}");
        }
        assert_eq!(Roles::new(vec![(5, 9), (0, 6)]).unwrap_err().kind(), Kind::Corrupt);
        assert_eq!(Roles::new(vec![(0, 6), (0, 6)]).unwrap_err().kind(), Kind::Corrupt);
    }
}
