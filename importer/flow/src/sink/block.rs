//! A block device.

mod erase;
mod head;

use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::OFlags;

use self::erase::{ERASE_MIN, Eraser};
use self::head::{HEAD, Head};
use super::claim::Forget;
use super::continuation::{Continuation, Found};
use super::fault::{failed, write_failed};
use super::writer::Writer;
use super::{Claim, Earlier, Options, Written, zeros};
use crate::{Error, Kind, Result, Sink};

/// A block device, which may hold anything before and shows the disk afterwards, byte for byte.
///
/// - It is opened exclusively: a mounted one is refused.
/// - Its first MiB is zeroed before anything else is written and written last, so that neither an old nor a half disk
///   ever looks complete. That MiB is held in memory.
/// - With [`Options::resume`] checkpoints lie in that MiB until then, so they go where the device goes.
/// - Zeros are erased and not written where the device can do it and reads zeros afterwards, and written where not.
/// - What lies behind the disk stays as it was, but for the sector in which the disk ends (and the first MiB): the rest
///   of it is zeros.
/// - Sectors of any size: all goes through the page cache, which reads, changes and writes whole pages under their
///   lock. So clusters smaller than a sector need no buffer here, whatever their order and from however many threads;
///   they cost a read of each page they only fill in part.
/// - Dirty pages are bounded, so a slow disk holds up the import and not the memory of its container.
#[derive(Debug)]
pub struct BlockSink {
    device: Arc<File>,
    name: String,
    options: Options,
    /// The size of the device in bytes.
    capacity: u64,
    /// The size of its logical sectors in bytes.
    sector: u32,
    head: Head,
    eraser: Eraser,
    /// Whether the old head is gone.
    begun: Mutex<bool>,
    claim: Claim,
    data: AtomicU64,
    writer: Writer,
    continuation: Continuation,
}

impl BlockSink {
    /// A sink for the device at `path`. Changes nothing on it until the sink is prepared. [`Options::size`] is only
    /// compared with what the device has; [`Options::preallocate`] keeps a thin device from giving blocks back.
    pub fn open(path: &Path, options: Options) -> Result<Self> {
        let name = path.display().to_string();
        let refused = |what, error| failed(&name, what, error);
        // Exclusive without create: for a block device it means that no one has it mounted or open the same way.
        let exclusive = i32::try_from(OFlags::EXCL.bits()).unwrap_or_default();
        let mut device = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(exclusive)
            .open(path)
            .map_err(|error| refused("open the device", error))?;
        let kind = device.metadata().map_err(|error| refused("stat", error))?.file_type();
        if !kind.is_block_device() {
            return Err(Error::new(Kind::Target, format!("{name}: is no block device")));
        }
        let capacity = device.seek(SeekFrom::End(0)).map_err(|error| refused("tell the size of the device", error))?;
        let sector = rustix::fs::ioctl_blksszget(&device)
            .map_err(|error| refused("tell the sector size of the device", error.into()))?;
        let head = Head::new(usize::try_from(HEAD.min(capacity)).unwrap_or_default());
        let eraser = Eraser::new(sector, !options.preallocate);
        let (begun, data) = (Mutex::new(false), AtomicU64::new(0));
        let (claim, writer) = (Claim::default(), Writer::new(&device));
        let found = if options.resume { head.find(&device) } else { Ok(Found::Nothing) };
        let continuation = found
            .and_then(|found| Continuation::of(found, &device))
            .map_err(|error| refused("read what an earlier import left", error))?;
        let device = Arc::new(device);
        let sink =
            Self { device, name, options, capacity, sector, head, eraser, begun, claim, data, writer, continuation };
        if sink.continuation.is_continued() {
            let kept = sink.claim.keep(|| Ok(()), sink.forget());
            kept.map_err(|error| failed(&sink.name, "read what an earlier import left", error))?;
        }
        Ok(sink)
    }

    /// The way to remove the checkpoint. It holds the device, which nobody else gets until then.
    fn forget(&self) -> Forget {
        let device = Arc::clone(&self.device);
        Forget::new(move || Head::forget(&device))
    }

    /// Makes sure that the old head is gone.
    fn begin(&self) -> Result<()> {
        let mut begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        if !*begun {
            // What failed to be written before, by someone who closed it since, is reported to whoever syncs next. That
            // is not about our disk, and a second try after a full thin pool would fail for the first.
            if let Err(error) = self.device.sync_all() {
                tracing::debug!(target = %self.name, %error, "the device has an old error");
            }
            let continued = self.continuation.is_continued();
            self.claim
                .begin(|| if continued { Ok(()) } else { self.head.invalidate(&self.device) })
                .map_err(|error| failed(&self.name, "clear the start of the device", error))?;
            *begun = true;
        }
        Ok(())
    }

