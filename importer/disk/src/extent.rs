//! Where a part of the guest disk is found.

use crate::{GuestOffset, HostOffset};

/// A run of guest bytes and where they come from. The extents of an image are a partition of its guest disk: every
/// byte is in exactly one of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extent {
    /// First guest byte.
    pub guest: GuestOffset,
    /// Length in guest bytes, never 0; already cut at the end of the disk.
    pub len: u64,
    /// Where the bytes are.
    pub body: Body,
}

/// Where the bytes of an [`Extent`] are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// Nowhere: they read as zeros.
    Zero,
    /// As they are, at this place in the image file.
    Data {
        /// First byte in the image file.
        at: HostOffset,
    },
    /// Compressed, as one unit that must be decoded whole.
    Packed {
        /// First byte of the compressed data in the image file.
        at: HostOffset,
        /// Length of the range that holds the compressed data, in bytes. It may be longer than the data proper: the
        /// decoder stops at the end of the unit. At the end of the file it may be cut.
        len: u32,
        /// Length of the decoded unit in bytes. Decoding to anything but this, or exactly the extent's length, is
        /// corruption.
        unpacked: u32,
        /// How it is compressed.
        codec: Codec,
    },
    /// Given here, for bytes that metadata overrides (a VHDX log that was never replayed).
    Inline(bytes::Bytes),
}

/// How a [`Body::Packed`] unit is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Codec {
    /// Raw deflate, RFC 1951 (qcow2 compression type 0).
    Deflate,
    /// Deflate with a zlib header, RFC 1950 (VMDK).
    Zlib,
    /// Zstandard frames, RFC 8878 (qcow2 compression type 1).
    Zstd,
}

impl Extent {
    /// The guest offset just behind the extent.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.guest.0.saturating_add(self.len)
    }
}
