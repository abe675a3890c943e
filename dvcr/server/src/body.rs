//! What is answered: nothing, a document, or a part of a file.

use std::fs::File;
use std::io::{self, IoSliceMut};
use std::os::unix::fs::FileExt;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker, ready};

use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use rustix::io::{Errno, ReadWriteFlags, preadv2};
use tokio::task::JoinHandle;

use crate::direct::{self, Direct, Sending};
use crate::metrics::Request;

/// The body of an answer. Says to the log how the request ended when it is dropped.
pub(crate) struct Body {
    kind: Kind,
    request: Option<Request>,
}

enum Kind {
    Bytes(Bytes),
    /// Through our memory, for TLS and for little.
    File(Box<Reading>),
    /// Past it.
    Direct {
        sending: Box<Sending>,
        _pull: Pull,
    },
}

impl Body {
    pub(crate) fn bytes(bytes: impl Into<Bytes>) -> Self {
        Self { kind: Kind::Bytes(bytes.into()), request: None }
    }

    /// `len` bytes of a file from `at`.
    pub(crate) fn file(file: File, at: u64, len: u64, budget: &Arc<Budget>) -> Self {
        let reading = Reading {
            file: Arc::new(file),
            at,
            left: len,
            ahead: true,
            pull: Pull::new(budget),
            shelf: Arc::new(Mutex::new(Shelf::default())),
            waiting: None,
        };
        Self { kind: Kind::File(Box::new(reading)), request: None }
    }

    /// The same on its way over a connection that can take it past our memory.
    pub(crate) fn over(self, direct: &Arc<Direct>) -> Self {
        let kind = match self.kind {
            Kind::File(reading) if reading.left >= direct::LEAST => {
                let Reading { file, at, left, pull, .. } = *reading;
                Kind::Direct { sending: Box::new(Sending::new(direct, file, at, left)), _pull: pull }
            }
            other => other,
        };
        Self { kind, ..self }
    }

    /// The same, and this request ends with it.
    pub(crate) fn of(mut self, request: Request) -> Self {
        self.request = Some(request);
        self
    }

    fn left(&self) -> u64 {
        match &self.kind {
            Kind::Bytes(bytes) => bytes.len() as u64,
            Kind::File(reading) => reading.left,
            Kind::Direct { sending, .. } => sending.left(),
        }
    }
}

impl hyper::body::Body for Body {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let next = match &mut self.kind {
            Kind::Bytes(bytes) if bytes.is_empty() => None,
            Kind::Bytes(bytes) => Some(Ok(std::mem::take(bytes))),
            Kind::File(reading) => ready!(reading.poll_next(context)),
            Kind::Direct { sending, .. } => ready!(sending.poll_next(context)),
        };
        if let (Some(Ok(bytes)), Some(request)) = (&next, &mut self.request) {
            request.sent(bytes.len() as u64);
        }
        Poll::Ready(next.map(|next| next.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        self.left() == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left())
    }
}

/// The memory that all pulls share.
pub(crate) struct Budget {
    bytes: u64,
    readers: AtomicU64,
}

impl Budget {
    pub(crate) fn new(bytes: u64) -> Arc<Self> {
        Arc::new(Self { bytes, readers: AtomicU64::new(0) })
    }

    /// How many pulls there are.
    pub(crate) fn readers(&self) -> u64 {
        self.readers.load(Ordering::Relaxed)
    }

    /// How much to read at a time: less, the more pulls there are.
    fn chunk(&self) -> usize {
        let share = self.bytes / self.readers().max(1) / BUFFERS as u64;
        // Both ends fit into a usize.
        usize::try_from(share).unwrap_or(MAX_CHUNK).clamp(MIN_CHUNK, MAX_CHUNK)
    }
}

/// One pull, counted as long as it lasts.
struct Pull(Arc<Budget>);

impl Pull {
    fn new(budget: &Arc<Budget>) -> Self {
        budget.readers.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(budget))
    }
}

