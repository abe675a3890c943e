//! The lz4 frame format, version 1.6.4: any number of frames, skippable frames among them.
//!
//! Independent and linked blocks, block and content checksums, content size. Frames that need a dictionary are refused.
//! So is the legacy format: it has neither a checksum nor an end mark, so a file that was cut can't be told from a
//! whole one.

use std::hash::Hasher as _;

use bytes::{Buf, Bytes, BytesMut};
use lz4_flex::block;
use twox_hash::XxHash32;

use crate::decode::{Fill, Filled, room, skip, skip_zeros, trailing};
use crate::gather::Gather;
use crate::zstd::is_skippable;
use crate::{Error, Kind, Result};

/// The lz4 decoder. It holds a compressed and a decoded block (4 MiB each at most), and a little history.
pub(crate) struct Lz4 {
    state: State,
    field: Gather<DESCRIPTOR_MAX>,
    frame: Frame,
    /// A block that comes in pieces.
    packed: BytesMut,
    unpacked: Unpacked,
    /// Whether a frame with data was seen, so that zeros can be padding.
    frames: bool,
}

/// The last decoded block, behind the history it may refer to. Blocks are put one behind the other, so that history is
/// moved once in a while, not once a block.
#[derive(Default)]
struct Unpacked {
    bytes: Vec<u8>,
    /// Where the last block begins, and ends.
    start: usize,
    end: usize,
    /// What was given out of it ends here.
    given: usize,
}

#[derive(Clone, Copy)]
enum State {
    /// Before a frame that must come.
    Magic,
    Descriptor,
    BlockLen,
    Block(BlockLen),
    /// Giving out a decoded block.
    Unpacked,
    ContentChecksum,
    /// Behind a frame.
    Between,
    SkipLen,
    Skip(u32),
    Padding,
}

/// The field in front of a block.
#[derive(Clone, Copy)]
struct BlockLen {
    len: usize,
    stored: bool,
}

/// What a frame's descriptor says, and what was seen of the frame.
struct Frame {
    linked: bool,
    block_checksum: bool,
    content_checksum: bool,
    content_size: Option<u64>,
    block_max: usize,
    seen: u64,
    hash: XxHash32,
}

impl Lz4 {
    pub(crate) fn new() -> Self {
        Self {
            state: State::Magic,
            field: Gather::default(),
            frame: Frame::parse(&[VERSION, BLOCK_MAX_MIN]),
            packed: BytesMut::new(),
            unpacked: Unpacked::default(),
            frames: false,
        }
    }

    /// Reads the frame descriptor. False when there is not enough of it.
    fn descriptor(&mut self, input: &mut Bytes) -> Result<bool> {
        if !self.field.fill(2, input) {
            return Ok(false);
        }
        let &[flags, block, ..] = self.field.bytes() else { return Ok(false) };
        if flags & VERSION_MASK != VERSION || flags & 0x02 != 0 || block & 0x8f != 0 || block < BLOCK_MAX_MIN {
            return Err(Error::new(
                Kind::Unsupported,
                format!("a frame has unknown flags ({flags:#04x} {block:#04x}); recompress it with lz4"),
            ));
        }
        let len = 2 + if flags & CONTENT_SIZE != 0 { 8 } else { 0 } + if flags & DICTIONARY != 0 { 4 } else { 0 };
        if !self.field.fill(len + 1, input) {
            return Ok(false);
        }
        let Some((&check, descriptor)) = self.field.bytes().split_last() else { return Ok(false) };
        if XxHash32::oneshot(0, descriptor).to_le_bytes()[1] != check {
            return Err(Error::new(
                Kind::Corrupt,
                "the checksum of a frame header is wrong; the file is damaged, get it again",
            ));
        }
        if flags & DICTIONARY != 0 {
            return Err(Error::new(Kind::Unsupported, "it needs a dictionary; recompress it without one"));
        }
        self.frame = Frame::parse(descriptor);
        self.field.clear();
        self.unpacked.forget();
        self.frames = true;
        Ok(true)
    }

    /// Takes `len` bytes off the input, in one piece; `None` when they are not all there yet.
    fn block(&mut self, len: usize, input: &mut Bytes) -> Option<Bytes> {
        if self.packed.is_empty() && input.len() >= len {
            return Some(input.split_to(len));
        }
        let missing = len.saturating_sub(self.packed.len());
        self.packed.extend_from_slice(&input.split_to(missing.min(input.len())));
        (self.packed.len() == len).then(|| self.packed.split().freeze())
    }

