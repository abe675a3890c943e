//! Tables that were read before the stream came to them, and are proved by it when it does.

use std::collections::BTreeMap;

use dvcr_oci::{Algorithm, Digest, Hasher};
use importer_disk::Page;
use importer_disk::plan::{Op, Plan};

use super::Import;
use super::ranged::Paged;
use crate::{Error, Kind, Piece, Result, Stream};

/// What was read ahead of a stream, and the stream has not proved yet.
///
/// Of each page its digest is kept and compared with the bytes of the stream at the same place. So nothing that a plan has
/// made of such pages outlives a stream that has other bytes there, and whatever proves the stream proves them. Costs 128
/// bytes for each page.
pub(super) struct Ahead {
    /// Whether there are other ways to the bytes than the stream.
    on: bool,
    /// How many pages may wait.
    most: usize,
    /// Where the next piece of the stream begins.
    at: u64,
    /// The digests of pages that the stream has not come to, by their first byte and the one behind them.
    waiting: BTreeMap<(u64, u64), Digest>,
    /// Of those that it has begun.
    passing: Vec<Passing>,
    /// The name of the source.
    source: String,
}

/// A page that is passing.
struct Passing {
    start: u64,
    end: u64,
    hasher: Hasher,
    digest: Digest,
}

impl Ahead {
    pub(super) fn new(source: String, on: bool, memory: u64) -> Self {
        let most = usize::try_from(memory / SHARE / PAGE).unwrap_or(usize::MAX);
        Self { on, most, at: 0, waiting: BTreeMap::new(), passing: Vec::new(), source }
    }

    /// The bytes at `at`, behind what has passed, were used.
    fn used(&mut self, at: u64, bytes: &[u8]) -> Result<()> {
        if bytes.is_empty() {
            // The file ends before it: so does the stream, or it has another length.
            return Ok(());
        }
        let digest = Digest::of(bytes);
        let end = at.saturating_add(bytes.len() as u64);
        match self.waiting.insert((at, end), digest) {
            Some(before) if before != digest => Err(self.differs(at)),
            _ if at < self.at => Err(Error::new(Kind::Ours, format!("a table at {at:#x} has passed already"))),
            _ => Ok(()),
        }
    }

    /// The next piece of the stream: compares what is in it.
    pub(super) fn pass(&mut self, piece: &Piece) -> Result<()> {
        let (start, end) = (self.at, self.at.saturating_add(piece.len()));
        self.at = end;
        while let Some(entry) = self.waiting.first_entry().filter(|entry| entry.key().0 < end) {
            let ((start, end), digest) = entry.remove_entry();
            self.passing.push(Passing { start, end, hasher: Hasher::new(Algorithm::Sha256), digest });
        }
        for page in &mut self.passing {
            page.take(start, end, piece);
        }
        while let Some(done) = self.passing.iter().position(|page| page.end <= end) {
            let Passing { start, hasher, digest, .. } = self.passing.swap_remove(done);
            if hasher.finish() != digest {
                return Err(self.differs(start));
            }
        }
        Ok(())
    }

    /// The stream has ended. All that was used must have passed.
    pub(super) fn end(&mut self) -> Result<()> {
        self.at = 0;
        let waiting = self.waiting.first_key_value().map(|((start, _), _)| *start);
        match waiting.or(self.passing.first().map(|page| page.start)) {
            Some(start) => Err(self.differs(start)),
            None => Ok(()),
        }
    }

    /// Whether all that was used has been seen in the stream.
    fn is_proved(&self) -> bool {
        self.waiting.is_empty() && self.passing.is_empty()
    }

    /// An image was judged by what was read ahead of `stream`: reads it to its end to see whether that was true.
    pub(super) fn settle(&mut self, stream: &mut dyn Stream) -> Result<()> {
        if self.is_proved() {
            return Ok(());
        }
        while let Some(piece) = stream.next()? {
            self.pass(&piece)?;
        }
        self.end()
    }

    fn differs(&self, at: u64) -> Error {
        let message = format!(
            "{}: a table at {at:#x} of the image, read by itself, is another than in the whole; nothing was kept: the \
             server does not give what it has, or gives something else each time",
            self.source
        );
        Error::new(Kind::Mismatch, message)
    }
}

impl Passing {
    /// Takes its part of a piece that lies at `start..end`.
    fn take(&mut self, start: u64, end: u64, piece: &Piece) {
        let (from, to) = (self.start.max(start), self.end.min(end));
        let Some(len) = to.checked_sub(from) else { return };
        match piece {
            Piece::Bytes(bytes) => {
                // Inside the piece, so they fit.
                let [from, to] = [from - start, to - start].map(|at| usize::try_from(at).unwrap_or(usize::MAX));
                self.hasher.update(bytes.get(from..to).unwrap_or_default());
            }
            Piece::Hole(_) => {
                let mut left = len;
                while left > 0 {
                    let part = left.min(ZEROS.len() as u64);
                    self.hasher.update(ZEROS.get(..usize::try_from(part).unwrap_or(0)).unwrap_or_default());
                    left -= part;
                }
            }
        }
    }
}

impl Import<'_> {
    /// Brings tables that are still to come by ranges, as many as there is room for. Where that does not work it is given
    /// up: the next pass will bring them.
    pub(super) fn look_ahead(&mut self, plan: &mut Plan, ahead: &mut Ahead, ops: &mut Vec<Op>) -> Result<()> {
        if !ahead.on {
            return Ok(());
        }
        match self.read_pages(&mut Looking { plan, ahead: &mut *ahead }, ops) {
            Err(error) if matches!(error.kind(), Kind::Transient | Kind::Refused | Kind::Changed) => {
                tracing::info!(%error, "no tables are read ahead");
                ahead.on = false;
                Ok(())
            }
            result => result,
        }
    }
}

/// A plan whose tables come from ahead.
struct Looking<'a> {
    plan: &'a mut Plan,
    ahead: &'a mut Ahead,
}

impl Paged for Looking<'_> {
    fn page_batch(&mut self) -> Result<Vec<Page>> {
        let mut pages = self.plan.pages_ahead();
        pages.truncate(self.ahead.most.saturating_sub(self.ahead.waiting.len()));
        Ok(pages)
    }

    fn supply(&mut self, page: &Page, bytes: &[u8], ops: &mut Vec<Op>) -> Result<()> {
        self.ahead.used(page.at.0, bytes)?;
        Ok(self.plan.supply_ahead(page, bytes, ops)?)
    }
}

/// The share of the memory for digests: 32,768 pages with 64 MiB, which is the tables of 16 TiB in a qcow2 of the usual
/// kind.
const SHARE: u64 = 16;
/// What a page costs.
const PAGE: u64 = 128;

static ZEROS: [u8; 16 << 10] = [0; 16 << 10];

#[cfg(test)]
mod tests;
