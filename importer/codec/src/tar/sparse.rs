//! The maps of sparse files.

use std::collections::VecDeque;

use super::header::number;
use super::pax::parse_decimal;
use super::{BLOCK, padded};
use crate::{Error, Kind, Result};

/// A run of data in a sparse file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    /// First byte, in the file.
    pub(super) at: u64,
    /// Length in bytes; never 0.
    pub(super) len: u64,
}

/// What PAX headers say about a sparse file.
pub(super) enum Pax {
    /// The whole map (formats 0.0 and 0.1).
    Map {
        /// The file's true name.
        name: Option<Vec<u8>>,
        /// Its map.
        map: Map,
    },
    /// The map lies in front of the data (format 1.0).
    InData {
        /// The file's true name.
        name: Option<Vec<u8>>,
        /// Its size, in bytes.
        size: u64,
    },
}

/// Where the data of a sparse file lie: ascending runs inside the file.
pub(super) struct Map {
    size: u64,
    runs: VecDeque<Run>,
    /// Where the last run ends.
    end: u64,
    /// Bytes in all runs.
    data: u64,
}

impl Map {
    /// The map of a file of `size` bytes, without data as yet.
    pub(super) fn new(size: u64) -> Self {
        Self { size, runs: VecDeque::new(), end: 0, data: 0 }
    }

    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// Adds a run, which lies behind the last.
    pub(super) fn push(&mut self, at: u64, len: u64) -> Result<()> {
        let end = at.checked_add(len).filter(|&end| at >= self.end && end <= self.size).ok_or_else(|| {
            Error::new(
                Kind::Corrupt,
                format!("the map of a sparse file is wrong: {len} bytes at {at} overlap, or lie behind its end"),
            )
        })?;
        self.end = end;
        // Runs of no length mark the end of the file.
        if len == 0 {
            return Ok(());
        }
        self.data += len;
        if let Some(last) = self.runs.back_mut()
            && last.at + last.len == at
        {
            last.len += len;
            return Ok(());
        }
        if self.runs.len() == MAX_RUNS {
            return Err(Error::new(
                Kind::Oversized,
                format!("a sparse file has more than {MAX_RUNS} runs of data; repack it without --sparse"),
            ));
        }
        self.runs.push_back(Run { at, len });
        Ok(())
    }

    /// Adds the runs of an old GNU header: offset and length of 12 bytes each, to the first without an offset.
    pub(super) fn entries(&mut self, fields: &[u8]) -> Result<()> {
        for entry in fields.as_chunks::<24>().0 {
            let (at, len) = entry.split_at_checked(12).unwrap_or_default();
            if len.first() == Some(&0) {
                break;
            }
            let (Some(at), Some(len)) = (number(at), number(len)) else {
                return Err(Error::new(Kind::Corrupt, "the map of a sparse file has a field that is no number"));
            };
            self.push(at, len)?;
        }
        Ok(())
    }

    /// Adds an extension block of an old GNU header. True when another follows.
    pub(super) fn block(&mut self, block: &[u8; BLOCK]) -> Result<bool> {
        let (entries, rest) = block.split_at_checked(21 * 24).unwrap_or_default();
        self.entries(entries)?;
        Ok(rest.first() != Some(&0))
    }

    /// The runs, which must have `data` bytes together.
    pub(super) fn runs(self, data: u64) -> Result<VecDeque<Run>> {
        padded(self.size)?;
        if self.data != data {
            return Err(Error::new(
                Kind::Corrupt,
                format!("the map of a sparse file has {} bytes of data, and {data} are there", self.data),
            ));
        }
        Ok(self.runs)
    }
}

/// The map in front of the data of a PAX 1.0 sparse file: decimal numbers, one a line, in whole blocks. The first is
/// the number of runs.
pub(super) struct TextMap {
    map: Map,
    /// Runs still to come; `None` before their number.
    left: Option<u64>,
    /// An offset that waits for its length.
    at: Option<u64>,
    line: Vec<u8>,
    /// Bytes read.
    len: u64,
}

impl TextMap {
    pub(super) fn new(size: u64) -> Self {
        Self { map: Map::new(size), left: None, at: None, line: Vec::new(), len: 0 }
    }

    /// How many bytes of the archive it takes so far.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Reads a block. True when another follows.
    pub(super) fn block(&mut self, block: &[u8; BLOCK]) -> Result<bool> {
        self.len += BLOCK as u64;
        for &byte in block {
            if byte != b'\n' {
                if self.line.len() == MAX_LINE {
                    return Err(malformed());
                }
                self.line.push(byte);
                continue;
            }
            let line = std::mem::take(&mut self.line);
            // As libarchive has it: a line may be a remark.
            if line.first() != Some(&b'#') {
                self.number(parse_decimal(&line).ok_or_else(malformed)?)?;
            }
            if self.left == Some(0) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn number(&mut self, number: u64) -> Result<()> {
        match (self.left, self.at.take()) {
            (None, _) => self.left = Some(number),
            (Some(_), None) => self.at = Some(number),
            (Some(left), Some(at)) => {
                self.map.push(at, number)?;
                self.left = left.checked_sub(1);
            }
        }
        Ok(())
    }

    pub(super) fn finish(self) -> Result<Map> {
        if self.left == Some(0) { Ok(self.map) } else { Err(malformed()) }
    }
}

fn malformed() -> Error {
    Error::new(Kind::Corrupt, "the map of a sparse file is malformed; the archive is damaged")
}

/// The most runs kept: 16 MiB.
pub(super) const MAX_RUNS: usize = 1 << 20;

/// The longest line of a map, in bytes.
const MAX_LINE: usize = 512;
