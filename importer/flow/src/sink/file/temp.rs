//! A file that is nobody's yet.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags};

use super::super::Claim;
use super::super::claim::Forget;
use super::super::continuation::{Found, UNREADABLE};
use super::super::stored::Stored;

/// A new file beside its target, under a name that says so, locked as long as it is in use. Removed when dropped.
///
/// A process that is killed leaves it behind; the next one with the same target finds it without a lock and removes it.
#[derive(Debug)]
pub(super) struct Temp {
    dir: Arc<File>,
    file: Arc<File>,
    claim: Claim,
    /// The name of the checkpoint, if there may be one.
    checkpoint: Option<OsString>,
    /// Whether the file was there, and had bytes.
    left: bool,
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
                let (dir, file) = (Arc::new(dir), Arc::new(file));
                return Ok(Self {
                    claim: Claim::elsewhere(Arc::clone(&dir), name),
                    dir,
                    file,
                    checkpoint: None,
                    left: false,
                });
            }
        }
        Err(io::Error::other("temporary files vanish as soon as they are made"))
    }

    /// The file in `dir` that is to become `target` and outlives an interrupted import: what it was left as, or a new
    /// empty one. `owner` is the owner of the target that it replaces, who may have been given it.
    pub(super) fn resumable(dir: File, target: &OsStr, owner: Option<u32>) -> io::Result<Self> {
        let name = fixed(target, PART);
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        for _ in 0..ATTEMPTS {
            let file = open_regular(&dir, &name, flags)?;
            if !is_trusted(&file, &dir, owner)? {
                remove(&dir, &name)?;
                continue;
            }
            match lock(&file) {
                Lock::Taken => return Err(io::Error::other("another import with --resume writes it: wait for that")),
                Lock::Unsupported => {
                    return Err(io::Error::other("--resume needs locks, which this file system has not: leave it out"));
                }
                Lock::Ours => {}
            }
            // Before the lock was ours, another process may have removed the file, or finished and renamed it.
            let there = rustix::fs::statat(&dir, &name, AtFlags::SYMLINK_NOFOLLOW);
            if there.is_ok_and(|there| file.metadata().is_ok_and(|ours| there.st_ino == ours.ino())) {
                let (dir, file) = (Arc::new(dir), Arc::new(file));
                let (claim, left) = (Claim::elsewhere(Arc::clone(&dir), name), file.metadata()?.len() > 0);
                return Ok(Self { claim, dir, file, checkpoint: Some(fixed(target, CHECKPOINT)), left });
            }
        }
        Err(io::Error::other("temporary files vanish as soon as they are made"))
    }

    /// What an interrupted import left; with a checkpoint, giving the file up leaves both from now on.
    pub(super) fn found(&self) -> io::Result<Found> {
        let Some(name) = &self.checkpoint else { return Ok(Found::Nothing) };
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = match open_regular(&self.dir, name, flags) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let lost = Found::Lost("it was interrupted before its first checkpoint");
                return Ok(if self.left { lost } else { Found::Nothing });
            }
            file => file?,
        };
        if !is_trusted(&file, &self.dir, None)? {
            return Ok(Found::Lost("its checkpoint is another user's"));
        }
        let mut bytes = Vec::new();
        file.take(Stored::MAX as u64).read_to_end(&mut bytes)?;
        let Some(stored) = Stored::read(&bytes) else { return Ok(Found::Lost(UNREADABLE)) };
        self.claim.keep(|| Ok(()), self.forget(name))?;
        Ok(Found::Whole(stored))
    }

    /// Makes the file durable, and then this its checkpoint, in place of the one before.
    pub(super) fn store(&self, checkpoint: &[u8]) -> io::Result<()> {
        let Some(name) = &self.checkpoint else { return Ok(()) };
        self.file.sync_data()?;
        let mut new = name.clone();
        new.push(NEW);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut file = open_regular(&self.dir, &new, flags)?;
        file.write_all(checkpoint)?;
        file.sync_data()?;
        self.claim.keep(|| Ok(rustix::fs::renameat(&*self.dir, &new, &*self.dir, name)?), self.forget(name))?;
        sync_directory(&self.dir)
    }

    /// Makes the file empty and removes its checkpoint.
    pub(super) fn start_over(&self) -> io::Result<()> {
        let Some(name) = &self.checkpoint else { return Ok(()) };
        // In this order: a checkpoint never tells of what is gone.
        remove_checkpoint(&self.dir, name)?;
        self.claim.unkeep();
        self.file.set_len(0)
    }

    /// The way to remove the file and its checkpoint.
    fn forget(&self, checkpoint: &OsStr) -> Forget {
        let (dir, file, checkpoint) = (Arc::clone(&self.dir), Arc::clone(&self.file), checkpoint.to_owned());
        Forget::new(move || {
            remove_checkpoint(&dir, &checkpoint)?;
            let part = checkpoint.as_bytes().strip_suffix(CHECKPOINT.as_bytes()).unwrap_or_default();
            let part = [part, PART.as_bytes()].concat();
            remove(&dir, OsStr::from_bytes(&part))?;
            // Unlocked only now.
            drop(file);
            Ok(())
        })
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
        if let Some(name) = &self.checkpoint
            && let Err(error) = remove_checkpoint(&self.dir, name)
        {
            tracing::warn!(name = %name.display(), %error, "the checkpoint could not be removed");
        }
        sync_directory(&self.dir)
    }
}

