//! tar, read as a stream: what is in it, in order, and the bytes of each file without a copy. Written is one archive
//! only: [`Around`] a disk.
//!
//! Read are: v7, ustar, GNU (base-256 numbers, long names, old sparse files) and PAX (path, linkpath, size, the three
//! GNU sparse formats). Nothing is extracted and no link is followed: an entry says what it is, under the name the
//! archive gives it.
//!
//! The end: two blocks of zeros, or one at the very end of the input, or the end of the input where a header could
//! begin (as GNU tar has it; builders of layers leave the mark out). Behind the mark only zeros may follow. The end of
//! the input anywhere else is [`Kind::Truncated`].

mod around;
mod header;
mod pax;
mod sparse;

use std::collections::VecDeque;
use std::ops::Range;

use bytes::{Buf, Bytes};

use crate::decode::{skip, skip_zeros};
use crate::gather::Gather;
use crate::printable::printable;
use crate::{Error, Kind, Result};
pub use around::Around;
use header::Header;
use pax::Pax;
use sparse::{Map, Run, TextMap};

/// A tar reader. It holds one header, and the map of a sparse file (1 Mi runs, 16 MiB at most).
pub struct Tar {
    state: State,
    block: Gather<BLOCK>,
    /// What the extension headers say about the next entry.
    pax: Pax,
    long_name: Option<Vec<u8>>,
    long_link: Option<Vec<u8>>,
    /// Offset in the archive.
    at: u64,
    /// Whether the end mark was seen.
    marked: bool,
    failed: Option<Error>,
}

/// What comes next in an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// An entry begins.
    Entry(Entry),
    /// The next bytes of the entry; never empty.
    Data(Bytes),
    /// The next part of the entry is this many zeros; never 0.
    Hole(u64),
    /// The archive is complete. Comes again when asked again.
    End,
}

/// One entry of an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name as the archive has it: any bytes, absolute or with `..` as they come.
    pub path: Vec<u8>,
    /// What it is.
    pub kind: EntryKind,
    /// Where a link leads, as the archive has it; empty for other entries.
    pub link: Vec<u8>,
    /// How many bytes its data and holes give together.
    pub size: u64,
    /// Permissions, as the archive has them; 0 where they make no sense.
    pub mode: u32,
    /// Whether it has a map of holes.
    pub sparse: bool,
}

impl Entry {
    /// Its name for people: control characters escaped, cut when very long.
    #[must_use]
    pub fn name(&self) -> String {
        printable(&self.path)
    }
}

/// What an [`Entry`] is. All but [`EntryKind::Regular`] and [`EntryKind::Other`] have no data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EntryKind {
    /// A file.
    Regular,
    /// A directory; also a file whose name ends with a slash.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A hard link to an entry before it.
    Hardlink,
    /// A character device.
    CharDevice,
    /// A block device.
    BlockDevice,
    /// A named pipe.
    Fifo,
    /// Something else, by its type flag.
    Other(u8),
}

enum State {
    /// Before a header.
    Header,
    /// In an extension header: what it is, and how many bytes of it and of its padding are missing.
    Extension {
        what: Extension,
        left: usize,
        pad: u64,
        bytes: Vec<u8>,
    },
    /// In the extension blocks of an old GNU sparse header.
    SparseBlocks {
        entry: Entry,
        packed: u64,
        map: Map,
    },
    /// In the map in front of the data of a PAX 1.0 sparse file.
    SparseText {
        entry: Entry,
        packed: u64,
        text: TextMap,
    },
    /// In the data of an entry.
    Data {
        runs: Runs,
        pad: u64,
    },
    /// In data that nobody wants, padding included.
    Skip(u64),
    /// Behind the end mark.
    Padding,
    End,
}

/// What an extension header holds.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Extension {
    Pax,
    Global,
    LongName,
    LongLink,
}

/// Which parts of an entry are data.
enum Runs {
    /// This many bytes, all data.
    Plain(u64),
    /// Runs of data with holes before, between and behind.
    Sparse { runs: VecDeque<Run>, at: u64, size: u64 },
}

