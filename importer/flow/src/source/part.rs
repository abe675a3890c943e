//! A part of another source.

use std::ops::Range;

use crate::{Error, Kind, Result, Source, Stream};

/// A part of a source that can be read at any offset: a file in an archive.
pub(crate) struct Part {
    whole: Box<dyn Source>,
    range: Range<u64>,
}

impl Part {
    /// The bytes `range` of `whole`, which has ranges.
    ///
    /// # Errors
    ///
    /// A part that is not in it.
    pub(crate) fn of(whole: Box<dyn Source>, range: Range<u64>) -> Result<Self> {
        let inside = range.start <= range.end && whole.len().is_some_and(|len| range.end <= len);
        if !inside || !whole.ranges() {
            return Err(Error::new(Kind::NotUsable, "a file goes on behind the end of its archive; it is cut"));
        }
        Ok(Self { whole, range })
    }

    fn len(&self) -> u64 {
        self.range.end - self.range.start
    }
}

impl Source for Part {
    fn open(&mut self) -> Result<Box<dyn Stream>> {
        self.range(0..self.len())
    }

    fn read(&mut self, ranges: Vec<Range<u64>>) -> Result<Box<dyn Stream>> {
        let len = self.len();
        if let Some(range) = ranges.iter().find(|range| range.start > range.end || range.end > len) {
            return Err(Error::new(Kind::Ours, format!("the range {range:?} is not in a part of {len} bytes")));
        }
        let start = self.range.start;
        self.whole.read(ranges.into_iter().map(|range| start + range.start..start + range.end).collect())
    }

    fn stored(&mut self, range: Range<u64>) -> Result<Option<u64>> {
        self.whole.stored(self.range.start + range.start..self.range.start + range.end)
    }

    fn len(&self) -> Option<u64> {
        Some(self.len())
    }

    fn ranges(&self) -> bool {
        true
    }

    fn reopens(&self) -> bool {
        true
    }

    fn name(&self) -> String {
        self.whole.name()
    }
}
