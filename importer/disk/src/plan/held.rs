//! Bytes that have passed and may still be needed.

use std::collections::BTreeMap;

use bytes::{Bytes, BytesMut};

use crate::Result;

/// A place outside memory for held bytes. The flow gives a bounded temporary file; without one, holding is bounded by
/// memory alone.
pub trait Spill: Send {
    /// Stores `bytes` and gives their slot. Fails when the limit is reached; the error is the user's to read.
    fn store(&mut self, bytes: &[u8]) -> Result<u64>;
    /// Reads `len` bytes at `skip` into the slot.
    fn load(&mut self, slot: u64, skip: u64, len: usize) -> Result<Bytes>;
    /// The slot's bytes from `skip` on, `len` of them, are not needed any more.
    fn free(&mut self, slot: u64, skip: u64, len: u64);
}

/// Disjoint runs of held bytes by their offset in the image file.
#[derive(Default)]
pub(super) struct Held {
    runs: BTreeMap<u64, Run>,
    in_memory: u64,
    spill: Option<Box<dyn Spill>>,
    spilled: bool,
}

#[derive(Clone, Debug)]
enum Run {
    Memory(Bytes),
    Hole(u64),
    Spilled { slot: u64, skip: u64, len: u64 },
}

/// A part of the file that is at hand.
#[derive(Clone, Debug)]
pub(super) enum Part {
    Bytes(Bytes),
    Hole(u64),
}

impl Part {
    pub(super) fn len(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Hole(len) => *len,
        }
    }

    /// The part of `len` bytes from `skip` on; both lie inside it.
    pub(super) fn slice(&self, skip: u64, len: u64) -> Self {
        match self {
            Self::Bytes(bytes) => {
                let start = to_usize(skip).min(bytes.len());
                Self::Bytes(bytes.slice(start..start + to_usize(len).min(bytes.len() - start)))
            }
            Self::Hole(_) => Self::Hole(len),
        }
    }
}

impl Run {
    fn len(&self) -> u64 {
        match self {
            Self::Memory(bytes) => bytes.len() as u64,
            Self::Hole(len) | Self::Spilled { len, .. } => *len,
        }
    }

    /// The part of `len` bytes from `skip` on; both lie inside the run.
    fn slice(&self, skip: u64, len: u64) -> Self {
        match self {
            Self::Memory(bytes) => {
                let start = to_usize(skip).min(bytes.len());
                Self::Memory(bytes.slice(start..start + to_usize(len).min(bytes.len() - start)))
            }
            Self::Hole(_) => Self::Hole(len),
            Self::Spilled { slot, skip: before, .. } => Self::Spilled { slot: *slot, skip: before + skip, len },
        }
    }
}

impl Held {
    pub(super) fn set_spill(&mut self, spill: Box<dyn Spill>) {
        self.spill = Some(spill);
    }

    pub(super) fn has_spill(&self) -> bool {
        self.spill.is_some()
    }

    /// Whether anything was ever spilled.
    pub(super) fn spilled(&self) -> bool {
        self.spilled
    }

    /// Bytes held in memory.
    pub(super) fn in_memory(&self) -> u64 {
        self.in_memory
    }

    pub(super) fn insert(&mut self, at: u64, part: Part) {
        let run = match part {
            Part::Bytes(bytes) => {
                self.in_memory += bytes.len() as u64;
                Run::Memory(bytes)
            }
            Part::Hole(len) => Run::Hole(len),
        };
        self.runs.insert(at, run);
    }

    /// How many bytes from `at` on are at hand without a gap, at most `limit`; or, if none, how many are missing before
    /// the next that is (at most `limit`).
    pub(super) fn reach(&self, at: u64, limit: u64) -> Reach {
        let mut end = match self.runs.range(..=at).next_back() {
            Some((start, run)) if start + run.len() > at => start + run.len(),
            _ => {
                let next = self.runs.range(at..).next().map_or(u64::MAX, |(start, _)| *start);
                return Reach::Missing((next - at).min(limit));
            }
        };
        while end - at < limit
            && let Some(run) = self.runs.get(&end)
        {
            end += run.len();
        }
        Reach::AtHand((end - at).min(limit))
    }