    /// Decodes a block into `unpacked`.
    fn unpack(&mut self, data: &[u8], stored: bool) -> Result<()> {
        let linked = self.frame.linked;
        let (history, room) = self.unpacked.next(self.frame.block_max, linked);
        let len = if stored {
            room.get_mut(..data.len()).map(|room| {
                room.copy_from_slice(data);
                data.len()
            })
        } else if linked {
            block::decompress_into_with_dict(data, room, history).ok()
        } else {
            block::decompress_into(data, room).ok()
        };
        let len = len.ok_or_else(|| {
            Error::new(Kind::Corrupt, "a compressed block is damaged; the file can't be used, get it again")
        })?;
        self.unpacked.end = self.unpacked.start + len;
        self.frame.seen = self.frame.seen.saturating_add(len as u64);
        if self.frame.content_size.is_some_and(|size| self.frame.seen > size) {
            return Err(Error::new(Kind::Corrupt, "a frame holds more than its header says; the file is damaged"));
        }
        if self.frame.content_checksum {
            self.frame.hash.write(self.unpacked.rest());
        }
        Ok(())
    }

    /// Copies what is decoded to the output. True when nothing is left.
    fn give(&mut self, output: &mut BytesMut) -> bool {
        let rest = self.unpacked.rest();
        let part = rest.get(..room(output)).unwrap_or(rest);
        output.extend_from_slice(part);
        let all = part.len() == rest.len();
        self.unpacked.given += part.len();
        all
    }

    /// Checks a frame whose end mark was seen.
    fn finish(&self) -> Result<()> {
        if self.frame.content_size.is_some_and(|size| self.frame.seen != size) {
            return Err(Error::new(Kind::Corrupt, "a frame holds less than its header says; the file is damaged"));
        }
        Ok(())
    }
}

impl Fill for Lz4 {
    const NAME: &'static str = "lz4";
    const UNIT: &'static str = "lz4 frame";

    fn fill(&mut self, input: &mut Bytes, output: &mut BytesMut) -> Result<Filled> {
        loop {
            let state = self.state;
            self.state = match state {
                State::Between => match input.first() {
                    None => return Ok(Filled::Boundary),
                    Some(0) => State::Padding,
                    Some(_) => State::Magic,
                },
                State::Padding => {
                    skip_zeros(input);
                    if input.has_remaining() {
                        return Err(trailing(Self::UNIT));
                    }
                    return Ok(Filled::Boundary);
                }
                State::Magic => match self.field.take(input) {
                    None => return Ok(Filled::NeedInput),
                    Some(MAGIC) => State::Descriptor,
                    Some(LEGACY) => return Err(legacy()),
                    Some(magic) if is_skippable(magic) => State::SkipLen,
                    Some(_) => return Err(trailing(Self::UNIT)),
                },
                State::SkipLen => match self.field.take(input) {
                    None => return Ok(Filled::NeedInput),
                    Some(len) => State::Skip(u32::from_le_bytes(len)),
                },
                State::Skip(left) => match u32::try_from(skip(input, left.into())).unwrap_or_default() {
                    0 if self.frames => State::Between,
                    0 => State::Magic,
                    left => {
                        self.state = State::Skip(left);
                        return Ok(Filled::NeedInput);
                    }
                },
                State::Descriptor if self.descriptor(input)? => State::BlockLen,
                State::Descriptor => return Ok(Filled::NeedInput),
                State::BlockLen => match self.field.take(input).map(u32::from_le_bytes) {
                    None => return Ok(Filled::NeedInput),
                    Some(0) => {
                        self.finish()?;
                        if self.frame.content_checksum { State::ContentChecksum } else { State::Between }
                    }
                    Some(word) => {
                        let len = usize::try_from(word & !STORED).unwrap_or(usize::MAX);
                        if len > self.frame.block_max {
                            return Err(Error::new(
                                Kind::Corrupt,
                                format!("a block of {len} bytes is larger than the frame allows; the file is damaged"),
                            ));
                        }
                        State::Block(BlockLen { len, stored: word & STORED != 0 })
                    }
                },
                State::Block(BlockLen { len, stored }) => {
                    let check_len = if self.frame.block_checksum { 4 } else { 0 };
                    let Some(block) = self.block(len + check_len, input) else { return Ok(Filled::NeedInput) };
                    let (data, check) = block.split_at_checked(len).unwrap_or_default();
                    if self.frame.block_checksum && XxHash32::oneshot(0, data).to_le_bytes() != check {
                        return Err(Error::new(
                            Kind::Corrupt,
                            "the checksum of a block is wrong; the file is damaged, get it again",
                        ));
                    }
                    self.unpack(data, stored)?;
                    State::Unpacked
                }
                State::Unpacked if self.give(output) => State::BlockLen,
                State::Unpacked => return Ok(Filled::OutputFull),
                State::ContentChecksum => {
                    let Some(check) = self.field.take(input) else { return Ok(Filled::NeedInput) };
                    if u32::from_le_bytes(check) != self.frame.hash.finish_32() {
                        return Err(Error::new(
                            Kind::Corrupt,
                            "the checksum of a frame does not match its data; the file is damaged, get it again",
                        ));
                    }
                    State::Between
                }
            }
        }
    }
}

