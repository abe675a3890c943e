//! Cutting a disk into what becomes frames.

use bytes::{Bytes, BytesMut};
use importer_codec::Bin;
use importer_codec::seekable::{FRAME, Zeros};

use crate::sink::zeros::is_zero;
use crate::{Piece, Result};

/// A part of a disk that becomes one frame or several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Block {
    /// [`FRAME`] bytes, fewer at the end of the disk. Not all of them are zero, except there.
    Data(Bytes),
    /// So many zeros: a multiple of [`FRAME`], at most [`Zeros::MAX`].
    Zeros(u64),
}

/// Cuts a disk at multiples of [`FRAME`]. What it gives depends on the disk alone: parts that are all zero are joined,
/// whether they were known as holes or found to be.
#[derive(Debug)]
pub(super) struct Blocks {
    bin: Bin,
    /// The part at hand, while any byte of it is not zero.
    part: BytesMut,
    /// How many zeros it has, until then.
    zeros: usize,
    /// Zeros in whole parts before it.
    run: u64,
}

impl Blocks {
    /// Buffers of [`FRAME`] bytes come from `bin`.
    pub(super) fn new(bin: Bin) -> Self {
        Self { bin, part: BytesMut::new(), zeros: 0, run: 0 }
    }

    /// The next piece of the disk.
    pub(super) fn push(&mut self, piece: Piece, give: &mut dyn FnMut(Block) -> Result<()>) -> Result<()> {
        match piece {
            Piece::Bytes(mut bytes) => {
                // What holds a whole part is not copied.
                while bytes.len() >= FRAME && self.part.is_empty() && self.zeros == 0 {
                    let part = bytes.split_to(FRAME);
                    if is_zero(&part) {
                        self.zero(FRAME as u64, give)?;
                    } else {
                        self.end_run(give)?;
                        give(Block::Data(part))?;
                    }
                }
                self.write(&bytes, give)
            }
            Piece::Hole(len) => self.zero(len, give),
        }
    }

    /// The same for bytes that are copied.
    pub(super) fn write(&mut self, mut bytes: &[u8], give: &mut dyn FnMut(Block) -> Result<()>) -> Result<()> {
        while !bytes.is_empty() {
            let (part, rest) = bytes.split_at(bytes.len().min(FRAME - self.filled()));
            if self.part.is_empty() && is_zero(part) {
                self.zeros += part.len();
            } else {
                self.begin();
                self.part.extend_from_slice(part);
            }
            self.end_part(give)?;
            bytes = rest;
        }
        Ok(())
    }

    fn zero(&mut self, mut len: u64, give: &mut dyn FnMut(Block) -> Result<()>) -> Result<()> {
        while len > 0 {
            if self.filled() == 0 && len >= FRAME as u64 {
                // Whole parts, as many as the run still takes.
                let whole = (len - len % FRAME as u64).min(Zeros::MAX - self.run);
                self.run += whole;
                len -= whole;
                self.end_run_if_long(give)?;
                continue;
            }
            let part = usize::try_from(len).unwrap_or(FRAME).min(FRAME - self.filled());
            if self.part.is_empty() {
                self.zeros += part;
            } else {
                self.part.resize(self.part.len() + part, 0);
            }
            len -= part as u64;
            self.end_part(give)?;
        }
        Ok(())
    }

    /// The disk is complete.
    pub(super) fn finish(mut self, give: &mut dyn FnMut(Block) -> Result<()>) -> Result<()> {
        self.end_run(give)?;
        if self.filled() > 0 {
            self.begin();
            give(Block::Data(self.part.freeze()))?;
        }
        Ok(())
    }

    /// How much there is of the part at hand.
    fn filled(&self) -> usize {
        self.part.len() + self.zeros
    }

    /// The part at hand has bytes that are not zero.
    fn begin(&mut self) {
        if self.part.is_empty() {
            self.part = self.bin.take();
            self.part.resize(std::mem::take(&mut self.zeros), 0);
        }
    }

    /// Gives the part at hand if it is complete.
    fn end_part(&mut self, give: &mut dyn FnMut(Block) -> Result<()>) -> Result<()> {
        if self.filled() < FRAME {
            return Ok(());
        }
        if self.part.is_empty() {
            self.zeros = 0;
            self.run += FRAME as u64;
            return self.end_run_if_long(give);
        }
        self.end_run(give)?;
        give(Block::Data(std::mem::take(&mut self.part).freeze()))
    }

    fn end_run_if_long(&mut self, give: &mut dyn FnMut(Block) -> Result<()>) -> Result<()> {
        if self.run == Zeros::MAX { self.end_run(give) } else { Ok(()) }
    }

    fn end_run(&mut self, give: &mut dyn FnMut(Block) -> Result<()>) -> Result<()> {
        match std::mem::take(&mut self.run) {
            0 => Ok(()),
            run => give(Block::Zeros(run)),
        }
    }
}

#[cfg(test)]
mod tests;
