//! What somebody sends us.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::Notify;

use crate::{Error, Kind, Piece, Result, Source, Stream};

/// The two ends of an upload: what is fed into the one is what the other gives to an import. `name` is how people know it;
/// `len` is how many bytes there will be, where the sender has said so.
///
/// Between them wait at most 512 KiB and one frame. Who feeds may change: an upload that was cut goes on where it was, as
/// long as the feed lives.
#[must_use]
pub fn upload(name: &str, len: Option<u64>) -> (Feed, UploadSource) {
    let shared = Arc::new(Shared { state: Mutex::default(), readable: Condvar::new(), writable: Notify::new(), len });
    (Feed(Arc::clone(&shared)), UploadSource { shared: Some(shared), len, name: name.to_owned() })
}

/// The end of an upload where bytes go in. An upload whose feed is dropped has failed.
#[derive(Debug)]
pub struct Feed(Arc<Shared>);

/// The end of an upload that an import reads: once, from its start.
#[derive(Debug)]
pub struct UploadSource {
    shared: Option<Arc<Shared>>,
    len: Option<u64>,
    name: String,
}

/// The import has ended and takes no more bytes: what it says counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gone;

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    readable: Condvar,
    writable: Notify,
    len: Option<u64>,
}

#[derive(Debug, Default)]
struct State {
    queue: VecDeque<Bytes>,
    queued: usize,
    accepted: u64,
    /// How it ended, for the reader.
    end: Option<Result<(), Error>>,
    /// Nobody reads any more.
    gone: bool,
}

impl Feed {
    /// Hands bytes over, and waits while too many wait: whoever reads from a connection in step with this holds its sender
    /// back. A call that is dropped has handed over nothing.
    ///
    /// # Errors
    ///
    /// [`Gone`] when the import has ended.
    pub async fn push(&self, bytes: Bytes) -> Result<(), Gone> {
        loop {
            let writable = self.0.writable.notified();
            {
                let mut state = self.0.lock();
                if state.gone || state.end.is_some() {
                    return Err(Gone);
                }
                if bytes.is_empty() {
                    return Ok(());
                }
                if state.queued < QUEUE {
                    state.queued += bytes.len();
                    state.accepted += bytes.len() as u64;
                    state.queue.push_back(bytes);
                    self.0.readable.notify_one();
                    return Ok(());
                }
            }
            writable.await;
        }
    }

    /// How many bytes were handed over: where an upload that was cut goes on.
    #[must_use]
    pub fn accepted(&self) -> u64 {
        self.0.lock().accepted
    }

    /// How many bytes there will be, where that is known.
    #[must_use]
    pub fn len(&self) -> Option<u64> {
        self.0.len
    }

    /// Whether it is known that nothing will come.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.len == Some(0)
    }

    /// Everything was handed over.
    pub fn finish(&self) {
        let mut state = self.0.lock();
        let whole = self.0.len.is_none_or(|len| len == state.accepted);
        let end = if whole {
            Ok(())
        } else {
            let len = self.0.len.unwrap_or_default();
            Err(Error::new(Kind::Mismatch, format!("{} bytes were uploaded, and {len} announced", state.accepted)))
        };
        state.end.get_or_insert(end);
        self.0.readable.notify_one();
    }

    /// Nothing more will come, for this reason: the import fails with it.
    pub fn abort(&self, error: Error) {
        let mut state = self.0.lock();
        if state.end.is_none() {
            state.queue.clear();
            state.end = Some(Err(error));
        }
        drop(state);
        self.0.readable.notify_one();
        self.0.writable.notify_waiters();
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        self.abort(Error::new(Kind::Transient, "the upload was given up before its end"));
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nobody reads any more.
    fn leave(&self) {
        let mut state = self.lock();
        state.gone = true;
        state.queue.clear();
        drop(state);
        self.writable.notify_waiters();
    }
}

// === impl Source ===

impl Source for UploadSource {
    fn open(&mut self) -> Result<Box<dyn Stream>> {
        let shared = self.shared.take();
        let shared = shared.ok_or_else(|| Error::new(Kind::Ours, format!("{}: opened twice", self.name)))?;
        Ok(Box::new(Reader { shared, ended: false }))
    }

    fn read(&mut self, _ranges: Vec<Range<u64>>) -> Result<Box<dyn Stream>> {
        Err(Error::new(Kind::Ours, format!("{}: asked for a range, which it has not", self.name)))
    }

    fn len(&self) -> Option<u64> {
        self.len
    }

    fn ranges(&self) -> bool {
        false
    }

    fn reopens(&self) -> bool {
        false
    }

