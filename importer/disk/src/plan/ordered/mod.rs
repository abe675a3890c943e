//! Reading by ranges in the order of the disk.

mod bundle;
mod frontier;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ops::Range;

use bytes::Bytes;

use bundle::{Bundle, host_range};
use frontier::Frontier;

use super::held::{Held, Part, Reach};
use super::sharing::Sharing;
use super::{Limits, Op, Piece};
use crate::{Body, Error, Format, Found, Geometry, GuestOffset, Kind, Page, Result};

/// Drives a format over a file that can be read at any offset, so that the ops cover the disk from its first byte to its
/// last, each behind the one before.
///
/// Tables are read in windows, in the order of the disk ([`page_batch`](Self::page_batch), [`supply`](Self::supply)). The
/// data of a window is fetched ([`runs`](Self::runs), [`seek`](Self::seek), [`push`](Self::push)) in bundles of at most
/// [`Limits::held`] bytes, each in the order of the file. Where that is also the order of the disk, as in any image that
/// was just converted, nothing is held, and the runs are long; where it is not, a bundle is what is held, and what two
/// bundles share is fetched twice.
pub struct Ordered {
    format: Box<dyn Format>,
    limits: Limits,
    file_len: u64,
    /// Where the next byte pushed lies in the file.
    head: u64,
    /// Pages to fetch, and pages that wait with their bytes until there is room for what is in them.
    pages: BTreeMap<Turn, Page>,
    supplied: BTreeMap<Turn, (Page, Bytes)>,
    frontier: Frontier,
    bundle: Bundle,
    held: Held,
    /// How much of the first extent was given.
    given: u64,
    /// Zeros that were found and not given, because more may follow: their first guest byte and their length.
    zeros: (u64, u64),
    sharing: Sharing,
    allocated: u64,
}

/// Whose turn it is: all parsers number the pages of a level in the order of the disk, and the levels from the first on.
type Turn = (u32, u64, u64);

impl Ordered {
    /// A plan for a file of `file_len` bytes.
    pub fn new(format: Box<dyn Format>, file_len: u64, limits: Limits) -> Result<Self> {
        let mut plan = Self {
            format,
            limits,
            file_len,
            head: 0,
            pages: BTreeMap::new(),
            supplied: BTreeMap::new(),
            frontier: Frontier::default(),
            bundle: Bundle::default(),
            held: Held::default(),
            given: 0,
            zeros: (0, 0),
            sharing: Sharing::default(),
            allocated: 0,
        };
        let mut found = Found::default();
        plan.format.start(&mut found)?;
        plan.take_found(found)?;
        Ok(plan)
    }

    /// The parser.
    #[must_use]
    pub fn format(&self) -> &dyn Format {
        &*self.format
    }

    /// The shape of the disk, once it is known.
    #[must_use]
    pub fn geometry(&self) -> Option<Geometry> {
        self.format.geometry()
    }

    /// Guest bytes that are not known to be zero, as far as the tables were read.
    #[must_use]
    pub fn allocated(&self) -> u64 {
        self.allocated
    }

    /// The next pages to fetch, in the order of the file: at most 1 MiB of them, or none when all are read or the window
    /// is full of data to bring first.
    pub fn page_batch(&mut self) -> Result<Vec<Page>> {
        self.expand_supplied()?;
        if self.window_full() {
            return Ok(Vec::new());
        }
        let mut bytes = 0;
        let fits = |page: &&Page| {
            bytes += page.len;
            bytes <= Page::MAX || bytes == page.len
        };
        // What has its bytes already would only wait longer behind more.
        let before = self.supplied.first_key_value().map_or((u32::MAX, u64::MAX, u64::MAX), |(turn, _)| *turn);
        let mut batch: Vec<_> = self.pages.range(..before).map(|(_, page)| page).take_while(fits).copied().collect();
        batch.sort_unstable_by_key(|page| page.at);
        Ok(batch)
    }

    /// The bytes of a page from the batch: `page.len` of them, or fewer where the file ends.
    pub fn supply(&mut self, page: &Page, bytes: &[u8]) -> Result<()> {
        if self.pages.remove(&turn(page)).is_none() {
            return Err(Error::new(Kind::Ours, "a page nobody asked for").at(page.at.0));
        }
        if bytes.len() < page.min as usize {
            return Err(Error::new(Kind::Truncated, "the file ends inside a table")
                .of(self.format.name())
                .at(page.at.0));
        }
        self.supplied.insert(turn(page), (*page, Bytes::copy_from_slice(bytes)));
        self.expand_supplied()
    }

