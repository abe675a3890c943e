//! A regular file.

mod temp;

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::FallocateFlags;
use rustix::process::{Resource, getrlimit};

use self::temp::Temp;
use super::continuation::Continuation;
use super::fault::{failed, write_failed};
use super::writer::Writer;
use super::{Claim, Earlier, Options, Written, zeros};
use crate::{Error, Kind, Result, Sink};

/// A sparse file of the disk's size. It has a temporary name in the same directory until it is complete, then takes the
/// place of the target by a rename; until then an older target stays as it was (and takes space).
///
/// - The new file has the mode and, where that is permitted, the owner of the one it replaces; a new one follows the
///   umask. Hard links to the old file keep the old content, as do programs that have it open.
/// - A target that is a symbolic link stays one: what it points at is written.
/// - What killed imports of the same target left behind is removed at the start; with [`Options::resume`] the temporary
///   name is always the same, and what has it is continued if its checkpoint, a second file, tells of it.
/// - Zeros are never written, not even those inside data, in blocks of 4 KiB; with [`Options::preallocate`] the space
///   is reserved before anything is written.
/// - Dirty pages are bounded, so a slow disk holds up the import and not the memory of its container.
#[derive(Debug)]
pub struct FileSink {
    temp: Temp,
    target: OsString,
    name: String,
    options: Options,
    /// No byte may lie at or behind this: the limit of the process, beyond which the kernel kills it.
    limit: u64,
    /// Space has to be reserved by writing zeros, because the file system can't do it another way.
    solid: bool,
    /// The final size, once it is known; 0 before.
    size: AtomicU64,
    data: AtomicU64,
    writer: Writer,
    continuation: Continuation,
}

impl FileSink {
    /// A sink for a file at `path`. Changes nothing there until it is finished.
    pub fn create(path: &Path, options: Options) -> Result<Self> {
        let name = path.display().to_string();
        let path = follow(path).map_err(|error| failed(&name, "follow its symbolic links", error))?;
        let replaced = replaceable(&path, &name)?;
        let Some(target) = path.file_name().map(OsString::from) else {
            return Err(Error::new(Kind::Target, format!("{name}: is a directory: name a file in it")));
        };
        let parent = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let dir = File::open(parent)
            .map_err(|error| failed(&name, &format!("open the directory {}", parent.display()), error))?;
        temp::sweep(parent, &dir, &target);
        let created = if options.resume {
            Temp::resumable(dir, &target, replaced.as_ref().map(MetadataExt::uid))
        } else {
            temp::forget(&dir, &target);
            Temp::create(dir, &target)
        };
        let temp = created.map_err(|error| failed(&name, &format!("create a file in {}", parent.display()), error))?;
        let continuation = look_back(&temp).map_err(|error| failed(&name, "use what an earlier import left", error))?;
        if let Some(old) = replaced {
            // Only root can give files away; for others the owner changes, as with every program that renames.
            if let Err(error) = fchown(temp.file(), Some(old.uid()), Some(old.gid())) {
                tracing::debug!(target = %name, %error, "the new file does not keep its owner");
            }
            temp.file()
                .set_permissions(fs::Permissions::from_mode(old.mode() & 0o777))
                .map_err(|error| failed(&name, "set its mode", error))?;
        }
        let solid = options.preallocate && !can_reserve(temp.file());
        let limit = getrlimit(Resource::Fsize).current.unwrap_or(u64::MAX).min(i64::MAX.unsigned_abs());
        let (size, data) = (AtomicU64::new(0), AtomicU64::new(0));
        let writer = Writer::new(temp.file());
        Ok(Self { temp, target, name, options, limit, solid, size, data, writer, continuation })
    }

    /// Gives the file its final size, and with `preallocate` the space for it.
    fn resize(&self, size: u64) -> Result<()> {
        if size > self.limit {
            return Err(self.beyond_limit(size));
        }
        if self.options.preallocate && !self.solid {
            self.reserve(size)?;
        }
        self.temp.file().set_len(size).map_err(|error| match error.kind() {
            io::ErrorKind::FileTooLarge => self.too_large(size, "the file system has no files of that size"),
            _ => failed(&self.name, &format!("make it {size} bytes long"), error),
        })?;
        self.size.store(size, Ordering::Relaxed);
        Ok(())
    }

