//! A raw disk that passes once.

use bytes::{Bytes, BytesMut};

use super::End;
use crate::Result;
use crate::probe::TAIL_LEN;
use crate::vhd::FixedVhd;

/// Holds back the end of a stream until it is known to be the end, and then decides what it was.
///
/// Every piece is given back as it came, one piece late; nothing is copied, except up to 512 bytes where a piece is
/// shorter than that. It holds one piece, or 512 bytes of small ones.
#[derive(Debug, Default)]
pub struct RawStream {
    /// The last bytes pushed: all of them, or at least 512.
    held: Bytes,
    len: u64,
}

/// What a stream was, known at its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawEnd {
    /// The last bytes of the disk that were held back.
    pub rest: Option<Bytes>,
    /// How many bytes of the stream are the disk's. Those of a fixed VHD may be fewer than were already given back: then
    /// the file is longer than its disk, and what lies beyond is to be cut off.
    pub data_len: u64,
    /// Size of the disk: `data_len`, and zeros up to the sector.
    pub virtual_size: u64,
    /// The footer, when it was a fixed VHD.
    pub vhd: Option<FixedVhd>,
}

impl RawStream {
    /// A stream of which nothing has come.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The next bytes of the stream. Gives the next bytes of the disk, in order, as far as they can't be its end.
    pub fn push(&mut self, piece: Bytes) -> Option<Bytes> {
        self.len = self.len.saturating_add(piece.len() as u64);
        let gone = if piece.len() >= TAIL_LEN {
            std::mem::replace(&mut self.held, piece)
        } else {
            let keep = (TAIL_LEN - piece.len()).min(self.held.len());
            let kept = self.held.split_off(self.held.len() - keep);
            let mut joined = BytesMut::with_capacity(kept.len() + piece.len());
            joined.extend_from_slice(&kept);
            joined.extend_from_slice(&piece);
            std::mem::replace(&mut self.held, joined.freeze())
        };
        (!gone.is_empty()).then_some(gone)
    }

    /// The next `len` bytes of the stream are zeros that nobody has to bring. Gives the next bytes of the disk, as
    /// [`push`](Self::push) does, and how many zeros follow them.
    pub fn skip(&mut self, len: u64) -> (Bytes, u64) {
        static ZEROS: [u8; 2 * TAIL_LEN] = [0; 2 * TAIL_LEN];
        if let Some(few) = usize::try_from(len).ok().and_then(|len| ZEROS.get(..len)) {
            return (self.push(Bytes::from_static(few)).unwrap_or_default(), 0);
        }
        self.len = self.len.saturating_add(len);
        let tail = ZEROS.get(..TAIL_LEN).unwrap_or_default();
        (std::mem::replace(&mut self.held, Bytes::from_static(tail)), len - TAIL_LEN as u64)
    }

    /// The stream has ended.
    ///
    /// # Errors
    /// The stream is shorter than a sector, ends like a DMG, or like a VHD whose footer is wrong: what was given back
    /// is then no disk.
    pub fn finish(mut self) -> Result<RawEnd> {
        let End { data_len, virtual_size, vhd } = End::read(&self.held, self.len).map_err(|error| error.of("raw"))?;
        let given = self.len - self.held.len() as u64;
        let keep = usize::try_from(data_len.saturating_sub(given)).unwrap_or(usize::MAX);
        self.held.truncate(keep);
        let rest = (!self.held.is_empty()).then_some(self.held);
        Ok(RawEnd { rest, data_len, virtual_size, vhd })
    }
}
