//! Frames decoded side by side.
//!
//! Files of many frames that say how long they are, as ours do, are cut at their frames, which are then decoded on a few
//! threads and given in order. Everything else is left to the decoder for one thread: single frames as `zstd` writes them,
//! padding, what is no frame. So are frames that are damaged, so that what is said of a file does not depend on threads.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::{Buf, Bytes, BytesMut};
use zstd_safe::DCtx;

use super::split::{Found, Split};
use super::{MAX_WINDOW_LOG, Zstd};
use crate::decode::{Decode, Decoder, Limits, Status};
use crate::seekable::is_zeros;
use crate::{Bin, Error, Kind, Result, spare};

/// The decoder for several threads. It holds up to one and a half times [`IN_FLIGHT`] bytes of content, less where
/// [`Limits::parallel`] is less, and their frames; and what the other decoder holds, if that is needed.
pub(crate) struct Parallel {
    limits: Limits,
    bin: Bin,
    split: Split,
    /// Frames that were cut, in order, and how many bytes they give.
    frames: VecDeque<Cut>,
    in_flight: u64,
    /// What may be in flight.
    budget: u64,
    consumed: u64,
    /// Where in the stream the first of `frames` begins, or what is behind them.
    at: u64,
    workers: Option<Workers>,
    /// For frames that are too small for a thread.
    context: DCtx<'static>,
    /// What decodes the rest of the stream.
    rest: Option<Rest>,
}

/// A frame on its way.
struct Cut {
    stored: Bytes,
    len: u32,
    content: Content,
}

enum Content {
    Zeros,
    Ready(Bytes),
    Coming(Receiver<Option<Bytes>>),
    Damaged,
}

/// The rest of a stream: what was taken of it, and its decoder.
struct Rest {
    taken: VecDeque<Bytes>,
    decoder: Decoder<Zstd>,
}

impl Parallel {
    pub(crate) fn new(limits: Limits, bin: &Bin) -> Result<Self> {
        let context =
            context().ok_or_else(|| Error::new(Kind::Memory, "no memory is left for the decoder").of("zstd"))?;
        let budget = limits.parallel.min(IN_FLIGHT);
        Ok(Self {
            limits,
            bin: bin.clone(),
            split: Split::new(budget / 2, limits.memory.min(1 << MAX_WINDOW_LOG)),
            frames: VecDeque::new(),
            in_flight: 0,
            budget,
            consumed: 0,
            at: 0,
            workers: None,
            context,
            rest: None,
        })
    }

    /// Takes a frame that was cut.
    fn take(&mut self, stored: Bytes, len: u32) {
        let content = if is_zeros(&stored, len.into()) {
            Content::Zeros
        } else if u64::from(len) > self.budget / 2 {
            // It could only have been one of zeros.
            Content::Damaged
        } else if len < SMALL {
            unpack(&mut self.context, &stored, len).map_or(Content::Damaged, Content::Ready)
        } else {
            let workers = self.workers.get_or_insert_with(|| Workers::start(self.limits.threads));
            workers.unpack(stored.clone(), len)
        };
        if !matches!(content, Content::Zeros) {
            self.in_flight += u64::from(len);
        }
        self.frames.push_back(Cut { stored, len, content });
    }

    /// The content of the next frame, if it is there; with `wait`, when it is there.
    fn give(&mut self, wait: bool) -> Result<Option<Status>> {
        let Some(first) = self.frames.front_mut() else { return Ok(None) };
        if let Content::Coming(content) = &first.content {
            let made = if wait {
                content.recv().ok()
            } else {
                match content.try_recv() {
                    Err(TryRecvError::Empty) => return Ok(None),
                    made => made.ok(),
                }
            };
            first.content = made.flatten().map_or(Content::Damaged, Content::Ready);
        }
        if matches!(first.content, Content::Damaged) {
            // The other decoder says what is wrong, and where.
            return self.leave().map(|()| None);
        }
        let Some(cut) = self.frames.pop_front() else { return Ok(None) };
        self.at += cut.stored.len() as u64;
        Ok(Some(match cut.content {
            Content::Ready(bytes) => {
                self.in_flight -= u64::from(cut.len);
                Status::Made(bytes)
            }
            _ => Status::Zeros(cut.len.into()),
        }))
    }

    /// Leaves all that was not given to the other decoder.
    fn leave(&mut self) -> Result<()> {
        let machine = Zstd::new(self.limits, &self.bin)?;
        let mut taken: VecDeque<Bytes> = self.frames.drain(..).map(|cut| cut.stored).collect();
        taken.push_back(self.split.rest());
        let machine = if self.at > 0 { machine.behind_frames() } else { machine };
        self.rest = Some(Rest { taken, decoder: Decoder::behind(machine, self.at) });
        self.workers = None;
        Ok(())
    }

