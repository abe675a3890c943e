//! A blob on its way from one place to another.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use dvcr_client::Content;
use dvcr_oci::{Descriptor, Hasher};
use tokio::sync::mpsc;

use crate::progress::Progress;
use crate::source::container::Blobs;
use crate::{Error, Kind, Piece, Result};

/// A blob that is read while it is pushed, again from where the registry has it if need be, and verified: its last bytes
/// are given only if all are what the digest says. Holds about 3 MiB.
pub(super) struct Passing {
    pub(super) blobs: Arc<dyn Blobs>,
    pub(super) blob: Descriptor,
    pub(super) progress: Arc<Progress>,
    pub(super) state: tokio::sync::Mutex<State>,
    /// Why it could not be read.
    pub(super) failure: Arc<Mutex<Option<Error>>>,
}

pub(super) struct State {
    /// What comes, and from where on.
    pieces: Option<mpsc::Receiver<Result<Bytes>>>,
    next: u64,
    hasher: Option<Hasher>,
    hashed: u64,
}

impl State {
    pub(super) fn new(blob: &Descriptor) -> tokio::sync::Mutex<Self> {
        let hasher = Some(Hasher::new(blob.digest.algorithm()));
        tokio::sync::Mutex::new(Self { pieces: None, next: 0, hasher, hashed: 0 })
    }

    /// Takes note of the bytes that come next.
    fn take(&mut self, bytes: &Bytes, blob: &Descriptor, progress: &Progress) -> Result<()> {
        let end = self.next + bytes.len() as u64;
        let known = usize::try_from(self.hashed.saturating_sub(self.next)).unwrap_or(usize::MAX);
        if let (Some(fresh), Some(hasher)) = (bytes.get(known..), &mut self.hasher) {
            hasher.update(fresh);
            progress.receive(fresh.len() as u64);
            progress.advance(fresh.len() as u64);
            self.hashed = self.hashed.max(end);
        }
        self.next = end;
        if end == blob.size
            && let Some(hasher) = self.hasher.take()
        {
            let found = hasher.finish();
            if found != blob.digest {
                let message = format!("what came as {} has the digest {found}", blob.digest);
                return Err(Error::new(Kind::Mismatch, message));
            }
        }
        Ok(())
    }
}

impl Content for Passing {
    async fn at(&self, offset: u64) -> io::Result<Bytes> {
        let mut state = self.state.lock().await;
        let mut pieces = match state.pieces.take() {
            Some(pieces) if state.next == offset => pieces,
            _ => self.begin(offset).map_err(|error| self.failed(error))?,
        };
        state.next = offset;
        match pieces.recv().await {
            Some(Ok(mut bytes)) => {
                bytes.truncate(usize::try_from(self.blob.size - offset).unwrap_or(usize::MAX));
                state.take(&bytes, &self.blob, &self.progress).map_err(|error| self.failed(error))?;
                state.pieces = Some(pieces);
                Ok(bytes)
            }
            Some(Err(error)) => Err(self.failed(error)),
            None => {
                let message = format!("{} ends at {offset} of {} bytes", self.blob.digest, self.blob.size);
                Err(self.failed(Error::new(Kind::Mismatch, message)))
            }
        }
    }
}

impl Passing {
    fn failed(&self, error: Error) -> io::Error {
        let words = io::Error::other(error.to_string());
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
        words
    }

    /// Lets a thread read from `offset` on.
    fn begin(&self, offset: u64) -> Result<mpsc::Receiver<Result<Bytes>>> {
        let (sender, pieces) = mpsc::channel(QUEUE);
        let (blobs, blob) = (Arc::clone(&self.blobs), self.blob.clone());
        let bring = move || {
            if let Err(error) = bring(&*blobs, &blob, offset, &sender) {
                // Nobody listens any more when the push was given up.
                let _ = sender.blocking_send(Err(error));
            }
        };
        let thread = std::thread::Builder::new().name("blob".to_owned()).spawn(bring);
        thread.map_err(|error| Error::new(Kind::Ours, "can't start a thread").because(error))?;
        Ok(pieces)
    }
}

/// Sends what lies behind `offset`, as long as somebody wants it.
fn bring(blobs: &dyn Blobs, blob: &Descriptor, offset: u64, to: &mpsc::Sender<Result<Bytes>>) -> Result<()> {
    let mut source = blobs.blob(blob)?;
    let mut stream = source.open()?;
    let mut skip = offset;
    if offset > 0 && source.ranges() && source.len() == Some(blob.size) {
        stream = source.range(offset..blob.size)?;
        skip = 0;
    }
    while let Some(piece) = stream.next()? {
        let past = skip.min(piece.len());
        skip -= past;
        let wanted = match piece {
            Piece::Bytes(bytes) => send(bytes.slice(usize::try_from(past).unwrap_or(bytes.len())..), to),
            Piece::Hole(len) => send_zeros(len - past, to),
        };
        if !wanted {
            break;
        }
    }
    Ok(())
}

/// Whether anybody wants more.
fn send(bytes: Bytes, to: &mpsc::Sender<Result<Bytes>>) -> bool {
    bytes.is_empty() || to.blocking_send(Ok(bytes)).is_ok()
}

fn send_zeros(mut len: u64, to: &mpsc::Sender<Result<Bytes>>) -> bool {
    static ZEROS: [u8; 256 << 10] = [0; 256 << 10];
    while len > 0 {
        let zeros = Bytes::from_static(&ZEROS);
        let part = usize::try_from(len).unwrap_or(zeros.len()).min(zeros.len());
        if !send(zeros.slice(..part), to) {
            return false;
        }
        len -= part as u64;
    }
    true
}

/// Pieces that wait; each has up to 408 KiB.
const QUEUE: usize = 8;
