//! The thread that hashes.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use super::algorithm::{Algorithm, Hash};
use super::{Checksum, Hex};
use crate::{Error, Kind, Piece, Result};

/// Hashes on a thread of its own, so that it costs no time where there is a free core. All algorithms take a piece while
/// it is in the cache.
///
/// Pieces are shared, not copied. When hashing is what takes longest, whoever brings them waits.
pub(crate) struct Hashing {
    pieces: SyncSender<Piece>,
    thread: JoinHandle<Digests>,
}

/// What was computed.
pub(crate) struct Digests(Vec<(Algorithm, Vec<u8>)>);

impl Hashing {
    /// Starts the thread. Besides what the checksums need it computes sha256, for the report.
    pub(crate) fn start(checksums: &[Checksum]) -> Result<Self> {
        let mut algorithms = vec![Algorithm::Sha256];
        for checksum in checksums {
            if !algorithms.contains(&checksum.algorithm) {
                algorithms.push(checksum.algorithm);
            }
        }
        let (pieces, queue) = sync_channel(QUEUE);
        let thread = std::thread::Builder::new()
            .name("hash".to_owned())
            .spawn(move || hash(&algorithms, &queue))
            .map_err(|error| Error::new(Kind::Ours, "can't start a thread").because(error))?;
        Ok(Self { pieces, thread })
    }

    /// The next piece. Waits while the queue is full.
    pub(crate) fn push(&self, piece: &Piece) -> Result<()> {
        let send = |piece| self.pieces.send(piece).map_err(|_| stopped());
        match piece {
            Piece::Bytes(_) => send(piece.clone()),
            // In parts, so that the thread is never long busy with what nobody waits for any more.
            Piece::Hole(len) => {
                let mut left = *len;
                while left > 0 {
                    let part = left.min(HOLE);
                    send(Piece::Hole(part))?;
                    left -= part;
                }
                Ok(())
            }
        }
    }

    /// All has come: waits for the rest.
    pub(crate) fn finish(self) -> Result<Digests> {
        drop(self.pieces);
        self.thread.join().map_err(|_| stopped())
    }
}

impl Digests {
    pub(super) fn get(&self, algorithm: Algorithm) -> Option<&[u8]> {
        self.0.iter().find(|(of, _)| *of == algorithm).map(|(_, bytes)| &**bytes)
    }
}

impl std::fmt::Debug for Digests {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(algorithm, bytes)| format!("{algorithm}:{}", Hex(bytes)))).finish()
    }
}

fn hash(algorithms: &[Algorithm], queue: &Receiver<Piece>) -> Digests {
    let mut hashes: Vec<Box<dyn Hash>> = algorithms.iter().map(|algorithm| algorithm.begin()).collect();
    let mut push = |bytes: &[u8]| hashes.iter_mut().for_each(|hash| hash.push(bytes));
    for piece in queue {
        match piece {
            Piece::Bytes(bytes) => push(&bytes),
            Piece::Hole(len) => zeros(len, &mut push),
        }
    }
    Digests(algorithms.iter().copied().zip(hashes.into_iter().map(|hash| hash.finish())).collect())
}

fn zeros(len: u64, mut push: impl FnMut(&[u8])) {
    static ZEROS: [u8; 64 << 10] = [0; 64 << 10];
    let mut left = len;
    while left > 0 {
        let part = usize::try_from(left).unwrap_or(ZEROS.len()).min(ZEROS.len());
        push(ZEROS.get(..part).unwrap_or_default());
        left -= part as u64;
    }
}

fn stopped() -> Error {
    Error::new(Kind::Ours, "the thread that hashes has stopped unexpectedly")
}

/// Pieces that wait to be hashed. From the network a piece has up to 408 KiB: 3 MiB.
const QUEUE: usize = 8;
/// Zeros in one part of the queue: a hundredth of a second's work.
const HOLE: u64 = 16 << 20;