    fn step(&mut self, input: &mut Bytes, end: bool) -> Result<Status> {
        loop {
            if let Some(rest) = &mut self.rest {
                return rest.step(input, end);
            }
            let full = !self.frames.is_empty() && (self.in_flight >= self.budget || self.frames.len() >= FRAMES);
            if let Some(status) = self.give(full)? {
                // An empty frame gives nothing.
                if !matches!(&status, Status::Made(bytes) if bytes.is_empty()) {
                    return Ok(status);
                }
                continue;
            }
            if self.rest.is_some() || full {
                continue;
            }
            match self.split.next(input) {
                Found::Frame { stored, len } => self.take(stored, len),
                Found::NeedInput if !end => return Ok(Status::NeedInput),
                // What was cut comes before what was not.
                Found::NeedInput | Found::Other if !self.frames.is_empty() => {
                    if let Some(status) = self.give(true)?
                        && status != Status::Made(Bytes::new())
                    {
                        return Ok(status);
                    }
                }
                Found::NeedInput if self.split.between() && self.at > 0 => return Ok(Status::Done),
                Found::NeedInput | Found::Other => self.leave()?,
            }
        }
    }
}

impl Rest {
    fn step(&mut self, input: &mut Bytes, end: bool) -> Result<Status> {
        while let Some(taken) = self.taken.front_mut() {
            if taken.has_remaining() {
                match self.decoder.decode(taken, false)? {
                    Status::NeedInput => {}
                    status => return Ok(status),
                }
            }
            self.taken.pop_front();
        }
        self.decoder.decode(input, end)
    }
}

impl Decode for Parallel {
    fn decode(&mut self, input: &mut Bytes, end: bool) -> Result<Status> {
        let before = input.remaining();
        let status = self.step(input, end);
        self.consumed += (before - input.remaining()) as u64;
        status
    }

    fn consumed(&self) -> u64 {
        self.consumed
    }
}

/// The threads. They end when this is dropped.
struct Workers {
    jobs: SyncSender<Job>,
}

/// A frame, the length of its content, and who waits for it; it gets `None` for a frame that is damaged.
type Job = (Bytes, u32, SyncSender<Option<Bytes>>);

impl Workers {
    /// Where no thread can be started there are none, and every frame is left to the other decoder.
    fn start(threads: u32) -> Self {
        let (jobs, queue) = sync_channel(FRAMES);
        let queue = Arc::new(Mutex::new(queue));
        for number in 0..threads.min(MAX_THREADS) {
            let queue = Arc::clone(&queue);
            let thread = std::thread::Builder::new().name(format!("zstd-{number}"));
            if thread.spawn(move || work(&queue)).is_err() {
                break;
            }
        }
        Self { jobs }
    }

    fn unpack(&self, stored: Bytes, len: u32) -> Content {
        let (made, content) = sync_channel(1);
        match self.jobs.try_send((stored, len, made)) {
            Ok(()) => Content::Coming(content),
            Err(_) => Content::Damaged,
        }
    }
}

fn work(queue: &Mutex<Receiver<Job>>) {
    let Some(mut context) = context() else { return };
    loop {
        let job = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok((stored, len, made)) = job else { return };
        // Nobody waits for it when the stream was given up.
        if made.send(unpack(&mut context, &stored, len)).is_err() {
            return;
        }
    }
}

fn context() -> Option<DCtx<'static>> {
    DCtx::try_create()
}

/// The content of a frame, on a page border, so that it can be written to a disk as it is.
fn unpack(context: &mut DCtx<'static>, stored: &[u8], len: u32) -> Option<Bytes> {
    let len = len as usize;
    let mut output = BytesMut::with_capacity(len + PAGE);
    let border = output.as_ptr().align_offset(PAGE).min(PAGE);
    output.resize(border, 0);
    output.advance(border);
    let made = spare::unzstd_frame(context, stored, &mut output, len).ok()?;
    (made == len).then(|| output.freeze())
}

/// What may be on its way, in bytes of content.
const IN_FLIGHT: u64 = 8 << 20;

/// Frames on their way, zeros too.
const FRAMES: usize = 32;

/// A frame of less is decoded where it is met: that takes as long as giving it to a thread.
const SMALL: u32 = 64 << 10;

/// More threads than this find nothing to do within [`IN_FLIGHT`].
const MAX_THREADS: u32 = 8;

/// The size of a page of memory.
const PAGE: usize = 4096;

#[cfg(test)]
mod tests;
