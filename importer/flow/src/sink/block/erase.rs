//! Zeros on a device, by the cheapest way that it honours.

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicU8, Ordering};

use rustix::fs::FallocateFlags;

use super::super::writer::Writer;
use super::super::zeros::BLOCK;

/// Zeros shorter than this are written as data: a call that erases waits for the device, a write does not.
pub(super) const ERASE_MIN: usize = 64 << 10;

/// Makes ranges of a device read as zeros.
///
/// Never by a plain discard (BLKDISCARD), after which a device may show anything. First by
/// `fallocate(PUNCH_HOLE)`, which on a block device is WRITE ZEROES with leave to unmap: the kernel promises that
/// zeros read back, or refuses. Then `fallocate(ZERO_RANGE)`, the same as BLKZEROOUT: without unmapping, and with
/// zeros written by the kernel where the device has no command for it. Last by writing zeros.
#[derive(Debug)]
pub(super) struct Eraser {
    /// The first way that was not refused.
    way: AtomicU8,
    /// Both offset and length given to the kernel are a multiple of this: of a sector, and of a page, so that no page
    /// with foreign data is dropped from the page cache.
    granule: u64,
}

impl Eraser {
    /// For a device of this sector size. Blocks are given back to a thin device only if `unmap`.
    pub(super) fn new(sector: u32, unmap: bool) -> Self {
        let way = if unmap { PUNCH } else { ZERO_RANGE };
        Self { way: AtomicU8::new(way), granule: u64::from(sector).max(BLOCK as u64) }
    }

    /// Begins with the way of this number, as if those before were refused.
    #[cfg(test)]
    pub(super) fn force(&self, way: u8) {
        self.way.store(way, Ordering::Relaxed);
    }

    /// Makes `at..end` of `device` read as zeros.
    pub(super) fn erase(&self, device: &File, writer: &Writer, at: u64, end: u64) -> io::Result<()> {
        let first = at.checked_next_multiple_of(self.granule).unwrap_or(end);
        let last = end - end % self.granule;
        if first.saturating_add(ERASE_MIN as u64) > last {
            return fill(device, writer, at, end);
        }
        fill(device, writer, at, first)?;
        let mut next = first;
        while next < last {
            let len = (last - next).min(STEP);
            if !self.ask(device, next, len) {
                fill(device, writer, next, next + len)?;
            }
            next += len;
        }
        fill(device, writer, last, end)
    }

    /// Asks the kernel to do it. False: it did not.
    fn ask(&self, device: &File, at: u64, len: u64) -> bool {
        use rustix::io::Errno;

        for (way, flags) in WAYS {
            if way < self.way.load(Ordering::Relaxed) {
                continue;
            }
            match rustix::io::retry_on_intr(|| rustix::fs::fallocate(device, flags, at, len)) {
                Ok(()) => return true,
                Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::NODEV | Errno::INVAL) => {
                    tracing::debug!(?flags, "the device does not erase this way");
                    self.way.fetch_max(way + 1, Ordering::Relaxed);
                }
                // A failure of this range only. If the device is really broken, then writing will say so.
                Err(error) => tracing::debug!(?flags, at, len, %error, "the device failed to erase"),
            }
        }
        false
    }
}

/// Writes zeros to `at..end`.
fn fill(device: &File, writer: &Writer, mut at: u64, end: u64) -> io::Result<()> {
    static ZEROS: [u8; 1 << 20] = [0; 1 << 20];
    while at < end {
        let len = usize::try_from(end - at).unwrap_or(usize::MAX).min(ZEROS.len());
        writer.write_all_at(device, ZEROS.get(..len).unwrap_or_default(), at)?;
        at += len as u64;
    }
    Ok(())
}

const PUNCH: u8 = 0;
const ZERO_RANGE: u8 = 1;
const WAYS: [(u8, FallocateFlags); 2] = [
    (PUNCH, FallocateFlags::PUNCH_HOLE.union(FallocateFlags::KEEP_SIZE)),
    (ZERO_RANGE, FallocateFlags::ZERO_RANGE.union(FallocateFlags::KEEP_SIZE)),
];

/// The most that is asked for in one call, which can't be interrupted.
const STEP: u64 = 1 << 30;
