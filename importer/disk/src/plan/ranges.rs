//! Reading by ranges.

use super::Plan;
use super::op::Op;
use super::pending::Pending;
use super::span::{host_end, host_start, part_of};
use crate::{Body, Error, Extent, Kind, Page, Result};

impl Plan {
    /// The next pages to fetch, in file order: at most 1 MiB of them, or none when all are read or the window is full of
    /// data to bring first.
    #[must_use]
    pub fn page_batch(&self) -> Vec<Page> {
        if self.window_full() {
            return Vec::new();
        }
        let mut bytes = 0;
        let fits = |page: &&Page| {
            bytes += page.len;
            bytes <= Page::MAX || bytes == page.len
        };
        self.pages.values().take_while(fits).copied().collect()
    }

    /// The bytes of a page from the batch: `page.len` of them, or fewer where the file ends.
    pub fn supply(&mut self, page: &Page, bytes: &[u8], ops: &mut Vec<Op>) -> Result<()> {
        if self.pages.remove(&(page.at.0, page.tag, page.index)).is_none() {
            return Err(Error::new(Kind::Ours, "a page nobody asked for").at(page.at.0));
        }
        if bytes.len() < page.min as usize {
            return Err(Error::new(Kind::Truncated, "the file ends inside a table")
                .of(self.format.name())
                .at(page.at.0));
        }
        self.expand(page, bytes, ops)
    }

    /// Whether enough was found for a window. A page can name a million extents, so this is asked after each: pages of a
    /// batch that are not supplied come again in a later one.
    #[must_use]
    pub fn window_full(&self) -> bool {
        self.pending.len() as u64 * 80 > self.limits.tables / 2
    }

    /// The host ranges of all data found so far, in file order. Ranges closer than `gap` are joined: reading a little
    /// too much is cheaper than another request.
    #[must_use]
    pub fn data_runs(&self, gap: u64) -> Vec<std::ops::Range<u64>> {
        let end = self.file_len.unwrap_or(u64::MAX);
        let mut runs: Vec<std::ops::Range<u64>> = Vec::new();
        for extent in self.pending.iter() {
            let (from, to) = (host_start(extent), host_end(extent).min(end));
            match runs.last_mut() {
                Some(last) if from <= last.end.saturating_add(gap) => last.end = last.end.max(to),
                _ => runs.push(from..to),
            }
        }
        runs
    }

    /// The next bytes pushed are those at `host`.
    pub fn seek(&mut self, host: u64) {
        self.held.retain(&[]);
        self.head = host;
    }

    /// A run of data was pushed whole: what began in it must have ended.
    pub fn end_run(&self) -> Result<()> {
        match self.pending.first() {
            Some(extent) if host_start(extent) < self.head => Err(self.truncated(host_start(extent), self.head)),
            _ => Ok(()),
        }
    }

    /// All pages were supplied and all data pushed.
    pub fn end_ranged(&mut self, ops: &mut Vec<Op>) -> Result<()> {
        if let Some(extent) = self.pending.first() {
            return Err(self.truncated(host_start(extent), self.file_len.unwrap_or(0)));
        }
        if !self.pages.is_empty() {
            return Err(Error::new(Kind::Ours, "pages were left out"));
        }
        self.finish(ops)
    }

    /// Forgets the data found so far: for those who only want to know what is there.
    pub fn forget_data(&mut self) {
        self.pending = Pending::default();
    }

    /// Forgets the data found so far that an earlier plan of the same file had pushed when its head was at `host`, but
    /// for what belongs below the guest offset `keep`. What a unit that crosses `host` holds is not forgotten.
    pub fn forget_before(&mut self, host: u64, keep: u64) {
        let file_end = self.file_len.unwrap_or(u64::MAX);
        let before = std::mem::take(&mut self.pending);
        for extent in before.iter() {
            match extent.body {
                Body::Data { at } => {
                    let kept = keep.saturating_sub(extent.guest.0).min(extent.len);
                    let done = host.saturating_sub(at.0).clamp(kept, extent.len);
                    self.remember(part_of(extent, 0, kept));
                    self.remember(part_of(extent, done, extent.len - done));
                }
                _ if extent.guest.0 < keep || host_end(extent).min(file_end) > host => self.remember(extent.clone()),
                _ => {}
            }
        }
    }

    fn remember(&mut self, extent: Extent) {
        if extent.len > 0 {
            self.pending.insert(extent);
        }
    }
}