impl Default for Tar {
    fn default() -> Self {
        Self::new()
    }
}

impl Tar {
    /// A reader at the start of an archive.
    #[must_use]
    pub fn new() -> Self {
        Self {
            state: State::Header,
            marked: false,
            block: Gather::default(),
            pax: Pax::default(),
            long_name: None,
            long_link: None,
            at: 0,
            failed: None,
        }
    }

    /// The next event; `None` when more input is needed. What was used is taken off `input`; `end` says that no more
    /// will come after it.
    ///
    /// Data are slices of the input. Errors are final.
    pub fn next(&mut self, input: &mut Bytes, end: bool) -> Result<Option<Event>> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        let before = input.remaining();
        let event = self.step(input, end);
        self.at += (before - input.remaining()) as u64;
        event.map_err(|error| {
            let error = error.of("tar").at(self.at);
            self.failed = Some(error.clone());
            error
        })
    }

    /// How many bytes of the archive were used so far.
    #[must_use]
    pub fn consumed(&self) -> u64 {
        self.at
    }

    /// Goes behind the data of the entry that has just begun, for those who can read the archive at any offset. Gives
    /// how many bytes of it are not to be brought: the next input begins behind them.
    pub fn pass_over(&mut self) -> u64 {
        let len = match &self.state {
            State::Data { runs, pad } => runs.packed() + pad,
            State::Skip(left) => *left,
            _ => return 0,
        };
        self.state = State::Header;
        self.at = self.at.saturating_add(len);
        len
    }

    /// The input goes on with `len` zeros that nobody has made: takes as many as are data of the entry at hand, where
    /// they lie as they are. They are a hole of the entry, which no event tells of.
    pub fn take_zeros(&mut self, len: u64) -> u64 {
        let State::Data { runs: Runs::Plain(left), .. } = &mut self.state else { return 0 };
        let taken = len.min(*left);
        *left -= taken;
        self.at = self.at.saturating_add(taken);
        taken
    }

    /// Where in the archive the data of the entry that has just begun lie, if they lie there as they are.
    #[must_use]
    pub fn data(&self) -> Option<Range<u64>> {
        match &self.state {
            State::Data { runs: Runs::Plain(len), .. } => Some(self.at..self.at.saturating_add(*len)),
            _ => None,
        }
    }

    /// Whether the archive ended with its end mark, and not just with the end of the input.
    #[must_use]
    pub fn is_marked(&self) -> bool {
        self.marked
    }

    fn step(&mut self, input: &mut Bytes, end: bool) -> Result<Option<Event>> {
        let ahead = self.at + input.remaining() as u64;
        loop {
            match &mut self.state {
                State::Header => {
                    if !self.block.fill(BLOCK, input) {
                        if !end {
                            return Ok(None);
                        }
                        let boundary = self.block.bytes().is_empty() && self.pax.is_empty();
                        if !boundary || self.long_name.is_some() || self.long_link.is_some() {
                            return Err(cut("a header"));
                        }
                        self.state = State::End;
                        continue;
                    }
                    let Some(block) = self.block.take(input) else { return Ok(None) };
                    let start = ahead - (input.remaining() + BLOCK) as u64;
                    if let Some(event) = self.header(&block).map_err(|error| error.at(start))? {
                        return Ok(Some(event));
                    }
                }
                State::Extension { what, left, pad, bytes } => {
                    let part = input.split_to(input.len().min(*left));
                    bytes.extend_from_slice(&part);
                    *left -= part.len();
                    if *left != 0 {
                        return more(end, "an extension header");
                    }
                    let (what, pad, bytes) = (*what, *pad, std::mem::take(bytes));
                    self.extension(what, bytes)?;
                    self.state = State::Skip(pad);
                }
                State::SparseBlocks { map, .. } => {
                    let Some(block) = self.block.take::<BLOCK>(input) else { return more(end, "a sparse header") };
                    if map.block(&block)? {
                        continue;
                    }
                    let State::SparseBlocks { entry, packed, map } = std::mem::replace(&mut self.state, State::End)
                    else {
                        continue;
                    };
                    return self.begin(entry, packed, packed, Some(map)).map(Some);
                }
                State::SparseText { text, packed, .. } => {
                    let Some(block) = self.block.take::<BLOCK>(input) else { return more(end, "a sparse map") };
                    let left = packed.checked_sub(text.len() + BLOCK as u64);
                    if left.is_none() {
                        return Err(Error::new(Kind::Corrupt, "the map of a sparse file is longer than the file"));
                    }
                    if text.block(&block)? {
                        continue;
                    }
                    let State::SparseText { entry, packed, text } = std::mem::replace(&mut self.state, State::End)
                    else {
                        continue;
                    };
                    return self.begin(entry, packed, packed - text.len(), Some(text.finish()?)).map(Some);
                }
                State::Data { runs, pad } => match runs.next(input) {
                    Some(event) => return Ok(Some(event)),
                    None if runs.is_done() => self.state = State::Skip(*pad),
                    None => return more(end, "a file"),
                },
                State::Skip(left) => {
                    *left = skip(input, *left);
                    if *left != 0 {
                        return more(end, "an entry");
                    }
                    self.state = State::Header;
                }
                State::Padding => {
                    skip_zeros(input);
                    if input.has_remaining() {
                        return Err(Error::new(
                            Kind::Trailing,
                            "something follows the end mark of the archive; it is damaged, or several archives were \
                             joined: give one",
                        ));
                    }
                    if !end {
                        return Ok(None);
                    }
                    self.state = State::End;
                }
                State::End => return Ok(Some(Event::End)),
            }
        }
    }

    /// Reads a header block.
    fn header(&mut self, block: &[u8; BLOCK]) -> Result<Option<Event>> {
        if block.iter().all(|&byte| byte == 0) {
            self.marked = true;
            self.state = State::Padding;
            return Ok(None);
        }
        let header = Header::parse(block)?;
        if let Some((what, max)) = header.extension() {
            let left = usize::try_from(header.size).ok().filter(|&len| len <= max).ok_or_else(|| {
                let size = header.size;
                Error::new(Kind::Oversized, format!("an extension header of {size} bytes is larger than {max} bytes"))
            })?;
            self.state = State::Extension { what, left, pad: padding(header.size), bytes: Vec::new() };
            return Ok(None);
        }
        let mut pax = std::mem::take(&mut self.pax);
        let long_name = self.long_name.take();
        let long_link = self.long_link.take();
        let path = pax.path.take().or(long_name).unwrap_or(header.path);
        let link = pax.link.take().or(long_link).unwrap_or(header.link);
        let kind = match header.kind {
            EntryKind::Regular if path.ends_with(b"/") && header.sparse.is_none() => EntryKind::Directory,
            kind => kind,
        };
        // POSIX: the size of these is a hint, no data follow. The data of what only looks like a directory do.
        let packed = match header.kind {
            EntryKind::Regular | EntryKind::Other(_) => pax.size.unwrap_or(header.size),
            _ => 0,
        };
        let link = if matches!(kind, EntryKind::Symlink | EntryKind::Hardlink) { link } else { Vec::new() };
        let mut entry = Entry { path, kind, link, size: packed, mode: header.mode, sparse: false };
        if kind == EntryKind::Directory {
            entry.size = 0;
            self.state = State::Skip(padded(packed)?);
            return Ok(Some(Event::Entry(entry)));
        }
        if let Some((map, more)) = header.sparse {
            if more {
                self.state = State::SparseBlocks { entry, packed, map };
                return Ok(None);
            }
            return self.begin(entry, packed, packed, Some(map)).map(Some);
        }
        let sparse = if kind == EntryKind::Regular { pax.sparse()? } else { None };
        match sparse {
            None => self.begin(entry, packed, packed, None).map(Some),
            Some(sparse::Pax::Map { name, map }) => {
                entry.path = name.unwrap_or(entry.path);
                self.begin(entry, packed, packed, Some(map)).map(Some)
            }
            Some(sparse::Pax::InData { name, size }) => {
                entry.path = name.unwrap_or(entry.path);
                self.state = State::SparseText { entry, packed, text: TextMap::new(size) };
                Ok(None)
            }
        }
    }

    /// Begins an entry of `packed` bytes in the archive, `data` of which are still to come.
    fn begin(&mut self, mut entry: Entry, packed: u64, data: u64, map: Option<Map>) -> Result<Event> {
        padded(packed)?;
        let runs = match map {
            None => Runs::Plain(data),
            Some(map) => {
                entry.size = map.size();
                entry.sparse = true;
                Runs::Sparse { size: map.size(), runs: map.runs(data)?, at: 0 }
            }
        };
        self.state = State::Data { runs, pad: padding(packed) };
        Ok(Event::Entry(entry))
    }

    /// Takes note of an extension header.
    fn extension(&mut self, what: Extension, mut bytes: Vec<u8>) -> Result<()> {
        match what {
            Extension::Pax => self.pax.read(&bytes),
            Extension::Global => pax::check_global(&bytes),
            Extension::LongName | Extension::LongLink => {
                let len = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
                bytes.truncate(len);
                let slot = if what == Extension::LongName { &mut self.long_name } else { &mut self.long_link };
                *slot = Some(bytes);
                Ok(())
            }
        }
    }
}