impl Drop for Pull {
    fn drop(&mut self) {
        self.0.readers.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A file as it is read: at most [`BUFFERS`] buffers, which come back when the socket has taken them.
struct Reading {
    file: Arc<File>,
    at: u64,
    left: u64,
    /// What is in the page cache is read here and now; where the file system can't say what is, never.
    ahead: bool,
    pull: Pull,
    shelf: Arc<Mutex<Shelf>>,
    waiting: Option<JoinHandle<(Vec<u8>, io::Result<usize>)>>,
}

/// The buffers of one pull that are not in use, how many are, and who waits for one.
#[derive(Default)]
struct Shelf {
    free: Vec<Vec<u8>>,
    lent: usize,
    waker: Option<Waker>,
}

/// A buffer on its way to the socket.
struct Lent {
    buffer: Vec<u8>,
    len: usize,
    shelf: Arc<Mutex<Shelf>>,
}

impl Reading {
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        if let Some(waiting) = &mut self.waiting {
            let (buffer, read) = match ready!(Pin::new(waiting).poll(context)) {
                Ok(done) => done,
                Err(error) => (Vec::new(), Err(io::Error::other(error))),
            };
            self.waiting = None;
            return Poll::Ready(Some(read.and_then(|read| self.lend(buffer, read))));
        }
        if self.left == 0 {
            return Poll::Ready(None);
        }
        let mut buffer = ready!(self.poll_buffer(context));
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
        if self.ahead {
            let target = buffer.get_mut(..most).unwrap_or_default();
            match preadv2(&self.file, &mut [IoSliceMut::new(target)], self.at, ReadWriteFlags::NOWAIT) {
                Ok(read) => return Poll::Ready(Some(self.lend(buffer, read))),
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(_) => self.ahead = false,
            }
        }
        let (file, at) = (Arc::clone(&self.file), self.at);
        let mut waiting = tokio::task::spawn_blocking(move || {
            let read = file.read_at(buffer.get_mut(..most).unwrap_or_default(), at);
            (buffer, read)
        });
        // Polled once, so that it wakes this task.
        match Pin::new(&mut waiting).poll(context) {
            Poll::Ready(Ok((buffer, read))) => Poll::Ready(Some(read.and_then(|read| self.lend(buffer, read)))),
            Poll::Ready(Err(error)) => Poll::Ready(Some(Err(io::Error::other(error)))),
            Poll::Pending => {
                self.waiting = Some(waiting);
                Poll::Pending
            }
        }
    }

    /// A buffer of the size that is right now; waits until one comes back if all are lent.
    fn poll_buffer(&self, context: &mut Context<'_>) -> Poll<Vec<u8>> {
        let size = self.pull.0.chunk();
        let Ok(mut shelf) = self.shelf.lock() else { return Poll::Ready(vec![0; size]) };
        if shelf.lent >= BUFFERS {
            shelf.waker = Some(context.waker().clone());
            return Poll::Pending;
        }
        shelf.lent += 1;
        match shelf.free.pop() {
            Some(buffer) if buffer.len() >= size && buffer.len() / 2 <= size => Poll::Ready(buffer),
            _ => Poll::Ready(vec![0; size]),
        }
    }

    fn lend(&mut self, buffer: Vec<u8>, read: usize) -> io::Result<Bytes> {
        if read == 0 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "a blob is shorter than it was"));
        }
        self.at += read as u64;
        self.left = self.left.saturating_sub(read as u64);
        Ok(Bytes::from_owner(Lent { buffer, len: read, shelf: Arc::clone(&self.shelf) }))
    }
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        self.buffer.get(..self.len).unwrap_or_default()
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let Ok(mut shelf) = self.shelf.lock() else { return };
        shelf.lent = shelf.lent.saturating_sub(1);
        shelf.free.push(std::mem::take(&mut self.buffer));
        if let Some(waker) = shelf.waker.take() {
            waker.wake();
        }
    }
}

/// One is sent while the next is read.
const BUFFERS: usize = 2;
const MIN_CHUNK: usize = 16 << 10;
const MAX_CHUNK: usize = 256 << 10;