    /// The end of a range of the device; an error when there is no such range.
    fn end(&self, at: u64, len: u64) -> Result<u64> {
        match at.checked_add(len) {
            Some(end) if end <= self.capacity => Ok(end),
            end => Err(self.too_small(end.unwrap_or(u64::MAX), "at least ")),
        }
    }

    fn too_small(&self, size: u64, least: &str) -> Error {
        let Self { name, capacity, .. } = self;
        let text = format!("is too small: it has {capacity} bytes, {least}{size} are needed: use a larger device");
        Error::new(Kind::TooSmall, format!("{name}: {text}"))
    }

    fn erase(&self, at: u64, end: u64) -> Result<()> {
        self.eraser
            .erase(&self.device, &self.writer, at, end)
            .map_err(|error| self.write_failed(&format!("write zeros at offset {at:#x}"), error))
    }

    fn write_failed(&self, what: &str, error: io::Error) -> Error {
        write_failed(&self.name, what, self.data.load(Ordering::Relaxed), None, error)
    }
}

// === impl Sink ===

impl Sink for BlockSink {
    fn prepare(&self, size: Option<u64>) -> Result<()> {
        if let Some(size) = size {
            let size = self.options.fit(&self.name, size)?;
            if size > self.capacity {
                return Err(self.too_small(size, ""));
            }
        }
        self.begin()
    }

    fn write(&self, at: u64, bytes: &[u8]) -> Result<()> {
        self.end(at, bytes.len() as u64)?;
        self.begin()?;
        let len = bytes.len() as u64;
        let (at, rest) = self.head.take(at, bytes);
        if self.options.resume {
            self.continuation.wrote(at, rest);
        }
        let mut data = len - rest.len() as u64;
        for run in zeros::runs(at, rest, ERASE_MIN) {
            if run.zero {
                self.erase(run.at, run.at.saturating_add(run.bytes.len() as u64))?;
                continue;
            }
            self.device
                .write_all_at(run.bytes, run.at)
                .map_err(|error| self.write_failed(&format!("write at offset {:#x}", run.at), error))?;
            data += run.bytes.len() as u64;
        }
        self.data.fetch_add(data, Ordering::Relaxed);
        Ok(())
    }

    fn joins(&self) -> bool {
        self.writer.joins()
    }

    fn zero(&self, at: u64, len: u64) -> Result<()> {
        let end = self.end(at, len)?;
        self.begin()?;
        // The head is zeros wherever nothing was written to it.
        let at = at.max(HEAD);
        if at < end { self.erase(at, end) } else { Ok(()) }
    }

    fn finish(self: Box<Self>, size: u64) -> Result<Written> {
        self.prepare(Some(size))?;
        let end = size.next_multiple_of(u64::from(self.sector)).min(self.capacity);
        self.zero(size, end - size)?;
        let mut tried = false;
        let publish = || {
            tried = true;
            if self.options.resume && self.capacity >= HEAD {
                // Where checkpoints were there may be zeros on the disk, which are not written.
                Head::forget(&self.device)?;
            }
            self.head.publish(&self.device)
        };
        let published = self.claim.complete(publish);
        if let Err(error) = published {
            // What was given up is as it was left.
            if tried {
                self.claim.unkeep();
                // It may look complete, and may be not.
                if let Err(error) = self.head.invalidate(&self.device) {
                    tracing::warn!(target = %self.name, %error, "the start of the device could not be cleared");
                }
            }
            return Err(self.write_failed("sync the device", error));
        }
        Ok(Written { data: self.data.into_inner(), size })
    }

    fn name(&self) -> String {
        self.name.clone()
    }

    fn claim(&self) -> Claim {
        self.claim.clone()
    }

    fn resumable(&self) -> bool {
        self.options.resume
    }

    fn resumed(&self) -> Earlier {
        self.continuation.earlier()
    }

    fn start_over(&self) -> Result<()> {
        // The checkpoint goes with the old head, when something new is written.
        self.continuation.start_over();
        self.claim.unkeep();
        Ok(())
    }

    fn checkpoint(&self, record: &str) -> Result<()> {
        let stored = self.continuation.checkpoint(record);
        self.device.sync_all().map_err(|error| self.write_failed("sync the device", error))?;
        // On a device too small for it there is none.
        let mut kept = false;
        let write = || self.head.store(&self.device, &stored).map(|stored| kept = stored);
        self.claim.keep(write, self.forget()).map_err(|error| self.write_failed("write the checkpoint", error))?;
        if !kept {
            self.claim.unkeep();
        }
        Ok(())
    }

    fn forgets_below(&self) -> u64 {
        HEAD
    }

    fn read_back(&self, at: u64, into: &mut [u8]) -> Result<()> {
        let read = self.device.read_exact_at(into, at);
        read.map_err(|error| failed(&self.name, "read what an earlier import wrote", error))
    }
}

#[cfg(test)]
mod tests;
