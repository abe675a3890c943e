//! Extents that are fetched in the order of the file, and given in that of the disk.

use std::ops::Range;

use super::super::span::{host_end, host_start};
use crate::{Body, Extent};

/// The bytes that the next few extents of the disk need, and how many of them need each.
#[derive(Debug, Default)]
pub(super) struct Bundle {
    /// How many extents of it are still to be given.
    pub(super) left: usize,
    /// Sorted and disjoint; no extent begins or ends within one.
    cells: Vec<Cell>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cell {
    start: u64,
    end: u64,
    needed_by: u32,
}

impl Bundle {
    /// How many of `extents`, from the first on, make up a bundle that needs at most `limit` bytes of the file, or one
    /// extent if that needs more.
    ///
    /// Long data is a bundle of its own: it is fetched well as it is, and nothing need be held for it.
    pub(super) fn cut<'a>(extents: impl Iterator<Item = &'a Extent>, limit: u64) -> usize {
        let (mut count, mut bytes) = (0, 0_u64);
        for extent in extents {
            let len = host_end(extent) - host_start(extent);
            let alone = matches!(extent.body, Body::Data { .. }) && len >= ALONE.min(limit);
            if len > 0 && bytes > 0 && (alone || bytes.saturating_add(len) > limit) {
                return count;
            }
            bytes = if alone { u64::MAX } else { bytes.saturating_add(len) };
            count += 1;
        }
        count
    }

    /// The bundle of these extents of a file of `file_len` bytes.
    pub(super) fn new<'a>(extents: impl Iterator<Item = &'a Extent>, file_len: u64) -> Self {
        let mut left = 0;
        let mut borders = Vec::new();
        for extent in extents {
            left += 1;
            let Range { start, end } = host_range(extent, file_len);
            if start < end {
                borders.extend([(start, true), (end, false)]);
            }
        }
        borders.sort_unstable();
        let (mut cells, mut needed_by, mut from) = (Vec::new(), 0_u32, 0);
        for (at, begins) in borders {
            if needed_by > 0 && from < at {
                cells.push(Cell { start: from, end: at, needed_by });
            }
            from = at;
            needed_by = if begins { needed_by + 1 } else { needed_by.saturating_sub(1) };
        }
        Self { left, cells }
    }

    /// The parts of `start..end` that are still needed.
    pub(super) fn needed(&self, start: u64, end: u64) -> Vec<Range<u64>> {
        let first = self.cells.partition_point(|cell| cell.end <= start);
        let cells = self.cells.get(first..).unwrap_or_default().iter();
        let mut parts: Vec<Range<u64>> = Vec::new();
        for cell in cells.take_while(|cell| cell.start < end).filter(|cell| cell.needed_by > 0) {
            let part = cell.start.max(start)..cell.end.min(end);
            match parts.last_mut() {
                Some(last) if last.end == part.start => last.end = part.end,
                _ => parts.push(part),
            }
        }
        parts
    }

    /// One extent needs `start..end` no more, and nothing before it. Gives what nobody needs now.
    pub(super) fn release(&mut self, start: u64, end: u64) -> Vec<Range<u64>> {
        let first = self.cells.partition_point(|cell| cell.end <= start);
        let cells = self.cells.get_mut(first..).unwrap_or_default().iter_mut();
        let mut gone = Vec::new();
        for cell in cells.take_while(|cell| cell.start < end) {
            if cell.needed_by <= 1 {
                gone.push(cell.start.max(start)..cell.end.min(end));
            }
            if cell.end <= end {
                cell.needed_by = cell.needed_by.saturating_sub(1);
            }
        }
        gone
    }
}

/// What an extent needs of a file of `file_len` bytes: a packed unit may be cut at its end. Empty if it needs nothing.
pub(super) fn host_range(extent: &Extent, file_len: u64) -> Range<u64> {
    host_start(extent)..host_end(extent).min(file_len)
}

