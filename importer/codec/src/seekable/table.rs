//! The table of frames.
//!
//! It is a skippable frame, so that decoders that don't know it pass over it: an entry for each frame, and a footer of
//! fixed length, which is the end of the file and is read first.

use bytes::{Buf, BufMut, Bytes, BytesMut};

use super::Frame;
use crate::{Error, Kind, Result};

/// Gathers the table of frames that are written: 8 bytes for each.
#[derive(Clone, Debug, Default)]
pub struct TableWriter {
    entries: BytesMut,
    frames: u32,
    /// There are more frames than anyone has to read a table of.
    given_up: bool,
}

impl TableWriter {
    /// A frame was written.
    pub fn push(&mut self, frame: &Frame) {
        let stored = u32::try_from(frame.stored.len()).ok().filter(|_| self.frames < MAX_FRAMES);
        let Some(stored) = stored.filter(|_| !self.given_up) else {
            self.given_up = true;
            self.entries = BytesMut::new();
            return;
        };
        self.frames += 1;
        self.entries.put_u32_le(stored);
        self.entries.put_u32_le(frame.len);
    }

    /// The table, to be written behind the last frame. `None` when there are more than [`MAX_FRAMES`]: the file is then
    /// for reading in order only.
    #[must_use]
    pub fn finish(self) -> Option<Bytes> {
        let len = u32::try_from(self.entries.len() + FOOTER).ok().filter(|_| !self.given_up)?;
        let mut table = BytesMut::with_capacity(HEAD + self.entries.len() + FOOTER);
        table.put_u32_le(SKIPPABLE);
        table.put_u32_le(len);
        table.put_slice(&self.entries);
        table.put_u32_le(self.frames);
        table.put_u8(0);
        table.put_u32_le(MAGIC);
        Some(table.freeze())
    }
}

/// The table of frames that were written. It holds what was read, and 16 bytes for every 512 frames.
#[derive(Clone, Debug)]
pub struct SeekTable {
    entries: Bytes,
    /// Bytes of an entry: 8, or 12 with a checksum.
    entry: usize,
    /// Where every 512th frame begins.
    pub(super) marks: Vec<Mark>,
    /// Where the frame behind the last would begin.
    end: Mark,
}

/// Where a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Offset of its first byte in the data.
    pub at: u64,
    /// How many bytes of the data it has.
    pub len: u32,
    /// Offset in the file.
    pub stored_at: u64,
    /// Bytes in the file.
    pub stored: u32,
    /// The low half of the XXH64 of its data, where the table has it.
    pub checksum: Option<u32>,
}

/// The beginning of a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Mark {
    at: u64,
    stored_at: u64,
}

/// How many bytes at the end of a file the table takes, by its footer: the last [`FOOTER`] bytes. `None` when the file
/// has no table.
///
/// # Errors
///
/// [`Kind::Oversized`] for more than [`MAX_FRAMES`] frames, [`Kind::Unsupported`] for features that are not known.
pub fn table_len(footer: &[u8; FOOTER]) -> Result<Option<u64>> {
    Ok(Footer::parse(footer)?.map(|footer| footer.table_len() as u64))
}

impl SeekTable {
    /// Reads a table: the last [`table_len`] bytes of a file of `file_len` bytes.
    ///
    /// The frames must fill the file up to the table. That they are there and hold what it says is only seen when they
    /// are decoded.
    ///
    /// # Errors
    ///
    /// [`Kind::Corrupt`] when it contradicts itself or the file, and those of [`table_len`].
    pub fn parse(table: Bytes, file_len: u64) -> Result<Self> {
        Self::read(table, file_len).map_err(|error| error.of("zstd seek table"))
    }

