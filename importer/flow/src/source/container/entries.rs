//! The entries of a layer.

use std::ops::Range;

use bytes::Bytes;
use importer_codec::tar::{Event, Tar};

use crate::unwrap::Input;
use crate::{Error, Kind, Piece, Result, Source, Stream};

/// A layer, read as the archive it is. What nobody wants to see of it is passed over where the layer can be read at any
/// offset.
pub(super) struct Entries {
    tar: Tar,
    input: Input,
    /// How many entries have begun.
    count: u64,
    /// The layer itself, where data may be passed over.
    ranged: Option<Box<dyn Source>>,
    /// The layer itself, where it can be read at any offset besides.
    aside: Option<Box<dyn Source>>,
}

impl Entries {
    /// Of an archive that comes in order.
    pub(super) fn streamed(stream: Box<dyn Stream>) -> Self {
        Self { tar: Tar::new(), input: Input::new(stream), count: 0, ranged: None, aside: None }
    }

    /// The same, of the layer `source` as it is.
    pub(super) fn streamed_from(stream: Box<dyn Stream>, source: Box<dyn Source>) -> Self {
        Self { aside: Some(source), ..Self::streamed(stream) }
    }

    /// Of an archive that can be read anywhere: headers are fetched in small parts.
    pub(super) fn ranged(source: Box<dyn Source>) -> Self {
        Self { tar: Tar::new(), input: Input::new(Box::new(Nothing)), count: 0, ranged: Some(source), aside: None }
    }

    /// What comes next; an entry with its number.
    pub(super) fn next(&mut self) -> Result<(Event, u64)> {
        loop {
            let event = self.tar.next(&mut self.input.bytes, self.input.end).map_err(crate::unwrap::refused)?;
            match event {
                Some(event) => {
                    self.count += u64::from(matches!(event, Event::Entry(_)));
                    return Ok((event, self.count));
                }
                None if self.input.end => return Err(Error::new(Kind::Ours, "a layer waits for more than there is")),
                None if self.input.hole > 0 => {
                    let zeros = self.tar.take_zeros(self.input.hole);
                    self.input.hole -= zeros;
                    if zeros > 0 {
                        return Ok((Event::Hole(zeros), self.count));
                    }
                    self.fill()?;
                }
                None => self.fill()?,
            }
        }
    }

    /// Goes behind the data of the entry that has just begun, where that saves something.
    pub(super) fn pass_over(&mut self) -> Result<()> {
        let Some(len) = self.ranged.as_ref().map(|source| source.len().unwrap_or_default()) else { return Ok(()) };
        let skipped = self.tar.pass_over();
        if self.tar.consumed() > len {
            let message = "the archive ends in the middle of a file; it is cut, get it again";
            return Err(Error::new(Kind::NotUsable, message));
        }
        let ahead = self.input.bytes.len().min(usize::try_from(skipped).unwrap_or(usize::MAX));
        // What was fetched of it is let go.
        self.input.bytes = self.input.bytes.slice(ahead..);
        Ok(())
    }

    /// Where in the layer the data of the entry that has just begun lie, if they lie there as they are.
    pub(super) fn data(&self) -> Option<Range<u64>> {
        self.tar.data()
    }

    /// Whether data may be passed over without being read.
    pub(super) fn is_ranged(&self) -> bool {
        self.ranged.is_some()
    }

    /// Whether [`into_part`](Self::into_part) gives one.
    pub(super) fn has_part(&self) -> bool {
        self.ranged.is_some() && self.tar.data().is_some()
    }

    /// The layer, and where in it the data of the entry that has just begun lie, if they lie there as they are.
    pub(super) fn into_part(self) -> Option<(Box<dyn Source>, Range<u64>)> {
        let range = self.tar.data()?;
        self.ranged.map(|source| (source, range))
    }

    /// The layer and where in it the data of the entry that has just begun lie, if they lie there as they are and can be
    /// read besides.
    pub(super) fn aside(&mut self) -> Option<(Box<dyn Source>, Range<u64>)> {
        let range = self.tar.data()?;
        self.aside.take().map(|source| (source, range))
    }

    fn fill(&mut self) -> Result<()> {
        let Some(source) = &mut self.ranged else { return self.input.fill() };
        let (at, len) = (self.tar.consumed(), source.len().unwrap_or_default());
        if at >= len {
            self.input.end = true;
            return Ok(());
        }
        let mut stream = source.range(at..len.min(at.saturating_add(PART)))?;
        let mut part = Vec::new();
        crate::import::read_all(&mut *stream, &mut part)?;
        self.input.bytes = Bytes::from(part);
        Ok(())
    }
}

/// A stream of nothing, where bytes are fetched.
struct Nothing;

impl Stream for Nothing {
    fn next(&mut self) -> Result<Option<Piece>> {
        Ok(None)
    }
}

/// What is fetched at once to see a header: enough for one with its extensions, and for small files behind it.
const PART: u64 = 16 << 10;