    /// The ranges of the file to push next, in this order, for all of the disk that is known so far. Gives what needs no
    /// bytes, up to the first that does. Ranges closer than `gap` are joined where they follow each other.
    ///
    /// # Errors
    /// Bomb, for an image that uses the same data over and over.
    pub fn runs(&mut self, gap: u64, ops: &mut Vec<Op>) -> Result<Vec<Range<u64>>> {
        self.expand_supplied()?;
        self.serve(ops)?;
        let mut runs: Vec<Range<u64>> = Vec::new();
        let mut done = 0;
        loop {
            let count = Bundle::cut(self.frontier.iter().skip(done), self.limits.held);
            if count == 0 {
                break;
            }
            let extents = self.frontier.iter().skip(done).take(count);
            let mut needed: Vec<_> = extents.map(|extent| (host_range(extent, self.file_len), extent.len)).collect();
            needed.retain(|(range, _)| !range.is_empty());
            needed.sort_unstable_by_key(|(range, _)| (range.start, range.end));
            let mut before = None;
            // What was fetched for the bundle before is not at hand any more: a run only goes on behind its end.
            let mut bundle_start = runs.last().map_or(0, |run| run.end);
            for (range, len) in needed {
                if before.replace(range.start) == Some(range.start) {
                    self.sharing.share(len);
                }
                match runs.last_mut() {
                    Some(last) if bundle_start <= range.start && range.start <= last.end.saturating_add(gap) => {
                        last.end = last.end.max(range.end);
                    }
                    _ => runs.push(range.clone()),
                }
                bundle_start = bundle_start.min(range.start);
            }
            done += count;
        }
        self.sharing.check(self.file_len).map_err(|error| error.of(self.format.name()))?;
        self.next_bundle();
        Ok(runs)
    }

    /// The next bytes pushed are those at `host`.
    pub fn seek(&mut self, host: u64) {
        self.head = host;
    }

    /// The next bytes of a run.
    pub fn push(&mut self, piece: Piece, ops: &mut Vec<Op>) -> Result<()> {
        let start = self.head;
        let part = match piece {
            Piece::Bytes(bytes) => Part::Bytes(bytes),
            Piece::Hole(len) => Part::Hole(len),
        };
        let end = start.checked_add(part.len()).filter(|end| *end <= self.file_len);
        self.head = end.ok_or_else(|| Error::new(Kind::Ours, "bytes from behind the end of the file").at(start))?;
        loop {
            for needed in self.bundle.needed(start, self.head) {
                self.hold(start, &part, needed);
            }
            self.serve(ops)?;
            if self.bundle.left > 0 || self.frontier.is_empty() {
                break;
            }
            // A run may go on into the bundle behind it.
            self.next_bundle();
        }
        self.held.compact(start, self.head);
        Ok(())
    }

    /// All runs were pushed.
    pub fn end_runs(&self) -> Result<()> {
        match self.frontier.front() {
            Some(extent) => {
                Err(Error::new(Kind::Ours, format!("the data at guest offset {} did not come", extent.guest)))
            }
            None => Ok(()),
        }
    }

