//! The first MiB of a device, which is written last.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::super::zeros::{self, BLOCK};

/// How many bytes are held back: boot sectors, partition tables and the superblocks of file systems lie there.
pub(super) const HEAD: u64 = 1 << 20;

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

    fn lock(&self) -> MutexGuard<'_, Vec<u8>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
