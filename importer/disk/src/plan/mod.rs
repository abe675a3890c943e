//! From arriving bytes to writes.
//!
//! A [`Plan`] drives one [`Format`] in one of two ways.
//!
//! *Streaming* ([`Plan::streaming`]): the bytes of the file come once, in order ([`Plan::push`]). Pages are read as they
//! pass, data whose place is known becomes an [`Op`] at once, and bytes whose role is not known yet are held. When more
//! would have to be held than the limit allows, they are either spilled ([`Plan::set_spill`]) or let go: what turns out
//! to be missing is remembered, and another pass over the same file ([`Plan::end_pass`] says so) brings it. Each pass
//! resolves at least one level of tables, so there are at most three or four.
//!
//! *Ranged* ([`Plan::ranged`]): the caller fetches the pages ([`Plan::page_batch`], [`Plan::supply`]), then the data of a
//! window of the disk in file order ([`Plan::data_runs`], [`Plan::seek`], [`Plan::push`]), and so on: memory depends on
//! the window, not on the disk.
//!
//! Every guest byte becomes exactly one op. Data that never comes is an error, never zeros.

mod held;
mod op;
mod pending;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use bytes::Bytes;
use held::{Held, Part, Reach};
use pending::Pending;

pub use held::Spill;
pub use op::{Op, Piece};

use crate::{Body, Error, Extent, Format, Found, Geometry, HostOffset, Kind, Page, Result};

/// How much a plan may keep in memory.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Held bytes of the file.
    pub held: u64,
    /// Tables: outstanding pages and extents.
    pub tables: u64,
}

/// Drives a format over arriving bytes.
pub struct Plan {
    format: Box<dyn Format>,
    limits: Limits,
    ranged: bool,
    file_len: Option<u64>,
    /// Where the next byte pushed lies in the file.
    head: u64,
    /// Pages to come, by offset.
    pages: BTreeMap<(u64, u32, u64), Page>,
    /// Pages that had passed, and were gone, when they were asked for.
    missed: Vec<Page>,
    /// Extents whose bytes are to come.
    pending: Pending,
    /// Extents that had passed, and were gone, when they were found.
    late: Vec<Extent>,
    /// Host ranges that hold nothing for the guest, joined and sorted.
    skips: Vec<(u64, u64)>,
    held: Held,
    finished: bool,
    allocated: u64,
    /// Bytes of the file that extents refer to, counted once per reference.
    referred: u64,
    /// Guest bytes of extents that begin where another does.
    shared: u64,
    /// Host ranges that became ops and can go when nobody looks at them any more.
    used: Vec<(u64, u64)>,
    pass: u32,
}

/// How a pass over the file ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    /// Everything was found and emitted.
    Done,
    /// Some tables or data had passed before their place was known: push the same file again from its start.
    Again,
}

impl Plan {
    /// A plan for a file whose bytes come in order. `file_len` is its length, if known.
    pub fn streaming(
        format: Box<dyn Format>,
        file_len: Option<u64>,
        limits: Limits,
        ops: &mut Vec<Op>,
    ) -> Result<Self> {
        Self::new(format, file_len, limits, false, ops)
    }

    /// A plan for a file of `file_len` bytes that can be read at any offset.
    pub fn ranged(format: Box<dyn Format>, file_len: u64, limits: Limits, ops: &mut Vec<Op>) -> Result<Self> {
        Self::new(format, Some(file_len), limits, true, ops)
    }

    fn new(
        format: Box<dyn Format>,
        file_len: Option<u64>,
        limits: Limits,
        ranged: bool,
        ops: &mut Vec<Op>,
    ) -> Result<Self> {
        let mut plan = Self {
            format,
            limits,
            ranged,
            file_len,
            head: 0,
            pages: BTreeMap::new(),
            missed: Vec::new(),
            pending: Pending::default(),
            late: Vec::new(),
            skips: Vec::new(),
            held: Held::default(),
            finished: false,
            allocated: 0,
            referred: 0,
            shared: 0,
            used: Vec::new(),
            pass: 1,
        };
        let mut found = Found::default();
        plan.format.start(&mut found)?;
        plan.take_found(found, ops)?;
        Ok(plan)
    }

    /// Where to put bytes that don't fit into memory, for a file that can't be read again.
    pub fn set_spill(&mut self, spill: Box<dyn Spill>) {
        self.held.set_spill(spill);
    }