    /// Whether nothing more is needed from the file.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.pages.is_empty() && self.supplied.is_empty() && self.frontier.is_empty()
    }

    /// Everything was read: gives the rest of the disk.
    pub fn finish(&mut self, ops: &mut Vec<Op>) -> Result<()> {
        if !self.is_complete() {
            return Err(Error::new(Kind::Ours, "pages or data were left out"));
        }
        let mut found = Found::default();
        self.format.finish(Some(self.file_len), &mut found)?;
        if !found.pages.is_empty() {
            return Err(Error::new(Kind::Ours, "pages asked for at the end").of(self.format.name()));
        }
        self.take_found(found)?;
        self.serve(ops)?;
        let size = self.geometry().and_then(|geometry| geometry.virtual_size);
        if !self.frontier.is_empty() || Some(self.frontier.end()) != size {
            let message = format!("the tables end at guest offset {:#x} of {size:?}", self.frontier.end());
            return Err(Error::new(Kind::Ours, message).of(self.format.name()));
        }
        self.flush_zeros(ops);
        Ok(())
    }

    fn window_full(&self) -> bool {
        self.frontier.weight() > self.limits.tables / 2
    }

    /// Reads the pages whose bytes are there, in their turn, while there is room for what is in them.
    fn expand_supplied(&mut self) -> Result<()> {
        while !self.window_full()
            && let Some(next) = self.supplied.first_entry()
            && self.pages.first_key_value().is_none_or(|(turn, _)| next.key() < turn)
        {
            let (page, bytes) = next.remove();
            let mut found = Found::default();
            self.format.expand(&page, &bytes, &mut found)?;
            self.take_found(found)?;
        }
        Ok(())
    }

    fn take_found(&mut self, found: Found) -> Result<()> {
        self.pages.extend(found.pages.into_iter().map(|page| (turn(&page), page)));
        let name = self.format.name();
        for extent in found.extents {
            let Range { start, end } = host_range(&extent, u64::MAX);
            let needed = match extent.body {
                Body::Zero => 0,
                Body::Inline(_) | Body::Data { .. } => extent.len,
                Body::Packed { .. } => 1,
            };
            if start.saturating_add(needed) > self.file_len && start < end {
                let message = format!("data at {start:#x} is missing, the file ends at {:#x}", self.file_len);
                return Err(Error::new(Kind::Truncated, message).of(name).at(start.max(self.file_len)));
            }
            self.sharing.refer(end - start);
            if needed > 0 {
                self.allocated += extent.len;
            }
            self.frontier.add(extent).map_err(|error| error.of(name))?;
        }
        self.sharing.check(self.file_len).map_err(|error| error.of(name))?;
        if self.pages.len() as u64 * 72 + self.frontier.weight_beyond() > self.limits.tables {
            return Err(self.limits.too_many_tables().of(name));
        }
        Ok(())
    }

    /// Goes on to the next bundle. What is held was for the one before.
    fn next_bundle(&mut self) {
        self.held.retain(&[]);
        let count = Bundle::cut(self.frontier.iter(), self.limits.held);
        self.bundle = Bundle::new(self.frontier.iter().take(count), self.file_len);
    }

    /// Holds what is `needed` of a part of the file that begins at `start`, but for what is held already.
    fn hold(&mut self, start: u64, part: &Part, needed: Range<u64>) {
        let mut at = needed.start;
        while at < needed.end {
            let len = match self.held.reach(at, needed.end - at) {
                Reach::AtHand(len) => len,
                Reach::Missing(len) => {
                    self.held.insert(at, part.slice(at - start, len));
                    len
                }
            };
            at += len;
        }
    }

    /// Gives what is at hand of the disk, as far as nothing before it is missing.
    fn serve(&mut self, ops: &mut Vec<Op>) -> Result<()> {
        while let Some(extent) = self.frontier.front() {
            let (guest, len) = (extent.guest.0, extent.len);
            match extent.body {
                Body::Zero => self.zero(guest, len, ops),
                Body::Inline(ref bytes) => {
                    let op = Op::Write { guest: extent.guest, bytes: bytes.clone() };
                    self.give(op, ops);
                }
                // What is held is for the bundle.
                _ if self.bundle.left == 0 => return Ok(()),
                Body::Data { at } => {
                    if !self.serve_data(guest, at.0, len, ops)? {
                        return Ok(());
                    }
                }
                Body::Packed { at, len: packed, unpacked, codec } => {
                    let end = at.0.saturating_add(packed.into()).min(self.file_len);
                    if self.held.reach(at.0, end - at.0) != Reach::AtHand(end - at.0) {
                        return Ok(());
                    }
                    let input = self.held.bytes(at.0, end - at.0)?;
                    self.release(at.0, end);
                    self.give(Op::Unpack { guest: GuestOffset(guest), len, unpacked, codec, input, at }, ops);
                }
            }
            self.frontier.pop();
            self.given = 0;
            self.bundle.left = self.bundle.left.saturating_sub(1);
        }
        Ok(())
    }

    /// Gives what is at hand of the first extent, which is data. Whether that was all.
    fn serve_data(&mut self, guest: u64, at: u64, len: u64, ops: &mut Vec<Op>) -> Result<bool> {
        while self.given < len {
            let from = at + self.given;
            let Reach::AtHand(there) = self.held.reach(from, len - self.given) else { return Ok(false) };
            for part in self.held.view(from, there)? {
                let guest = guest + self.given;
                self.given += part.len();
                match part {
                    Part::Bytes(bytes) => self.give(Op::Write { guest: GuestOffset(guest), bytes }, ops),
                    Part::Hole(len) => {
                        if self.format.plain() {
                            self.allocated = self.allocated.saturating_sub(len);
                        }
                        self.zero(guest, len, ops);
                    }
                }
            }
            self.release(from, from + there);
        }
        Ok(true)
    }

    fn release(&mut self, start: u64, end: u64) {
        for Range { start, end } in self.bundle.release(start, end) {
            self.held.remove(start, end);
        }
    }

    fn zero(&mut self, guest: u64, len: u64, ops: &mut Vec<Op>) {
        let (start, before) = self.zeros;
        if start + before == guest && before > 0 {
            self.zeros.1 += len;
        } else {
            self.flush_zeros(ops);
            self.zeros = (guest, len);
        }
    }

    fn give(&mut self, op: Op, ops: &mut Vec<Op>) {
        self.flush_zeros(ops);
        ops.push(op);
    }

    fn flush_zeros(&mut self, ops: &mut Vec<Op>) {
        let (guest, len) = std::mem::take(&mut self.zeros);
        if len > 0 {
            ops.push(Op::Zero { guest: GuestOffset(guest), len });
        }
    }
}

fn turn(page: &Page) -> Turn {
    (page.tag, page.index, page.at.0)
}
