//! What somebody sends us.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::Notify;

pub use front::Front;

use crate::{Error, Kind, Piece, Result, Source, Stream};

mod front;

/// The two ends of an upload: what is fed into the one is what the other gives to an import. `name` is how people know it;
/// `len` is how many bytes there will be, where the sender has said so.
///
/// Between them wait at most 512 KiB and one frame. Who feeds may change: an upload that was cut goes on where it was, as
/// long as the feed lives.
#[must_use]
pub fn upload(name: &str, len: Option<u64>) -> (Feed, UploadSource) {
    ends(name, len, Some(0), None)
}

/// The same for an upload of `len` bytes whose import may go on in another process, if `identity` is the same there and
/// `front` that of the same upload. Then the import decides where the upload goes on, and [`Feed::offset`] tells.
#[must_use]
pub fn resumable(name: &str, len: u64, identity: &str, front: Front) -> (Feed, UploadSource) {
    let start = front.kept().is_empty().then_some(0);
    ends(name, Some(len), start, Some((identity.to_owned(), front)))
}

fn ends(name: &str, len: Option<u64>, start: Option<u64>, kept: Option<(String, Front)>) -> (Feed, UploadSource) {
    let state = Mutex::new(State { start, len, ..State::default() });
    let shared = Arc::new(Shared { state, readable: Condvar::new(), writable: Notify::new() });
    let (identity, front) = kept.unzip();
    (Feed(Arc::clone(&shared)), UploadSource { shared, len, name: name.to_owned(), identity, front })
}

/// The end of an upload where bytes go in. An upload whose feed is dropped has failed.
#[derive(Debug)]
pub struct Feed(Arc<Shared>);

/// The end of an upload that an import reads: once, from its start.
#[derive(Debug)]
pub struct UploadSource {
    shared: Arc<Shared>,
    len: Option<u64>,
    name: String,
    identity: Option<String>,
    /// Goes to whoever reads the upload from its start.
    front: Option<Front>,
}

/// The import has ended and takes no more bytes: what it says counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gone;

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    readable: Condvar,
    writable: Notify,
}

#[derive(Debug, Default)]
struct State {
    queue: VecDeque<Bytes>,
    queued: usize,
    /// Where the first byte that is fed belongs; not known before the import has said so.
    start: Option<u64>,
    accepted: u64,
    /// How many bytes there will be, where that is known.
    len: Option<u64>,
    /// How it ended, for the reader.
    end: Option<Result<(), Error>>,
    /// Somebody reads what is fed, and so nobody else can.
    read: bool,
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
                if state.queued < QUEUE && state.start.is_some() {
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

    /// Where the next byte goes, as far as is known: where an upload that was cut goes on.
    #[must_use]
    pub fn accepted(&self) -> u64 {
        let state = self.0.lock();
        state.start.unwrap_or(0) + state.accepted
    }

    /// The same, once the import has said where it begins.
    ///
    /// # Errors
    ///
    /// [`Gone`] when it has ended before.
    pub async fn offset(&self) -> Result<u64, Gone> {
        loop {
            let known = self.0.writable.notified();
            {
                let state = self.0.lock();
                match state.start {
                    Some(start) => return Ok(start + state.accepted),
                    None if state.gone || state.end.is_some() => return Err(Gone),
                    None => {}
                }
            }
            known.await;
        }
    }

    /// How many bytes there will be, where that is known.
    #[must_use]
    pub fn len(&self) -> Option<u64> {
        self.0.lock().len
    }

    /// Whether it is known that nothing will come.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == Some(0)
    }

    /// Says how many bytes there will be, where nobody knew when the upload began. `false` when another number was said
    /// before, or when more have come.
    #[must_use]
    pub fn announce(&self, len: u64) -> bool {
        let mut state = self.0.lock();
        let fits = state.len.is_none_or(|before| before == len) && state.start.unwrap_or(0) + state.accepted <= len;
        if fits {
            state.len = Some(len);
        }
        fits
    }

