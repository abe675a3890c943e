//! What a parser found in its tables.

use super::Plan;
use super::held::Reach;
use super::op::Op;
use super::span::{join, part_of};
use crate::{Body, Extent, Found, Page, Result};

impl Plan {
    pub(super) fn expand(&mut self, page: &Page, bytes: &[u8], ops: &mut Vec<Op>) -> Result<()> {
        let mut found = Found::default();
        self.format.expand(page, bytes, &mut found)?;
        self.take_found(found, ops)
    }

    pub(super) fn take_found(&mut self, found: Found, ops: &mut Vec<Op>) -> Result<()> {
        for page in found.pages {
            if !self.ranged && page.at.0 < self.head && !self.at_hand(page.at.0, self.head.min(page.end()) - page.at.0)
            {
                self.missed.push(page);
            } else {
                self.pages.insert((page.at.0, page.tag, page.index), page);
            }
        }
        if !found.skips.is_empty() {
            self.skips.extend(found.skips);
            join(&mut self.skips);
        }
        for extent in found.extents {
            self.take_extent(extent, ops)?;
        }
        // A window of a ranged plan is bounded by the caller; what is over here are the pages.
        if self.tables() > self.limits.tables && (!self.ranged || self.pages.len() as u64 * 72 > self.limits.tables) {
            return Err(self.limits.too_many_tables().of(self.format.name()));
        }
        Ok(())
    }

    /// What is kept of tables, in bytes.
    pub(super) fn tables(&self) -> u64 {
        self.pages.len() as u64 * 72
            + self.missed.len() as u64 * 32
            + self.pending.len() as u64 * 80
            + self.late.len() as u64 * 64
    }

    fn take_extent(&mut self, extent: Extent, ops: &mut Vec<Op>) -> Result<()> {
        let (at, len) = match &extent.body {
            Body::Zero => {
                ops.push(Op::Zero { guest: extent.guest, len: extent.len });
                return Ok(());
            }
            Body::Inline(bytes) => {
                self.allocated += extent.len;
                ops.push(Op::Write { guest: extent.guest, bytes: bytes.clone() });
                return Ok(());
            }
            Body::Data { at } => (at.0, extent.len),
            Body::Packed { at, len, .. } => (at.0, u64::from(*len)),
        };
        self.allocated += extent.len;
        self.count_reference(at, &extent, len)?;
        if self.ranged || at >= self.head {
            self.pending.insert(extent);
            return Ok(());
        }
        match extent.body {
            // Already passed, at least in part: take what is held, note what is gone.
            Body::Data { at } => self.take_passed(&extent, at.0, ops),
            _ if self.at_hand(at, len.min(self.head - at)) => {
                self.pending.insert(extent);
                Ok(())
            }
            _ => {
                self.late.push(extent);
                Ok(())
            }
        }
    }

    /// Data that begins before the head.
    fn take_passed(&mut self, extent: &Extent, at: u64, ops: &mut Vec<Op>) -> Result<()> {
        let passed = extent.len.min(self.head - at);
        let mut done = 0;
        while done < passed {
            match self.held.reach(at + done, passed - done) {
                Reach::AtHand(len) => {
                    self.emit_data(extent.guest.0 + done, at + done, len, ops)?;
                    // Removed at the end of the push: another guest range may share these bytes.
                    self.used.push((at + done, at + done + len));
                    done += len;
                }
                Reach::Missing(len) => {
                    self.late.push(part_of(extent, done, len));
                    done += len;
                }
            }
        }
        if passed < extent.len {
            self.pending.insert(part_of(extent, passed, extent.len - passed));
        }
        Ok(())
    }

    /// Refuses data that lies behind the end, and an image that uses the same bytes over and over.
    fn count_reference(&mut self, at: u64, extent: &Extent, len: u64) -> Result<()> {
        // Without a length, only what has passed can be compared with what there is.
        self.sharing.refer(if self.file_len.is_some() { len } else { len.min(self.head.saturating_sub(at)) });
        if self.pending.has_start(at) {
            self.sharing.share(extent.len);
        }
        let there = self.file_len.unwrap_or(self.head);
        let needed = if matches!(extent.body, Body::Data { .. }) { len } else { 1 };
        if self.file_len.is_some_and(|file_len| at.saturating_add(needed) > file_len) {
            return Err(self.truncated(at.max(there), there));
        }
        self.sharing.check(there).map_err(|error| error.of(self.format.name()))
    }
}