/// Opens what has a fixed name. Something else of that name is nothing that we made, nor ours to remove.
fn open_regular(dir: &File, name: &OsStr, flags: OFlags) -> io::Result<File> {
    let what = match rustix::fs::openat(dir, name, flags, Mode::from_raw_mode(0o666)) {
        Ok(file) => {
            let file = File::from(file);
            match file.metadata()?.file_type() {
                kind if kind.is_file() => return Ok(file),
                kind if kind.is_dir() => "a directory",
                _ => "no regular file",
            }
        }
        Err(rustix::io::Errno::LOOP) => "a symbolic link",
        Err(rustix::io::Errno::ISDIR) => "a directory",
        Err(rustix::io::Errno::NXIO) => "no regular file",
        Err(error) => return Err(error.into()),
    };
    Err(in_the_way(name, what))
}

fn in_the_way(name: &OsStr, what: &str) -> io::Error {
    let name = name.display();
    io::Error::other(format!("{name} is {what}, where --resume has a file of its own: remove or rename it"))
}

/// Whether `file`, which has a name anyone can guess, is one that we made: in a directory where everybody may make files,
/// another could have put there a link to a file of ours, or a part of a disk of his.
fn is_trusted(file: &File, dir: &File, owner: Option<u32>) -> io::Result<bool> {
    let (file, dir) = (file.metadata()?, dir.metadata()?);
    let ours = file.uid() == rustix::process::geteuid().as_raw() || Some(file.uid()) == owner;
    Ok(file.nlink() <= 1 && (ours || dir.mode() & 0o002 == 0))
}

fn sync_directory(dir: &File) -> io::Result<()> {
    match dir.sync_all() {
        // A file system that has nothing to sync in a directory.
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
        result => result,
    }
}

/// Removes a checkpoint, and one that was just being written.
fn remove_checkpoint(dir: &File, name: &OsStr) -> io::Result<()> {
    let mut new = name.to_owned();
    new.push(NEW);
    remove(dir, &new)?;
    remove(dir, name)
}

fn remove(dir: &File, name: &OsStr) -> io::Result<()> {
    match rustix::fs::unlinkat(dir, name, AtFlags::empty()) {
        Err(rustix::io::Errno::NOENT) => Ok(()),
        Err(rustix::io::Errno::ISDIR) => Err(in_the_way(name, "a directory")),
        result => Ok(result?),
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

/// Removes what an interrupted import left to be continued, unless it is just being continued.
pub(super) fn forget(dir: &File, target: &OsStr) {
    let (part, checkpoint) = (fixed(target, PART), fixed(target, CHECKPOINT));
    let forgotten =
        remove_unlocked(dir, &part).and_then(|gone| if gone { remove_checkpoint(dir, &checkpoint) } else { Ok(()) });
    if let Err(error) = forgotten {
        tracing::warn!(name = %part.display(), %error, "the left-over of an earlier import could not be removed");
    }
}

/// False: its owner is alive, or it is no file.
fn remove_unlocked(dir: &File, name: &OsStr) -> io::Result<bool> {
    // A lock over NFS needs a file that is open for writing.
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match rustix::fs::openat(dir, name, flags, Mode::empty()) {
        Err(rustix::io::Errno::NOENT) => return Ok(true),
        file => File::from(file?),
    };
    if !file.metadata()?.is_file() {
        return Ok(false);
    }
    match lock(&file) {
        Lock::Taken => Ok(false),
        Lock::Ours => remove(dir, name).map(|()| true),
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

/// The one name that a file beside `target` has for this purpose.
fn fixed(target: &OsStr, suffix: &str) -> OsString {
    let mut name = prefix(target);
    if target.len() > 200 {
        // The prefix is cut, and others may be cut to the same.
        name.push(format!("{:08x}.", crc32fast::hash(target.as_bytes())));
    }
    name.push(suffix);
    name
}

/// What an import with `--resume` writes to.
const PART: &str = "part";
/// How far it is.
const CHECKPOINT: &str = "checkpoint";
/// Behind the name of a checkpoint that is being written.
const NEW: &str = ".new";

const SUFFIX: &str = ".importing";

/// Each fails only when another process sweeps the directory at that very moment.
const ATTEMPTS: usize = 100;
