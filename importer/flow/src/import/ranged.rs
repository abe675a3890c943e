//! Reading by ranges: tables first, then only what is allocated.

use importer_disk::plan::{Op, Plan};
use importer_disk::{Format, Page};

use super::resume::Place;
use super::{Import, Mode, Outcome, append, describe, piece};
use crate::image::Image;
use crate::pool::Pool;
use crate::{Error, Kind, Result};

impl Import<'_> {
    pub(super) fn ranged(mut self, format: Box<dyn Format>, len: u64, mut pool: Pool) -> Result<Outcome> {
        let mut trail = self.trail(format.name(), pool.sink())?;
        let from = trail.from();
        let keep = pool.sink().forgets_below();
        let mut ops = Vec::new();
        let mut plan = Plan::ranged(format, len, self.limits(), &mut ops)?;
        // The start of the file came to tell what it is; of the rest, only what is asked for will.
        self.progress.expect(self.progress.received());
        self.progress.measure(None);
        let mut prepared = false;
        for window in 0.. {
            self.read_pages(&mut plan, &mut ops)?;
            if !prepared && let Some(geometry) = plan.geometry() {
                pool.sink().prepare(geometry.virtual_size)?;
                self.progress.accept(geometry.virtual_size);
                prepared = true;
            }
            if prepared {
                pool.submit(&mut ops)?;
            }
            match from {
                Some(from) if window < from.window => plan.forget_before(u64::MAX, keep),
                Some(from) if window == from.window => plan.forget_before(from.offset, keep),
                _ => {}
            }
            let runs = plan.data_runs(GAP);
            if runs.is_empty() {
                if plan.is_complete() {
                    break;
                }
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
                    trail.advance(next.len());
                    plan.push(piece(next), &mut ops)?;
                    pool.submit(&mut ops)?;
                    trail.checkpoint(Place { window, offset: at }, &mut pool)?;
                }
                plan.end_run()?;
            }
        }
        plan.end_ranged(&mut ops)?;
        pool.submit(&mut ops)?;
        let image = describe(plan.format(), Vec::new(), Some(plan.allocated()));
        let size = image.virtual_size.ok_or_else(|| Error::new(Kind::Ours, "the image has no size"))?;
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
            resumed_from: trail.resumed_from(),
        })
    }

    /// Reads pages until there are none or the window is full.
    pub(super) fn read_pages(&mut self, plan: &mut dyn Paged, ops: &mut Vec<Op>) -> Result<()> {
        loop {
            let batch = plan.page_batch()?;
            if batch.is_empty() {
                return Ok(());
            }
            let groups = group(&batch, self.source.len().unwrap_or(u64::MAX));
            let ranges = groups.iter().map(|group| group.start..group.end.max(group.start));
            let mut stream = self.source.glimpse(ranges.filter(|range| !range.is_empty()).collect())?;
            let mut bytes = Vec::new();
            for group in groups {
                bytes.clear();
                while group.start + (bytes.len() as u64) < group.end {
                    let next = stream.next()?.ok_or_else(|| ended(group.start + bytes.len() as u64))?;
                    append(next, &mut bytes);
                }
                self.progress.expect(bytes.len() as u64);
                self.progress.receive(bytes.len() as u64);
                for page in group.pages {
                    let from = usize::try_from(page.at.0.saturating_sub(group.start)).unwrap_or(usize::MAX);
                    let to = from.saturating_add(page.len as usize).min(bytes.len());
                    plan.supply(page, bytes.get(from..to).unwrap_or_default(), ops)?;
                    if plan.is_full() {
                        return Ok(());
                    }
                }
            }
        }
    }

    pub(super) fn inspect_ranged(&mut self, format: Box<dyn Format>, len: u64) -> Result<Image> {
        let mut ops = Vec::new();
        let mut plan = Plan::ranged(format, len, self.limits(), &mut ops)?;
        let mut stored = None;
        while !plan.page_batch().is_empty() {
            self.read_pages(&mut plan, &mut ops)?;
            if plan.format().plain() {
                stored = self.stored(&plan)?;
            }
            plan.forget_data();
            ops.clear();
        }
        Ok(describe(plan.format(), Vec::new(), stored.or(Some(plan.allocated()))))
    }

    /// How much of the data found so far is in no hole.
    fn stored(&mut self, plan: &Plan) -> Result<Option<u64>> {
        plan.data_runs(0).into_iter().map(|run| self.source.stored(run)).sum()
    }
}

/// A plan that asks for pages.
pub(super) trait Paged {
    /// The next pages, in the order of the file; none when it has enough.
    fn page_batch(&mut self) -> Result<Vec<Page>>;

    /// The bytes of one of them.
    fn supply(&mut self, page: &Page, bytes: &[u8], ops: &mut Vec<Op>) -> Result<()>;

    /// Whether it wants no more of the batch for now, and asks for the rest again.
    fn is_full(&self) -> bool {
        false
    }
}

impl Paged for Plan {
    fn page_batch(&mut self) -> Result<Vec<Page>> {
        Ok(Self::page_batch(self))
    }

    fn supply(&mut self, page: &Page, bytes: &[u8], ops: &mut Vec<Op>) -> Result<()> {
        Ok(Self::supply(self, page, bytes, ops)?)
    }

    fn is_full(&self) -> bool {
        self.window_full()
    }
}

/// A stream of ranges that is shorter than they are.
pub(super) fn ended(at: u64) -> Error {
    Error::new(Kind::Transient, format!("the source ends at offset {at:#x} though it was longer; try again"))
}

/// Pages that are read with one request.
struct Group<'a> {
    start: u64,
    end: u64,
    pages: &'a [Page],
}

/// Joins pages that lie close to each other; `pages` is in file order. No group is larger than a page may be, twice.
fn group(pages: &[Page], file_len: u64) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    let mut first = 0;
    let mut end = 0;
    for (index, page) in pages.iter().enumerate() {
        let start = pages.get(first).map_or(0, |page| page.at.0);
        let far = page.at.0 > end + PAGE_GAP || page.end().saturating_sub(start) > 2 * u64::from(Page::MAX);
        if index > first && far {
            groups.push(Group { start, end: end.min(file_len), pages: pages.get(first..index).unwrap_or_default() });
            first = index;
            end = 0;
        }
        end = end.max(page.end());
    }
    if let Some(page) = pages.get(first) {
        groups.push(Group { start: page.at.0, end: end.min(file_len), pages: pages.get(first..).unwrap_or_default() });
    }
    groups
}

/// Data closer together than this is read in one go: a request costs more than the bytes between.
const GAP: u64 = 1 << 20;
/// The same for tables.
const PAGE_GAP: u64 = 64 << 10;
