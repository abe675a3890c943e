//! A bounded place for bytes that must wait and don't fit into memory.

mod whole;

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use bytes::{Bytes, BytesMut};
use importer_disk as disk;
use rustix::fs::{FallocateFlags, Mode, OFlags};

use crate::{Error, Kind, Result};
pub(crate) use whole::Whole;

/// An unnamed temporary file on the side of the target. It goes when it is closed, whatever happens.
pub(crate) struct Spool {
    file: File,
    end: u64,
    in_use: u64,
    limit: u64,
}

impl Spool {
    /// In `directory`, with room for `limit` bytes. Nothing is used until something is stored.
    pub(crate) fn new(directory: &Path, limit: u64) -> Result<Self> {
        Ok(Self { file: unnamed(directory)?, end: 0, in_use: 0, limit })
    }
}

/// A file that goes when it is closed.
fn unnamed(directory: &Path) -> Result<File> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let file = rustix::fs::open(directory, flags, Mode::RUSR | Mode::WUSR).map_err(|error| {
        Error::new(Kind::Target, format!("can't make a spool file in {}", directory.display())).because(error)
    })?;
    Ok(File::from(file))
}

impl disk::plan::Spill for Spool {
    fn store(&mut self, bytes: &[u8]) -> disk::Result<u64> {
        let len = bytes.len() as u64;
        if self.in_use + len > self.limit {
            let message = format!(
                "the tables of this image come so late that more than {} MiB would have to wait for them; raise \
                 --spool-limit, or give the image as a file or from a server with ranges",
                self.limit >> 20
            );
            return Err(disk::Error::new(disk::Kind::Spool, message));
        }
        let slot = self.end;
        self.file.write_all_at(bytes, slot).map_err(|error| failed("write to", &error))?;
        self.end += len;
        self.in_use += len;
        Ok(slot)
    }

    fn load(&mut self, slot: u64, skip: u64, len: usize) -> disk::Result<Bytes> {
        let mut bytes = BytesMut::zeroed(len);
        self.file.read_exact_at(&mut bytes, slot + skip).map_err(|error| failed("read from", &error))?;
        Ok(bytes.freeze())
    }

    fn free(&mut self, slot: u64, skip: u64, len: u64) {
        self.in_use = self.in_use.saturating_sub(len);
        // A file system that can't punch holes keeps the space until the end.
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        if let Err(error) = rustix::fs::fallocate(&self.file, flags, slot + skip, len) {
            tracing::debug!(%error, "the spool can't give space back");
        }
    }
}

fn failed(what: &str, error: &std::io::Error) -> disk::Error {
    disk::Error::new(disk::Kind::Spool, format!("can't {what} the spool file: {error}"))
}
