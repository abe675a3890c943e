//! A link: that a repository has something, since when, and whether a manifest has claimed it.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::time::{Duration, SystemTime};

use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, UTIME_OMIT, utimensat};

use super::durable;

/// What a link says. Two readings that are equal mean that nobody touched it in between, whatever the clock did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Link {
    /// When it was last touched.
    pub(super) touched: SystemTime,
    /// Who relies on it.
    pub(super) state: State,
}

/// Who relies on a link. Kept in its mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// A push that has not brought its manifest yet (0644).
    Pending,
    /// A manifest (0444).
    Claimed,
    /// A manifest, and perhaps whoever has asked for it since (0464).
    Asked,
}

impl State {
    fn mode(self) -> u32 {
        match self {
            Self::Pending => 0o644,
            Self::Claimed => 0o444,
            Self::Asked => 0o464,
        }
    }
}

impl Link {
    /// Reads a link; `None` when there is none.
    pub(super) fn read(path: &Path) -> io::Result<Option<Self>> {
        match fs::symlink_metadata(path) {
            Ok(meta) => {
                let mode = meta.permissions().mode();
                let state = match (mode & 0o200 != 0, mode & 0o020 != 0) {
                    (true, _) => State::Pending,
                    (false, true) => State::Asked,
                    (false, false) => State::Claimed,
                };
                Ok(Some(Self { touched: meta.modified()?, state }))
            }
            Err(error) if absent(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Makes an empty link of a push, or touches the one that is there. Durable when it returns.
    pub(super) fn make(path: &Path) -> io::Result<()> {
        let folder = path.parent().unwrap_or(path);
        durable::folders(folder)?;
        match File::options().write(true).create_new(true).mode(State::Pending.mode()).open(path) {
            Ok(_) => durable::sync(folder),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Self::set(path, State::Pending),
            Err(error) => Err(error),
        }
    }

    /// Says who relies on it from now on.
    pub(super) fn set(path: &Path, state: State) -> io::Result<()> {
        touch(path)?;
        fs::set_permissions(path, fs::Permissions::from_mode(state.mode()))
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
