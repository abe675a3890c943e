//! Zstandard in independent frames with a table of them at the end, as DVCR stores raw disks.
//!
//! Any zstd decoder reads it from start to end. Who has the [`SeekTable`] fetches and decodes any part of it, on as many
//! threads as there are. The table is that of the Zstandard Seekable Format 0.1.0 (contrib/seekable_format of zstd).
//!
//! The bytes depend on the data and on the level alone: not on threads, nor on how the data came. Another release of
//! libzstd may compress otherwise, which the tests' digests would show.

mod compressor;
mod table;
mod zeros;

pub use compressor::{Compressor, LEVEL};
pub use table::{FOOTER, MAX_FRAMES, Place, SeekTable, TableWriter, table_len};
pub use zeros::{Zeros, is_zeros};

use bytes::Bytes;

/// How many bytes of data make a frame, its last one aside; frames of zeros have a power of two of these.
///
/// Measured on 256 MiB of programs and documents: frames of 256 KiB compress to 0.4 % more, those of 4 MiB to 0.3 % less,
/// and all are equally fast. Who wants one page decodes a frame, in 0.6 ms.
pub const FRAME: usize = 1 << 20;

/// One frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The frame as it is stored.
    pub stored: Bytes,
    /// How many bytes it unpacks to.
    pub len: u32,
}

#[cfg(test)]
mod tests;
