//! A raw disk that is read in order: what comes is what is written, except perhaps its end.

use std::sync::Arc;

use importer_disk::GuestOffset;
use importer_disk::plan::Op;
use importer_disk::raw::RawStream;

use super::resume::{Place, Trail};
use super::{Import, Mode, Outcome};
use crate::image::Image;
use crate::pool::Pool;
use crate::received::{Account, Received};
use crate::unwrap::Unwrapped;
use crate::{Error, Kind, Piece, Result, Stream};

impl Import<'_> {
    /// Goes on where an earlier import ended, if the trail says so. What that wrote is read back for the checksums, which
    /// so are those of the target, too.
    pub(super) fn raw(
        mut self,
        opened: Unwrapped,
        cdrom: bool,
        mut account: Account,
        pool: Pool,
        trail: Trail,
    ) -> Result<Outcome> {
        let mut size = self.inner_len(&opened);
        let (mut opened, mut first, mut mode) = (opened, None, Mode::Streaming);
        if !pool.sink().sized() {
            // Up to 512 bytes fewer, if it turns out to be a fixed VHD: a target that just fits is not refused for them.
            size = size.map(|len| len.saturating_sub(importer_disk::SECTOR));
        } else if let Some(len) = size {
            size = Some(len.next_multiple_of(importer_disk::SECTOR));
        } else {
            first = Some(account.clone());
            self.progress.expect(self.source.weight().unwrap_or(0));
            let measured;
            (opened, account, measured, mode) = self.measured(opened, &account)?;
            size = Some(measured);
        }
        pool.sink().prepare(size)?;
        self.progress.accept(size);
        let Unwrapped { head, mut stream, wrappers } = opened;
        let done = trail.from().map_or(0, |from| from.offset);
        let lost = pool.sink().forgets_below().min(done);
        let mut disk = Disk { raw: RawStream::new(), at: 0, ops: Vec::new(), lost, done, pool, trail };
        if done > 0 {
            drop(stream);
            account = Account::new(&self.settings.checksums)?;
            self.progress.measure(self.source.len());
            self.progress.advance(done - lost);
            self.progress.expect(self.source.len().unwrap_or(0).saturating_sub(done) + lost);
            let counted = |stream| Received::new(stream, account.clone(), Arc::clone(&self.progress));
            disk.take(&mut counted(self.source.range(0..lost)?))?;
            disk.take_back(&account)?;
            let rest = self.source.range(done..self.source.len().unwrap_or(done))?;
            disk.take(&mut counted(rest))?;
        } else {
            if first.is_none() {
                self.progress.expect(self.source.weight().unwrap_or(0));
            }
            disk.take(&mut stream)?;
        }
        if let Some(first) = &first {
            self.check_same(first, &account)?;
        }
        let Disk { raw, at, mut ops, mut pool, trail, .. } = disk;
        let source_digest = account.check(&self.settings.checksums, &self.source.name())?;
        let end = raw.finish()?;
        if end.vhd.is_some() && pool.sink().sized() && size != Some(end.virtual_size) {
            return Err(late_vhd(&self.source.name()));
        }
        if end.vhd.is_none() && !cdrom {
            importer_disk::probe::whole(&head, end.data_len)?;
        }
        if let Some(bytes) = end.rest {
            ops.push(Op::Write { guest: GuestOffset(at), bytes });
        }
        if end.virtual_size > end.data_len {
            ops.push(Op::Zero { guest: GuestOffset(end.data_len), len: end.virtual_size - end.data_len });
        }
        pool.submit(&mut ops)?;
        let format = match (&end.vhd, cdrom) {
            (Some(_), _) => "vhd",
            (None, true) => "iso",
            (None, false) => "raw",
        };
        let image = Image {
            wrappers,
            format,
            virtual_size: Some(end.virtual_size),
            allocated: None,
            cdrom: cdrom && end.vhd.is_none(),
            features: Vec::new(),
        };
        let sink = pool.finish()?;
        sink.tell(&image);
        let written = sink.finish(end.virtual_size)?;
        let image = Image { allocated: Some(written.data), ..image };
        Ok(Outcome {
            image,
            mode,
            source_bytes: self.progress.received(),
            source_digest,
            bytes_written: written.data,
            target_size: written.size,
            resumed_from: trail.resumed_from(),
        })
    }
}

/// A layer was begun with a length that has turned out to be that of the disk and of something behind it.
fn late_vhd(name: &str) -> Error {
    let message = format!(
        "{name}: it is a fixed VHD, which shows only at its end, where the last bytes are no part of the disk, and a \
         layer has to begin with its length: copy it to a file first, and push that"
    );
    Error::new(Kind::OutOfOrder, message)
}

/// A disk on its way, whose last bytes are held back.
struct Disk {
    raw: RawStream,
    /// How much of it was submitted.
    at: u64,
    ops: Vec<Op>,
    /// What lies from `lost` to `done` is in the target already.
    lost: u64,
    done: u64,
    pool: Pool,
    trail: Trail,
}

impl Disk {
    fn take(&mut self, stream: &mut dyn Stream) -> Result<()> {
        while let Some(piece) = stream.next()? {
            let len = piece.len();
            self.push(piece)?;
            self.trail.advance(len);
            self.trail.checkpoint(Place { window: 0, offset: self.at }, &mut self.pool)?;
        }
        Ok(())
    }

    /// Takes what is in the target already from there.
    fn take_back(&mut self, account: &Account) -> Result<()> {
        let mut at = self.lost;
        while at < self.done {
            let mut block = vec![0; usize::try_from(self.done - at).unwrap_or(BLOCK).min(BLOCK)];
            self.pool.sink().read_back(at, &mut block)?;
            at += block.len() as u64;
            let piece = Piece::Bytes(block.into());
            account.take(&piece, false)?;
            self.push(piece)?;
        }
        Ok(())
    }

    fn push(&mut self, piece: Piece) -> Result<()> {
        match piece {
            Piece::Bytes(bytes) => {
                if let Some(bytes) = self.raw.push(bytes) {
                    self.write(bytes);
                }
            }
            Piece::Hole(len) => {
                let (bytes, zeros) = self.raw.skip(len);
                if !bytes.is_empty() {
                    self.write(bytes);
                }
                self.op(zeros, |guest| Op::Zero { guest, len: zeros });
            }
        }
        self.pool.submit(&mut self.ops)
    }

    fn write(&mut self, bytes: bytes::Bytes) {
        self.op(bytes.len() as u64, |guest| Op::Write { guest, bytes });
    }

    /// The next `len` bytes, unless all of them are in the target already.
    fn op(&mut self, len: u64, op: impl FnOnce(GuestOffset) -> Op) {
        if self.at < self.lost || self.at + len > self.done {
            self.ops.push(op(GuestOffset(self.at)));
        }
        self.at += len;
    }
}

/// How much is read back at once.
const BLOCK: usize = 256 << 10;
