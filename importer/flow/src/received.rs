//! The bytes as they come from the source: counted, and hashed when somebody wants to know.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::checksum::{Checksum, Hashes};
use crate::progress::Progress;
use crate::{Piece, Result, Stream};

/// What passed, told when the stream has ended.
#[derive(Clone, Default)]
pub(crate) struct Account(Arc<Mutex<Totals>>);

#[derive(Default)]
struct Totals {
    bytes: u64,
    /// A cheap checksum, to find out whether a second pass brought the same bytes.
    crc: crc32fast::Hasher,
    hashes: Option<Hashes>,
}

impl Account {
    /// Hashes only if there are checksums to compare with: it costs as much as everything else together.
    pub(crate) fn new(checksums: &[Checksum]) -> Self {
        let hashes = (!checksums.is_empty()).then(|| Hashes::new(checksums));
        Self(Arc::new(Mutex::new(Totals { hashes, ..Totals::default() })))
    }

    fn totals(&self) -> MutexGuard<'_, Totals> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Length and cheap checksum of what passed.
    pub(crate) fn identity(&self) -> (u64, u32) {
        let totals = self.totals();
        (totals.bytes, totals.crc.clone().finalize())
    }

    /// Compares with the checksums, if there are any; gives the digest.
    pub(crate) fn check(&self, checksums: &[Checksum], source: &str) -> Result<Option<String>> {
        let hashes = self.totals().hashes.take();
        hashes.map(|hashes| hashes.check(checksums, source)).transpose()
    }
}

/// A stream that is counted and hashed.
pub(crate) struct Received {
    stream: Box<dyn Stream>,
    account: Account,
    progress: Arc<Progress>,
    /// Whether the same bytes may have to come again, so that the passes must be compared.
    compare: bool,
}

impl Received {
    pub(crate) fn new(stream: Box<dyn Stream>, account: Account, progress: Arc<Progress>, compare: bool) -> Self {
        Self { stream, account, progress, compare }
    }
}

impl Stream for Received {
    fn next(&mut self) -> Result<Option<Piece>> {
        let piece = self.stream.next()?;
        if let Some(piece) = &piece {
            self.progress.receive(piece.len());
            let mut totals = self.account.totals();
            totals.bytes += piece.len();
            match piece {
                Piece::Bytes(bytes) => {
                    if self.compare {
                        totals.crc.update(bytes);
                    }
                    if let Some(hashes) = &mut totals.hashes {
                        hashes.update(bytes);
                    }
                }
                Piece::Hole(len) => {
                    // A hole is in a local file, which is known to be the same by its time stamps.
                    if let Some(hashes) = &mut totals.hashes {
                        hashes.update_zeros(*len);
                    }
                }
            }
        }
        Ok(piece)
    }
}
