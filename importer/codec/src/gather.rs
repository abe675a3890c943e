//! Small fields that may lie across the border of two inputs.

use bytes::{Buf, Bytes};

/// Collects a field of at most `N` bytes.
#[derive(Debug)]
pub(crate) struct Gather<const N: usize> {
    bytes: [u8; N],
    have: usize,
}

impl<const N: usize> Default for Gather<N> {
    fn default() -> Self {
        Self { bytes: [0; N], have: 0 }
    }
}

impl<const N: usize> Gather<N> {
    /// Takes from `input` until there are `want` bytes (at most `N`). True when they are all there.
    pub(crate) fn fill(&mut self, want: usize, input: &mut Bytes) -> bool {
        if let Some(slots) = self.bytes.get_mut(self.have..want) {
            let len = slots.len().min(input.len());
            if let Some(slots) = slots.get_mut(..len) {
                input.copy_to_slice(slots);
                self.have += len;
            }
        }
        self.have >= want
    }

    /// What was collected so far.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.have).unwrap_or_default()
    }

    /// Begins the next field.
    pub(crate) fn clear(&mut self) {
        self.have = 0;
    }

    /// Collects a field of `W` bytes; gives it and begins the next when it is complete.
    pub(crate) fn take<const W: usize>(&mut self, input: &mut Bytes) -> Option<[u8; W]> {
        const { assert!(W <= N) };
        if !self.fill(W, input) {
            return None;
        }
        self.have = 0;
        self.bytes.first_chunk().copied()
    }
}
