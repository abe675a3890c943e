//! The bytes as they come from the source: counted, and hashed when somebody wants to know.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::checksum::{self, Checksum, Hashing};
use crate::progress::Progress;
use crate::source::Observer;
use crate::{Error, Kind, Piece, Result, Stream};

/// What passed, told when the stream has ended.
#[derive(Clone, Default)]
pub(crate) struct Account {
    totals: Arc<Mutex<Totals>>,
    /// Of the bytes before an encoding was undone; only where there is one.
    encoded: Arc<Mutex<Option<Hashing>>>,
}

#[derive(Default)]
struct Totals {
    bytes: u64,
    /// A cheap checksum, to find out whether a second pass brought the same bytes.
    crc: crc32fast::Hasher,
    hashing: Option<Hashing>,
    /// Whether all has passed.
    ended: bool,
}

impl Account {
    /// Hashes only if there are checksums to compare with: it costs as much as everything else together.
    pub(crate) fn new(checksums: &[Checksum]) -> Result<Self> {
        let hashing = if checksums.is_empty() { None } else { Some(Hashing::start(checksums)?) };
        Ok(Self { totals: Arc::new(Mutex::new(Totals { hashing, ..Totals::default() })), ..Self::default() })
    }

    fn totals(&self) -> MutexGuard<'_, Totals> {
        lock(&self.totals)
    }

    /// For a source that undoes an encoding: a publisher may mean the bytes as they were sent, too.
    pub(crate) fn encoded(&self, checksums: &[Checksum]) -> Option<Observer> {
        self.totals().hashing.as_ref()?;
        let (encoded, checksums) = (Arc::clone(&self.encoded), checksums.to_vec());
        Some(Box::new(move |piece| {
            let mut encoded = lock(&encoded);
            let hashing = match &mut *encoded {
                Some(hashing) => hashing,
                none => none.insert(Hashing::start(&checksums)?),
            };
            hashing.push(piece)
        }))
    }

    /// Takes what passed; also into the cheap checksum if the passes are to be compared.
    pub(crate) fn take(&self, piece: &Piece, compare: bool) -> Result<()> {
        // Nobody asks for the totals before the end, so it does no harm to wait for the hash while they are held.
        let mut totals = self.totals();
        totals.bytes += piece.len();
        // A hole is in a local file, which is known to be the same by its time stamps.
        if let (Piece::Bytes(bytes), true) = (piece, compare) {
            totals.crc.update(bytes);
        }
        match &totals.hashing {
            Some(hashing) => hashing.push(piece),
            None => Ok(()),
        }
    }

    /// Length and cheap checksum of what passed.
    pub(crate) fn identity(&self) -> (u64, u32) {
        let totals = self.totals();
        (totals.bytes, totals.crc.clone().finalize())
    }

    /// Compares with the checksums, if there are any; gives the digest.
    pub(crate) fn check(&self, checksums: &[Checksum], source: &str) -> Result<Option<String>> {
        let (hashing, ended) = {
            let mut totals = self.totals();
            (totals.hashing.take(), totals.ended)
        };
        let Some(hashing) = hashing else { return Ok(None) };
        if !ended {
            return Err(Error::new(
                Kind::Ours,
                format!("{source}: its end was not read, so its checksum is not known"),
            ));
        }
        let encoded = lock(&self.encoded).take();
        let seen = std::iter::once(hashing).chain(encoded).map(Hashing::finish).collect::<Result<Vec<_>>>()?;
        checksum::check(checksums, &seen, source)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A stream that is counted and hashed.
pub(crate) struct Received {
    stream: Box<dyn Stream>,
    account: Account,
    progress: Arc<Progress>,
    /// Whether the source does not count what comes itself.
    counts: bool,
    /// Whether the same bytes may have to come again, so that the passes must be compared.
    compare: bool,
}

impl Received {
    pub(crate) fn new(stream: Box<dyn Stream>, account: Account, progress: Arc<Progress>) -> Self {
        Self { stream, account, progress, counts: true, compare: false }
    }

    /// The same; with `counts`, it counts what passes.
    pub(crate) fn counting(self, counts: bool) -> Self {
        Self { counts, ..self }
    }

    /// The same; with `compare`, in a way in which passes can be compared.
    pub(crate) fn comparing(self, compare: bool) -> Self {
        Self { compare, ..self }
    }
}

impl Stream for Received {
    fn next(&mut self) -> Result<Option<Piece>> {
        let piece = self.stream.next()?;
        match &piece {
            Some(piece) => {
                if self.counts {
                    self.progress.receive(piece.len());
                }
                self.progress.advance(piece.len());
                self.account.take(piece, self.compare)?;
            }
            None => self.account.totals().ended = true,
        }
        Ok(piece)
    }
}
