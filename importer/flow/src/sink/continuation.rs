//! What an interrupted copy left at a target, and what the next checkpoint tells.

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::Earlier;
use super::sample::{Marks, Sample};
use super::stored::Stored;

/// What is left of an interrupted copy, and what this one has written since. Costs some KiB.
#[derive(Debug)]
pub(super) struct Continuation {
    earlier: Mutex<Earlier>,
    /// Whether the target goes on from what it held: asked for with every run of zeros.
    continued: AtomicBool,
    /// Of the last checkpoint.
    sequence: AtomicU64,
    sample: Sample,
}

/// What there is at a target.
#[derive(Debug)]
pub(super) enum Found {
    /// Nothing of an interrupted copy.
    Nothing,
    /// What can't be continued, and why.
    Lost(&'static str),
    /// A checkpoint.
    Whole(Stored),
}

impl Continuation {
    /// Goes on from what was `found`, if `target` still holds what that tells of.
    pub(super) fn of(found: Found, target: &File) -> io::Result<Self> {
        let (mut sequence, sample) = (0, Sample::default());
        let earlier = match found {
            Found::Nothing => Earlier::Nothing,
            Found::Lost(why) => Earlier::Spoiled(why),
            Found::Whole(stored) if stored.marks.hold(target)? => {
                sequence = stored.sequence;
                sample.resume(stored.marks);
                Earlier::Record(stored.record)
            }
            Found::Whole(_) => Earlier::Spoiled("it is not what its checkpoint says"),
        };
        let continued = AtomicBool::new(matches!(earlier, Earlier::Record(_)));
        Ok(Self { earlier: Mutex::new(earlier), continued, sequence: sequence.into(), sample })
    }

    /// What was found.
    pub(super) fn earlier(&self) -> Earlier {
        self.lock().clone()
    }

    /// Whether the target goes on from what it held.
    pub(super) fn is_continued(&self) -> bool {
        self.continued.load(Ordering::Relaxed)
    }

    /// Forgets what was found.
    pub(super) fn start_over(&self) {
        *self.lock() = Earlier::Nothing;
        self.continued.store(false, Ordering::Relaxed);
        self.sample.resume(Marks::default());
    }

    /// `bytes` were written at `at`.
    pub(super) fn wrote(&self, at: u64, bytes: &[u8]) {
        self.sample.wrote(at, bytes);
    }

    /// The next checkpoint, of what was written so far.
    pub(super) fn checkpoint(&self, record: &str) -> Stored {
        let sequence = self.sequence.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        Stored { sequence, marks: self.sample.marks(), record: record.to_owned() }
    }

    fn lock(&self) -> MutexGuard<'_, Earlier> {
        self.earlier.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why a checkpoint that is there is of no use.
pub(super) const UNREADABLE: &str = "its checkpoint can't be read";