    /// Whether bytes were spilled.
    #[must_use]
    pub fn spilled(&self) -> bool {
        self.held.spilled()
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

    /// The next bytes of the file.
    pub fn push(&mut self, piece: Piece, ops: &mut Vec<Op>) -> Result<()> {
        let start = self.head;
        let (len, part) = match piece {
            Piece::Bytes(bytes) => (bytes.len() as u64, Part::Bytes(bytes)),
            Piece::Hole(len) => (len, Part::Hole(len)),
        };
        self.head = start.checked_add(len).ok_or_else(|| Error::new(Kind::Corrupt, "the file never ends"))?;
        self.held.insert(start, part);
        if !self.ranged {
            self.expand_ready(None, ops)?;
        }
        self.serve(ops)?;
        self.let_go(start)?;
        self.held.compact(start, self.head);
        Ok(())
    }

    /// Reads every page that is whole by now; at the end of the file (`end`), also those that are cut there.
    fn expand_ready(&mut self, end: Option<u64>, ops: &mut Vec<Op>) -> Result<()> {
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

    fn at_hand(&self, at: u64, len: u64) -> bool {
        len == 0 || self.held.reach(at, len) == Reach::AtHand(len)
    }

    fn expand(&mut self, page: &Page, bytes: &[u8], ops: &mut Vec<Op>) -> Result<()> {
        let mut found = Found::default();
        self.format.expand(page, bytes, &mut found)?;
        self.take_found(found, ops)
    }

    fn take_found(&mut self, found: Found, ops: &mut Vec<Op>) -> Result<()> {
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
        let tables = self.pages.len() as u64 * 72
            + self.missed.len() as u64 * 32
            + self.pending.len() as u64 * 80
            + self.late.len() as u64 * 64;
        // A window of a ranged plan is bounded by the caller; what is over here are the pages.
        if tables > self.limits.tables && (!self.ranged || self.pages.len() as u64 * 72 > self.limits.tables) {
            let message = format!(
                "the tables of this image need more than {} MiB of memory; give more with --memory",
                self.limits.tables >> 20
            );
            return Err(Error::new(Kind::Oversized, message).of(self.format.name()));
        }
        Ok(())
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

    /// Refuses an image that uses the same bytes over and over: no tool writes one, and it is how a small file unfolds
    /// into a disk of data.
    fn count_reference(&mut self, at: u64, extent: &Extent, len: u64) -> Result<()> {
        // Without a length, only what has passed can be compared with what there is.
        let passed = if self.file_len.is_some() { len } else { len.min(self.head.saturating_sub(at)) };
        self.referred = self.referred.saturating_add(passed);
        if self.pending.has_start(at) {
            self.shared = self.shared.saturating_add(extent.len);
        }
        let there = self.file_len.unwrap_or(self.head);
        let needed = if matches!(extent.body, Body::Data { .. }) { len } else { 1 };
        if self.file_len.is_some_and(|file_len| at.saturating_add(needed) > file_len) {
            return Err(self.truncated(at.max(there), there));
        }
        let allowed = there.saturating_mul(MAX_SHARING).saturating_add(SHARING_SLACK);
        if self.shared.max(self.referred) > allowed {
            let message = format!(
                "the image unfolds a file of {there} bytes by using the same data more than {MAX_SHARING} times over; \
                 it is refused as an expansion bomb"
            );
            return Err(Error::new(Kind::Bomb, message).of(self.format.name()));
        }
        Ok(())
    }

    fn truncated(&self, at: u64, end: u64) -> Error {
        let message = format!("data at {at:#x} is missing, the file ends at {end:#x}");
        Error::new(Kind::Truncated, message).of(self.format.name()).at(at)
    }

    /// Emits everything whose bytes are at hand.
    fn serve(&mut self, ops: &mut Vec<Op>) -> Result<()> {
        let mut later = Vec::new();
        while let Some(extent) = self.pending.pop_before(self.head) {
            match extent.body {
                Body::Data { at } => {
                    let len = extent.len.min(self.head - at.0);
                    if self.held.reach(at.0, len) != Reach::AtHand(len) {
                        return Err(Error::new(Kind::Ours, format!("data at {at} slipped by")));
                    }
                    self.emit_data(extent.guest.0, at.0, len, ops)?;
                    self.used.push((at.0, at.0 + len));
                    if len < extent.len {
                        later.push(part_of(&extent, len, extent.len - len));
                    }
                }
                Body::Packed { at, len, unpacked, codec } => {
                    let end = at.0.saturating_add(u64::from(len));
                    if end > self.head && self.file_len.is_none_or(|file_len| self.head < file_len.min(end)) {
                        later.push(extent);
                        continue;
                    }
                    let end = end.min(self.head);
                    if !self.at_hand(at.0, end - at.0) {
                        return Err(Error::new(Kind::Ours, format!("data at {at} slipped by")));
                    }
                    let input = self.held.bytes(at.0, end - at.0)?;
                    ops.push(Op::Unpack { guest: extent.guest, len: extent.len, unpacked, codec, input, at });
                    // The next unit may begin in the last sector of this one, and its table may still be to come.
                    self.used.push((at.0, (end - 1) & !(crate::SECTOR - 1)));
                }
                Body::Zero | Body::Inline(_) => {}
            }
        }
        for extent in later {
            self.pending.insert(extent);
        }
        Ok(())
    }

    fn emit_data(&mut self, guest: u64, at: u64, len: u64, ops: &mut Vec<Op>) -> Result<()> {
        let mut guest = guest;
        for part in self.held.view(at, len)? {
            let done = match part {
                Part::Bytes(bytes) => {
                    let len = bytes.len() as u64;
                    ops.push(Op::Write { guest: crate::GuestOffset(guest), bytes });
                    len
                }
                Part::Hole(len) => {
                    ops.push(Op::Zero { guest: crate::GuestOffset(guest), len });
                    len
                }
            };
            guest += done;
        }
        Ok(())
    }

    /// Lets go of bytes that can't be needed, and of more when there are too many.
    fn let_go(&mut self, pushed_at: u64) -> Result<()> {
        let keep = self.begun();
        for (from, to) in std::mem::take(&mut self.used) {
            self.held.remove_except(from, to, &keep);
        }
        if self.ranged || self.pages.is_empty() {
            // Every table is known, or those to come lie behind: what has no place by now has none.
            self.held.retain(&keep);
            return Ok(());
        }
        let first = self.skips.partition_point(|(_, end)| *end <= pushed_at);
        for (start, end) in self.skips.get(first..).unwrap_or_default() {
            if *start >= self.head {
                break;
            }
            self.held.remove_except(*start, *end, &keep);
        }
        self.let_go_unreferenced(&keep);
        if self.held.in_memory() > self.limits.held {
            if self.held.has_spill() {
                self.held.spill_down_to(self.limits.held / 2, &keep)?;
            } else {
                self.held.retain(&keep);
            }
        }
        Ok(())
    }

    /// The host ranges of pages and packed units that have begun to arrive, sorted.
    fn begun(&self) -> Vec<(u64, u64)> {
        let pages = self.pages.range(..(self.head, 0, 0)).map(|(_, page)| (page.at.0, page.end()));
        let packed = self.pending.begun(self.head);
        let mut begun: Vec<_> = pages.chain(packed).collect();
        begun.sort_unstable();
        begun
    }

    /// Lets go of held bytes in blocks that, by the image's own bookkeeping, nothing more will refer to.
    fn let_go_unreferenced(&mut self, keep: &[(u64, u64)]) {
        if self.format.references(0).is_none() || self.held.in_memory() < LET_GO_ABOVE.min(self.limits.held / 4) {
            return;
        }
        let mut gone = Vec::new();
        for (at, len) in self.held.runs(0, self.head) {
            let mut from = at;
            while from < at + len {
                let Some((left, block)) = self.format.references(from) else { break };
                let end = ((from / block + 1) * block).min(at + len);
                if left == 0 && !keep.iter().any(|(start, stop)| *start < end && from < *stop) {
                    gone.push((from, end));
                }
                from = end;
            }
        }
        for (start, end) in gone {
            self.held.remove(start, end);
        }
    }

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

    /// Nothing may lie behind the end.
    fn check_inside(&self, end: u64) -> Result<()> {
        let pending = self.pending.first().into_iter();
        let late = self.late.iter().filter(|extent| host_end(extent) > end);
        match pending.chain(late).next() {
            Some(extent) => Err(self.truncated(host_start(extent).max(end), end)),
            None => Ok(()),
        }
    }

    fn finish(&mut self, ops: &mut Vec<Op>) -> Result<()> {
        if self.finished {
            return Ok(());
        }
        self.finished = true;
        let mut found = Found::default();
        self.format.finish(self.file_len, &mut found)?;
        if !found.pages.is_empty() {
            return Err(Error::new(Kind::Ours, "pages asked for at the end").of(self.format.name()));
        }
        self.take_found(found, ops)
    }
}

/// Reading by ranges.
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

    fn window_full(&self) -> bool {
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
}

fn host_start(extent: &Extent) -> u64 {
    match extent.body {
        Body::Data { at } | Body::Packed { at, .. } => at.0,
        Body::Zero | Body::Inline(_) => 0,
    }
}

fn host_end(extent: &Extent) -> u64 {
    match extent.body {
        Body::Data { at } => at.0.saturating_add(extent.len),
        Body::Packed { at, len, .. } => at.0.saturating_add(u64::from(len)),
        Body::Zero | Body::Inline(_) => 0,
    }
}

/// The part of a data extent that begins `skip` bytes into it.
fn part_of(extent: &Extent, skip: u64, len: u64) -> Extent {
    let body = match &extent.body {
        Body::Data { at } => Body::Data { at: HostOffset(at.0 + skip) },
        other => other.clone(),
    };
    Extent { guest: crate::GuestOffset(extent.guest.0 + skip), len, body }
}

/// Sorts ranges and joins those that touch.
fn join(ranges: &mut Vec<(u64, u64)>) {
    ranges.sort_unstable();
    ranges.dedup_by(|next, last| {
        let touches = next.0 <= last.1;
        if touches {
            last.1 = last.1.max(next.1);
        }
        touches
    });
}

/// How many times over an image may refer to its own data. Snapshots don't count: only the active layer is read.
const MAX_SHARING: u64 = 8;
/// Room for small images, whose last clusters are longer than the file.
const SHARING_SLACK: u64 = 16 << 20;

/// Below this many held bytes nobody looks for unreferenced blocks: the look costs more than the memory.
const LET_GO_ABOVE: u64 = 2 << 20;

/// Header, two levels of tables, data, and one to spare.
const MAX_PASSES: u32 = 5;

/// The bytes of a piece, for the tests and for callers that have them in one.
impl From<Bytes> for Piece {
    fn from(bytes: Bytes) -> Self {
        Self::Bytes(bytes)
    }
}
