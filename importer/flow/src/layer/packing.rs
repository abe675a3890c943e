//! The threads that compress.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use dvcr_oci::Digest;
use importer_codec::Bin;
use importer_codec::seekable::{Compressor, FRAME, Frame, LEVEL, Zeros};

use super::blocks::{Block, Blocks};
use super::hash::Hashing;
use super::outlet::{Item, Outlet};
use crate::{Error, Kind, Piece, Result};

/// Makes frames of a disk, on some threads, and the hash of what is in them.
#[derive(Debug)]
pub(super) struct Packing {
    blocks: Blocks,
    frames: Frames,
}

/// Where blocks go.
#[derive(Debug)]
struct Frames {
    zeros: Zeros,
    jobs: SyncSender<Job>,
    archive: Hashing,
}

/// Bytes of one frame, and who waits for it.
type Job = (Bytes, SyncSender<Result<Frame>>);

impl Packing {
    pub(super) fn start(threads: usize) -> Result<Self> {
        let bin = Bin::of(FRAME);
        let (jobs, queue) = sync_channel(threads);
        let queue = Arc::new(Mutex::new(queue));
        for number in 0..threads {
            let compressor = Compressor::new(LEVEL).map_err(failed)?;
            let (queue, bin) = (Arc::clone(&queue), bin.clone());
            std::thread::Builder::new()
                .name(format!("compress-{number}"))
                .spawn(move || compress(compressor, &queue, &bin))
                .map_err(|error| Error::new(Kind::Ours, "can't start a thread").because(error))?;
        }
        let archive = Hashing::start(bin.clone())?;
        Ok(Self { blocks: Blocks::new(bin), frames: Frames { zeros: Zeros::default(), jobs, archive } })
    }

    /// These bytes of the archive are a frame of their own.
    pub(super) fn alone(&mut self, bytes: Bytes, outlet: &mut Outlet) -> Result<()> {
        self.frames.take(Block::Data(bytes), outlet)
    }

    /// The next piece of the disk.
    pub(super) fn push(&mut self, piece: Piece, outlet: &mut Outlet) -> Result<()> {
        self.blocks.push(piece, &mut |block| self.frames.take(block, outlet))
    }

    /// The same for bytes that are copied.
    pub(super) fn write(&mut self, bytes: &[u8], outlet: &mut Outlet) -> Result<()> {
        self.blocks.write(bytes, &mut |block| self.frames.take(block, outlet))
    }

    /// The disk is complete, and `tail` zeros end the archive. Gives the digest of that.
    pub(super) fn finish(self, tail: u64, outlet: &mut Outlet) -> Result<Digest> {
        let Self { blocks, mut frames } = self;
        blocks.finish(&mut |block| frames.take(block, outlet))?;
        let tail = usize::try_from(tail).map_err(|_| Error::new(Kind::Ours, "a tail of this length"))?;
        frames.take(Block::Data(vec![0; tail].into()), outlet)?;
        frames.archive.finish()
    }
}

impl Frames {
    fn take(&mut self, block: Block, outlet: &mut Outlet) -> Result<()> {
        match block {
            Block::Data(bytes) => {
                self.archive.push(Piece::Bytes(bytes.clone()))?;
                let (made, frame) = sync_channel(1);
                outlet.send(Item::Coming(frame))?;
                self.jobs.send((bytes, made)).map_err(|_| stopped())
            }
            Block::Zeros(mut len) => {
                self.archive.push(Piece::Hole(len))?;
                while let Some(frame) = self.zeros.frame(len).map_err(failed)? {
                    len -= u64::from(frame.len);
                    outlet.send(Item::Frame(frame))?;
                }
                Ok(())
            }
        }
    }
}

/// One thread: takes jobs until there will be no more.
fn compress(mut compressor: Compressor, queue: &Mutex<Receiver<Job>>, bin: &Bin) {
    loop {
        let job = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok((bytes, made)) = job else { return };
        let frame = compressor.frame(&bytes).map_err(failed);
        bin.give(bytes);
        // Nobody waits for it when the layer was given up.
        if made.send(frame).is_err() {
            return;
        }
    }
}

fn failed(error: importer_codec::Error) -> Error {
    Error::new(Kind::Ours, error.to_string())
}

pub(super) fn stopped() -> Error {
    Error::new(Kind::Ours, "a thread that compresses has stopped unexpectedly")
}