    fn name(&self) -> String {
        self.name.clone()
    }
}

impl Drop for UploadSource {
    fn drop(&mut self) {
        if let Some(shared) = &self.shared {
            shared.leave();
        }
    }
}

struct Reader {
    shared: Arc<Shared>,
    ended: bool,
}

impl Stream for Reader {
    fn next(&mut self) -> Result<Option<Piece>> {
        let mut state = self.shared.lock();
        while !self.ended {
            if let Some(bytes) = state.queue.pop_front() {
                let full = state.queued >= QUEUE;
                state.queued -= bytes.len();
                if full {
                    self.shared.writable.notify_waiters();
                }
                return Ok(Some(Piece::Bytes(bytes)));
            }
            match &state.end {
                None => state = self.shared.readable.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(Ok(())) => self.ended = true,
                Some(Err(_)) => {
                    self.ended = true;
                    // Whoever asks again learns that it is over.
                    if let Some(Err(error)) = state.end.replace(Ok(())) {
                        return Err(error);
                    }
                }
            }
        }
        Ok(None)
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.shared.leave();
    }
}

/// Bytes that wait for the import: what a connection brings while a writer waits for the disk. A frame is up to 408 KiB.
const QUEUE: usize = 512 << 10;

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    fn wait<T>(work: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(work)
    }

    fn rest(stream: &mut dyn Stream) -> Result<Vec<u8>> {
        let mut all = Vec::new();
        while let Some(piece) = stream.next()? {
            let Piece::Bytes(bytes) = piece else { panic!("a hole") };
            all.extend_from_slice(&bytes);
        }
        Ok(all)
    }

    #[test]
    fn what_goes_in_comes_out_and_a_slow_reader_holds_the_sender_back() {
        let (feed, mut source) = upload("upload", None);
        let mut stream = source.open().unwrap();
        let sender = thread::spawn(move || {
            wait(async {
                for at in 0..200_u32 {
                    let bytes = Bytes::from(vec![u8::try_from(at % 251).unwrap(); 10_000]);
                    feed.push(bytes).await.unwrap();
                    let state = feed.0.lock();
                    assert!(state.queued < QUEUE + 10_000, "{}", state.queued);
                }
                feed.finish();
                feed
            })
        });
        let all = rest(&mut *stream).unwrap();
        assert_eq!(sender.join().unwrap().accepted(), 2_000_000);
        let same = all.chunks(10_000).zip(0_u32..).all(|(chunk, at)| chunk.iter().all(|&b| u32::from(b) == at % 251));
        assert!(same && all.len() == 2_000_000);
    }

    #[test]
    fn a_call_that_is_dropped_has_handed_over_nothing() {
        let (feed, mut source) = upload("upload", None);
        let mut stream = source.open().unwrap();
        wait(async {
            feed.push(Bytes::from(vec![1; QUEUE])).await.unwrap();
            let mut more = Box::pin(feed.push(Bytes::from_static(b"x")));
            assert!(
                std::future::poll_fn(|context| std::task::Poll::Ready(more.as_mut().poll(context).is_pending())).await
            );
        });
        assert_eq!(feed.accepted(), QUEUE as u64);
        feed.finish();
        assert_eq!(rest(&mut *stream).unwrap().len(), QUEUE);
        assert_eq!(wait(feed.push(Bytes::from_static(b"x"))), Err(Gone));
    }

    #[test]
    fn an_upload_that_is_given_up_or_short_is_an_error_once() {
        for (len, sent, kind) in [(None, 3, Kind::Transient), (Some(5), 3, Kind::Mismatch), (Some(3), 3, Kind::Ours)] {
            let (feed, mut source) = upload("upload", len);
            assert_eq!(source.len(), len);
            let mut stream = source.open().unwrap();
            wait(feed.push(Bytes::from(vec![0; sent]))).unwrap();
            if len.is_some() {
                feed.finish();
            } else {
                drop(feed);
            }
            match rest(&mut *stream) {
                Ok(all) => assert_eq!((all.len(), kind), (3, Kind::Ours)),
                Err(error) => assert_eq!(error.kind(), kind),
            }
            assert!(stream.next().unwrap().is_none());
        }
    }

    #[test]
    fn a_sender_learns_that_nobody_reads() {
        let (feed, mut source) = upload("upload", None);
        let stream = source.open().unwrap();
        wait(async {
            feed.push(Bytes::from(vec![1; QUEUE])).await.unwrap();
            let more = feed.push(Bytes::from_static(b"x"));
            let leave = async { drop(stream) };
            assert_eq!(tokio::join!(more, leave).0, Err(Gone));
        });
        drop(upload("never read", None).1);
    }
}
