//! The threads that unpack and write.
//!
//! Ops of a plan are gathered into jobs of about a megabyte and carried out by a few threads, in any order. The bytes
//! waiting in the queue are bounded ([`Pool::new`]); a submitter waits until there is room. The first error stops
//! everything and is given to the submitter.
//!
//! Jobs begin in the order in which their ops were submitted. For a sink that wants the disk in order no job begins
//! that would end more than its window behind the beginning of the slowest.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use importer_codec::Bin;
use importer_disk::plan::Op;

use crate::sink::Sink;
use crate::sink::ordered::WINDOW;
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
    /// How many bytes of the disk all jobs before it make.
    before: u64,
    budget: u64,
}

struct Shared {
    sink: Box<dyn Sink>,
    /// How far the threads may be apart, in bytes of the disk that a job makes.
    apart: Option<u64>,
    state: Mutex<State>,
    /// A job was queued, or the end was reached.
    work: Condvar,
    /// A job was done.
    room: Condvar,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    /// Where the jobs in hand begin.
    begun: Vec<u64>,
    /// Bytes in the queue and in hand.
    in_flight: u64,
    closed: bool,
    error: Option<Error>,
    failed: bool,
}

/// Some ops that one thread carries out.
struct Job {
    ops: Vec<Op>,
    weight: u64,
    /// How many bytes the jobs before it make, and how many with its own.
    from: u64,
    until: u64,
}

impl State {
    /// The next job, unless it has to wait for a slower one, `apart` bytes of which would then be between them.
    fn begin(&mut self, apart: Option<u64>) -> Option<Job> {
        let slowest = self.begun.iter().min().filter(|_| !self.failed);
        if let (Some(apart), Some(slowest), Some(next)) = (apart, slowest, self.jobs.front())
            && next.until - slowest > apart
        {
            return None;
        }
        let job = self.jobs.pop_front()?;
        self.begun.push(job.from);
        Some(job)
    }

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
        let shared = Arc::new(Shared::new(sink));
        let mut pool = Self { shared, threads: Vec::new(), batch: Vec::new(), weight: 0, made: 0, before: 0, budget };
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
        let (ops, weight, from) = (std::mem::take(&mut self.batch), std::mem::take(&mut self.weight), self.before);
        self.before += std::mem::take(&mut self.made);
        let job = Job { ops, weight, from, until: self.before };
        let mut state = self.shared.state();
        while !state.failed && state.in_flight > 0 && state.in_flight + weight > self.budget {
            state = self.shared.room.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.outcome()?;
        state.in_flight += weight;
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
        let shared =
            std::mem::replace(&mut self.shared, Arc::new(Shared::new(Box::new(crate::sink::NullSink::default()))));
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
    fn new(sink: Box<dyn Sink>) -> Self {
        let apart = sink.ordered().then_some(WINDOW as u64);
        Self { sink, apart, state: Mutex::default(), work: Condvar::new(), room: Condvar::new() }
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
        let job = loop {
            if let Some(job) = state.begin(shared.apart) {
                break job;
            }
            if state.closed && state.jobs.is_empty() {
                return;
            }
            state = shared.work.wait(state).unwrap_or_else(PoisonError::into_inner);
        };
        let failed = state.failed;
        drop(state);
        let guard = Departure { shared, weight: job.weight, from: job.from };
        if !failed && let Err(error) = unpacker.carry_out(job.ops, &*shared.sink) {
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
    from: u64,
}

impl Drop for Departure<'_> {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        state.in_flight -= self.weight;
        state.failed |= std::thread::panicking();
        if let Some(place) = state.begun.iter().position(|from| *from == self.from) {
            state.begun.swap_remove(place);
        }
        drop(state);
        self.shared.room.notify_one();
        if self.shared.apart.is_some() {
            // Others may have waited for this job.
            self.shared.work.notify_all();
        }
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
