//! Finding where frames end, without decoding them.

use bytes::{Buf, Bytes, BytesMut};

use super::{Header, MAGIC};
use crate::seekable::{FRAME, Zeros};

/// Cuts a stream into frames that say how long their content is, by the headers of their blocks (RFC 8878, 3.1.1.2).
#[derive(Debug)]
pub(super) struct Split {
    /// The largest content, and the largest window.
    content: u64,
    window: u64,
    /// What there is of the frame at hand, and how much there must be for the next step.
    gather: BytesMut,
    need: usize,
    stage: Stage,
    /// What its header says.
    len: u32,
    checksum: bool,
    /// The most bytes it may have.
    bound: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Header,
    Block,
    Body { last: bool },
    Checksum,
}

/// What a [`Split`] has come to.
#[derive(Debug)]
pub(super) enum Found {
    /// All input was used.
    NeedInput,
    /// A whole frame, and the length of its content.
    Frame { stored: Bytes, len: u32 },
    /// What is not cut: another kind of frame, padding, something else. [`Split::rest`] has its beginning.
    Other,
}

impl Split {
    /// Frames of at most `content` bytes are cut, and those that may be frames of zeros; and only those with a window of at
    /// most `window`.
    pub(super) fn new(content: u64, window: u64) -> Self {
        let gather = BytesMut::new();
        let stage = Stage::Header;
        Self { content, window, gather, need: MAGIC.len(), stage, len: 0, checksum: false, bound: 0 }
    }

    /// Goes on from the front of `input`.
    pub(super) fn next(&mut self, input: &mut Bytes) -> Found {
        loop {
            let missing = self.need.saturating_sub(self.gather.len()).min(input.len());
            self.gather.extend_from_slice(input.get(..missing).unwrap_or_default());
            input.advance(missing);
            if self.gather.len() < self.need {
                return Found::NeedInput;
            }
            let more = match self.stage {
                Stage::Header => self.header(),
                Stage::Block => self.block(),
                Stage::Body { last: false } => self.go(Stage::Block, BLOCK_HEADER),
                Stage::Body { last: true } if self.checksum => self.go(Stage::Checksum, CHECKSUM),
                Stage::Body { last: true } | Stage::Checksum => {
                    self.stage = Stage::Header;
                    self.need = MAGIC.len();
                    return Found::Frame { stored: self.gather.split().freeze(), len: self.len };
                }
            };
            if more.is_none() {
                return Found::Other;
            }
        }
    }

    /// Whether a frame may begin here.
    pub(super) fn between(&self) -> bool {
        self.gather.is_empty()
    }

    /// What was taken from the input and given to nobody.
    pub(super) fn rest(&mut self) -> Bytes {
        self.gather.split().freeze()
    }

    fn go(&mut self, stage: Stage, more: usize) -> Option<()> {
        self.stage = stage;
        self.need += more;
        Some(())
    }

    /// Judges the header, as far as it is there; `None` when it is none that is cut.
    fn header(&mut self) -> Option<()> {
        if !self.gather.starts_with(&MAGIC) {
            return None;
        }
        let Some(header) = Header::parse(&self.gather).ok()? else { return self.go(Stage::Header, 1) };
        let size = header.size.filter(|_| !header.dictionary && header.window <= self.window)?;
        self.bound = if size <= self.content {
            // No compressor makes more than that.
            usize::try_from(size + size / 128 + 1024).ok()?
        } else if size <= Zeros::MAX && size.is_multiple_of(FRAME as u64) {
            usize::try_from(size / 8192 + 1024).ok()?
        } else {
            return None;
        };
        self.len = u32::try_from(size).ok()?;
        self.checksum = self.gather.get(MAGIC.len())? & 4 != 0;
        self.go(Stage::Block, BLOCK_HEADER)
    }

    fn block(&mut self) -> Option<()> {
        let &[.., a, b, c] = &self.gather[..] else { return None };
        let header = u32::from_le_bytes([a, b, c, 0]);
        let size = match header >> 1 & 3 {
            RAW | COMPRESSED => usize::try_from(header >> 3).ok()?,
            RLE => 1,
            _ => return None,
        };
        if self.need + size > self.bound {
            return None;
        }
        self.go(Stage::Body { last: header & 1 != 0 }, size)
    }
}

const BLOCK_HEADER: usize = 3;
const CHECKSUM: usize = 4;
const RAW: u32 = 0;
const RLE: u32 = 1;
const COMPRESSED: u32 = 2;