    fn read(table: Bytes, file_len: u64) -> Result<Self> {
        let corrupt = |why: &'static str| Error::new(Kind::Corrupt, why);
        let footer = table.last_chunk().map(Footer::parse).transpose()?.flatten();
        let footer = footer.ok_or_else(|| corrupt("there is none at the end of the file"))?;
        if table.len() != footer.table_len() {
            return Err(corrupt("its length is not that of its entries"));
        }
        let mut entries = table;
        let (magic, len) = (entries.get_u32_le(), entries.get_u32_le());
        if magic != SKIPPABLE || usize::try_from(len).ok() != Some(entries.len()) {
            return Err(corrupt("it does not begin where its footer says"));
        }
        let table_len = entries.len() + HEAD;
        entries.truncate(entries.len() - FOOTER);
        let mut read = Self { entries, entry: footer.entry(), marks: Vec::new(), end: Mark::default() };
        let mut end = Mark::default();
        for (number, entry) in read.entries.chunks_exact(read.entry).enumerate() {
            if number % STEP == 0 {
                read.marks.push(end);
            }
            let place = place(entry, end);
            if place.stored < FRAME_MIN {
                return Err(corrupt("a frame is shorter than any frame"));
            }
            end = behind(&place);
        }
        read.end = end;
        if file_len.checked_sub(table_len as u64) != Some(end.stored_at) {
            return Err(Error::new(
                Kind::Corrupt,
                format!("its frames have {} bytes, and the file {file_len} with the table", end.stored_at),
            ));
        }
        Ok(read)
    }

    /// How many bytes of data there are.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.end.at
    }

    /// How many frames there are, those that hold no data too.
    #[must_use]
    pub fn frames(&self) -> usize {
        self.entries.len() / self.entry
    }

    /// The frames from the one that holds byte `at` of the data on, in order; none when there are fewer bytes.
    pub fn places(&self, at: u64) -> impl Iterator<Item = Place> + '_ {
        let mark = self.marks.partition_point(|mark| mark.at <= at).saturating_sub(1);
        let from = self.marks.get(mark).copied().unwrap_or_default();
        let entries = self.entries.get(mark * STEP * self.entry..).unwrap_or_default();
        let places = entries.chunks_exact(self.entry).scan(from, |mark, entry| {
            let place = place(entry, *mark);
            *mark = behind(&place);
            Some(place)
        });
        places.skip_while(move |place| place.at + u64::from(place.len) <= at)
    }
}

/// An entry: two numbers and perhaps a third, 4 bytes each. The caller cuts them.
fn place(mut entry: &[u8], mark: Mark) -> Place {
    let stored = entry.try_get_u32_le().unwrap_or_default();
    let len = entry.try_get_u32_le().unwrap_or_default();
    Place { at: mark.at, len, stored_at: mark.stored_at, stored, checksum: entry.try_get_u32_le().ok() }
}

/// Neither sum overflows: there are fewer than 2^32 numbers of 32 bits.
fn behind(place: &Place) -> Mark {
    Mark { at: place.at + u64::from(place.len), stored_at: place.stored_at + u64::from(place.stored) }
}

/// What the footer says.
struct Footer {
    frames: u32,
    checksums: bool,
}

impl Footer {
    fn parse(footer: &[u8; FOOTER]) -> Result<Option<Self>> {
        let mut bytes = &footer[..];
        let (frames, descriptor, magic) = (bytes.get_u32_le(), bytes.get_u8(), bytes.get_u32_le());
        if magic != MAGIC {
            return Ok(None);
        }
        //# zstd_seekable_compression_format.md, Seek_Table_Descriptor: bits 6-2 are reserved, 1-0 are unused.
        if descriptor & 0x7c != 0 {
            return Err(Error::new(Kind::Unsupported, "it has a reserved bit set; it needs a newer reader"));
        }
        if frames > MAX_FRAMES {
            return Err(Error::new(
                Kind::Oversized,
                format!("it has {frames} frames and {MAX_FRAMES} are the most that are read"),
            ));
        }
        Ok(Some(Self { frames, checksums: descriptor & 0x80 != 0 }))
    }

    fn entry(&self) -> usize {
        if self.checksums { 12 } else { 8 }
    }

    /// Below 2^26: it is bounded by [`MAX_FRAMES`].
    fn table_len(&self) -> usize {
        HEAD + self.frames as usize * self.entry() + FOOTER
    }
}

/// Bytes of the footer.
pub const FOOTER: usize = 9;

/// The most frames of a table: 4 TiB of data that are not zeros, in 32 MiB of table.
pub const MAX_FRAMES: u32 = 4 << 20;

/// Magic number and length of a skippable frame.
const HEAD: usize = 8;
const SKIPPABLE: u32 = 0x184d_2a5e;
const MAGIC: u32 = 0x8f92_eab1;

/// A skippable frame of no bytes. One with data has at least one more.
const FRAME_MIN: u32 = 8;

/// Frames between two marks.
const STEP: usize = 512;