impl Runs {
    /// How many bytes of it the archive still has.
    fn packed(&self) -> u64 {
        match self {
            Self::Plain(left) => *left,
            Self::Sparse { runs, .. } => runs.iter().fold(0, |sum, run| sum.saturating_add(run.len)),
        }
    }

    fn is_done(&self) -> bool {
        match self {
            Self::Plain(left) => *left == 0,
            Self::Sparse { at, size, .. } => at == size,
        }
    }

    /// The next part of the entry; `None` when it is done or needs input.
    fn next(&mut self, input: &mut Bytes) -> Option<Event> {
        match self {
            Self::Plain(left) => {
                let part = take(input, *left)?;
                *left -= part.len() as u64;
                Some(Event::Data(part))
            }
            Self::Sparse { runs, at, size } => {
                let next = runs.front().map_or(*size, |run| run.at);
                if *at < next {
                    let hole = next - *at;
                    *at = next;
                    return Some(Event::Hole(hole));
                }
                let run = runs.front_mut()?;
                let part = take(input, run.len)?;
                let len = part.len() as u64;
                *at += len;
                run.at += len;
                run.len -= len;
                if run.len == 0 {
                    runs.pop_front();
                }
                Some(Event::Data(part))
            }
        }
    }
}

/// Up to `left` bytes off the front of `input`; `None` when there are none.
fn take(input: &mut Bytes, left: u64) -> Option<Bytes> {
    let len = usize::try_from(left).unwrap_or(usize::MAX).min(input.len());
    (len != 0).then(|| input.split_to(len))
}

/// Asks for more input, unless there is none.
fn more(end: bool, inside: &str) -> Result<Option<Event>> {
    if end { Err(cut(inside)) } else { Ok(None) }
}

fn cut(inside: &str) -> Error {
    Error::new(Kind::Truncated, format!("the archive ends in the middle of {inside}; the file is cut, get it again"))
}

/// How many zeros fill up the last block of `size` bytes.
fn padding(size: u64) -> u64 {
    size.wrapping_neg() % BLOCK as u64
}

/// `size` with its padding.
fn padded(size: u64) -> Result<u64> {
    size.checked_add(padding(size))
        .filter(|&len| len <= i64::MAX as u64)
        .ok_or_else(|| Error::new(Kind::Corrupt, format!("an entry of {size} bytes is larger than any file")))
}

/// Whether `head` begins with a tar header: a block with a valid checksum, and either the ustar magic or all that a v7
/// header must have.
pub(crate) fn is_header(head: &[u8]) -> bool {
    head.first_chunk::<BLOCK>().is_some_and(header::is_header)
}

/// The unit of an archive, in bytes.
const BLOCK: usize = 512;

#[cfg(test)]
mod tests;
