//! What DVCR stores: a disk as the one file in a layer.
//!
//! ```text
//!            ┌► compress ─┐
//! disk ─► cut ► compress ─┼► in order, hash ─► consumer
//!            └► hash (diff id)
//! ```
//!
//! The stored bytes depend on the disk's bytes alone, so that equal disks are one blob: not on the number of threads, nor
//! on the pieces in which the disk came, nor on which of its zeros were known as holes.

mod blocks;
mod hash;
mod outlet;
mod packing;

use bytes::Bytes;
use dvcr_oci::Digest;
use importer_codec::tar::Around;

use crate::{Error, Kind, Piece, Result};
use outlet::{Item, Outlet};
use packing::Packing;

/// How a layer is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LayerKind {
    /// zstd in independent frames with a table of them: readers fetch and decode parts, and holes cost nothing.
    Zstd,
    /// The archive as it is: for what is compressed already, and for readers that know no zstd.
    Plain,
}

/// What a layer has become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layer {
    /// The digest of the stored bytes, as the manifest names the layer.
    pub digest: Digest,
    /// How many there are.
    pub size: u64,
    /// The digest of the archive, as the image's configuration has it.
    pub diff_id: Digest,
    /// How many bytes the archive has.
    pub unpacked: u64,
}

/// Makes a layer of a disk that comes in order, and gives its stored bytes in order to whoever takes them.
///
/// For [`LayerKind::Zstd`] it holds at most 16 MiB and 3 for each thread beyond two, whatever the disk, and 8 bytes for
/// each MiB of data, which is the table of frames; for [`LayerKind::Plain`] only the pieces that are on their way.
///
/// One that is dropped without [`finish`](Self::finish) drops the consumer too, perhaps a little later: what that got is
/// no layer.
#[derive(Debug)]
pub struct LayerWriter {
    /// The size of the disk, and how much of it came.
    disk: u64,
    came: u64,
    around: Around,
    packing: Option<Packing>,
    outlet: Outlet,
}

impl LayerKind {
    /// How many bytes a layer of a disk of `disk` bytes takes, where that is known before.
    #[must_use]
    pub fn stored_len(self, disk: u64) -> Option<u64> {
        (self == Self::Plain).then(|| Around::disk(disk).total(disk))
    }
}

impl LayerWriter {
    /// Begins a layer of a disk of `disk` bytes. `threads` compress.
    ///
    /// `consumer` gets the stored bytes in order, on a thread of its own, and may block: when it does for long, whoever
    /// brings the disk waits. Pieces have 64 KiB to a few MiB, but for the last. Its error comes back from the next call.
    ///
    /// # Errors
    ///
    /// `Kind::Ours` when there is no memory or thread for it.
    pub fn start<F>(disk: u64, kind: LayerKind, threads: usize, consumer: F) -> Result<Self>
    where
        F: FnMut(Bytes) -> Result<()> + Send + 'static,
    {
        let around = Around::disk(disk);
        let (packing, outlet) = match kind {
            LayerKind::Zstd => {
                let threads = threads.max(1);
                let outlet = Outlet::start(threads + READY, true, consumer)?;
                (Some(Packing::start(threads)?), outlet)
            }
            LayerKind::Plain => (None, Outlet::start(PLAIN, false, consumer)?),
        };
        let mut layer = Self { disk, came: 0, around, packing, outlet };
        let head = layer.around.head.clone();
        match &mut layer.packing {
            Some(packing) => packing.alone(head, &mut layer.outlet)?,
            None => layer.outlet.send(Item::Bytes(head))?,
        }
        Ok(layer)
    }

    /// The next part of the disk. Waits while too much is on its way.
    ///
    /// # Errors
    ///
    /// The consumer's, and `Kind::Mismatch` when the disk has more bytes than were said. It is of no use after that.
    pub fn push(&mut self, piece: Piece) -> Result<()> {
        self.count(piece.len())?;
        match (&mut self.packing, piece) {
            (Some(packing), piece) => packing.push(piece, &mut self.outlet),
            (None, Piece::Hole(len)) => self.outlet.send(Item::Zeros(len)),
            (None, Piece::Bytes(mut bytes)) => {
                // In parts, so that what waits is bounded.
                while bytes.len() > PART {
                    self.outlet.send(Item::Bytes(bytes.split_to(PART)))?;
                }
                self.outlet.send(Item::Bytes(bytes))
            }
        }
    }

    /// The same for bytes that stay with the caller: they are copied.
    ///
    /// # Errors
    ///
    /// As [`push`](Self::push).
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.count(bytes.len() as u64)?;
        match &mut self.packing {
            Some(packing) => packing.write(bytes, &mut self.outlet),
            None => bytes.chunks(PART).try_for_each(|part| self.outlet.send(Item::Bytes(Bytes::copy_from_slice(part)))),
        }
    }

    /// All of the disk has come: waits until the consumer has taken everything.
    ///
    /// # Errors
    ///
    /// The consumer's, and `Kind::Mismatch` when the disk has fewer bytes than were said.
    pub fn finish(mut self) -> Result<Layer> {
        if self.came < self.disk {
            return Err(self.mismatch(format_args!("{} came and that was all", self.came)));
        }
        let unpacked = self.around.total(self.disk);
        let tail = self.around.tail;
        let Some(packing) = self.packing.take() else {
            self.outlet.send(Item::Zeros(tail))?;
            let (digest, size) = self.outlet.finish()?;
            return Ok(Layer { digest, size, diff_id: digest, unpacked });
        };
        let diff_id = packing.finish(tail, &mut self.outlet)?;
        let (digest, size) = self.outlet.finish()?;
        Ok(Layer { digest, size, diff_id, unpacked })
    }

    fn count(&mut self, len: u64) -> Result<()> {
        match self.came.checked_add(len).filter(|came| *came <= self.disk) {
            Some(came) => {
                self.came = came;
                Ok(())
            }
            None => Err(self.mismatch(format_args!("more than {} come", self.came.max(self.disk)))),
        }
    }

    fn mismatch(&self, what: std::fmt::Arguments<'_>) -> Error {
        let message = format!("the disk was to have {} bytes, but {what}; the layer is not used", self.disk);
        Error::new(Kind::Mismatch, message)
    }
}

/// Frames that wait to be put in order, besides one for each thread: at most 1 MiB each before, and as much behind.
const READY: usize = 2;

/// Parts of a plain layer that wait: 4 MiB.
const PLAIN: usize = 4;

/// The largest part of a plain layer.
const PART: usize = 1 << 20;

#[cfg(test)]
mod tests;
