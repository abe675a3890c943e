//! How far an import is, for whoever wants to show it.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counters of a running import. They only go up.
#[derive(Debug, Default)]
pub struct Progress {
    received: AtomicU64,
    expected: AtomicU64,
    pass: AtomicU64,
}

impl Progress {
    /// Bytes received from the source, over all passes.
    pub fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// Bytes that will be received, as far as is known; 0 when it is not.
    pub fn expected(&self) -> u64 {
        self.expected.load(Ordering::Relaxed)
    }

    /// Which pass over the source this is, from 1; 0 before the first.
    pub fn pass(&self) -> u64 {
        self.pass.load(Ordering::Relaxed)
    }

    pub(crate) fn receive(&self, bytes: u64) {
        self.received.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn expect(&self, bytes: u64) {
        self.expected.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn begin_pass(&self) {
        self.pass.fetch_add(1, Ordering::Relaxed);
    }
}
