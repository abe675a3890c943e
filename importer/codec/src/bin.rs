//! Buffers to be used again.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::{Bytes, BytesMut};

/// A few buffers of one size, given back by whoever used their bytes last.
///
/// A decoder fills megabytes on one thread and a writer lets go of them on another. Memory that is new each time costs a
/// page fault for every 4 KiB, which is more than the copy to the page cache; the same few buffers stay in the caches.
#[derive(Clone, Debug)]
pub struct Bin {
    buffers: Arc<Mutex<Vec<BytesMut>>>,
    size: usize,
}

impl Default for Bin {
    /// Buffers of 256 KiB: enough for one write, little enough to stay in the caches.
    fn default() -> Self {
        Self::of(256 << 10)
    }
}

impl Bin {
    /// Buffers of `size` bytes.
    #[must_use]
    pub fn of(size: usize) -> Self {
        Self { buffers: Arc::default(), size: size.max(1) }
    }

    /// The size of its buffers, in bytes.
    #[must_use]
    pub fn size(&self) -> usize {
        self.size
    }

    /// An empty buffer with room for [`Bin::size`] bytes.
    #[must_use]
    pub fn take(&self) -> BytesMut {
        let used = self.buffers.lock().unwrap_or_else(PoisonError::into_inner).pop();
        used.unwrap_or_else(|| BytesMut::with_capacity(self.size))
    }

    /// Gives bytes back. They are kept if they were the last to refer to a buffer from here; all others are dropped.
    pub fn give(&self, bytes: Bytes) {
        let Ok(mut buffer) = bytes.try_into_mut() else { return };
        buffer.clear();
        // Frames of the network have other sizes.
        if !(self.size..=2 * self.size).contains(&buffer.capacity()) && !buffer.try_reclaim(self.size) {
            return;
        }
        if buffer.capacity() > 2 * self.size {
            return;
        }
        let mut kept = self.buffers.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < KEPT {
            kept.push(buffer);
        }
    }
}

/// As many as are on their way at once: with the usual size 4 MiB.
const KEPT: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_user_gives_the_buffer_back() {
        let bin = Bin::default();
        let mut buffer = bin.take();
        let place = buffer.as_ptr();
        buffer.resize(bin.size(), 7);
        let bytes = buffer.freeze();
        let (first, second) = (bytes.slice(..1000), bytes.slice(1000..));
        drop(bytes);
        bin.give(first);
        assert!(bin.buffers.lock().unwrap().is_empty(), "the second half still refers to it");
        bin.give(second);
        let again = bin.take();
        assert!(again.is_empty() && again.capacity() >= bin.size());
        assert_eq!(again.as_ptr(), place);
        bin.give(Bytes::from(vec![0; 100]));
        bin.give(Bytes::from_static(&[0; 8]));
        assert!(bin.buffers.lock().unwrap().is_empty(), "only buffers of its size are kept");
    }
}
