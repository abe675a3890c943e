//! Writing a file or a device, past the page cache where that is better.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use rustix::fs::{Mode, OFlags};

use super::writeback::Writeback;
use crate::slab::{PAGE, Slab};

/// Writes at offsets, from several threads.
///
/// What is large goes past the page cache (`O_DIRECT`): an image is read by a guest later or never, the cache of the
/// node is for others, and the copy into it costs more than all else that is done to plain bytes. Measured on ext4, 2.1
/// GB of a raw disk from HTTP: 3.2 s of kernel time instead of 4.3 to 5.0, and of compressed qcow2 0.8 instead of 2.1.
/// What is small or lies across pages goes through the cache, which gathers it.
#[derive(Debug)]
pub(super) struct Writer {
    /// The same file, open for direct writes; `None` where the file system has none.
    direct: Option<File>,
    /// Whether a direct write was refused.
    refused: AtomicBool,
    /// Aligned memory for bytes that lie elsewhere: as many as there are threads.
    slabs: Mutex<Vec<Slab>>,
    writeback: Writeback,
}

impl Writer {
    /// For what `file` is.
    pub(super) fn new(file: &File) -> Self {
        Self {
            direct: reopen(file),
            refused: AtomicBool::new(false),
            slabs: Mutex::default(),
            writeback: Writeback::default(),
        }
    }

    /// Whether bytes are worth joining: a direct write waits for the device, the page cache joins by itself.
    pub(super) fn joins(&self) -> bool {
        self.direct.is_some() && !self.refused.load(Ordering::Relaxed)
    }

    /// Writes all of `bytes` at offset `at` of `file`, the one this was made for.
    pub(super) fn write_all_at(&self, file: &File, bytes: &[u8], at: u64) -> io::Result<()> {
        let Some((head, body, tail)) = split(bytes, at) else { return self.write_cached(file, bytes, at) };
        let (begin, end) = (at + head.len() as u64, at + (head.len() + body.len()) as u64);
        if !self.write_direct(body, begin)? {
            return self.write_cached(file, bytes, at);
        }
        self.write_cached(file, head, at)?;
        self.write_cached(file, tail, end)
    }

    fn write_cached(&self, file: &File, bytes: &[u8], at: u64) -> io::Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        file.write_all_at(bytes, at)?;
        self.writeback.wrote(file, bytes.len() as u64)
    }

    /// Writes whole pages. False when it is refused: then some of them may be written.
    fn write_direct(&self, mut body: &[u8], mut at: u64) -> io::Result<bool> {
        let Some(direct) = self.direct.as_ref().filter(|_| !self.refused.load(Ordering::Relaxed)) else {
            return Ok(false);
        };
        if body.as_ptr().align_offset(PAGE) == 0 {
            return self.judge(direct.write_all_at(body, at));
        }
        let mut slab = self.slabs.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default();
        let mut written = Ok(true);
        while let (true, Some((part, rest))) = (matches!(written, Ok(true)), cut(body)) {
            slab.grow(part.len());
            written = match slab.bytes_mut().get_mut(..part.len()) {
                Some(copy) => {
                    copy.copy_from_slice(part);
                    self.judge(direct.write_all_at(copy, at))
                }
                None => Ok(false),
            };
            at += part.len() as u64;
            body = rest;
        }
        self.slabs.lock().unwrap_or_else(PoisonError::into_inner).push(slab);
        written
    }

    /// EINVAL is what direct writes are refused with, at the first or, on some file systems, at any.
    fn judge(&self, result: io::Result<()>) -> io::Result<bool> {
        match result {
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                self.refused.store(true, Ordering::Relaxed);
                Ok(false)
            }
            result => result.map(|()| true),
        }
    }
}

/// Opens what `file` is once more, for direct writes. A duplicate would share its flags.
fn reopen(file: &File) -> Option<File> {
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    match rustix::fs::open(path, OFlags::WRONLY | OFlags::DIRECT | OFlags::CLOEXEC, Mode::empty()) {
        Ok(direct) => Some(File::from(direct)),
        Err(error) => {
            tracing::debug!(%error, "no direct writes");
            None
        }
    }
}

/// The part of `bytes` that fills whole pages of the file, with what is before and behind it; `None` when it is small.
fn split(bytes: &[u8], at: u64) -> Option<(&[u8], &[u8], &[u8])> {
    let head = usize::try_from(at.checked_next_multiple_of(PAGE as u64)? - at).ok()?;
    let (head, rest) = bytes.split_at_checked(head)?;
    let (body, tail) = rest.split_at_checked(rest.len() - rest.len() % PAGE)?;
    (body.len() >= DIRECT_MIN).then_some((head, body, tail))
}

/// As much of `body` as a slab holds, and the rest; `None` at the end.
fn cut(body: &[u8]) -> Option<(&[u8], &[u8])> {
    (!body.is_empty()).then(|| body.split_at(body.len().min(SLAB)))
}

/// A direct write waits for the device, which for less than this is slower than a copy.
const DIRECT_MIN: usize = 128 << 10;

/// As much as is copied for one write.
const SLAB: usize = 1 << 20;

#[cfg(test)]
mod tests;
