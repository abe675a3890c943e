//! Where the disk goes.

mod block;
mod claim;
mod continuation;
mod fault;
mod file;
mod null;
pub(crate) mod ordered;
mod registry;
mod sample;
mod stored;
mod writeback;
mod writer;
pub mod zeros;

use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

pub use block::BlockSink;
pub use claim::{Claim, Left};
pub use file::FileSink;
pub use null::NullSink;
pub use ordered::{InOrder, OrderedSink};
pub use registry::{Keep, RegistrySink, Storing, registry};

use crate::{Error, Image, Kind, Result};

/// Where the disk goes. Writes come from several threads, in any order, and never overlap.
///
/// A sink that is dropped without [`finish`](Self::finish) leaves nothing that looks complete. What is neither written
/// nor zeroed is undefined: a device shows there what it held before. After an error a sink is only good to be dropped.
pub trait Sink: Send + Sync {
    /// Says how large the disk will be, before anything is written, where that is known. Fails when it can't fit.
    ///
    /// Until then nothing that existed is touched, so a target outlives a source that can't be opened.
    fn prepare(&self, size: Option<u64>) -> Result<()>;

    /// Writes `bytes` at guest offset `at`. Zeros in it are recognised.
    fn write(&self, at: u64, bytes: &[u8]) -> Result<()>;

    /// Whether few large writes are worth a copy of their bytes.
    fn joins(&self) -> bool {
        false
    }

    /// Whether the disk must come in order: each byte behind those that were written or zeroed before, but for what the
    /// threads of one import overtake each other, which is a few MiB. Images are then read in the order of the disk, by
    /// ranges where the source has them; where it has none, they come as they lie in the stream, and the sink refuses what
    /// is too far out of order. What reads as zeros may be told of long before its turn.
    fn ordered(&self) -> bool {
        false
    }

    /// Whether the size has to be known when it is [prepared](Self::prepare), even if the source has to be read to its end
    /// for that.
    fn sized(&self) -> bool {
        false
    }

    /// Whether an image of this format is wanted as it is, without its wrappers, in place of the disk in it. Then the
    /// bytes of the image are what is written.
    fn keeps(&self, _format: &str) -> bool {
        false
    }

    /// What the image is: once before it is prepared where it is kept as it is, and once before it is finished.
    fn tell(&self, _image: &Image) {}

    /// Makes `len` bytes at guest offset `at` read as zeros.
    fn zero(&self, at: u64, len: u64) -> Result<()>;

    /// Everything was written and verified: makes the disk durable and visible, `size` bytes long.
    fn finish(self: Box<Self>, size: u64) -> Result<Written>;

    /// How a person knows it.
    fn name(&self) -> String;

    /// Whether the copy can be continued after it was interrupted: then [`checkpoint`](Self::checkpoint) means something.
    fn resumable(&self) -> bool {
        false
    }

    /// What was found of an interrupted copy. Whoever does not go on from it says so by [`start_over`](Self::start_over).
    fn resumed(&self) -> Earlier {
        Earlier::Nothing
    }

    /// Nothing of an interrupted copy is used. Only before [`prepare`](Self::prepare).
    fn start_over(&self) -> Result<()> {
        Ok(())
    }

    /// Makes all that was written so far durable, and `record` what is found when the copy is interrupted after this.
    /// Nobody writes meanwhile.
    fn checkpoint(&self, _record: &str) -> Result<()> {
        Ok(())
    }

    /// What was written below this guest offset is lost when the copy is interrupted, whatever the checkpoint.
    fn forgets_below(&self) -> u64 {
        0
    }

    /// Reads what an interrupted copy wrote, at or behind [`forgets_below`](Self::forgets_below).
    fn read_back(&self, _at: u64, _into: &mut [u8]) -> Result<()> {
        Err(Error::new(Kind::Ours, format!("{} has nothing to read", self.name())))
    }

    /// For whoever may have to give the target up before the sink is finished or dropped.
    fn claim(&self) -> Claim;
}

/// What a sink has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Bytes written that were not known to be zero.
    pub data: u64,
    /// The size of the finished target in bytes.
    pub size: u64,
}

/// What is left of an interrupted copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Earlier {
    /// Nothing that is of use.
    Nothing,
    /// A part of a disk that can't be continued, and why.
    Spoiled(&'static str),
    /// The part of a disk that the record of this checkpoint tells of; a sample of it is as it was written.
    Record(String),
}

/// What a user may ask of a target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// The final size in bytes: at least that of the disk. A file grows to it with zeros; a device must have it.
    pub size: Option<u64>,
    /// Reserve space for every byte, so that a guest never meets a full disk.
    pub preallocate: bool,
    /// Keep what is written when the copy is interrupted, and go on from what an interrupted one has left.
    pub resume: bool,
}

/// The sink for `path`: a device when it is one, or else a file.
///
/// Nothing that exists is changed before [`Sink::prepare`].
pub fn create(path: &Path, options: Options) -> Result<Box<dyn Sink>> {
    if fs::metadata(path).is_ok_and(|target| target.file_type().is_block_device()) {
        return Ok(Box::new(BlockSink::open(path, options)?));
    }
    if is_missing_device(path) {
        let message = format!("{}: there is no such device: check its name", path.display());
        return Err(Error::new(Kind::Target, message));
    }
    Ok(Box::new(FileSink::create(path, options)?))
}

/// Whether a file at `path`, where nothing is, would lie among the devices, and so in memory. `/dev/shm` is for that.
fn is_missing_device(path: &Path) -> bool {
    if fs::symlink_metadata(path).is_ok() {
        return false;
    }
    // The folder of a device that is missing may be missing too.
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let parent = fs::canonicalize(parent).unwrap_or_else(|_| parent.to_owned());
    parent.starts_with("/dev") && !parent.starts_with("/dev/shm")
}

// === impl Options ===

impl Options {
    /// The final size for a disk of `disk` bytes.
    fn fit(&self, name: &str, disk: u64) -> Result<u64> {
        match self.size {
            Some(size) if size < disk => Err(Error::new(
                Kind::TooSmall,
                format!("{name}: the size asked for is {size} bytes, but the disk has {disk}: ask for at least that"),
            )),
            size => Ok(size.unwrap_or(disk)),
        }
    }
}

#[cfg(test)]
mod model;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_that_is_missing_is_no_file() {
        let dir = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/dev", dir.path().join("devices")).unwrap();
        let linked = dir.path().join("devices/nosuch");
        for path in [Path::new("/dev/nosuch"), Path::new("/dev/nosuch/root"), Path::new("/tmp/../dev/nosuch"), &linked]
        {
            let error = create(path, Options::default()).err().unwrap();
            assert_eq!(error.kind(), Kind::Target);
            assert!(error.to_string().contains("nosuch") && error.to_string().contains("no such device"), "{error}");
            assert!(!path.exists());
        }
        for path in [Path::new("/dev/null"), Path::new("/dev/shm/disk"), Path::new("/devices/x"), &dir.path().join("x")]
        {
            assert!(!is_missing_device(path), "{}", path.display());
        }
    }
}