    /// The parts of `at..at + len`, all of which must be at hand.
    pub(super) fn view(&mut self, at: u64, len: u64) -> Result<Vec<Part>> {
        let end = at + len;
        let mut parts = Vec::new();
        let first = self.runs.range(..=at).next_back().map_or(at, |(start, _)| *start);
        for (start, run) in self.runs.range(first..end) {
            let from = at.max(*start);
            let to = end.min(start + run.len());
            if from >= to {
                continue;
            }
            match run.slice(from - start, to - from) {
                Run::Memory(bytes) => parts.push(Part::Bytes(bytes)),
                Run::Hole(len) => parts.push(Part::Hole(len)),
                Run::Spilled { slot, skip, len } => {
                    if let Some(spill) = &mut self.spill {
                        parts.push(Part::Bytes(spill.load(slot, skip, to_usize(len))?));
                    }
                }
            }
        }
        Ok(parts)
    }

    /// The bytes of `at..at + len` in one piece: a slice where they lie in one, a copy otherwise.
    pub(super) fn bytes(&mut self, at: u64, len: u64) -> Result<Bytes> {
        let mut parts = self.view(at, len)?;
        if let [Part::Bytes(bytes)] = parts.as_mut_slice() {
            return Ok(std::mem::take(bytes));
        }
        let mut joined = BytesMut::with_capacity(to_usize(len));
        for part in parts {
            match part {
                Part::Bytes(bytes) => joined.extend_from_slice(&bytes),
                Part::Hole(len) => joined.resize(joined.len() + to_usize(len), 0),
            }
        }
        Ok(joined.freeze())
    }

    /// Lets go of `start..end`.
    pub(super) fn remove(&mut self, start: u64, end: u64) {
        let first = self.runs.range(..=start).next_back().map_or(start, |(at, _)| *at);
        let touched: Vec<u64> = self.runs.range(first..end).map(|(at, _)| *at).collect();
        for at in touched {
            let Some(run) = self.runs.get(&at) else { continue };
            let (from, to) = (start.max(at), end.min(at + run.len()));
            if from >= to {
                continue;
            }
            let Some(run) = self.runs.remove(&at) else { continue };
            let before = run.slice(0, from - at);
            let after = run.slice(to - at, at + run.len() - to);
            match &run {
                Run::Memory(_) => self.in_memory -= to - from,
                Run::Spilled { slot, skip, .. } => {
                    if let Some(spill) = &mut self.spill {
                        spill.free(*slot, skip + (from - at), to - from);
                    }
                }
                Run::Hole(_) => {}
            }
            for (at, run) in [(at, before), (to, after)] {
                if run.len() > 0 {
                    self.runs.insert(at, run);
                }
            }
        }
    }

    /// Lets go of `start..end`, except what is in `keep`, which is sorted.
    pub(super) fn remove_except(&mut self, start: u64, end: u64, keep: &[(u64, u64)]) {
        let mut at = start;
        for (from, to) in keep.iter().filter(|(from, to)| *from < end && start < *to) {
            if at < *from {
                self.remove(at, *from);
            }
            at = at.max(*to);
        }
        if at < end {
            self.remove(at, end);
        }
    }

    /// Lets go of everything outside `keep`, which is sorted.
    pub(super) fn retain(&mut self, keep: &[(u64, u64)]) {
        self.remove_except(0, u64::MAX, keep);
    }

    /// Copies what is left of `start..end` out of the buffers it came in, so that a few held bytes don't keep a large
    /// network buffer alive.
    pub(super) fn compact(&mut self, start: u64, end: u64) {
        for (_, run) in self.runs.range_mut(start..end) {
            if let Run::Memory(bytes) = run {
                *bytes = Bytes::copy_from_slice(bytes);
            }
        }
    }

    /// Moves held bytes out of memory, oldest first, except those in `keep`, until at most `limit` are in memory.
    pub(super) fn spill_down_to(&mut self, limit: u64, keep: &[(u64, u64)]) -> Result<()> {
        let Some(spill) = &mut self.spill else { return Ok(()) };
        let kept = |at: u64, len: u64| keep.iter().any(|(start, end)| *start < at + len && at < *end);
        for (at, run) in &mut self.runs {
            if self.in_memory <= limit {
                break;
            }
            if let Run::Memory(bytes) = run
                && !kept(*at, bytes.len() as u64)
            {
                let len = bytes.len() as u64;
                *run = Run::Spilled { slot: spill.store(bytes)?, skip: 0, len };
                self.in_memory -= len;
                self.spilled = true;
            }
        }
        Ok(())
    }

    /// Visits the start and length of each run in `start..end`.
    pub(super) fn runs(&self, start: u64, end: u64) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.runs.range(start..end).map(|(at, run)| (*at, run.len()))
    }
}

/// What is there at an offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// So many bytes are at hand.
    AtHand(u64),
    /// So many bytes are missing.
    Missing(u64),
}

/// Lengths here are of bytes in memory, which fit.
fn to_usize(len: u64) -> usize {
    usize::try_from(len).unwrap_or(usize::MAX)
}
