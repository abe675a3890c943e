//! Buffers to be used again.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::{Bytes, BytesMut};

/// A few buffers of one size, given back by whoever used their bytes last.
///
/// A decoder fills megabytes on one thread and a writer lets go of them on another. Memory that is new each time costs a
/// page fault for every 4 KiB, which is more than the copy to the page cache; the same few buffers stay in the caches.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bin(Arc<Mutex<Vec<BytesMut>>>);

impl Bin {
    /// An empty buffer with room for [`BUFFER`] bytes.
    pub(crate) fn take(&self) -> BytesMut {
        let used = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop();
        used.unwrap_or_else(|| BytesMut::with_capacity(BUFFER))
    }

    /// Gives bytes back. They are kept if they were the last to refer to a buffer from here; all others are dropped.
    pub(crate) fn give(&self, bytes: Bytes) {
        let Ok(mut buffer) = bytes.try_into_mut() else { return };
        buffer.clear();
        // Frames of the network have other sizes.
        if !(BUFFER..=2 * BUFFER).contains(&buffer.capacity()) && !buffer.try_reclaim(BUFFER) {
            return;
        }
        if buffer.capacity() > 2 * BUFFER {
            return;
        }
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < KEPT {
            kept.push(buffer);
        }
    }
}

/// What a decoder makes at once: enough for one write, little enough to stay in the caches.
pub(crate) const BUFFER: usize = 256 << 10;
/// As many as are on their way at once: 4 MiB.
const KEPT: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_user_gives_the_buffer_back() {
        let bin = Bin::default();
        let mut buffer = bin.take();
        let place = buffer.as_ptr();
        buffer.resize(BUFFER, 7);
        let bytes = buffer.freeze();
        let (first, second) = (bytes.slice(..1000), bytes.slice(1000..));
        drop(bytes);
        bin.give(first);
        assert!(bin.0.lock().unwrap().is_empty(), "the second half still refers to it");
        bin.give(second);
        let again = bin.take();
        assert!(again.is_empty() && again.capacity() >= BUFFER);
        assert_eq!(again.as_ptr(), place);
        bin.give(Bytes::from(vec![0; 100]));
        bin.give(Bytes::from_static(&[0; 8]));
        assert!(bin.0.lock().unwrap().is_empty(), "only buffers of its size are kept");
    }
}
