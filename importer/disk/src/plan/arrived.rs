//! Bytes that have come, as ops.

use super::Plan;
use super::held::{Part, Reach};
use super::op::Op;
use super::span::part_of;
use crate::{Body, Error, GuestOffset, Kind, Result, SECTOR};

impl Plan {
    /// Emits everything whose bytes are at hand.
    pub(super) fn serve(&mut self, ops: &mut Vec<Op>) -> Result<()> {
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
                    self.used.push((at.0, (end - 1) & !(SECTOR - 1)));
                }
                Body::Zero | Body::Inline(_) => {}
            }
        }
        for extent in later {
            self.pending.insert(extent);
        }
        Ok(())
    }

    pub(super) fn emit_data(&mut self, guest: u64, at: u64, len: u64, ops: &mut Vec<Op>) -> Result<()> {
        let mut guest = guest;
        for part in self.held.view(at, len)? {
            let done = match part {
                Part::Bytes(bytes) => {
                    let len = bytes.len() as u64;
                    ops.push(Op::Write { guest: GuestOffset(guest), bytes });
                    len
                }
                Part::Hole(len) => {
                    if self.format.plain() {
                        self.allocated = self.allocated.saturating_sub(len);
                    }
                    ops.push(Op::Zero { guest: GuestOffset(guest), len });
                    len
                }
            };
            guest += done;
        }
        Ok(())
    }
}
