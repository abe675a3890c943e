//! From arriving bytes to writes.
//!
//! A [`Plan`] drives one [`Format`] in one of two ways, and gives the disk in whatever order the file has.
//!
//! *Streaming* ([`Plan::streaming`]): the bytes of the file come once, in order ([`Plan::push`]). Pages are read as they
//! pass, data whose place is known becomes an [`Op`] at once, and bytes whose role is not known yet are held. When more
//! would have to be held than the limit allows, they are either spilled ([`Plan::set_spill`]) or let go: what turns out
//! to be missing is remembered, and another pass over the same file ([`Plan::end_pass`] says so) brings it. Each pass
//! resolves at least one level of tables, so there are at most three or four. Before that ([`Plan::is_crowded`]), tables
//! that are still to come can be brought from elsewhere ([`Plan::pages_ahead`]).
//!
//! *Ranged* ([`Plan::ranged`]): the caller fetches the pages ([`Plan::page_batch`], [`Plan::supply`]), then the data of a
//! window of the disk in file order ([`Plan::data_runs`], [`Plan::seek`], [`Plan::push`]), and so on: memory depends on
//! the window, not on the disk.
//!
//! An [`Ordered`] plan reads by ranges, too, but gives the disk from its first byte to its last, for targets that can't be
//! written anywhere else.
//!
//! Every guest byte becomes exactly one op. Data that never comes is an error, never zeros.

mod ahead;
mod arrived;
mod found;
mod held;
mod op;
mod ordered;
mod pass;
mod pending;
mod ranges;
mod sharing;
mod span;
mod surplus;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use held::{Held, Part};
use pending::Pending;
use sharing::Sharing;

pub use held::Spill;
pub use op::{Op, Piece};
pub use ordered::Ordered;
pub use pass::Pass;

use crate::{Error, Extent, Format, Found, Geometry, Kind, Page, Result};

/// How much a plan may keep in memory.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Held bytes of the file.
    pub held: u64,
    /// Tables: outstanding pages and extents.
    pub tables: u64,
}

impl Limits {
    fn too_many_tables(&self) -> Error {
        let message = format!(
            "the tables of this image need more than {} MiB of memory; give more with --memory",
            self.tables >> 20
        );
        Error::new(Kind::Oversized, message)
    }
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
    sharing: Sharing,
    /// Host ranges that became ops and can go when nobody looks at them any more.
    used: Vec<(u64, u64)>,
    pass: u32,
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
            sharing: Sharing::default(),
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

    fn truncated(&self, at: u64, end: u64) -> Error {
        let message = format!("data at {at:#x} is missing, the file ends at {end:#x}");
        Error::new(Kind::Truncated, message).of(self.format.name()).at(at)
    }
}
