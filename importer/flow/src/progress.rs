//! How far an import is, for whoever wants to show it.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::watch;

/// Counters of a running import. They only go up, but for those of a pass, which begin anew with each.
#[derive(Debug, Default)]
pub struct Progress {
    received: AtomicU64,
    expected: AtomicU64,
    pass: AtomicU64,
    accepted: watch::Sender<bool>,
    done: AtomicU64,
    whole: AtomicU64,
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

    /// How far this pass is, and how far it has to come: bytes of the source where it is read from its start to its end,
    /// bytes of the disk where that is made in its order; otherwise what was received and what will be, as far as is known.
    pub fn position(&self) -> (u64, u64) {
        match self.whole.load(Ordering::Relaxed) {
            0 => (self.received(), self.expected()),
            whole => (self.done.load(Ordering::Relaxed).min(whole), whole),
        }
    }

    /// How far this pass is, in percent; `None` where that can't be told.
    pub fn percent(&self) -> Option<u64> {
        let (done, whole) = self.position();
        let percent = (u128::from(done.min(whole)) * 100).checked_div(whole.into())?;
        u64::try_from(percent).ok()
    }

    /// From here on this pass has to come so far; `None` where that is not known.
    pub(crate) fn measure(&self, whole: Option<u64>) {
        self.done.store(0, Ordering::Relaxed);
        self.whole.store(whole.unwrap_or(0), Ordering::Relaxed);
    }

    /// So much of that is done.
    pub(crate) fn advance(&self, bytes: u64) {
        self.done.fetch_add(bytes, Ordering::Relaxed);
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

    #[test]
    fn a_pass_goes_from_nothing_to_all_of_it() {
        let progress = Progress::default();
        assert_eq!(progress.percent(), None);
        for pass in 1..=2 {
            progress.begin_pass();
            progress.measure(Some(1000));
            let mut before = 0;
            for _ in 0..11 {
                progress.receive(100);
                progress.advance(100);
                let percent = progress.percent().unwrap();
                assert!(percent >= before && percent <= 100, "{percent}");
                before = percent;
            }
            assert_eq!((before, progress.pass(), progress.position()), (100, pass, (1000, 1000)));
        }
        assert_eq!(progress.received(), 2200);
    }
}
