//! Frames of zeros: made once, and used again.

use std::fmt;
use std::sync::OnceLock;

use bytes::Bytes;
use zstd_safe::zstd_sys::ZSTD_EndDirective;
use zstd_safe::{CCtx, CParameter, InBuffer, OutBuffer};

use super::{FRAME, Frame, compressor};
use crate::{Error, Kind, Result};

/// Frames of zeros of 1, 2, 4 … 64 times [`FRAME`], made when they are first wanted. 64 MiB take 2 KiB, and their
/// decoder 128 KiB of memory.
#[derive(Clone, Default)]
pub struct Zeros {
    frames: [OnceLock<Bytes>; SIZES],
}

impl Zeros {
    /// The most zeros that one frame holds.
    pub const MAX: u64 = (FRAME as u64) << (SIZES - 1);

    /// The largest frame of at most `len` zeros. `None` when they are fewer than [`FRAME`]. The first time it compresses
    /// them, at some GB/s.
    ///
    /// # Errors
    ///
    /// As [`Compressor::frame`](super::Compressor::frame).
    pub fn frame(&self, len: u64) -> Result<Option<Frame>> {
        let Some(log) = (len / FRAME as u64).checked_ilog2() else { return Ok(None) };
        let log = usize::try_from(log).unwrap_or(SIZES).min(SIZES - 1);
        let Some(place) = self.frames.get(log) else { return Ok(None) };
        let len = FRAME << log;
        let stored = match place.get() {
            Some(stored) => stored.clone(),
            None => {
                let made = make(len)?;
                place.get_or_init(|| made).clone()
            }
        };
        let len = u32::try_from(len).map_err(|_| Error::new(Kind::Ours, "a frame of more than 4 GiB"))?;
        Ok(Some(Frame { stored, len }))
    }
}

impl fmt::Debug for Zeros {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let made = self.frames.iter().filter(|frame| frame.get().is_some()).count();
        write!(f, "Zeros({made} made)")
    }
}

/// Whether `stored` is a frame of `len` zeros as [`Zeros`] makes it: then there is nothing to decode. False for all
/// others, whatever they hold. Costs a comparison with as many bytes.
#[must_use]
pub fn is_zeros(stored: &[u8], len: u64) -> bool {
    static KNOWN: OnceLock<Zeros> = OnceLock::new();
    // Nothing is made for frames that can't be meant: 64 MiB are not compressed because a header says so.
    if !len.is_multiple_of(FRAME as u64) || !(len / FRAME as u64).is_power_of_two() || len > Zeros::MAX {
        return false;
    }
    if stored.len() as u64 > len / SHRINK {
        return false;
    }
    let known = KNOWN.get_or_init(Zeros::default).frame(len);
    matches!(known, Ok(Some(frame)) if u64::from(frame.len) == len && frame.stored == stored)
}

fn make(len: usize) -> Result<Bytes> {
    static ZEROS: [u8; 128 << 10] = [0; 128 << 10];
    let mut context: CCtx<'static> = compressor::context()?;
    compressor::set(&mut context, CParameter::CompressionLevel(super::LEVEL))?;
    // No decoder has to keep more than a block of it.
    compressor::set(&mut context, CParameter::WindowLog(17))?;
    context.set_pledged_src_size(Some(len as u64)).map_err(compressor::failed)?;
    let mut output = Vec::with_capacity(len / 8192 + 1024);
    let mut into = OutBuffer::around(&mut output);
    let mut left = len;
    loop {
        let part = ZEROS.get(..left).unwrap_or(&ZEROS);
        left -= part.len();
        let end = if left == 0 { ZSTD_EndDirective::ZSTD_e_end } else { ZSTD_EndDirective::ZSTD_e_continue };
        let mut from = InBuffer::around(part);
        let rest = context.compress_stream2(&mut into, &mut from, end).map_err(compressor::failed)?;
        if from.pos() < part.len() || (left == 0 && rest > 0) {
            return Err(Error::new(Kind::Ours, "a frame of zeros is longer than it should be"));
        }
        if left == 0 {
            break;
        }
    }
    Ok(output.into())
}

/// 1, 2, 4 … 64 frames.
const SIZES: usize = 7;

/// Zeros shrink at least to this part.
const SHRINK: u64 = 8192;