impl Frame {
    /// Reads a descriptor whose flags and length were checked.
    fn parse(descriptor: &[u8]) -> Self {
        let (flags, block) = match descriptor {
            &[flags, block, ..] => (flags, block),
            _ => (VERSION, BLOCK_MAX_MIN),
        };
        let content_size = (flags & CONTENT_SIZE != 0)
            .then(|| descriptor.get(2..).and_then(<[u8]>::first_chunk).map(|size| u64::from_le_bytes(*size)))
            .flatten();
        Self {
            linked: flags & INDEPENDENT == 0,
            block_checksum: flags & BLOCK_CHECKSUM != 0,
            content_checksum: flags & CONTENT_CHECKSUM != 0,
            content_size,
            // 64 KiB, 256 KiB, 1 MiB, 4 MiB for 4, 5, 6, 7.
            block_max: 1 << (8 + 2 * (block >> 4 & 7)),
            seen: 0,
            hash: XxHash32::with_seed(0),
        }
    }
}

impl Unpacked {
    /// Forgets the history.
    fn forget(&mut self) {
        (self.start, self.end, self.given) = (0, 0, 0);
    }

    /// Begins a block: the history in front of it, and room for `max` bytes.
    fn next(&mut self, max: usize, linked: bool) -> (&[u8], &mut [u8]) {
        if !linked {
            self.forget();
        }
        if self.end + max > self.bytes.len() {
            let history = self.end.saturating_sub(HISTORY)..self.end;
            let len = history.len();
            self.bytes.copy_within(history, 0);
            self.bytes.resize(self.bytes.len().max(HISTORY + max + SLACK), 0);
            self.end = len;
        }
        (self.start, self.given) = (self.end, self.end);
        let (history, room) = self.bytes.split_at_mut(self.end);
        let history = history.get(history.len().saturating_sub(HISTORY)..).unwrap_or_default();
        (history, room.get_mut(..max).unwrap_or_default())
    }

    /// What was not given out yet.
    fn rest(&self) -> &[u8] {
        self.bytes.get(self.given..self.end).unwrap_or_default()
    }
}

/// The refusal of the legacy format.
pub(crate) fn legacy() -> Error {
    Error::new(
        Kind::Unsupported,
        "the legacy lz4 format (lz4 -l) has no checksum and no end mark, so a cut file looks whole; recompress it with \
         plain lz4",
    )
    .of(Lz4::NAME)
}

pub(crate) const MAGIC: [u8; 4] = [0x04, 0x22, 0x4d, 0x18];
pub(crate) const LEGACY: [u8; 4] = [0x02, 0x21, 0x4c, 0x18];

const VERSION_MASK: u8 = 0xc0;
const VERSION: u8 = 0x40;
const INDEPENDENT: u8 = 0x20;
const BLOCK_CHECKSUM: u8 = 0x10;
const CONTENT_SIZE: u8 = 0x08;
const CONTENT_CHECKSUM: u8 = 0x04;
const DICTIONARY: u8 = 0x01;
/// The smallest maximum block size there is: 64 KiB.
const BLOCK_MAX_MIN: u8 = 0x40;
/// In a block's length: the block is not compressed.
const STORED: u32 = 1 << 31;
/// Flags, block size, content size, dictionary id, checksum.
const DESCRIPTOR_MAX: usize = 2 + 8 + 4 + 1;
/// How far back a block may refer, in bytes.
const HISTORY: usize = 64 << 10;
/// Room for small blocks, in bytes: the history is moved at most once in so many.
const SLACK: usize = 256 << 10;

#[cfg(test)]
mod tests;
