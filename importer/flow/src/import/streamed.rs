//! Reading in order: in one pass where that is possible, in more or with a spool where it is not.

use importer_disk::Feature;
use importer_disk::plan::{Op, Pass, Plan};

use super::ahead::Ahead;
use super::resume::Trail;
use super::{Import, Mode, Outcome, describe, piece};
use crate::image::{Access, Image, MAYBE, Reader, reader};
use crate::pool::Pool;
use crate::received::Account;
use crate::spool::Spool;
use crate::unwrap::Unwrapped;
use crate::{Error, Kind, Result, Stream};

impl Import<'_> {
    pub(super) fn streamed(self, opened: Unwrapped, account: Account, pool: Pool) -> Result<Outcome> {
        let access = if pool.sink().ordered() { Access::InOrder } else { Access::Streamed };
        let reader = reader(&opened.head, self.inner_len(&opened), access)?;
        if let Reader::Raw { cdrom } = reader
            && opened.wrappers.is_empty()
            && self.source.continues()
        {
            let trail = self.trail("raw", pool.sink())?;
            return self.raw(opened, cdrom, account, pool, trail);
        }
        self.start_over(self.no_way_back(&opened), pool.sink())?;
        match reader {
            Reader::Format(format) => self.planned(opened, format, account, pool),
            Reader::Raw { cdrom } => self.raw(opened, cdrom, account, pool, Trail::default()),
        }
    }

    /// Why what comes in order can't be continued in the middle.
    fn no_way_back(&self, opened: &Unwrapped) -> &'static str {
        match () {
            () if !opened.wrappers.is_empty() => "the image is compressed or in an archive, and read from its start",
            () if self.source.digest().is_some() => {
                "the layers of an image are read from their start, for their digests"
            }
            () if !self.source.ranges() => "the source can only be read from its start",
            () if !self.settings.checksums.is_empty() => "the image is read from its start for its checksum",
            () => "the image is read from its start",
        }
    }

    /// The length of the image file, where nothing is wrapped around it.
    pub(super) fn inner_len(&self, opened: &Unwrapped) -> Option<u64> {
        self.source.len().filter(|_| opened.wrappers.is_empty())
    }

    /// An image with tables.
    fn planned(
        mut self,
        opened: Unwrapped,
        format: Box<dyn importer_disk::Format>,
        account: Account,
        pool: Pool,
    ) -> Result<Outcome> {
        self.progress.expect(self.source.weight().unwrap_or(0));
        let mut ops = Vec::new();
        let len = self.inner_len(&opened);
        let elsewhere = len.is_some() && self.source.glimpses() && !format.sequential();
        let ahead = Ahead::new(self.source.name(), elsewhere, self.settings.memory);
        let mut plan = Plan::streaming(format, len, self.limits(), &mut ops)?;
        if !self.source.reopens() {
            plan.set_spill(Box::new(Spool::new(&self.settings.spool_directory, self.settings.spool_limit)?));
        }
        let Unwrapped { head, stream, wrappers } = opened;
        let mut stream = stream;
        let mut pass_account = account.clone();
        let mut passing = Passing { plan, ahead, pool, ops, prepared: false };
        let source_digest = loop {
            self.pass(&mut stream, &mut passing).or_else(|error| match error.kind() {
                // What was read ahead may have been to blame.
                Kind::NotUsable | Kind::Unsafe => passing.ahead.settle(&mut stream).and(Err(error)),
                _ => Err(error),
            })?;
            self.check_same(&account, &pass_account)?;
            // Every pass has its own hash: the next one brings what this one let go, and who can forge a CRC must not get
            // other bytes past a checksum. And before the parser complains of what is missing: the checksum knows why.
            let digest = pass_account.check(&self.settings.checksums, &self.source.name())?;
            let pass = passing.plan.end_pass(&mut passing.ops)?;
            if pass == Pass::Done {
                break digest;
            }
            let again;
            (again, pass_account) = self.again(&head, &wrappers)?;
            stream = again.stream;
        };
        let Passing { plan, mut pool, mut ops, prepared, .. } = passing;
        if !prepared {
            pool.sink().prepare(plan.geometry().and_then(|geometry| geometry.virtual_size))?;
        }
        pool.submit(&mut ops)?;
        let image = describe(plan.format(), wrappers, Some(plan.allocated()));
        let size = image.virtual_size.ok_or_else(|| Error::new(Kind::Ours, "the image has no size"))?;
        let sink = pool.finish()?;
        sink.tell(&image);
        let written = sink.finish(size)?;
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
            resumed_from: None,
        })
    }

    /// Brings the source to its end, once.
    fn pass(&mut self, stream: &mut dyn Stream, passing: &mut Passing) -> Result<()> {
        let Passing { plan, ahead, pool, ops, prepared } = passing;
        while let Some(next) = stream.next()? {
            ahead.pass(&next)?;
            plan.push(piece(next), ops)?;
            if plan.is_crowded() {
                self.look_ahead(plan, ahead, ops)?;
            }
            if !*prepared && let Some(geometry) = plan.geometry() {
                pool.sink().prepare(geometry.virtual_size)?;
                self.progress.accept(geometry.virtual_size);
                *prepared = true;
            }
            if *prepared {
                pool.submit(ops)?;
            }
        }
        ahead.end()
    }

    /// What the start of a stream tells.
    pub(super) fn inspect_streamed(&self, opened: Unwrapped) -> Result<Image> {
        let len = self.inner_len(&opened);
        let format = match reader(&opened.head, len, Access::Streamed)? {
            Reader::Format(format) => format,
            Reader::Raw { cdrom } => {
                let format = if cdrom { "iso" } else { "raw" };
                let virtual_size = len.map(|len| len.next_multiple_of(importer_disk::SECTOR));
                // A fixed VHD is a raw disk with a footer, which has not come.
                let features = if cdrom { Vec::new() } else { vec![Feature::text(MAYBE, "vhd")] };
                return Ok(Image { wrappers: opened.wrappers, format, virtual_size, cdrom, features, allocated: None });
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
        Ok(describe(plan.format(), wrappers, None))
    }
}

/// An image on its way through a plan.
struct Passing {
    plan: Plan,
    ahead: Ahead,
    pool: Pool,
    ops: Vec<Op>,
    /// Whether the sink knows how large the disk is.
    prepared: bool,
}
