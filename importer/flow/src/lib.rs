//! The pipeline that moves an image from a [`Source`] to a [`Sink`]:
//!
//! ```text
//! source ──► unwrap ──► plan ──► decode pool ──► sink
//! ```
//!
//! Everything here is synchronous code on named threads; only the HTTP source runs a tokio runtime, which moves bytes
//! into a bounded channel. Bytes travel as [`bytes::Bytes`] from the socket to `pwrite` without a copy of ours.

mod error;
pub mod sink;
pub mod source;
mod stream;
mod sys;

pub use error::{Error, Kind, Result};
pub use sink::Sink;
pub use source::Source;
pub use stream::{Piece, Stream};
