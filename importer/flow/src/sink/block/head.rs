//! The first MiB of a device, which is written last.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::super::continuation::{Found, UNREADABLE};
use super::super::stored::Stored;
use super::super::zeros::{self, BLOCK};

/// How many bytes are held back: boot sectors, partition tables and the superblocks of file systems lie there.
pub(super) const HEAD: u64 = 1 << 20;

/// Where checkpoints lie as long as the disk is not complete, in turn. No boot sector, partition table, volume manager or
/// file system has its signature there (btrfs at 64 KiB and ZFS up to 256 KiB come closest).
const SLOTS: [usize; 2] = [512 << 10, 768 << 10];

/// The first [`HEAD`] bytes of the disk. Costs that much memory.
#[derive(Debug)]
pub(super) struct Head(Mutex<Vec<u8>>);

impl Head {
    /// A head of `len` zeros.
    pub(super) fn new(len: usize) -> Self {
        Self(Mutex::new(vec![0; len]))
    }

    /// Takes what of `bytes`, which belong at `at`, lies in the head; gives back the offset and the bytes of the rest.
    pub(super) fn take<'a>(&self, at: u64, bytes: &'a [u8]) -> (u64, &'a [u8]) {
        let Ok(start) = usize::try_from(at) else { return (at, bytes) };
        let mut head = self.lock();
        let Some(room) = head.get_mut(start..).filter(|room| !room.is_empty()) else { return (at, bytes) };
        let (ours, rest) = bytes.split_at(room.len().min(bytes.len()));
        room.split_at_mut(ours.len()).0.copy_from_slice(ours);
        (at.saturating_add(ours.len() as u64), rest)
    }

    /// Makes the head of `device` read as zeros, now and after a crash.
    pub(super) fn invalidate(&self, device: &File) -> io::Result<()> {
        device.write_all_at(&vec![0; self.lock().len()], 0)?;
        device.sync_data()
    }

    /// Writes the head to `device`, whose head is zero and all else written, so that it is complete only with the last
    /// write of all: that of one block which is not zero. A process is not killed inside a block, so it never leaves a
    /// boot sector and only half of what that boots.
    pub(super) fn publish(&self, device: &File) -> io::Result<()> {
        let head = self.lock();
        let blocks = || (0u64..).step_by(BLOCK).zip(head.chunks(BLOCK)).filter(|(_, block)| !zeros::is_zero(block));
        device.sync_all()?;
        for (at, block) in blocks().skip(1) {
            device.write_all_at(block, at)?;
        }
        device.sync_all()?;
        if let Some((at, block)) = blocks().next() {
            device.write_all_at(block, at)?;
        }
        device.sync_all()
    }

    /// The checkpoint in the head of `device`, if the rest of the head is as it was left: zeros.
    pub(super) fn find(&self, device: &File) -> io::Result<Found> {
        let mut bytes = vec![0; self.lock().len()];
        device.read_exact_at(&mut bytes, 0)?;
        let mut latest: Option<Stored> = None;
        let mut begun = false;
        for slot in SLOTS {
            begun |= bytes.get(slot..).is_some_and(Stored::is_begun);
            let Some(stored) = bytes.get(slot..).and_then(Stored::read) else { continue };
            if latest.as_ref().is_none_or(|latest| latest.sequence < stored.sequence) {
                latest = Some(stored);
            }
        }
        // One that was being written when the power failed is none, and no disk either.
        for slot in SLOTS {
            if let Some(place) = bytes.get_mut(slot..slot + Stored::MAX) {
                place.fill(0);
            }
        }
        Ok(match latest {
            Some(stored) if zeros::is_zero(&bytes) => Found::Whole(stored),
            Some(_) => Found::Lost("something else was written where it begins"),
            // One that was being written when the power failed, or a later version's.
            None if begun && zeros::is_zero(&bytes) => Found::Lost(UNREADABLE),
            None => Found::Nothing,
        })
    }

    /// Writes a checkpoint to `device`, durably. The one before stays until then.
    pub(super) fn store(&self, device: &File, stored: &Stored) -> io::Result<bool> {
        let place = usize::try_from(stored.sequence % SLOTS.len() as u64).unwrap_or_default();
        let (Some(&slot), Some(bytes)) = (SLOTS.get(place), stored.to_bytes()) else { return Ok(false) };
        if self.lock().len() < slot + Stored::MAX {
            return Ok(false);
        }
        device.write_all_at(&bytes, slot as u64)?;
        device.sync_data()?;
        Ok(true)
    }

    /// Removes the checkpoints.
    pub(super) fn forget(device: &File) -> io::Result<()> {
        for slot in SLOTS {
            device.write_all_at(&[0; Stored::MAX], slot as u64)?;
        }
        device.sync_data()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<u8>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
