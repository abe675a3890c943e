//! The digest of what passes.

use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;

use dvcr_oci::{Algorithm, Digest, Hasher};
use importer_codec::Bin;

use crate::{Error, Kind, Piece, Result};

/// Zeros to read from, never made again. As nothing writes to them, they take one page of memory, or few.
pub(super) static ZEROS: [u8; 256 << 10] = [0; 256 << 10];

/// A hash, and how many bytes it is of.
#[derive(Debug)]
pub(super) struct Hash {
    hasher: Hasher,
    len: u64,
}

impl Hash {
    pub(super) fn new() -> Self {
        Self { hasher: Hasher::new(Algorithm::Sha256), len: 0 }
    }

    pub(super) fn update(&mut self, bytes: &[u8]) {
        self.hasher.update(bytes);
        self.len += bytes.len() as u64;
    }

    /// So many zeros come next.
    pub(super) fn zeros(&mut self, mut len: u64) {
        while len > 0 {
            let part = usize::try_from(len).ok().and_then(|len| ZEROS.get(..len)).unwrap_or(&ZEROS);
            self.update(part);
            len -= part.len() as u64;
        }
    }

    pub(super) fn finish(self) -> (Digest, u64) {
        (self.hasher.finish(), self.len)
    }
}

/// Hashes on a thread of its own.
#[derive(Debug)]
pub(super) struct Hashing {
    pieces: SyncSender<Piece>,
    thread: JoinHandle<Digest>,
}

impl Hashing {
    /// Buffers go back to `bin` if this was the last to use them.
    pub(super) fn start(bin: Bin) -> Result<Self> {
        let (pieces, queue) = sync_channel(QUEUE);
        let thread = std::thread::Builder::new()
            .name("hash-layer".to_owned())
            .spawn(move || {
                let mut hash = Hash::new();
                for piece in queue {
                    match piece {
                        Piece::Bytes(bytes) => {
                            hash.update(&bytes);
                            bin.give(bytes);
                        }
                        Piece::Hole(len) => hash.zeros(len),
                    }
                }
                hash.finish().0
            })
            .map_err(|error| Error::new(Kind::Ours, "can't start a thread").because(error))?;
        Ok(Self { pieces, thread })
    }

    /// The next piece. Waits while the queue is full.
    pub(super) fn push(&self, piece: Piece) -> Result<()> {
        self.pieces.send(piece).map_err(|_| stopped())
    }

    /// All has come: waits for the rest.
    pub(super) fn finish(self) -> Result<Digest> {
        drop(self.pieces);
        self.thread.join().map_err(|_| stopped())
    }
}

fn stopped() -> Error {
    Error::new(Kind::Ours, "the thread that hashes has stopped unexpectedly")
}

/// Pieces that wait to be hashed: 2 MiB, mostly shared with those that wait to be compressed.
const QUEUE: usize = 2;
