//! A target that is written from its first byte to its last.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use super::{Claim, Written, zeros};
use crate::{Error, Image, Kind, Result, Sink};

/// What takes a disk in order, each part behind the one before.
pub trait InOrder: Send {
    /// As [`Sink::prepare`].
    fn prepare(&mut self, size: Option<u64>) -> Result<()>;

    /// The next bytes of the disk. May block: then whoever brings the disk waits.
    fn write(&mut self, bytes: &[u8]) -> Result<()>;

    /// The next `len` bytes of the disk are zeros.
    fn zero(&mut self, len: u64) -> Result<()>;

    /// All `size` bytes of the disk have come, and are verified: makes them visible.
    fn finish(self, size: u64) -> Result<()>;

    /// As [`Sink::sized`].
    fn sized(&self) -> bool {
        false
    }

    /// As [`Sink::keeps`].
    fn keeps(&self, _format: &str) -> bool {
        false
    }

    /// As [`Sink::tell`].
    fn tell(&mut self, _image: &Image) {}

    /// As [`Sink::name`]. Asked once, before everything else.
    fn name(&self) -> String;

    /// As [`Sink::claim`]. Asked once, before everything else.
    fn claim(&self) -> Claim;
}

/// The sink for such a target. What comes before its turn is kept, [`WINDOW`] bytes at most; zeros wait for nothing but
/// their turn.
///
/// What the threads of an import overtake each other by is within the window, because they wait for the slowest before
/// they are further ahead. So what does not fit is a disk that does not come in order, and is refused.
pub struct OrderedSink<T> {
    name: String,
    claim: Claim,
    state: Mutex<State<T>>,
}

struct State<T> {
    target: T,
    /// Guest offset of what comes next.
    next: u64,
    /// What came before its turn, by guest offset, and how many bytes of it are held.
    early: BTreeMap<u64, Early>,
    held: usize,
    /// Bytes that are not zeros.
    data: u64,
}

enum Early {
    Data(Bytes),
    Zeros(u64),
}

/// How many bytes may wait for their turn: as many as are on their way with the usual memory, twice.
pub const WINDOW: usize = 8 << 20;

/// How many runs may wait for their turn: those of a window in the smallest clusters, and zeros of a table that came long
/// before. 6 MiB.
const RUNS: usize = 64 << 10;

impl<T: InOrder> OrderedSink<T> {
    /// A sink that writes to `target`.
    pub fn new(target: T) -> Self {
        let (name, claim) = (target.name(), target.claim());
        let state = State { target, next: 0, early: BTreeMap::new(), held: 0, data: 0 };
        Self { name, claim, state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State<T>> {
        // A thread that panicked while it held the lock has already ended the import.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: InOrder> Sink for OrderedSink<T> {
    fn prepare(&self, size: Option<u64>) -> Result<()> {
        self.state().target.prepare(size)
    }

    fn write(&self, at: u64, bytes: &[u8]) -> Result<()> {
        let mut state = self.state();
        for run in zeros::runs(at, bytes, zeros::BLOCK) {
            if run.zero { state.zero(run.at, run.bytes.len() as u64) } else { state.write(run.at, run.bytes) }
                .map_err(|error| self.named(error))?;
        }
        Ok(())
    }

    fn ordered(&self) -> bool {
        true
    }

    fn sized(&self) -> bool {
        self.state().target.sized()
    }

    fn keeps(&self, format: &str) -> bool {
        self.state().target.keeps(format)
    }

    fn tell(&self, image: &Image) {
        self.state().target.tell(image);
    }

    fn zero(&self, at: u64, len: u64) -> Result<()> {
        self.state().zero(at, len).map_err(|error| self.named(error))
    }

    fn finish(self: Box<Self>, size: u64) -> Result<Written> {
        let state = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        if !state.early.is_empty() || state.next != size {
            let message = format!("{}: nothing came for offset {:#x} of {size} bytes", self.name, state.next);
            return Err(Error::new(Kind::Ours, message));
        }
        state.target.finish(size)?;
        Ok(Written { data: state.data, size })
    }

    fn name(&self) -> String {
        self.name.clone()
    }

    fn claim(&self) -> Claim {
        self.claim.clone()
    }
}

impl<T> OrderedSink<T> {
    /// The target names itself; what is said here does not.
    fn named(&self, error: Fault) -> Error {
        match error {
            Fault::Target(error) => error,
            Fault::Order { at, next } => Error::new(
                Kind::OutOfOrder,
                format!(
                    "{}: the disk's data do not come in the disk's order (offset {at:#x} comes long before {next:#x}), in which a \
                     layer is written: copy it to a file first, and push that, or keep the image as it is (--as keep)",
                    self.name
                ),
            ),
            Fault::Twice(at) => Error::new(Kind::Ours, format!("{}: offset {at:#x} came twice", self.name)),
        }
    }
}

/// Why a part of the disk is not taken.
enum Fault {
    Target(Error),
    Order { at: u64, next: u64 },
    Twice(u64),
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::Target(error)
    }
}

impl<T: InOrder> State<T> {
    fn write(&mut self, at: u64, bytes: &[u8]) -> Result<(), Fault> {
        self.free(at, bytes.len() as u64)?;
        self.data += bytes.len() as u64;
        if at != self.next {
            self.held = self.held.saturating_add(bytes.len());
            if self.held > WINDOW {
                return Err(Fault::Order { at, next: self.next });
            }
            return self.keep(at, Early::Data(Bytes::copy_from_slice(bytes)));
        }
        self.target.write(bytes)?;
        self.next += bytes.len() as u64;
        self.catch_up()
    }

    fn zero(&mut self, at: u64, len: u64) -> Result<(), Fault> {
        if len == 0 {
            return Ok(());
        }
        self.free(at, len)?;
        if at != self.next {
            // A run that others continue stays one.
            if let Some((&before, Early::Zeros(zeros))) = self.early.range_mut(..at).next_back()
                && before + *zeros == at
            {
                *zeros += len;
                return Ok(());
            }
            return self.keep(at, Early::Zeros(len));
        }
        self.target.zero(len)?;
        self.next += len;
        self.catch_up()
    }

    /// Whether nothing was said yet of these bytes.
    fn free(&self, at: u64, len: u64) -> Result<(), Fault> {
        let before = self.early.range(..=at).next_back();
        let before = before.map_or(self.next, |(start, early)| start + early.len());
        let behind = self.early.range(at..).next().map_or(u64::MAX, |(start, _)| *start);
        if at < before || at.checked_add(len).is_none_or(|end| end > behind) {
            return Err(Fault::Twice(at));
        }
        Ok(())
    }

    fn keep(&mut self, at: u64, early: Early) -> Result<(), Fault> {
        self.early.insert(at, early);
        if self.early.len() > RUNS {
            return Err(Fault::Order { at, next: self.next });
        }
        Ok(())
    }

    /// Writes what was waiting for the bytes that have just come.
    fn catch_up(&mut self) -> Result<(), Fault> {
        while let Some(entry) = self.early.first_entry()
            && *entry.key() == self.next
        {
            let early = entry.remove();
            match &early {
                Early::Data(bytes) => {
                    self.target.write(bytes)?;
                    self.held -= bytes.len();
                }
                Early::Zeros(len) => self.target.zero(*len)?,
            }
            self.next += early.len();
        }
        Ok(())
    }
}

impl Early {
    fn len(&self) -> u64 {
        match self {
            Self::Data(bytes) => bytes.len() as u64,
            Self::Zeros(len) => *len,
        }
    }
}

impl<T> fmt::Debug for OrderedSink<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OrderedSink").field("name", &self.name).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
