//! Parts of an object, read ahead on several connections and given in order.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::error::Result;
use crate::object::Object;
use crate::resource::Resource;
use crate::tail::Tail;

/// Reads ranges of a proven object, a part on each connection at a time, and gives them in order.
///
/// Parts that are complete wait for their turn, at most [`WAITING`] of them. So the memory is at most that and the number
/// of connections, times [`PART`].
pub(crate) struct Ahead {
    resource: Resource,
    object: Arc<Object>,
    /// What no connection reads yet.
    left: VecDeque<Range<u64>>,
    /// Parts that are read or wait, in order.
    parts: VecDeque<Part>,
    /// A part was read, or nearly.
    read: Arc<Notify>,
    /// Bytes to be given before anything is asked for, until that is done.
    quiet: Option<u64>,
    /// How long the reader has waited for the part in front.
    waited: Duration,
    /// How much of it was given.
    given: u64,
    /// When the part before it had been given.
    since: Option<Instant>,
}

/// A part, read by a task of its own. Dropping it cancels the task.
struct Part {
    bytes: UnboundedReceiver<Result<Bytes>>,
    task: JoinHandle<()>,
    /// Whether so little is left that the next part can be asked for.
    nearly: Arc<AtomicBool>,
}

impl Ahead {
    /// Reads `ranges`, which are in the object and not empty.
    pub(crate) fn new(resource: Resource, object: Arc<Object>, ranges: impl IntoIterator<Item = Range<u64>>) -> Self {
        let left = ranges.into_iter().collect();
        let (parts, read) = (VecDeque::new(), Arc::default());
        Self { resource, object, left, parts, read, quiet: None, waited: Duration::ZERO, given: 0, since: None }
    }

    /// Gives the `len` bytes of `first` first, and asks for nothing more until whoever has them wants more: who wanted
    /// only the start has gone by then.
    pub(crate) fn after(mut self, first: Tail, len: u64) -> Self {
        self.parts.push_back(Part::read(first, Arc::clone(&self.read)));
        self.quiet = Some(len).filter(|_| !self.left.is_empty());
        self
    }

    /// Whether all of the first answer was given and nothing more was asked for.
    pub(crate) fn at_rest(&self) -> bool {
        self.quiet == Some(0)
    }

    /// The next bytes; `None` after the last range. They never cross the border of a range.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>> {
        loop {
            self.quiet = self.quiet.filter(|left| *left > 0);
            if self.quiet.is_none() {
                self.read_ahead();
            }
            let Some(part) = self.parts.front_mut() else {
                if self.left.is_empty() {
                    return Ok(None);
                }
                self.quiet = None;
                continue;
            };
            let next = match part.bytes.try_recv() {
                Ok(next) => Some(next),
                Err(_) => {
                    let begin = Instant::now();
                    let next = tokio::select! {
                        biased;
                        next = part.bytes.recv() => Some(next),
                        // A connection is free for what comes next.
                        () = self.read.notified() => None,
                    };
                    self.waited += begin.elapsed();
                    match next {
                        Some(next) => next,
                        None => continue,
                    }
                }
            };
            match next.transpose()? {
                Some(bytes) => {
                    self.given += bytes.len() as u64;
                    self.quiet = self.quiet.map(|left| left.saturating_sub(bytes.len() as u64));
                    return Ok(Some(bytes));
                }
                None => {
                    self.parts.pop_front();
                    let now = Instant::now();
                    let (given, waited) = (std::mem::take(&mut self.given), std::mem::take(&mut self.waited));
                    if let Some(since) = self.since.replace(now) {
                        self.resource.pace().gave(given, now - since, waited);
                    }
                }
            }
        }
    }

    fn read_ahead(&mut self) {
        let (width, most) = (self.resource.pace().width(), self.resource.pace().most());
        let mut open = self.parts.iter().filter(|part| !part.task.is_finished()).count();
        let mut reading = self.parts.iter().filter(|part| !part.nearly.load(Ordering::Relaxed)).count();
        while reading < width && open < most && self.parts.len() < width + WAITING {
            let Some(range) = self.next_part() else { return };
            let tail = Tail::new(self.resource.clone(), Arc::clone(&self.object), range.start, Some(range.end));
            self.parts.push_back(Part::read(tail.impatient(), Arc::clone(&self.read)));
            reading += 1;
            open += 1;
        }
    }

    fn next_part(&mut self) -> Option<Range<u64>> {
        let range = self.left.front_mut()?;
        let part = range.start..range.end.min(range.start.saturating_add(PART));
        range.start = part.end;
        if range.is_empty() {
            self.left.pop_front();
        }
        Some(part)
    }
}

impl Part {
    fn read(tail: Tail, read: Arc<Notify>) -> Self {
        let (sender, bytes) = unbounded_channel();
        let nearly = Arc::<AtomicBool>::default();
        let done = Arc::clone(&nearly);
        let task = tokio::spawn(async move {
            pump(tail, sender, &done, &read).await;
            done.store(true, Ordering::Relaxed);
            read.notify_one();
        });
        Self { bytes, task, nearly }
    }
}

async fn pump(mut tail: Tail, sender: UnboundedSender<Result<Bytes>>, nearly: &AtomicBool, read: &Notify) {
    while let Some(next) = tail.next().await.transpose() {
        let failed = next.is_err();
        if sender.send(next).is_err() || failed {
            return;
        }
        if tail.left().is_some_and(|left| left <= NEARLY) && !nearly.swap(true, Ordering::Relaxed) {
            read.notify_one();
        }
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What is read with one request: a little less than one TCP window of a usual Linux carries. With less, a link stands
/// still for most of a round trip; more waits in memory for its turn. On a link of 50 ms, eight connections bring up to
/// 600 MB/s with it.
pub(crate) const PART: u64 = (4 << 20) - (256 << 10);

/// How many parts may wait, complete, for their turn.
const WAITING: usize = 2;

/// With so much left of a part, the request for the next one goes out, so that the link does not stand still between them.
const NEARLY: u64 = 512 << 10;
