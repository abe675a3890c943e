//! What a disk image is.
//!
//! Every parser here is sans-IO: it names the host ranges it must see ([`Page`]), is given their bytes, and answers
//! with more pages or with [`Extent`]s, which say where each part of the guest disk is found. Nothing is opened, no
//! thread is started and no clock is read. The same parser therefore runs over HTTP ranges, over a stream that can't
//! seek, and over a byte slice in a test.
//!
//! - [`probe`] decides, once, what a file is, by its bytes alone.
//! - [`Format`] is what a parser implements; [`qcow2`], [`vmdk`], … are the parsers.
//! - [`plan`] turns arriving bytes into writes, with a bounded number of bytes held.
//!
//! The parsers are total: any input gives extents or an [`Error`] that names the offset, in memory bounded by what has
//! arrived, never by what a header claims.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::indexing_slicing))]
#![cfg_attr(test, allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_possible_wrap))]

mod claims;
mod coverage;
mod crc32c;
mod error;
mod extent;
mod field;
mod format;
mod guid;
mod offset;
mod page;
pub mod parallels;
pub mod plan;
pub mod probe;
pub mod qcow2;
pub mod qed;
pub mod raw;
mod table;
#[cfg(test)]
pub(crate) mod testing;
mod text;
pub mod vdi;
pub mod vhd;
pub mod vhdx;
pub mod vmdk;

pub use coverage::Coverage;
pub use error::{Error, Kind, Result};
pub use extent::{Body, Codec, Extent};
pub use format::{Feature, FeatureValue, Format, Found, Geometry};
pub use offset::{GuestOffset, HostOffset};
pub use page::Page;

/// The sector in which every format here counts, in bytes.
pub const SECTOR: u64 = 512;

/// The largest virtual size accepted, in bytes: what a Linux file or block device can hold at most.
pub const MAX_VIRTUAL_SIZE: u64 = i64::MAX as u64 & !(SECTOR - 1);
