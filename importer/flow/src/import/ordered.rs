//! Reading by ranges in the order of the disk, for a target that can't be written anywhere else.

use importer_disk::plan::{Op, Ordered};
use importer_disk::{Format, Page};

use super::ranged::{Paged, ended};
use super::{Import, Mode, Outcome, describe, piece};
use crate::pool::Pool;
use crate::{Error, Kind, Result};

impl Import<'_> {
    /// Nothing is stored on the way: what is out of order in the file is fetched in the order of the disk. That costs a
    /// request for each piece, so an image that is strewn over its file takes longer than it does into a file.
    pub(super) fn ordered(mut self, format: Box<dyn Format>, len: u64, mut pool: Pool) -> Result<Outcome> {
        self.start_over("its target is written from the start", pool.sink())?;
        let mut ops = Vec::new();
        let mut plan = Ordered::new(format, len, self.limits())?;
        // The start of the file came to tell what it is; of the rest, only what is asked for will.
        self.progress.expect(self.progress.received());
        let mut prepared = false;
        while !plan.is_complete() {
            self.read_pages(&mut plan, &mut ops)?;
            if !prepared && let Some(geometry) = plan.geometry() {
                pool.sink().prepare(geometry.virtual_size)?;
                self.progress.accept(geometry.virtual_size);
                // What is made comes in the order of the disk, and holes are no less of it.
                self.progress.measure(geometry.virtual_size);
                prepared = true;
            }
            let known = made(&ops);
            let runs = plan.runs(GAP, &mut ops)?;
            self.progress.advance(made(&ops) - known);
            if runs.is_empty() {
                continue;
            }
            self.progress.expect(runs.iter().map(|run| run.end - run.start).sum());
            let mut stream = self.source.read(runs.clone())?;
            for run in runs {
                plan.seek(run.start);
                let mut at = run.start;
                while at < run.end {
                    let next = stream.next()?.ok_or_else(|| ended(at))?;
                    at += next.len();
                    self.progress.receive(next.len());
                    let known = made(&ops);
                    plan.push(piece(next), &mut ops)?;
                    self.progress.advance(made(&ops) - known);
                    pool.submit(&mut ops)?;
                }
            }
            plan.end_runs()?;
        }
        let known = made(&ops);
        plan.finish(&mut ops)?;
        self.progress.advance(made(&ops) - known);
        let image = describe(plan.format(), Vec::new(), Some(plan.allocated()));
        let size = image.virtual_size.ok_or_else(|| Error::new(Kind::Ours, "the image has no size"))?;
        if !prepared {
            pool.sink().prepare(Some(size))?;
        }
        pool.submit(&mut ops)?;
        let sink = pool.finish()?;
        sink.tell(&image);
        let written = sink.finish(size)?;
        Ok(Outcome {
            image,
            mode: Mode::Ranged,
            source_bytes: self.progress.received(),
            source_digest: None,
            bytes_written: written.data,
            target_size: written.size,
            resumed_from: None,
        })
    }
}

/// How much of the disk these make.
fn made(ops: &[Op]) -> u64 {
    ops.iter()
        .map(|op| match op {
            Op::Write { bytes, .. } => bytes.len() as u64,
            Op::Unpack { len, .. } | Op::Zero { len, .. } => *len,
        })
        .sum()
}

impl Paged for Ordered {
    fn page_batch(&mut self) -> Result<Vec<Page>> {
        Ok(Self::page_batch(self)?)
    }

    fn supply(&mut self, page: &Page, bytes: &[u8], _ops: &mut Vec<Op>) -> Result<()> {
        Ok(Self::supply(self, page, bytes)?)
    }
}

/// Data closer together than this is read in one go. Less than where the order is that of the file: what lies between may
/// be wanted later, and would then be read twice. So it is less than the usual cluster, too.
const GAP: u64 = 32 << 10;
