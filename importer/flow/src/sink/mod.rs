//! Where the disk goes.

use crate::Result;

/// Where the disk goes. Writes come from several threads, in any order, and never overlap.
///
/// A sink that is dropped without [`finish`](Self::finish) leaves nothing that looks complete.
pub trait Sink: Send + Sync {
    /// Says how large the disk will be, before anything is written, where that is known. Fails when it can't fit.
    fn prepare(&self, size: Option<u64>) -> Result<()>;

    /// Writes `bytes` at guest offset `at`.
    fn write(&self, at: u64, bytes: &[u8]) -> Result<()>;

    /// Makes `len` bytes at guest offset `at` read as zeros.
    fn zero(&self, at: u64, len: u64) -> Result<()>;

    /// Everything was written and verified: makes the disk durable and visible, `size` bytes long.
    fn finish(self: Box<Self>, size: u64) -> Result<Written>;

    /// How a person knows it.
    fn name(&self) -> String;
}

/// What a sink has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Bytes written that were not known to be zero.
    pub data: u64,
    /// The size of the finished target in bytes.
    pub size: u64,
}
