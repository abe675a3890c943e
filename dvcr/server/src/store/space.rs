//! Room on the file system, and the quota.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::layout::Layout;
use crate::error::{Error, Kind, Result};

/// How much may be stored.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits {
    /// Bytes of all content together; none: as much as fits.
    pub quota: Option<u64>,
    /// Bytes of the file system that stay free; none: 2 % of it, at most 256 MiB.
    pub reserve: Option<u64>,
}

/// How much room there is, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// What the file system can hold.
    pub total: u64,
    /// What is free for us.
    pub free: u64,
    /// What stays free.
    pub reserve: u64,
    /// How much may be stored, if that is limited.
    pub quota: Option<u64>,
    /// What is stored, if there is a quota and it was counted.
    pub used: Option<u64>,
}

impl Room {
    /// Whether nothing can be stored any more.
    #[must_use]
    pub fn is_full(&self) -> bool {
        let is_used_up = self.quota.zip(self.used).is_some_and(|(quota, used)| used >= quota);
        is_used_up || self.free <= self.reserve
    }
}

pub(super) struct Space {
    root: PathBuf,
    counted: Vec<PathBuf>,
    limits: Limits,
    used: Mutex<Option<Used>>,
}

/// What is stored, and what came since it was counted.
struct Used {
    bytes: u64,
    /// When it was counted, unless something was removed since.
    at: Option<Instant>,
}

impl Space {
    pub(super) fn new(layout: &Layout, limits: Limits) -> Self {
        Self {
            root: layout.root().to_owned(),
            counted: vec![layout.blobs(), layout.uploads()],
            limits,
            used: Mutex::new(None),
        }
    }

    pub(super) fn room(&self) -> Result<Room> {
        let stat = rustix::fs::statvfs(&self.root).map_err(|error| Error::io(self.root.display(), &error.into()))?;
        let total = stat.f_blocks.saturating_mul(stat.f_frsize);
        let free = stat.f_bavail.saturating_mul(stat.f_frsize);
        let reserve = self.limits.reserve.unwrap_or_else(|| (total / 50).min(RESERVE));
        let used = match self.used.lock() {
            Ok(used) => used.as_ref().map(|used| used.bytes),
            Err(_) => None,
        };
        Ok(Room { total, free, reserve, quota: self.limits.quota, used })
    }

    /// Refuses `more` bytes for which there is no room. Nothing is kept for the caller: uploads ask again while they run.
    ///
    /// With a quota the first call, and one in ten seconds when it seems used up, counts what is stored: garbage
    /// collection may have been another process. So does the first after something was removed here.
    pub(super) fn require(&self, more: u64) -> Result<()> {
        let room = self.room()?;
        if room.free < more.saturating_add(room.reserve) {
            let Room { free, reserve, .. } = room;
            let message = format!(
                "the registry is full: {more} bytes wanted, {free} free, and {reserve} of them are kept in reserve: delete \
                 images and collect garbage, or give it a larger volume"
            );
            return Err(Error::new(Kind::Full, message));
        }
        if let Some(quota) = self.limits.quota {
            let used = self.used(quota.saturating_sub(more))?;
            if used.saturating_add(more) > quota {
                let message = format!(
                    "the registry is full: {more} bytes wanted, and {used} of its quota of {quota} are used: delete images \
                     and collect garbage, or raise the quota"
                );
                return Err(Error::new(Kind::Full, message));
            }
        }
        Ok(())
    }

    /// So many bytes were written.
    pub(super) fn written(&self, bytes: u64) {
        if let Ok(mut used) = self.used.lock()
            && let Some(used) = used.as_mut()
        {
            used.bytes = used.bytes.saturating_add(bytes);
        }
    }

    /// Something was removed.
    pub(super) fn freed(&self) {
        if let Ok(mut used) = self.used.lock()
            && let Some(used) = used.as_mut()
        {
            used.at = None;
        }
    }

    /// What is stored; counted anew when it seems to be more than `allowed` and was not counted just now.
    fn used(&self, allowed: u64) -> Result<u64> {
        let mut used = self.used.lock().map_err(|_| Error::new(Kind::Internal, "the count of the space is lost"))?;
        match &*used {
            Some(known) if known.bytes <= allowed || known.at.is_some_and(|at| at.elapsed() < RECOUNT) => {
                Ok(known.bytes)
            }
            _ => {
                let mut bytes = 0;
                for folder in &self.counted {
                    bytes += count(folder).map_err(|error| Error::io(folder.display(), &error))?;
                }
                *used = Some(Used { bytes, at: Some(Instant::now()) });
                Ok(bytes)
            }
        }
    }
}

/// The bytes that the files of a folder and those below occupy. What vanishes meanwhile counts nothing.
fn count(folder: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    let entries = match fs::read_dir(folder) {
        Err(error) if super::link::absent(&error) => return Ok(0),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        match entry.metadata() {
            Ok(meta) if meta.is_dir() => bytes += count(&entry.path())?,
            Ok(meta) => bytes += meta.blocks() * 512,
            Err(error) if super::link::absent(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(bytes)
}

const RESERVE: u64 = 256 << 20;
const RECOUNT: Duration = Duration::from_secs(10);
