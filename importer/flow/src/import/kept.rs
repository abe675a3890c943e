//! An image that is kept as it is: only its wrappers are taken off.

use std::sync::Arc;

use importer_disk::Format;
use importer_disk::plan::{Op, Plan};
use importer_disk::raw::RawStream;

use super::{Import, Mode, Outcome, describe, piece};
use crate::image::{Access, Image, Reader, reader};
use crate::pool::Pool;
use crate::received::Account;
use crate::spool::Whole;
use crate::unwrap::Unwrapped;
use crate::{Error, Kind, Piece, Result, Stream};

impl Import<'_> {
    /// Brings the bytes of the image to the sink. Its tables are read all the same: what is no usable image is refused
    /// here, and not where a machine starts from it.
    pub(super) fn kept(
        mut self,
        mut opened: Unwrapped,
        mut account: Account,
        format: Box<dyn Format>,
        pool: Pool,
    ) -> Result<Outcome> {
        self.start_over("the image is kept as it is", pool.sink())?;
        let mut look = self.look(&opened, format)?;
        self.progress.expect(self.source.weight().unwrap_or(0));
        let (mut first, mut mode) = (None, Mode::Streaming);
        let size = match self.inner_len(&opened) {
            Some(len) => len,
            None => {
                let mut whole = self.whole("store the image in a file first, or a raw disk with --as raw")?;
                let mut len = 0;
                while let Some(piece) = opened.stream.next()? {
                    len += piece.len();
                    if let Some(whole) = &mut whole {
                        whole.take(&piece)?;
                    }
                    look.see(piece)?;
                }
                look.end()?;
                if let Some(whole) = whole {
                    (opened.stream, mode) = (whole.stream()?, Mode::Spooled);
                } else {
                    (first, mode) = (Some(account.clone()), Mode::TwoPass);
                    (opened, account) = self.anew(&opened, &account)?;
                }
                len
            }
        };
        let sink = pool.finish()?;
        sink.tell(&look.image(opened.wrappers.clone()));
        sink.prepare(Some(size))?;
        self.progress.accept(Some(size));
        let mut at = 0;
        while let Some(piece) = opened.stream.next()? {
            match &piece {
                Piece::Bytes(bytes) => sink.write(at, bytes)?,
                Piece::Hole(len) => sink.zero(at, *len)?,
            }
            at += piece.len();
            look.see(piece)?;
        }
        if let Some(first) = &first {
            self.check_same(first, &account)?;
        }
        let source_digest = account.check(&self.settings.checksums, &self.source.name())?;
        look.end()?;
        let image = look.image(opened.wrappers);
        sink.tell(&image);
        let written = sink.finish(at)?;
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

    /// Looks at all tables at once where the source has ranges, and at those that come otherwise.
    fn look(&mut self, opened: &Unwrapped, format: Box<dyn Format>) -> Result<Look> {
        let len = self.inner_len(opened);
        if let Some(len) = len.filter(|_| self.source.ranges())
            && let Reader::Format(format) = reader(&opened.head, Some(len), Access::Ranged)?
            && !format.sequential()
        {
            let (settings, bin) = (self.settings, self.bin.clone());
            let mut looking = Import { source: &mut *self.source, settings, progress: Arc::default(), bin };
            return Ok(Look::Whole(Box::new(looking.inspect_ranged(format, len)?)));
        }
        let mut ops = Vec::new();
        let plan = Plan::streaming(format, len, self.limits(), &mut ops)?;
        Ok(Look::Passing(Box::new(plan), ops))
    }

    /// How long a raw disk is that has to be read to its end for that; and the same from its start, and in which way.
    pub(super) fn measured(&mut self, opened: Unwrapped, account: &Account) -> Result<(Unwrapped, Account, u64, Mode)> {
        let mut whole = self.whole("store the image in a file first")?;
        let mut opened = opened;
        let mut raw = RawStream::new();
        while let Some(piece) = opened.stream.next()? {
            if let Some(whole) = &mut whole {
                whole.take(&piece)?;
            }
            match piece {
                Piece::Bytes(bytes) => drop(raw.push(bytes)),
                Piece::Hole(len) => drop(raw.skip(len)),
            }
        }
        let size = raw.finish()?.virtual_size;
        if let Some(whole) = whole {
            opened.stream = whole.stream()?;
            return Ok((opened, account.clone(), size, Mode::Spooled));
        }
        let (opened, account) = self.anew(&opened, account)?;
        Ok((opened, account, size, Mode::TwoPass))
    }

    /// Opens the source once more, of which `before` was read to its end for its length alone.
    fn anew(&mut self, before: &Unwrapped, account: &Account) -> Result<(Unwrapped, Account)> {
        account.check(&self.settings.checksums, &self.source.name())?;
        self.again(&before.head, &before.wrappers)
    }

    /// Where a stream is kept that can be read only once; `None` for a source that can be read again.
    ///
    /// Where it may not be kept it is refused, before it is read to its end in vain.
    fn whole(&self, advice: &str) -> Result<Option<Whole>> {
        if self.source.reopens() {
            return Ok(None);
        }
        if self.settings.spool_whole {
            return Whole::new(&self.settings.spool_directory, self.settings.spool_limit).map(Some);
        }
        let what = "a registry needs the length first, which a pipe does not have";
        Err(Error::new(Kind::Usage, format!("{}: {what}: {advice}", self.source.name())))
    }
}

/// What is seen of an image while it passes.
enum Look {
    /// All of its tables were read before.
    Whole(Box<Image>),
    /// They are read as they come; what they lead to is not wanted.
    Passing(Box<Plan>, Vec<Op>),
    /// All has passed.
    Past(Box<Image>),
}

impl Look {
    fn see(&mut self, next: Piece) -> Result<()> {
        if let Self::Passing(plan, ops) = self {
            plan.push(piece(next), ops)?;
            ops.clear();
        }
        Ok(())
    }

    /// All has passed. What came too late to be looked at in one pass is not looked at in another.
    fn end(&mut self) -> Result<()> {
        if let Self::Passing(plan, ops) = self {
            plan.end_pass(ops)?;
            let image = describe(plan.format(), Vec::new(), None);
            *self = Self::Past(Box::new(image));
        }
        Ok(())
    }

    fn image(&self, wrappers: Vec<&'static str>) -> Image {
        match self {
            Self::Whole(image) | Self::Past(image) => Image { wrappers, ..(**image).clone() },
            Self::Passing(plan, _) => describe(plan.format(), wrappers, None),
        }
    }
}

#[cfg(test)]
mod tests;
