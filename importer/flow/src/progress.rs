//! How far an import is, for whoever wants to show it.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::watch;

/// Counters of a running import. They only go up.
#[derive(Debug, Default)]
pub struct Progress {
    received: AtomicU64,
    expected: AtomicU64,
    pass: AtomicU64,
    accepted: watch::Sender<bool>,
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

    /// Waits until it is known that the image is one, how large its disk is, and that the target can have that. Where the
    /// size shows only at the end, nothing comes before that.
    pub async fn accepted(&self) {
        // The sender is here, so this ends only with what is waited for.
        let _ = self.accepted.subscribe().wait_for(|accepted| *accepted).await;
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

    /// The target has taken a disk of this size.
    pub(crate) fn accept(&self, size: Option<u64>) {
        if size.is_some() {
            self.accepted.send_replace(true);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Poll, Waker};

    use super::*;

    #[test]
    fn only_a_disk_whose_size_is_known_is_accepted() {
        let progress = Progress::default();
        let mut accepted = Box::pin(progress.accepted());
        let mut poll = || accepted.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert_eq!(poll(), Poll::Pending);
        progress.accept(None);
        assert_eq!(poll(), Poll::Pending);
        progress.accept(Some(0));
        assert_eq!(poll(), Poll::Ready(()));
    }
}
