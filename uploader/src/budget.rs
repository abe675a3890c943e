//! The memory that all imports share.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use importer_flow::Settings;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::metrics::Metrics;
use crate::refusal::Refusal;

/// The memory that all imports share, and how many there may be.
#[derive(Debug)]
pub struct Budget {
    memory: u64,
    most: usize,
    active: AtomicUsize,
    metrics: Metrics,
    held: Semaphore,
}

/// The share of one import; given back when it is dropped.
#[derive(Debug)]
pub struct Share(Arc<Budget>);

impl Budget {
    /// `memory` bytes for at most `most` imports at a time.
    #[must_use]
    pub fn new(memory: u64, most: usize) -> Arc<Self> {
        Arc::new(Self {
            memory,
            most,
            active: AtomicUsize::new(0),
            metrics: Metrics::default(),
            held: Semaphore::new(HELD),
        })
    }

    /// A share for one more import.
    ///
    /// # Errors
    ///
    /// 503 when there are as many as there may be.
    pub fn share(self: &Arc<Self>) -> Result<Share, Refusal> {
        let more = |active| (active < self.most).then_some(active + 1);
        let entered = self.active.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        entered.map_err(|_| {
            let message =
                format!("{} uploads are under way, which is all this server takes: try again soon", self.most);
            Refusal::later(5, message)
        })?;
        Ok(Share(Arc::clone(self)))
    }

    /// Room for bytes that must be seen whole before an import may have them; waits until there is some. At most
    /// [`MOST_HELD`].
    pub async fn hold(&self, bytes: usize) -> Option<SemaphorePermit<'_>> {
        let pages = bytes.clamp(1, MOST_HELD).div_ceil(PAGE);
        self.held.acquire_many(u32::try_from(pages).unwrap_or(u32::MAX)).await.ok()
    }

    /// How many imports there are.
    #[must_use]
    pub fn active(&self) -> usize {
        self.active.load(Ordering::Relaxed)
    }

    /// What is counted.
    #[must_use]
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }
}

impl Share {
    /// What an import may use that begins now. With many at once each has one writer: they overlap each other as the
    /// writers of one import would.
    #[must_use]
    pub fn settings(&self) -> Settings {
        let active = self.0.active().max(1);
        let memory = self.0.memory / active as u64;
        let settings = Settings::default();
        let threads = settings.threads / active;
        Settings { memory: memory.clamp(LEAST, MOST), threads, ..settings }
    }

    /// What is counted.
    #[must_use]
    pub fn metrics(&self) -> &Metrics {
        &self.0.metrics
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.0.active.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The most that one request may have held back.
pub const MOST_HELD: usize = 8 << 20;
/// What all requests together may have held back, in pages: 32 MiB.
const HELD: usize = (32 << 20) / PAGE;
const PAGE: usize = 64 << 10;
/// What tables and windows need at least.
const LEAST: u64 = 2 << 20;
/// More brings nothing.
const MOST: u64 = 64 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_shrink_and_come_back() {
        let budget = Budget::new(64 << 20, 3);
        let first = budget.share().unwrap();
        assert_eq!(first.settings().memory, 64 << 20);
        let second = budget.share().unwrap();
        assert_eq!(second.settings().memory, 32 << 20);
        let third = budget.share().unwrap();
        let refusal = budget.share().unwrap_err();
        assert_eq!((refusal.status.as_u16(), refusal.retry_after), (503, Some(5)));
        drop((first, second));
        assert_eq!((budget.active(), third.settings().memory), (1, 64 << 20));
    }
}
