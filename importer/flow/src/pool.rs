//! The threads that unpack and write.
//!
//! Ops of a plan are gathered into jobs of about a megabyte and carried out by a few threads, in any order. The bytes
//! waiting in the queue are bounded ([`Pool::new`]); a submitter waits until there is room. The first error stops
//! everything and is given to the submitter.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use importer_codec::Bin;
use importer_disk::plan::Op;

use crate::sink::Sink;
use crate::slab::PAGE;
use crate::unpack::{BUFFER, Unpacker};
use crate::{Error, Kind, Result};

/// Threads that carry out ops on a sink.
pub(crate) struct Pool {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    /// Ops gathered for the next job, what they weigh, and how many bytes of the disk they make.
    batch: Vec<Op>,
    weight: u64,
    made: u64,
    budget: u64,
}

struct Shared {
    sink: Box<dyn Sink>,
    state: Mutex<State>,
    /// A job was queued, or the end was reached.
    work: Condvar,
    /// A job was done.
    room: Condvar,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<(Vec<Op>, u64)>,
    /// Bytes in the queue and in hand.
    in_flight: u64,
    closed: bool,
    error: Option<Error>,
    failed: bool,
}

impl State {
    /// Why a thread failed, if one did.
    fn outcome(&mut self) -> Result<()> {
        if self.failed {
            return Err(self.error.take().unwrap_or_else(|| Error::new(Kind::Ours, "a writer has stopped")));
        }
        Ok(())
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        // A thread that panicked while it held the lock has already ended the import; see `run`.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pool {
    /// Starts `threads` threads. At most `budget` bytes of ops wait or are in work; their buffers go to `bin`.
    pub(crate) fn new(sink: Box<dyn Sink>, threads: usize, budget: u64, bin: Bin) -> Result<Self> {
        let shared = Arc::new(Shared { sink, state: Mutex::default(), work: Condvar::new(), room: Condvar::new() });
        let mut pool = Self { shared, threads: Vec::new(), batch: Vec::new(), weight: 0, made: 0, budget };
        for number in 0..threads.max(1) {
            let shared = Arc::clone(&pool.shared);
            let bin = bin.clone();
            let thread = std::thread::Builder::new().name(format!("write-{number}")).spawn(move || run(&shared, bin));
            pool.threads.push(thread.map_err(|error| Error::new(Kind::Ours, "can't start a thread").because(error))?);
        }
        Ok(pool)
    }

    /// The sink, to prepare it.
    pub(crate) fn sink(&self) -> &dyn Sink {
        &*self.shared.sink
    }

    /// Takes ops. Waits while too many bytes are in flight.
    pub(crate) fn submit(&mut self, ops: &mut Vec<Op>) -> Result<()> {
        for op in ops.drain(..) {
            self.push(op)?;
        }
        Ok(())
    }

    fn push(&mut self, op: Op) -> Result<()> {
        let made = made(&op);
        if self.made + made < JOB && self.weight < JOB {
            self.gather(op);
            return Ok(());
        }
        match op {
            // A job ends where a page of the disk ends, so that no page is written in two parts.
            Op::Write { guest, mut bytes } => {
                let beyond = (guest.0 + made) % PAGE as u64;
                let rest = usize::try_from(made.saturating_sub(beyond)).unwrap_or_default();
                let rest = (beyond > 0 && rest > 0).then(|| bytes.split_off(rest));
                self.gather(Op::Write { guest, bytes });
                self.flush()?;
                if let Some(bytes) = rest {
                    self.gather(Op::Write { guest: importer_disk::GuestOffset(guest.0 + made - beyond), bytes });
                }
                Ok(())
            }
            op => {
                self.gather(op);
                self.flush()
            }
        }
    }

    fn gather(&mut self, op: Op) {
        self.weight += weight(&op);
        self.made += made(&op);
        self.batch.push(op);
    }

    fn flush(&mut self) -> Result<()> {
        if self.batch.is_empty() {
            return Ok(());
        }
        self.made = 0;
        let job = (std::mem::take(&mut self.batch), std::mem::take(&mut self.weight));
        let mut state = self.shared.state();
        while !state.failed && state.in_flight > 0 && state.in_flight + job.1 > self.budget {
            state = self.shared.room.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.outcome()?;
        state.in_flight += job.1;
        state.jobs.push_back(job);
        drop(state);
        self.shared.work.notify_one();
        Ok(())
    }

    /// Waits until everything that was submitted is done. Costs the time in which the threads have nothing to do.
    pub(crate) fn drain(&mut self) -> Result<()> {
        self.flush()?;
        let mut state = self.shared.state();
        while !state.failed && state.in_flight > 0 {
            state = self.shared.room.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.outcome()
    }

    /// Waits until everything is done; gives the sink back.
    pub(crate) fn finish(mut self) -> Result<Box<dyn Sink>> {
        let flushed = self.flush();
        self.stop();
        flushed?;
        self.shared.state().outcome()?;
        let shared = std::mem::replace(&mut self.shared, Arc::new(Shared::empty()));
        match Arc::try_unwrap(shared) {
            Ok(shared) => Ok(shared.sink),
            Err(_) => Err(Error::new(Kind::Ours, "a writer is still at work")),
        }
    }

    fn stop(&mut self) {
        self.shared.state().closed = true;
        self.shared.work.notify_all();
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                self.shared.state().failed = true;
            }
        }
    }
}

impl Shared {
    fn empty() -> Self {
        let sink = Box::new(crate::sink::NullSink::default());
        Self { sink, state: Mutex::default(), work: Condvar::new(), room: Condvar::new() }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // Only after an error: what is queued is not wanted any more.
        self.shared.state().jobs.clear();
        self.stop();
    }
}

/// One thread: takes jobs until there are no more.
fn run(shared: &Shared, bin: Bin) {
    let mut unpacker = Unpacker::new(bin);
    loop {
        let mut state = shared.state();
        let (job, weight) = loop {
            if let Some(job) = state.jobs.pop_front() {
                break job;
            }
            if state.closed {
                return;
            }
            state = shared.work.wait(state).unwrap_or_else(PoisonError::into_inner);
        };
        let failed = state.failed;
        drop(state);
        let guard = Departure { shared, weight };
        if !failed && let Err(error) = unpacker.carry_out(job, &*shared.sink) {
            let mut state = shared.state();
            state.failed = true;
            state.error.get_or_insert(error);
        }
        drop(guard);
    }
}

/// Gives the room back however the job ends, also by a panic.
struct Departure<'a> {
    shared: &'a Shared,
    weight: u64,
}

impl Drop for Departure<'_> {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        state.in_flight -= self.weight;
        state.failed |= std::thread::panicking();
        drop(state);
        self.shared.room.notify_one();
    }
}

/// What an op costs to keep: its bytes, and a little for itself.
fn weight(op: &Op) -> u64 {
    const SELF: u64 = 128;
    SELF + match op {
        Op::Write { bytes, .. } => bytes.len() as u64,
        Op::Unpack { input, .. } => input.len() as u64,
        Op::Zero { .. } => 0,
    }
}

/// How many bytes an op writes.
fn made(op: &Op) -> u64 {
    match op {
        Op::Write { bytes, .. } => bytes.len() as u64,
        Op::Unpack { len, .. } => *len,
        Op::Zero { .. } => 0,
    }
}

/// Enough for one large write: what a job makes, or at most weighs.
const JOB: u64 = BUFFER as u64;

#[cfg(test)]
mod tests;
