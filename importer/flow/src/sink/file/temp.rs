//! A file that is nobody's yet.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags};

use super::super::Claim;

/// A new file beside its target, under a name that says so, locked as long as it is in use. Removed when dropped.
///
/// A process that is killed leaves it behind; the next one with the same target finds it without a lock and removes it.
#[derive(Debug)]
pub(super) struct Temp {
    dir: Arc<File>,
    file: File,
    claim: Claim,
}

impl Temp {
    /// A new empty file in `dir`, of mode 0666 less the umask, that is to become `target`.
    pub(super) fn create(dir: File, target: &OsStr) -> io::Result<Self> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        for _ in 0..ATTEMPTS {
            let random = RandomState::new().build_hasher().finish();
            let mut name = prefix(target);
            name.push(format!("{random:016x}"));
            name.push(SUFFIX);
            let file = match rustix::fs::openat(&dir, &name, flags, Mode::from_raw_mode(0o666)) {
                Ok(file) => File::from(file),
                Err(rustix::io::Errno::EXIST) => continue,
                Err(error) => return Err(error.into()),
            };
            // Between these two lines another process may take it for a left-over.
            match lock(&file) {
                Lock::Taken => continue,
                Lock::Ours | Lock::Unsupported => {}
            }
            if file.metadata()?.nlink() > 0 {
                let dir = Arc::new(dir);
                return Ok(Self { claim: Claim::elsewhere(Arc::clone(&dir), name), dir, file });
            }
        }
        Err(io::Error::other("temporary files vanish as soon as they are made"))
    }

    /// The file.
    pub(super) fn file(&self) -> &File {
        &self.file
    }

    /// The claim on the target.
    pub(super) fn claim(&self) -> Claim {
        self.claim.clone()
    }

    /// Makes it `target`, in place of what had that name. Durable when this returns.
    pub(super) fn rename(self, target: &OsStr) -> io::Result<()> {
        self.claim.rename(target)?;
        match self.dir.sync_all() {
            // A file system that has nothing to sync in a directory.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
            result => result,
        }
    }
}

impl Drop for Temp {
    fn drop(&mut self) {
        self.claim.abandon();
    }
}

/// Removes what killed processes left in the directory at `path` of their way to `target`. What can't be removed is
/// left and told of: it stands in nobody's way.
pub(super) fn sweep(path: &Path, dir: &File, target: &OsStr) {
    let Ok(entries) = fs::read_dir(path) else { return };
    let prefix = prefix(target);
    for entry in entries.flatten() {
        let name = entry.file_name();
        if is_ours(&name, &prefix)
            && let Err(error) = remove_unlocked(dir, &name)
        {
            tracing::warn!(name = %name.display(), %error, "the left-over of an earlier import could not be removed");
        }
    }
}

fn remove_unlocked(dir: &File, name: &OsStr) -> io::Result<()> {
    // A lock over NFS needs a file that is open for writing.
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match rustix::fs::openat(dir, name, flags, Mode::empty()) {
        Err(rustix::io::Errno::NOENT) => return Ok(()),
        file => File::from(file?),
    };
    if !file.metadata()?.is_file() {
        return Ok(());
    }
    match lock(&file) {
        // The owner is alive.
        Lock::Taken => Ok(()),
        Lock::Ours => match rustix::fs::unlinkat(dir, name, AtFlags::empty()) {
            Err(rustix::io::Errno::NOENT) => Ok(()),
            result => Ok(result?),
        },
        Lock::Unsupported => Err(io::Error::other("this file system has no locks, so its owner may be alive")),
    }
}

enum Lock {
    Ours,
    Taken,
    Unsupported,
}

fn lock(file: &File) -> Lock {
    match rustix::io::retry_on_intr(|| rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive)) {
        Ok(()) => Lock::Ours,
        Err(rustix::io::Errno::WOULDBLOCK) => Lock::Taken,
        Err(_) => Lock::Unsupported,
    }
}

/// `.TARGET.`, cut so that the whole name stays below the 255 bytes of a file name.
fn prefix(target: &OsStr) -> OsString {
    let mut prefix = vec![b'.'];
    prefix.extend(target.as_bytes().iter().take(200));
    prefix.push(b'.');
    OsString::from_vec(prefix)
}

fn is_ours(name: &OsStr, prefix: &OsStr) -> bool {
    name.as_bytes()
        .strip_prefix(prefix.as_bytes())
        .and_then(|rest| rest.strip_suffix(SUFFIX.as_bytes()))
        .is_some_and(|random| random.len() == 16 && random.iter().all(u8::is_ascii_hexdigit))
}

const SUFFIX: &str = ".importing";

/// Each fails only when another process sweeps the directory at that very moment.
const ATTEMPTS: usize = 100;