    /// Everything was handed over.
    pub fn finish(&self) {
        let mut state = self.0.lock();
        let all = state.start.unwrap_or(0) + state.accepted;
        let end = match state.len {
            Some(len) if len != all => {
                Err(Error::new(Kind::Mismatch, format!("{all} bytes were uploaded, and {len} announced")))
            }
            _ => Ok(()),
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

    /// What is fed, for the only one who reads it. Its first byte belongs to `at`.
    fn begin(self: &Arc<Self>, at: u64, front: Option<Front>) -> Result<Reader> {
        let mut state = self.lock();
        if std::mem::replace(&mut state.read, true) || *state.start.get_or_insert(at) != at {
            return Err(Error::new(Kind::Ours, "an upload is read twice"));
        }
        drop(state);
        self.writable.notify_waiters();
        Ok(Reader { shared: Arc::clone(self), front, ended: false })
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

impl UploadSource {
    fn kept(&self) -> Bytes {
        self.front.as_ref().map(|front| front.kept().clone()).unwrap_or_default()
    }
}

// === impl Source ===

impl Source for UploadSource {
    fn open(&mut self) -> Result<Box<dyn Stream>> {
        let kept = self.kept();
        if kept.is_empty() {
            return Ok(Box::new(self.shared.begin(0, self.front.take())?));
        }
        // Whether more of it is wanted than what was kept decides where the upload goes on.
        Ok(Box::new(Again { at: kept.len() as u64, kept: Some(kept), shared: Arc::clone(&self.shared), rest: None }))
    }

    fn read(&mut self, ranges: Vec<Range<u64>>) -> Result<Box<dyn Stream>> {
        let kept = self.kept();
        match ranges.as_slice() {
            [range] if range.end <= kept.len() as u64 => {
                let place = |at| usize::try_from(at).unwrap_or(kept.len()).min(kept.len());
                Ok(Box::new(Kept(Some(kept.slice(place(range.start)..place(range.end))))))
            }
            [range] if Some(range.end) == self.len => Ok(Box::new(self.shared.begin(range.start, None)?)),
            _ => Err(Error::new(Kind::Ours, format!("{}: asked for a range, which it has not", self.name))),
        }
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

    fn continues(&self) -> bool {
        self.identity.is_some()
    }

    fn identity(&self) -> Option<String> {
        self.identity.clone()
    }

    fn name(&self) -> String {
        self.name.clone()
    }
}

impl Drop for UploadSource {
    fn drop(&mut self) {
        self.shared.leave();
    }
}

/// What is fed, as it comes.
struct Reader {
    shared: Arc<Shared>,
    /// Where the start of it is kept.
    front: Option<Front>,
    ended: bool,
}

impl Reader {
    fn wait(&mut self) -> Result<Option<Bytes>> {
        let mut state = self.shared.lock();
        while !self.ended {
            if let Some(bytes) = state.queue.pop_front() {
                let full = state.queued >= QUEUE;
                state.queued -= bytes.len();
                if full {
                    self.shared.writable.notify_waiters();
                }
                return Ok(Some(bytes));
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

impl Stream for Reader {
    fn next(&mut self) -> Result<Option<Piece>> {
        let Some(bytes) = self.wait()? else { return Ok(None) };
        if let Some(front) = &mut self.front {
            front.pass(&bytes).map_err(|error| {
                Error::new(Kind::Target, "the start of the upload can't be kept beside its target").because(error)
            })?;
        }
        Ok(Some(Piece::Bytes(bytes)))
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.shared.leave();
    }
}

/// A part of what was kept.
struct Kept(Option<Bytes>);

impl Stream for Kept {
    fn next(&mut self) -> Result<Option<Piece>> {
        Ok(self.0.take().filter(|bytes| !bytes.is_empty()).map(Piece::Bytes))
    }
}

/// What was kept of an upload, and behind it what is fed, if anybody wants that.
struct Again {
    kept: Option<Bytes>,
    at: u64,
    shared: Arc<Shared>,
    rest: Option<Reader>,
}

impl Stream for Again {
    fn next(&mut self) -> Result<Option<Piece>> {
        if let Some(kept) = self.kept.take() {
            return Ok(Some(Piece::Bytes(kept)));
        }
        let rest = match &mut self.rest {
            Some(rest) => rest,
            None => self.rest.insert(self.shared.begin(self.at, None)?),
        };
        rest.next()
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
    fn what_was_kept_need_not_be_sent_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("front");
        let disk: Vec<u8> = (0..3_000_000_u32).map(|at| u8::try_from(at / 7 % 251).unwrap()).collect();
        let len = disk.len() as u64;
        let again = || resumable("upload", len, "this one", Front::open(&path).unwrap());
        let push = |feed: &Feed, from: usize| {
            let disk = disk.clone();
            let parts: Vec<_> = disk[from..].chunks(50_000).map(Bytes::copy_from_slice).collect();
            let feed = Feed(Arc::clone(&feed.0));
            thread::spawn(move || {
                for part in parts {
                    if wait(feed.push(part)).is_err() {
                        break;
                    }
                }
                feed.finish();
            })
        };
        let (feed, mut source) = again();
        assert_eq!((wait(feed.offset()), source.continues(), source.ranges()), (Ok(0), true, false));
        let sender = push(&feed, 0);
        let mut stream = source.open().unwrap();
        let mut read = 0;
        while read < 2 << 20 {
            read += stream.next().unwrap().unwrap().len();
        }
        drop((stream, source));
        sender.join().unwrap();
        // Another process reads on behind what was kept,
        let kept = 1 << 20;
        let (feed, mut source) = again();
        let mut stream = source.open().unwrap();
        assert_eq!(stream.next().unwrap().unwrap().len(), kept);
        drop(stream);
        let mut stream = source.open().unwrap();
        let sender = thread::spawn({
            let (feed, push) = (Feed(Arc::clone(&feed.0)), push(&feed, kept.try_into().unwrap()));
            move || {
                // Known only once the import has asked for more than was kept.
                assert!(wait(feed.offset()).unwrap() >= kept);
                push.join().unwrap();
            }
        });
        assert!(rest(&mut *stream).unwrap() == disk);
        sender.join().unwrap();
        // or where a checkpoint says.
        let (feed, mut source) = again();
        assert_eq!(rest(&mut *source.range(5..1000).unwrap()).unwrap(), disk[5..1000]);
        let sender = push(&feed, 2_000_000);
        let mut stream = source.range(2_000_000..len).unwrap();
        assert_eq!(wait(feed.offset()).unwrap() % 50_000, 0);
        assert!(rest(&mut *stream).unwrap() == disk[2_000_000..]);
        sender.join().unwrap();
        assert_eq!(feed.accepted(), len);
        assert_eq!(source.open().unwrap().next().unwrap().unwrap().len(), kept);
        assert!(source.range(7..len).is_err());
    }

    #[test]
    fn a_length_may_be_told_late_and_once() {
        let (feed, mut source) = upload("upload", None);
        let mut stream = source.open().unwrap();
        wait(feed.push(Bytes::from_static(b"abc"))).unwrap();
        assert!(!feed.announce(2));
        assert!(feed.announce(5) && feed.announce(5) && !feed.announce(6));
        assert_eq!(feed.len(), Some(5));
        feed.finish();
        assert_eq!(rest(&mut *stream).unwrap_err().kind(), Kind::Mismatch);
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
