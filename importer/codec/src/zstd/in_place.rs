//! Frames decoded where their bytes will stay.
//!
//! libzstd's streaming decoder writes into a window of its own and copies every byte out of it, a fifth of the time of
//! a disk image. Here it writes into segments that are handed out as they are, and looks back into them: their bytes
//! don't change any more, so readers and the decoder share them.

use std::collections::VecDeque;
use std::ptr::NonNull;

use bytes::{Buf, Bytes, BytesMut};
use zstd_safe::zstd_sys;

use crate::{Error, Kind, Result};

/// A decoder of frames whose window is at most [`MAX_WINDOW`].
///
/// It holds two segments of a window and a block, and those of pieces still in use elsewhere. It must see back as far
/// as the window: into what it has written of this segment, and into the one before. Older ones are free for use again
/// when nobody reads them any more.
pub(super) struct InPlace {
    context: Context,
    /// What is written and not taken, and room behind it.
    segment: BytesMut,
    /// Segments that are full, the last one at the back: handles that keep their memory.
    full: VecDeque<BytesMut>,
    /// How large a segment must be for the frame at hand.
    size: usize,
    /// The front of the next unit, where it lies across inputs.
    part: Vec<u8>,
}

/// What [`InPlace::feed`] has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fed {
    /// All input was used.
    NeedInput,
    /// There is enough to be taken.
    Made,
    /// The frame is complete.
    Complete,
}

impl InPlace {
    pub(super) fn new() -> Result<Self> {
        Ok(Self {
            context: Context::new().ok_or_else(|| Error::new(Kind::Memory, "no memory is left for the decoder"))?,
            segment: BytesMut::new(),
            full: VecDeque::new(),
            size: 0,
            part: Vec::new(),
        })
    }

    /// Begins a frame with a window of `window` bytes, at most [`MAX_WINDOW`]. Its header is yet to be fed.
    pub(super) fn begin(&mut self, window: u64) -> std::result::Result<(), usize> {
        let window = usize::try_from(window.min(MAX_WINDOW)).unwrap_or(0);
        self.size = (window + BLOCK_MAX).max(SEGMENT_MIN);
        self.part.clear();
        self.context.begin()
    }

    /// Decodes from the front of `input`. An error is libzstd's code.
    pub(super) fn feed(&mut self, input: &mut Bytes) -> std::result::Result<Fed, usize> {
        loop {
            let need = self.context.need();
            if need == 0 {
                return Ok(Fed::Complete);
            }
            let room = self.segment.capacity() - self.segment.len();
            if self.segment.len() >= PIECE || (room < BLOCK_MAX && !self.segment.is_empty()) {
                return Ok(Fed::Made);
            }
            if room < BLOCK_MAX {
                self.renew();
            }
            if self.part.is_empty() && input.len() >= need {
                let unit = input.split_to(need);
                self.step(&unit)?;
                continue;
            }
            let len = (need - self.part.len()).min(input.len());
            self.part.extend_from_slice(input.get(..len).unwrap_or_default());
            input.advance(len);
            if self.part.len() < need {
                return Ok(Fed::NeedInput);
            }
            let unit = std::mem::take(&mut self.part);
            self.step(&unit)?;
            self.part = unit;
            self.part.clear();
        }
    }

    /// Decodes one unit: a header, a block, a checksum.
    fn step(&mut self, unit: &[u8]) -> std::result::Result<(), usize> {
        // SAFETY: what earlier steps of this frame have written lies in `segment`, in the back of `full`, or further
        // back than the decoder looks: `renew` keeps both, and handles keep the memory of what was split off and given
        // away. Bytes that were given away are never written again.
        #[allow(unsafe_code)]
        unsafe {
            self.context.step(unit, &mut self.segment)
        }
    }

    /// Takes what was made since the last time.
    pub(super) fn take(&mut self) -> Bytes {
        self.segment.split().freeze()
    }

    /// How many bytes wait to be taken.
    pub(super) fn made(&self) -> usize {
        self.segment.len()
    }

