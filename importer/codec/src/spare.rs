//! The decoders' libraries writing into the spare capacity of a [`BytesMut`].
//!
//! The alternative without `unsafe` is to zero the spare capacity before each call: for a decoder that is fed 100 KiB
//! at a time and writes blocks of 1 MiB that is a memset of up to ten times the data. So the few lines that hand
//! unwritten memory to a library are all here.

use std::mem::MaybeUninit;

use bytes::BytesMut;

/// What one call of a library did.
pub(crate) struct Done<S> {
    /// Bytes of input used.
    pub(crate) used: usize,
    /// Bytes of output appended.
    pub(crate) made: usize,
    /// What the library says.
    pub(crate) status: S,
}

/// Inflates into the spare capacity, at most `max` bytes.
pub(crate) fn inflate(
    stream: &mut flate2::Decompress,
    input: &[u8],
    output: &mut BytesMut,
    max: usize,
) -> Done<Result<flate2::Status, flate2::DecompressError>> {
    let (used, made) = (stream.total_in(), stream.total_out());
    let spare = first(output.spare_capacity_mut(), max);
    let status = stream.decompress_uninit(input, spare, flate2::FlushDecompress::None);
    let made = difference(stream.total_out(), made).min(spare.len());
    // SAFETY: zlib counts in `total_out` the bytes it has written at the front of `spare`.
    #[allow(unsafe_code)]
    unsafe {
        advance(output, made);
    }
    Done { used: difference(stream.total_in(), used).min(input.len()), made, status }
}

/// Decodes xz into the spare capacity.
pub(crate) fn unxz(
    stream: &mut liblzma::stream::Stream,
    input: &[u8],
    output: &mut BytesMut,
) -> Done<Result<liblzma::stream::Status, liblzma::stream::Error>> {
    let (used, made) = (stream.total_in(), stream.total_out());
    let spare = output.spare_capacity_mut();
    let status = stream.process_uninit(input, spare, liblzma::stream::Action::Run);
    let made = difference(stream.total_out(), made).min(spare.len());
    // SAFETY: liblzma counts in `total_out` the bytes it has written at the front of `spare`.
    #[allow(unsafe_code)]
    unsafe {
        advance(output, made);
    }
    Done { used: difference(stream.total_in(), used).min(input.len()), made, status }
}

/// Decodes bzip2 into the spare capacity.
pub(crate) fn bunzip2(
    stream: &mut bzip2::Decompress,
    input: &[u8],
    output: &mut BytesMut,
) -> Done<Result<bzip2::Status, bzip2::Error>> {
    let (used, made) = (stream.total_in(), stream.total_out());
    let spare = output.spare_capacity_mut();
    let status = stream.decompress_uninit(input, spare);
    let made = difference(stream.total_out(), made).min(spare.len());
    // SAFETY: libbz2 counts in `total_out` the bytes it has written at the front of `spare`.
    #[allow(unsafe_code)]
    unsafe {
        advance(output, made);
    }
    Done { used: difference(stream.total_in(), used).min(input.len()), made, status }
}

/// Decodes zstd into the spare capacity. The status is 0 when a frame is complete, or the error's code.
pub(crate) fn unzstd(
    stream: &mut zstd_safe::DCtx<'static>,
    input: &[u8],
    output: &mut BytesMut,
) -> Done<Result<usize, usize>> {
    let mut spare = Uninit { bytes: output.spare_capacity_mut(), written: 0 };
    let mut from = zstd_safe::InBuffer::around(input);
    let status = stream.decompress_stream(&mut zstd_safe::OutBuffer::around(&mut spare), &mut from);
    let made = spare.written;
    // SAFETY: zstd-safe calls `filled_until` with what zstd has written at the front of the spare capacity.
    #[allow(unsafe_code)]
    unsafe {
        advance(output, made);
    }
    Done { used: from.pos(), made, status }
}

/// Decodes a whole frame of zstd into the spare capacity, at most `max` bytes. Gives how many it has made, or the error's
/// code.
pub(crate) fn unzstd_frame(
    context: &mut zstd_safe::DCtx<'static>,
    frame: &[u8],
    output: &mut BytesMut,
    max: usize,
) -> Result<usize, usize> {
    let mut spare = Uninit { bytes: first(output.spare_capacity_mut(), max), written: 0 };
    context.decompress(&mut spare, frame)?;
    let made = spare.written;
    // SAFETY: zstd-safe calls `filled_until` with what zstd has written at the front of the spare capacity.
    #[allow(unsafe_code)]
    unsafe {
        advance(output, made);
    }
    Ok(made)
}

/// Unwritten memory as a place for zstd.
struct Uninit<'a> {
    bytes: &'a mut [MaybeUninit<u8>],
    written: usize,
}

// SAFETY: the pointer and the capacity are those of one borrowed slice, and only its first `written` bytes, which
// `filled_until` vouches for, are shown as initialized.
#[allow(unsafe_code)]
unsafe impl zstd_safe::WriteBuf for Uninit<'_> {
    fn as_slice(&self) -> &[u8] {
        // SAFETY: `filled_until` promises that the first `written` bytes are initialized, and it bounds `written`.
        unsafe { std::slice::from_raw_parts(self.bytes.as_ptr().cast(), self.written) }
    }

    fn capacity(&self) -> usize {
        self.bytes.len()
    }

    fn as_mut_ptr(&mut self) -> *mut u8 {
        self.bytes.as_mut_ptr().cast()
    }

    unsafe fn filled_until(&mut self, n: usize) {
        self.written = n.min(self.bytes.len());
    }
}

/// Makes the first `len` bytes of the spare capacity part of the buffer.
///
/// # Safety
/// They were written, and there are as many.
#[allow(unsafe_code)]
unsafe fn advance(output: &mut BytesMut, len: usize) {
    let len = output.len() + len;
    debug_assert!(len <= output.capacity());
    // SAFETY: the caller vouches for it.
    unsafe { output.set_len(len) };
}

/// At most the first `max` bytes.
fn first(spare: &mut [MaybeUninit<u8>], max: usize) -> &mut [MaybeUninit<u8>] {
    let len = spare.len().min(max);
    spare.split_at_mut(len).0
}

/// How much a counter has grown.
fn difference(now: u64, before: u64) -> usize {
    usize::try_from(now.saturating_sub(before)).unwrap_or(usize::MAX)
}
