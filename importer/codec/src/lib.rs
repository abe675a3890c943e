//! Wrappers and cluster codecs: bytes in, bytes out.
//!
//! Everything here is sans-IO: nothing is opened, no clock is read, and the only threads are those that decode blocks of
//! xz (liblzma makes them) and frames of zstd side by side.
//!
//! - [`wrapper`] decides, by content alone, what an image is wrapped in, and gives the decoder for it.
//! - [`Decode`] is what every stream decoder implements: input is pushed, output comes in pieces, so that a bomb costs
//!   time in the caller's hands, never memory.
//! - [`tar`] walks an archive; [`archive`] finds the one disk in it (a plain tar, or an OVA by its OVF).
//! - [`cluster`] unpacks the whole compressed units of disk images.
//! - [`seekable`] compresses: zstd in independent frames with a table of them.
//!
//! Bytes that follow the last member of a stream are never ignored: zeros are padding, anything else is
//! [`Kind::Trailing`]. gzip, zstd, bzip2 and lz4 take any number of zeros, xz only multiples of four (its specification
//! says so), and nothing but zeros may follow the first zero, except for xz, where another stream may. A tar takes
//! zeros only.
#![cfg_attr(not(test), deny(clippy::indexing_slicing))]

pub mod archive;
mod bin;
mod bzip2;
pub mod cluster;
mod decode;
mod error;
mod gather;
mod gzip;
mod lz4;
mod ovf;
mod printable;
pub mod seekable;
mod spare;
pub mod tar;
pub mod wrapper;
mod xz;
mod zlib;
mod zstd;

pub use bin::Bin;
pub use decode::{Decode, Limits, Status};
pub use error::{Error, Kind, Result};
pub use wrapper::Wrapper;

#[cfg(test)]
mod testing;
