//! Reading in order: in one pass where that is possible, in more or with a spool where it is not.

use importer_disk::GuestOffset;
use importer_disk::plan::{Op, Pass, Plan};
use importer_disk::raw::RawStream;

use super::{Import, Mode, Outcome, describe, piece};
use crate::image::{Access, Image, Reader, reader};
use crate::pool::Pool;
use crate::received::Account;
use crate::spool::Spool;
use crate::unwrap::Unwrapped;
use crate::{Error, Kind, Piece, Result, Stream};

impl Import<'_> {
    pub(super) fn streamed(self, opened: Unwrapped, account: Account, pool: Pool) -> Result<Outcome> {
        self.progress.expect(self.source.len().unwrap_or(0));
        match reader(&opened.head, self.inner_len(&opened), Access::Streamed)? {
            Reader::Format(format) => self.planned(opened, format, account, pool),
            Reader::Raw { cdrom } => self.raw(opened, cdrom, &account, pool),
        }
    }

    /// The length of the image file, where nothing is wrapped around it.
    fn inner_len(&self, opened: &Unwrapped) -> Option<u64> {
        self.source.len().filter(|_| opened.wrappers.is_empty())
    }

    /// An image with tables.
    fn planned(
        mut self,
        opened: Unwrapped,
        format: Box<dyn importer_disk::Format>,
        account: Account,
        mut pool: Pool,
    ) -> Result<Outcome> {
        let mut ops = Vec::new();
        let mut plan = Plan::streaming(format, self.inner_len(&opened), self.limits(), &mut ops)?;
        if !self.source.reopens() {
            plan.set_spill(Box::new(Spool::new(&self.settings.spool_directory, self.settings.spool_limit)?));
        }
        let Unwrapped { head, stream, wrappers } = opened;
        let mut stream = stream;
        let mut pass_account = account.clone();
        let mut prepared = false;
        let source_digest = loop {
            while let Some(next) = stream.next()? {
                plan.push(piece(next), &mut ops)?;
                if !prepared && let Some(geometry) = plan.geometry() {
                    pool.sink().prepare(geometry.virtual_size)?;
                    prepared = true;
                }
                if prepared {
                    pool.submit(&mut ops)?;
                }
            }
            if pass_account.identity() != account.identity() {
                let message = format!("{} changed while it was read; try again", self.source.name());
                return Err(Error::new(Kind::Transient, message));
            }
            // Every pass has its own hash: the next one brings what this one let go, and who can forge a CRC must not get
            // other bytes past a checksum. And before the parser complains of what is missing: the checksum knows why.
            let digest = pass_account.check(&self.settings.checksums, &self.source.name())?;
            let pass = plan.end_pass(&mut ops)?;
            if pass == Pass::Done {
                break digest;
            }
            pass_account = Account::new(&self.settings.checksums)?;
            self.progress.expect(self.source.len().unwrap_or(0));
            let again = self.open(&pass_account)?;
            if again.head != head || again.wrappers != wrappers {
                let message = format!("{} changed while it was read; try again", self.source.name());
                return Err(Error::new(Kind::Transient, message));
            }
            stream = again.stream;
        };
        if !prepared {
            pool.sink().prepare(plan.geometry().and_then(|geometry| geometry.virtual_size))?;
        }
        pool.submit(&mut ops)?;
        let image = describe(&plan, wrappers, Some(plan.allocated()));
        let size = image.virtual_size.ok_or_else(|| Error::new(Kind::Ours, "the image has no size"))?;
        let written = pool.finish()?.finish(size)?;
        let mode = match (plan.pass(), plan.spilled()) {
            (1, false) => Mode::Streaming,
            (1, true) => Mode::Spooled,
            _ => Mode::TwoPass,
        };
        Ok(Outcome {
            image,
            mode,
            source_bytes: self.progress.received(),
            source_digest,
            bytes_written: written.data,
            target_size: written.size,
        })
    }

    /// A raw disk: what comes is what is written, except perhaps its end.
    fn raw(self, opened: Unwrapped, cdrom: bool, account: &Account, mut pool: Pool) -> Result<Outcome> {
        // Up to 512 bytes fewer, if it turns out to be a fixed VHD: a target that just fits is not refused for them.
        let len = self.inner_len(&opened);
        pool.sink().prepare(len.map(|len| len.saturating_sub(importer_disk::SECTOR)))?;
        let Unwrapped { head, mut stream, wrappers } = opened;
        let mut raw = RawStream::new();
        let mut ops = Vec::new();
        let mut at = 0;
        while let Some(next) = stream.next()? {
            match next {
                Piece::Bytes(bytes) => {
                    if let Some(bytes) = raw.push(bytes) {
                        let guest = GuestOffset(at);
                        at += bytes.len() as u64;
                        ops.push(Op::Write { guest, bytes });
                    }
                }
                Piece::Hole(len) => {
                    let (bytes, zeros) = raw.skip(len);
                    let guest = GuestOffset(at);
                    at += bytes.len() as u64;
                    if !bytes.is_empty() {
                        ops.push(Op::Write { guest, bytes });
                    }
                    ops.push(Op::Zero { guest: GuestOffset(at), len: zeros });
                    at += zeros;
                }
            }
            pool.submit(&mut ops)?;
        }
        let source_digest = account.check(&self.settings.checksums, &self.source.name())?;
        let end = raw.finish()?;
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
        let written = pool.finish()?.finish(end.virtual_size)?;
        let format = match (&end.vhd, cdrom) {
            (Some(_), _) => "vhd",
            (None, true) => "iso",
            (None, false) => "raw",
        };
        let image = Image {
            wrappers,
            format,
            virtual_size: Some(end.virtual_size),
            allocated: Some(written.data),
            cdrom: cdrom && end.vhd.is_none(),
            features: Vec::new(),
        };
        Ok(Outcome {
            image,
            mode: Mode::Streaming,
            source_bytes: self.progress.received(),
            source_digest,
            bytes_written: written.data,
            target_size: written.size,
        })
    }

    /// What the start of a stream tells.
    pub(super) fn inspect_streamed(&self, opened: Unwrapped) -> Result<Image> {
        let len = self.inner_len(&opened);
        let format = match reader(&opened.head, len, Access::Streamed)? {
            Reader::Format(format) => format,
            Reader::Raw { cdrom } => {
                let format = if cdrom { "iso" } else { "raw" };
                let virtual_size = len.map(|len| len.next_multiple_of(importer_disk::SECTOR));
                return Ok(Image { wrappers: opened.wrappers, format, virtual_size, cdrom, ..Image::default() });
            }
        };
        let mut ops = Vec::new();
        let mut plan = Plan::streaming(format, len, self.limits(), &mut ops)?;
        let Unwrapped { mut stream, wrappers, .. } = opened;
        while plan.geometry().is_none()
            && let Some(next) = stream.next()?
        {
            plan.push(piece(next), &mut ops)?;
            ops.clear();
        }
        if plan.geometry().is_none() {
            // The file ended before its size was known: this says where.
            plan.end_pass(&mut ops)?;
        }
        Ok(describe(&plan, wrappers, None))
    }
}