    /// Goes on in another segment, which begins on a page border: an image can then be written from it as it is.
    fn renew(&mut self) {
        let size = self.size + PAGE;
        let free = self.full.iter_mut().position(|segment| segment.try_reclaim(size));
        let next = free.and_then(|at| self.full.remove(at)).unwrap_or_else(|| BytesMut::with_capacity(size));
        // The decoder looks back into this one, which is why it was not among those that could be reclaimed.
        self.full.push_back(std::mem::replace(&mut self.segment, next));
        if self.full.len() > KEPT {
            self.full.pop_front();
        }
        let border = self.segment.as_ptr().align_offset(PAGE).min(PAGE);
        self.segment.resize(border, 0);
        self.segment.advance(border);
    }
}

/// A context of libzstd, used block by block: `ZSTD_decompressContinue`, RFC 8878, 3.1.1.2.
struct Context(NonNull<zstd_sys::ZSTD_DCtx>);

// SAFETY: a context has no tie to the thread that made it, and `&mut self` keeps it to one at a time.
#[allow(unsafe_code)]
unsafe impl Send for Context {}

#[allow(unsafe_code)]
impl Context {
    /// A new context; `None` when there is no memory.
    fn new() -> Option<Self> {
        // SAFETY: it takes nothing, and gives a context or null.
        NonNull::new(unsafe { zstd_sys::ZSTD_createDCtx() }).map(Self)
    }

    /// Begins a frame, and forgets where the one before was written.
    fn begin(&mut self) -> std::result::Result<(), usize> {
        // SAFETY: the context is alive until `drop`.
        check(unsafe { zstd_sys::ZSTD_decompressBegin(self.0.as_ptr()) }).map(drop)
    }

    /// How many bytes the next unit has; 0 when the frame is complete.
    fn need(&self) -> usize {
        // SAFETY: the context is alive until `drop`; it is only read.
        unsafe { zstd_sys::ZSTD_nextSrcSizeToDecompress(self.0.as_ptr()) }
    }

    /// Decodes a unit and appends to `output`, at most [`BLOCK_MAX`] bytes and within its capacity.
    ///
    /// # Safety
    /// What was written since [`Context::begin`] into the buffer at hand and into the one before it must still be there.
    unsafe fn step(&mut self, unit: &[u8], output: &mut BytesMut) -> std::result::Result<(), usize> {
        let spare = output.spare_capacity_mut();
        let room = spare.len().min(BLOCK_MAX);
        let at = spare.as_mut_ptr().cast();
        // SAFETY: `at` has room for `room` bytes, `unit` is a slice, and the caller vouches for what was written before.
        let made = check(unsafe {
            zstd_sys::ZSTD_decompressContinue(self.0.as_ptr(), at, room, unit.as_ptr().cast(), unit.len())
        })?;
        // SAFETY: libzstd says how many bytes it has written at the front of the spare capacity.
        unsafe { output.set_len(output.len() + made.min(room)) };
        Ok(())
    }
}

#[allow(unsafe_code)]
impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: it was made by `ZSTD_createDCtx` and is freed once.
        unsafe { zstd_sys::ZSTD_freeDCtx(self.0.as_ptr()) };
    }
}

/// A result of libzstd: a number, or an error's code.
fn check(code: usize) -> std::result::Result<usize, usize> {
    // SAFETY: it looks at the number alone.
    #[allow(unsafe_code)]
    let failed = unsafe { zstd_sys::ZSTD_isError(code) } != 0;
    if failed { Err(code) } else { Ok(code) }
}

/// The largest window that is decoded in place: three segments and what is on its way stay within 40 MiB. `zstd -19`
/// has it; what `--long` and `--ultra` write goes through libzstd's own window.
pub(super) const MAX_WINDOW: u64 = 8 << 20;

/// The largest block of any frame (RFC 8878, 3.1.1.2.4).
pub(super) const BLOCK_MAX: usize = 128 << 10;

/// The size of a page of memory.
const PAGE: usize = 4096;

/// Small frames share a segment.
const SEGMENT_MIN: usize = 1 << 20;

/// A piece has at least so much, if the frame has: each is a step between threads. Measured on 6 GiB of a raw disk:
/// 3.9 s with 256 KiB, 3.5 with 512 KiB and with this.
const PIECE: usize = 1 << 20;

/// How many full segments are kept for use again.
const KEPT: usize = 4;
