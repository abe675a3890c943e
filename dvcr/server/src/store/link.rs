//! A link: that a repository has something, since when, and who relies on it.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::time::{Duration, SystemTime};

use rustix::fs::{AtFlags, CWD, FlockOperation, Timespec, Timestamps, UTIME_OMIT, flock, utimensat};

use super::durable;

/// What a link says. Two readings that are equal mean that nobody touched it in between, whatever the clock did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Link {
    /// When it was last touched.
    pub(super) touched: SystemTime,
    /// Whether a push waits that has not brought its manifest yet: its owner may write it.
    pub(super) pending: bool,
    /// Whether somebody has asked for it, who may leave it out of a push: its group may write it.
    pub(super) asked: bool,
}

impl Link {
    /// Reads a link; `None` when there is none.
    pub(super) fn read(path: &Path) -> io::Result<Option<Self>> {
        match fs::symlink_metadata(path) {
            Ok(meta) => Ok(Some(Self::of(&meta)?)),
            Err(error) if absent(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn of(meta: &fs::Metadata) -> io::Result<Self> {
        let mode = meta.permissions().mode();
        Ok(Self { touched: meta.modified()?, pending: mode & PENDING != 0, asked: mode & ASKED != 0 })
    }

    /// Makes an empty link, or finds the one that is there, and counts one more push that waits for its manifest. Durable
    /// when it returns.
    pub(super) fn push(path: &Path) -> io::Result<()> {
        let folder = path.parent().unwrap_or(path);
        durable::folders(folder)?;
        match File::options().write(true).create_new(true).mode(BASE | PENDING).open(path) {
            Ok(_) => durable::sync(folder)?,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
        Self::count(path, |waiting, _| waiting.saturating_add(1))
    }

    /// A new manifest names it. It may be what a push has waited for, unless somebody has asked: then it may as well be his.
    pub(super) fn claim(path: &Path) -> io::Result<()> {
        Self::count(path, |waiting, link| if link.asked { waiting } else { waiting.saturating_sub(1) })
    }

    /// Changes how many pushes wait. The length of the link, whose bytes are holes, says that: two that share a blob must
    /// not count as one.
    fn count(path: &Path, change: impl FnOnce(u64, &Self) -> u64) -> io::Result<()> {
        let file = File::open(path)?;
        flock(&file, FlockOperation::LockExclusive)?;
        let meta = file.metadata()?;
        let link = Self::of(&meta)?;
        let waiting = change(meta.len(), &link);
        if waiting != meta.len() {
            file.set_permissions(fs::Permissions::from_mode(BASE | PENDING))?;
            File::options().write(true).open(path)?.set_len(waiting)?;
        }
        touch(path)?;
        Self::mark(path, waiting > 0, link.asked)
    }

    /// Somebody has asked for it.
    pub(super) fn ask(path: &Path) -> io::Result<()> {
        let file = File::open(path)?;
        flock(&file, FlockOperation::LockExclusive)?;
        let link = Self::of(&file.metadata()?)?;
        touch(path)?;
        Self::mark(path, link.pending, true)
    }

    /// Says who relies on it.
    pub(super) fn mark(path: &Path, pending: bool, asked: bool) -> io::Result<()> {
        let mode = BASE | if pending { PENDING } else { 0 } | if asked { ASKED } else { 0 };
        fs::set_permissions(path, fs::Permissions::from_mode(mode))
    }

    /// How long ago it was touched. Nothing if the clock went back.
    pub(super) fn age(&self, now: SystemTime) -> Duration {
        now.duration_since(self.touched).unwrap_or_default()
    }
}

/// Says that a file was used now. With all digits of the clock: the kernel's own "now" stands still for milliseconds.
pub(super) fn touch(path: &Path) -> io::Result<()> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let times = Timestamps {
        last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        last_modification: Timespec {
            tv_sec: i64::try_from(now.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: now.subsec_nanos().into(),
        },
    };
    Ok(utimensat(CWD, path, &times, AtFlags::empty())?)
}

/// Whether it says that a file, or a folder above it, is not there.
pub(super) fn absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

const BASE: u32 = 0o444;
const PENDING: u32 = 0o200;
const ASKED: u32 = 0o020;