/// Data as long as this is worth a request.
const ALONE: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Codec, GuestOffset, HostOffset};

    fn data(at: u64, len: u64) -> Extent {
        Extent { guest: GuestOffset(0), len, body: Body::Data { at: HostOffset(at) } }
    }

    fn zero() -> Extent {
        Extent { guest: GuestOffset(0), len: 1 << 40, body: Body::Zero }
    }

    fn packed(at: u64, len: u32) -> Extent {
        let body = Body::Packed { at: HostOffset(at), len, unpacked: 65536, codec: Codec::Deflate };
        Extent { guest: GuestOffset(0), len: 65536, body }
    }

    #[test]
    fn a_bundle_is_small_or_one_extent() {
        let cut = |extents: &[Extent], limit| Bundle::cut(extents.iter(), limit);
        assert_eq!(cut(&[], 10), 0);
        assert_eq!(cut(&[zero(), zero()], 0), 2);
        assert_eq!(cut(&[packed(0, 4), packed(0, 4), zero(), packed(4, 3)], 10), 3);
        assert_eq!(cut(&[packed(0, 40), zero(), packed(4, 3)], 10), 2);
        assert_eq!(cut(&[packed(0, 4), packed(0, 6), zero()], 10), 3);
        // Long data.
        assert_eq!(cut(&[zero(), data(0, ALONE), zero(), packed(0, 4)], 16 * ALONE), 3);
        assert_eq!(cut(&[packed(0, 4), data(0, ALONE)], 16 * ALONE), 1);
        assert_eq!(cut(&[data(0, ALONE - 1), data(0, ALONE - 1)], 16 * ALONE), 2);
        assert_eq!(cut(&[data(0, 5), data(0, 5)], 0), 1);
    }

    #[test]
    #[allow(clippy::single_range_in_vec_init, reason = "one range is what is meant")]
    fn bytes_are_kept_until_the_last_who_needs_them() {
        // Two units that share a sector, the second cut at the end of the file, and data that lies over them.
        let extents = [packed(100, 412), packed(400, 624), data(0, 512)];
        let mut bundle = Bundle::new(extents.iter(), 1000);
        assert_eq!(bundle.left, 3);
        assert_eq!(bundle.needed(0, 5000), [0..1000]);
        assert_eq!(bundle.needed(40, 450), [40..450]);
        assert_eq!(bundle.release(100, 512), []);
        assert_eq!(bundle.release(0, 50), [0..50]);
        assert_eq!(bundle.release(50, 512), [50..100, 100..400]);
        assert_eq!(bundle.needed(0, 5000), [400..1000]);
        assert_eq!(bundle.release(400, 1000), [400..512, 512..1000]);
        assert_eq!(bundle.needed(0, 5000), []);
    }

    proptest::proptest! {
        /// Against a counter for each byte, in any order of extents and in steps of any length.
        #[test]
        fn agrees_with_a_count(
            extents in proptest::collection::vec((0u64..200, 1u64..50), 1..12),
            steps in proptest::collection::vec(1u64..60, 60),
        ) {
            let extents: Vec<_> = extents.into_iter().map(|(at, len)| data(at, len)).collect();
            let mut bundle = Bundle::new(extents.iter(), 230);
            let mut model = [0; 300];
            for extent in &extents {
                let range = host_range(extent, 230);
                model[range.start as usize..range.end as usize].iter_mut().for_each(|count| *count += 1);
            }
            let mut steps = steps.into_iter();
            for extent in &extents {
                let Range { start, end } = host_range(extent, 230);
                let mut at = start;
                while at < end {
                    let to = end.min(at + steps.next().unwrap_or(60));
                    let gone = bundle.release(at, to);
                    for byte in at..to {
                        model[byte as usize] -= 1;
                        let free = gone.iter().any(|range| range.contains(&byte));
                        proptest::prop_assert!(!free || model[byte as usize] == 0, "{} is needed", byte);
                    }
                    at = to;
                }
                let needed = bundle.needed(0, 300);
                for byte in 0..300 {
                    let is = needed.iter().any(|range| range.contains(&byte));
                    proptest::prop_assert_eq!(is, model[byte as usize] > 0, "{}", byte);
                }
            }
        }
    }
}