    fn reserve(&self, size: u64) -> Result<()> {
        let full = |free: u64| {
            let text = format!("has {free} bytes free, {size} are needed: make room or leave out --preallocate");
            Error::new(Kind::Target, format!("{}: its file system {text}", self.name))
        };
        let file = self.temp.file();
        let has = file.metadata().map_err(|error| failed(&self.name, "stat", error))?.blocks().saturating_mul(512);
        let system = rustix::fs::fstatvfs(file).map_err(|error| failed(&self.name, "stat its file system", error))?;
        let free = system.f_bavail.saturating_mul(system.f_frsize);
        // Root may also use what is reserved for it: only what can't ever fit is refused before the attempt.
        if system.f_bfree.saturating_mul(system.f_frsize).saturating_add(has) < size {
            return Err(full(free));
        }
        if size == 0 {
            return Ok(());
        }
        let result = rustix::io::retry_on_intr(|| rustix::fs::fallocate(file, FallocateFlags::empty(), 0, size));
        result.map_err(|error| match error {
            rustix::io::Errno::NOSPC => full(free),
            rustix::io::Errno::FBIG => self.too_large(size, "the file system has no files of that size"),
            _ => failed(&self.name, &format!("reserve {size} bytes"), error),
        })
    }

    fn write_all(&self, at: u64, bytes: &[u8]) -> Result<()> {
        let len = bytes.len() as u64;
        match at.checked_add(len) {
            Some(end) if end <= self.limit => {}
            end => return Err(self.beyond_limit(end.unwrap_or(u64::MAX))),
        }
        self.writer
            .write_all_at(self.temp.file(), bytes, at)
            .map_err(|error| self.write_failed(&format!("write at offset {at:#x}"), error))
    }

    /// Writes zeros, for the space they take.
    fn fill(&self, mut at: u64, end: u64) -> Result<()> {
        let zeros = vec![0; 1 << 20];
        while at < end {
            let len = usize::try_from(end - at).unwrap_or(usize::MAX).min(zeros.len());
            self.write_all(at, zeros.get(..len).unwrap_or_default())?;
            at += len as u64;
        }
        Ok(())
    }

    /// Makes a range of a continued file read as zeros.
    fn clear(&self, at: u64, len: u64) -> Result<()> {
        let flags = if self.options.preallocate { FallocateFlags::ZERO_RANGE } else { FallocateFlags::PUNCH_HOLE };
        let file = self.temp.file();
        let flags = flags | FallocateFlags::KEEP_SIZE;
        match rustix::io::retry_on_intr(|| rustix::fs::fallocate(file, flags, at, len)) {
            Ok(()) => Ok(()),
            // A file system without it: what isn't zeros is made so.
            Err(_) => self.fill(at, at.saturating_add(len)),
        }
    }

    fn write_failed(&self, what: &str, error: io::Error) -> Error {
        let size = Some(self.size.load(Ordering::Relaxed)).filter(|size| *size > 0);
        write_failed(&self.name, what, self.data.load(Ordering::Relaxed), size, error)
    }

    fn beyond_limit(&self, size: u64) -> Error {
        let limit = self.limit;
        self.too_large(size, &format!("files are limited to {limit} bytes here (ulimit -f)"))
    }

    fn too_large(&self, size: u64, why: &str) -> Error {
        Error::new(Kind::TooSmall, format!("{}: can't have the {size} bytes that are needed: {why}", self.name))
    }
}

// === impl Sink ===

impl Sink for FileSink {
    fn prepare(&self, size: Option<u64>) -> Result<()> {
        match size {
            Some(size) => self.resize(self.options.fit(&self.name, size)?),
            None => Ok(()),
        }
    }

    fn write(&self, at: u64, bytes: &[u8]) -> Result<()> {
        let data = if self.solid {
            self.write_all(at, bytes)?;
            bytes.len() as u64
        } else {
            let mut data = 0;
            for run in zeros::runs(at, bytes, zeros::BLOCK) {
                if run.zero {
                    self.zero(run.at, run.bytes.len() as u64)?;
                    continue;
                }
                self.write_all(run.at, run.bytes)?;
                data += run.bytes.len() as u64;
            }
            data
        };
        self.data.fetch_add(data, Ordering::Relaxed);
        if self.options.resume {
            self.continuation.wrote(at, bytes);
        }
        Ok(())
    }

