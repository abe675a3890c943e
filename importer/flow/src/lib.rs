//! The pipeline that moves an image from a [`Source`] to a [`Sink`]:
//!
//! ```text
//! source ──► unwrap ──► plan ──► decode pool ──► sink
//! ```
//!
//! Everything here is synchronous code on named threads; only the HTTP source runs a tokio runtime, which moves bytes
//! into a bounded channel. Bytes travel as [`bytes::Bytes`] from the socket to `pwrite` without a copy of ours.

pub mod checksum;
pub mod credentials;
mod described;
mod destination;
mod error;
mod image;
mod import;
pub mod layer;
mod network;
mod peek;
mod pool;
mod progress;
mod received;
pub mod registry;
pub mod relay;
pub mod report;
pub mod sink;
pub mod size;
mod slab;
pub mod source;
mod spool;
mod stream;
mod sys;
mod threaded;
mod unpack;
mod unwrap;

pub use checksum::{Algorithm, Checksum};
pub use described::Described;
pub use destination::{Destination, Pushed, Receipt};
pub use error::{Error, Kind, Result};
pub use image::{Image, MAYBE};
pub use import::{Mode, Outcome, Settings, import, inspect};
pub use importer_disk::{Feature, FeatureValue};
pub use progress::Progress;
pub use sink::Sink;
pub use size::Size;
pub use source::Source;
pub use stream::{Piece, Stream};

/// Sets the allocator up for large buffers that one thread fills and another lets go of. Programs call it first; it costs
/// nothing and, with glibc, saves most of the page faults.
pub fn tune_allocator() {
    sys::keep_freed_memory();
}
