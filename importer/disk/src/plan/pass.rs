//! A pass over a file whose bytes come in order.

use super::Plan;
use super::held::Reach;
use super::op::Op;
use super::span::{host_end, host_start};
use crate::{Error, Kind, Result};

/// How a pass over the file ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    /// Everything was found and emitted.
    Done,
    /// Some tables or data had passed before their place was known: push the same file again from its start.
    Again,
}

impl Plan {
    /// The file has ended at the head. Says whether it must be pushed once more.
    pub fn end_pass(&mut self, ops: &mut Vec<Op>) -> Result<Pass> {
        let end = self.head;
        if self.file_len.is_some_and(|len| len != end) {
            let message = format!("the file ended after {end} bytes, it should have {}", self.file_len.unwrap_or(0));
            return Err(Error::new(Kind::Truncated, message).of(self.format.name()));
        }
        // From now on the length is known, whoever told it: units cut at the end are complete.
        self.file_len = Some(end);
        self.expand_ready(Some(end), ops)?;
        self.serve(ops)?;
        self.check_inside(end)?;
        if self.missed.is_empty() && self.late.is_empty() {
            self.finish(ops)?;
            return Ok(Pass::Done);
        }
        if self.held.has_spill() {
            let message = "the image shares its data in a way that one pass can't follow; save it to a file first";
            return Err(Error::new(Kind::Unsupported, message).of(self.format.name()));
        }
        if self.pass >= MAX_PASSES {
            return Err(Error::new(Kind::Corrupt, "the tables lead nowhere").of(self.format.name()));
        }
        self.pass += 1;
        self.held.retain(&[]);
        self.used.clear();
        self.head = 0;
        for page in std::mem::take(&mut self.missed) {
            if page.at.0.saturating_add(u64::from(page.min)) > end {
                return Err(self.truncated(page.at.0, end));
            }
            self.pages.insert((page.at.0, page.tag, page.index), page);
        }
        for extent in std::mem::take(&mut self.late) {
            self.pending.insert(extent);
        }
        Ok(Pass::Again)
    }

    /// Which pass this is, from 1.
    #[must_use]
    pub fn pass(&self) -> u32 {
        self.pass
    }

    /// Whether nothing more is needed from the file.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.pages.is_empty() && self.missed.is_empty() && self.pending.is_empty() && self.late.is_empty()
    }

    /// Reads every page that is whole by now; at the end of the file (`end`), also those that are cut there.
    pub(super) fn expand_ready(&mut self, end: Option<u64>, ops: &mut Vec<Op>) -> Result<()> {
        let mut at = 0;
        loop {
            let limit = if end.is_some() { u64::MAX } else { self.head };
            let Some((&key, &page)) = self.pages.range((at, 0, 0)..(limit, 0, 0)).next() else { return Ok(()) };
            let mut len = u64::from(page.len);
            if page.end() > self.head {
                let there = self.head.saturating_sub(page.at.0);
                match end {
                    Some(_) if there >= u64::from(page.min) => len = there,
                    Some(end) => {
                        let message = format!("the file ends at {end:#x}, inside or before a table");
                        return Err(Error::new(Kind::Truncated, message).of(self.format.name()).at(page.at.0));
                    }
                    None => {
                        // Begun, not whole: its bytes are kept (see `let_go`). Others may be.
                        if !self.at_hand(page.at.0, there) {
                            self.pages.remove(&key);
                            self.missed.push(page);
                        }
                        at = page.at.0 + 1;
                        continue;
                    }
                }
            }
            self.pages.remove(&key);
            if !self.at_hand(page.at.0, len) {
                self.missed.push(page);
                continue;
            }
            let bytes = self.held.bytes(page.at.0, len)?;
            self.expand(&page, &bytes, ops)?;
            // Its bytes may be guest data as well (markers): they go when it is clear that they are not.
            at = 0;
        }
    }

    pub(super) fn at_hand(&self, at: u64, len: u64) -> bool {
        len == 0 || self.held.reach(at, len) == Reach::AtHand(len)
    }

    /// Nothing may lie behind the end.
    fn check_inside(&self, end: u64) -> Result<()> {
        let pending = self.pending.first().into_iter();
        let late = self.late.iter().filter(|extent| host_end(extent) > end);
        match pending.chain(late).next() {
            Some(extent) => Err(self.truncated(host_start(extent).max(end), end)),
            None => Ok(()),
        }
    }
}

/// Header, two levels of tables, data, and one to spare.
const MAX_PASSES: u32 = 5;