    fn joins(&self) -> bool {
        self.writer.joins()
    }

    fn zero(&self, at: u64, len: u64) -> Result<()> {
        // A new file is all hole, or all reserved: both read as zeros. One that is continued may hold anything behind its
        // checkpoint.
        match (self.solid, self.continuation.is_continued()) {
            (true, _) => self.fill(at, at.saturating_add(len)),
            (false, true) => self.clear(at, len),
            (false, false) => Ok(()),
        }
    }

    fn finish(self: Box<Self>, disk: u64) -> Result<Written> {
        let size = self.options.fit(&self.name, disk)?;
        if self.size.load(Ordering::Relaxed) != size {
            self.resize(size)?;
        }
        if self.solid {
            self.fill(disk, size)?;
        }
        self.temp.file().sync_all().map_err(|error| self.write_failed("sync it", error))?;
        let Self { temp, target, name, data, .. } = *self;
        temp.rename(&target).map_err(|error| failed(&name, "rename the finished file", error))?;
        Ok(Written { data: data.into_inner(), size })
    }

    fn name(&self) -> String {
        self.name.clone()
    }

    fn claim(&self) -> Claim {
        self.temp.claim()
    }

    fn resumable(&self) -> bool {
        self.options.resume
    }

    fn resumed(&self) -> Earlier {
        self.continuation.earlier()
    }

    fn start_over(&self) -> Result<()> {
        self.continuation.start_over();
        self.temp.start_over().map_err(|error| failed(&self.name, "remove what an earlier import left", error))
    }

    fn checkpoint(&self, record: &str) -> Result<()> {
        let stored = self.continuation.checkpoint(record);
        // A record of that length is possible only where a name is; a copy that can't be continued is still a copy.
        let Some(bytes) = stored.to_bytes() else { return Ok(()) };
        self.temp.store(&bytes).map_err(|error| self.write_failed("write its checkpoint", error))
    }

    fn read_back(&self, at: u64, into: &mut [u8]) -> Result<()> {
        let read = self.temp.file().read_exact_at(into, at);
        read.map_err(|error| failed(&self.name, "read what an earlier import wrote", error))
    }
}

/// Finds what an interrupted import left, and removes it if that can't be relied on.
fn look_back(temp: &Temp) -> io::Result<Continuation> {
    let continuation = Continuation::of(temp.found()?, temp.file())?;
    if !continuation.is_continued() {
        temp.start_over()?;
    }
    Ok(continuation)
}

/// What `path` stands for when it is a symbolic link, whether that exists or not.
fn follow(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_path_buf();
    for _ in 0..LINKS {
        match fs::symlink_metadata(&path) {
            Ok(file) if file.is_symlink() => {
                let link = fs::read_link(&path)?;
                path = path.parent().map_or(link.clone(), |parent| parent.join(&link));
            }
            _ => return Ok(path),
        }
    }
    Err(rustix::io::Errno::LOOP.into())
}

/// The file at `path` that will be replaced, if there is one.
fn replaceable(path: &Path, name: &str) -> Result<Option<fs::Metadata>> {
    let refused = |what: &str| Err(Error::new(Kind::Target, format!("{name}: {what}")));
    if path.as_os_str().as_encoded_bytes().ends_with(b"/") {
        return refused("is a directory: name a file in it");
    }
    let old = match fs::symlink_metadata(path) {
        Ok(old) => old,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(name, "look at it", error)),
    };
    let kind = old.file_type();
    match kind {
        _ if kind.is_file() => Ok(Some(old)),
        _ if kind.is_dir() => refused("is a directory: name a file in it"),
        _ if kind.is_fifo() => refused("is a pipe, where a disk can't be written in any order: name a file"),
        _ if kind.is_char_device() => refused("is a character device: name a file, a block device or null:"),
        _ => refused("is no regular file: name another"),
    }
}

/// Whether space can be reserved without writing to it.
fn can_reserve(file: &File) -> bool {
    let unsupported = [rustix::io::Errno::OPNOTSUPP, rustix::io::Errno::NOSYS];
    let result = rustix::io::retry_on_intr(|| rustix::fs::fallocate(file, FallocateFlags::empty(), 0, 1));
    !result.is_err_and(|error| unsupported.contains(&error))
}

/// As many links as the kernel follows.
const LINKS: usize = 40;

#[cfg(test)]
mod tests;
