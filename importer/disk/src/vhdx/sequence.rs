//! Finds the entries of the log that must be replayed. (MS-VHDX 2.3.2 and 2.3.3)

use super::entry::{Entry, Ring};
use crate::guid::Guid;
use crate::{Error, Kind, Result};

/// The active sequence, the oldest entry first: what was written to the log and perhaps not yet to its place. Never empty.
pub(super) fn active_sequence(ring: &Ring, guid: Guid) -> Result<Vec<Entry>> {
    let mut scan = Scan { ring, guid, known: vec![None; ring.sectors()], hashed: 0 };
    let mut active: Vec<Entry> = Vec::new();
    let mut tail = 0;
    loop {
        let (sequence, head) = scan.sequence_from(tail)?;
        let is_valid = !sequence.is_empty();
        if sequence.last().map(|entry| entry.sequence) > active.last().map(|entry| entry.sequence) {
            active = sequence;
        }
        let next = if is_valid { head } else { tail + 1 };
        let next = next.checked_rem(ring.sectors()).unwrap_or(0);
        // Back at the start, or once around.
        if next <= tail {
            break;
        }
        tail = next;
    }
    if active.is_empty() {
        //# MS-VHDX 2.3.3: "If the candidate active sequence is empty, then there are no valid log sequences, the file is
        //# corrupt, and the implementation MUST fail to open it."
        let message = "it was not closed properly and its log holds nothing valid; attach it to Hyper-V once, or \
                       repair it with qemu-img check -r all, if you trust it";
        return Err(Error::new(Kind::Corrupt, message));
    }
    Ok(active)
}

struct Scan<'a> {
    ring: &'a Ring,
    guid: Guid,
    /// What starts at each sector, once looked at, so that no entry is checked twice.
    known: Vec<Option<Option<Entry>>>,
    hashed: usize,
}

impl Scan<'_> {
    /// The sequence that ends with the newest of the entries that follow each other from sector `tail` on, without those
    /// before the one it names as its oldest; empty when that is not among them. Also, where the next would start.
    fn sequence_from(&mut self, tail: usize) -> Result<(Vec<Entry>, usize)> {
        let (mut entries, mut at, mut sectors): (Vec<Entry>, usize, usize) = (Vec::new(), tail, 0);
        while let Some(entry) = self.entry(at)? {
            let follows = entries.last().is_none_or(|last| last.sequence.checked_add(1) == Some(entry.sequence));
            sectors += entry.sectors;
            if !follows || sectors > self.ring.sectors() {
                break;
            }
            at = (at + entry.sectors) % self.ring.sectors();
            entries.push(entry);
        }
        let oldest = entries.last().map(|last| last.tail);
        match entries.iter().position(|entry| Some(entry.start) == oldest) {
            Some(oldest) => Ok((entries.split_off(oldest), at)),
            None => Ok((Vec::new(), at)),
        }
    }

    /// The valid entry that starts at this sector.
    fn entry(&mut self, at: usize) -> Result<Option<Entry>> {
        let Some(known) = self.known.get_mut(at) else { return Ok(None) };
        if let Some(known) = known {
            return Ok(*known);
        }
        let entry = Entry::read(self.ring, at, self.guid, &mut self.hashed);
        *known = Some(entry);
        // Padding behind the data of an entry may hold others. More than a few times the ring means that this was done
        // on purpose, to keep us busy.
        if self.hashed > self.ring.sectors().saturating_mul(4) {
            return Err(Error::new(Kind::Corrupt, "the entries of the log lie within each other"));
        }
        Ok(entry)
    }
}
