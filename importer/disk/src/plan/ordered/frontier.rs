//! What was found of the disk, up to where nothing is missing.

use std::collections::{BTreeMap, VecDeque};

use crate::format::continues;
use crate::{Body, Error, Extent, GuestOffset, Kind, Result};

/// Extents in the order of the disk. Tables are read in that order, so what comes before its turn is little: spans
/// without a table, which a level above knows.
#[derive(Debug, Default)]
pub(super) struct Frontier {
    /// Without a gap, up to `end`.
    ready: VecDeque<Extent>,
    end: u64,
    /// Beyond it: zeros with their length, and others.
    zeros: BTreeMap<u64, u64>,
    early: BTreeMap<u64, Extent>,
}

impl Frontier {
    /// Takes what was found. No byte of the disk is found twice.
    pub(super) fn add(&mut self, extent: Extent) -> Result<()> {
        let guest = extent.guest.0;
        if guest > self.end {
            match extent.body {
                Body::Zero => drop(self.zeros.insert(guest, extent.len)),
                _ => drop(self.early.insert(guest, extent)),
            }
            return Ok(());
        }
        if guest < self.end {
            return Err(Error::new(Kind::Ours, format!("guest offset {} is given twice", extent.guest)));
        }
        self.append(extent);
        loop {
            let guest = GuestOffset(self.end);
            if let Some(len) = self.zeros.remove(&guest.0) {
                self.append(Extent { guest, len, body: Body::Zero });
            } else if let Some(extent) = self.early.remove(&guest.0) {
                self.append(extent);
            } else {
                return Ok(());
            }
        }
    }

    fn append(&mut self, extent: Extent) {
        self.end = extent.end();
        match self.ready.back_mut() {
            Some(last) if continues(last, &extent) => last.len += extent.len,
            _ => self.ready.push_back(extent),
        }
    }

    /// The next extent of the disk, where it is known.
    pub(super) fn front(&self) -> Option<&Extent> {
        self.ready.front()
    }

    pub(super) fn pop(&mut self) -> Option<Extent> {
        self.ready.pop_front()
    }

    /// The known extents from the next one on.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Extent> + '_ {
        self.ready.iter()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ready.is_empty()
    }

    /// The guest offset up to which all is known.
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// Memory for what is known up to there, in bytes.
    pub(super) fn weight(&self) -> u64 {
        self.ready.len() as u64 * size_of::<Extent>() as u64
    }

    /// Memory for what is known beyond it, in bytes, with what the trees add when their nodes are half full.
    pub(super) fn weight_beyond(&self) -> u64 {
        self.zeros.len() as u64 * 32 + self.early.len() as u64 * 2 * (size_of::<Extent>() as u64 + 8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HostOffset;

    fn zero(guest: u64, len: u64) -> Extent {
        Extent { guest: GuestOffset(guest), len, body: Body::Zero }
    }

    fn data(guest: u64, len: u64, at: u64) -> Extent {
        Extent { guest: GuestOffset(guest), len, body: Body::Data { at: HostOffset(at) } }
    }

    #[test]
    fn what_comes_before_its_turn_waits_and_what_continues_is_joined() {
        let mut frontier = Frontier::default();
        for early in [data(30, 10, 7), zero(10, 5), zero(20, 10), data(15, 5, 100)] {
            frontier.add(early).unwrap();
        }
        assert!(frontier.is_empty() && frontier.weight_beyond() > 0);
        frontier.add(zero(0, 10)).unwrap();
        assert_eq!(frontier.end(), 40);
        assert_eq!(frontier.weight_beyond(), 0);
        frontier.add(data(40, 2, 17)).unwrap();
        frontier.add(data(42, 2, 20)).unwrap();
        let found: Vec<_> = frontier.iter().cloned().collect();
        assert_eq!(found, [zero(0, 15), data(15, 5, 100), zero(20, 10), data(30, 12, 7), data(42, 2, 20)]);
        assert_eq!(frontier.add(zero(43, 1)).unwrap_err().kind(), Kind::Ours);
    }
}
