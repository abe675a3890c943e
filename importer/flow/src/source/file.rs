//! A local file or block device.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::ops::Range;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use rustix::buffer::spare_capacity;
use rustix::fs::Advice;

use super::pipe::Pipe;
use crate::{Error, Kind, Piece, Result, Source, Stream};

/// A path: a regular file or a block device, which can be read anywhere and again, and whose holes are not read at all;
/// or a pipe or character device, which is read once.
#[derive(Debug)]
pub struct FileSource {
    name: String,
    file_name: Option<OsString>,
    body: Body,
}

#[derive(Debug)]
enum Body {
    Seekable(Arc<Object>),
    Once(Option<File>),
}

/// An open file that is read at offsets, and what it was when it was opened.
#[derive(Debug)]
struct Object {
    file: File,
    name: String,
    len: u64,
    /// Seconds and nanoseconds. A device has none.
    modified: Option<(i64, i64)>,
    /// Device and inode.
    place: (u64, u64),
}

impl FileSource {
    /// The source at `path`. Reads nothing yet; opening a pipe waits for its writer.
    pub fn open(path: &Path) -> Result<Self> {
        let name = path.display().to_string();
        let file_name = path.file_name().map(ToOwned::to_owned);
        let refused = |what: &str| Error::new(Kind::Refused, format!("{name}: {what}"));
        let opened = File::open(path).and_then(|file| Ok((file.metadata()?, file)));
        let (metadata, mut file) = opened.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => refused("there is no such file"),
            io::ErrorKind::PermissionDenied => refused("may not be read by this user"),
            _ => refused("can't be opened").because(error),
        })?;
        let kind = metadata.file_type();
        let (len, modified) = if kind.is_file() {
            (metadata.len(), Some((metadata.mtime(), metadata.mtime_nsec())))
        } else if kind.is_block_device() {
            let len = file.seek(SeekFrom::End(0)).map_err(|error| refused("has no size").because(error))?;
            (len, None)
        } else if kind.is_dir() {
            return Err(refused("is a directory: name the image in it"));
        } else {
            return Ok(Self { name, file_name, body: Body::Once(Some(file)) });
        };
        // A hint: more is read ahead. Who has no use for it refuses it.
        if let Err(error) = rustix::fs::fadvise(&file, 0, None, Advice::Sequential) {
            tracing::debug!(source = %name, %error, "no read-ahead hint");
        }
        let object = Object { file, name: name.clone(), len, modified, place: (metadata.dev(), metadata.ino()) };
        Ok(Self { name, file_name, body: Body::Seekable(Arc::new(object)) })
    }

    /// A file that has no name of its own: what an import keeps for itself.
    pub(crate) fn unnamed(file: File, name: &str) -> Result<Self> {
        let metadata = file.metadata().map_err(|error| Error::new(Kind::Ours, name.to_owned()).because(error))?;
        let modified = Some((metadata.mtime(), metadata.mtime_nsec()));
        let (name, len, place) = (name.to_owned(), metadata.len(), (metadata.dev(), metadata.ino()));
        let object = Object { file, name: name.clone(), len, modified, place };
        Ok(Self { name, file_name: None, body: Body::Seekable(Arc::new(object)) })
    }

    fn seekable(&self) -> Result<&Arc<Object>> {
        match &self.body {
            Body::Seekable(object) => Ok(object),
            Body::Once(_) => Err(Error::new(Kind::Ours, format!("{}: asked for a range, which it has not", self.name))),
        }
    }
}

// === impl Source ===

impl Source for FileSource {
    fn open(&mut self) -> Result<Box<dyn Stream>> {
        match &mut self.body {
            Body::Seekable(object) => Ok(Box::new(FileStream::new(object, 0..object.len)?)),
            Body::Once(file) => {
                let name = self.name.clone();
                let file = file.take().ok_or_else(|| Error::new(Kind::Ours, format!("{name}: opened twice")))?;
                let pipe = Pipe::new(file, name.clone());
                let pipe =
                    pipe.map_err(|error| Error::new(Kind::Refused, format!("{name}: can't be read")).because(error))?;
                Ok(Box::new(pipe))
            }
        }
    }

    fn read(&mut self, ranges: Vec<Range<u64>>) -> Result<Box<dyn Stream>> {
        let object = self.seekable()?;
        if let Some(range) = ranges.iter().find(|range| range.start > range.end || range.end > object.len) {
            let Object { name, len, .. } = &**object;
            return Err(Error::new(Kind::Ours, format!("{name}: the range {range:?} is not in its {len} bytes")));
        }
        Ok(Box::new(Parts { object: Arc::clone(object), ranges: ranges.into_iter(), part: None }))
    }

    fn stored(&mut self, range: Range<u64>) -> Result<Option<u64>> {
        let mut stream = FileStream::new(self.seekable()?, range)?;
        let mut stored = 0;
        while stream.at < stream.end {
            let hole = stream.hole()?;
            if hole == 0 {
                let until = stream.data.end.min(stream.end);
                stored += until - stream.at;
                stream.at = until;
            }
            stream.at += hole;
        }
        Ok(Some(stored))
    }

    fn len(&self) -> Option<u64> {
        match &self.body {
            Body::Seekable(object) => Some(object.len),
            Body::Once(_) => None,
        }
    }

    fn ranges(&self) -> bool {
        matches!(self.body, Body::Seekable(_))
    }

    fn reopens(&self) -> bool {
        self.ranges()
    }

    fn identity(&self) -> Option<String> {
        let Body::Seekable(object) = &self.body else { return None };
        let (seconds, nanoseconds) = object.modified?;
        let (device, inode) = object.place;
        Some(format!("inode {device}:{inode}, {} bytes, modified {seconds}.{nanoseconds:09}", object.len))
    }

    fn name(&self) -> String {
        self.name.clone()
    }

    fn file_name(&self) -> Option<Vec<u8>> {
        Some(self.file_name.clone()?.into_vec())
    }
}

/// Ranges of a file, one behind the other.
struct Parts {
    object: Arc<Object>,
    ranges: std::vec::IntoIter<Range<u64>>,
    part: Option<FileStream>,
}

impl Stream for Parts {
    fn next(&mut self) -> Result<Option<Piece>> {
        loop {
            if let Some(part) = &mut self.part
                && let Some(piece) = part.next()?
            {
                return Ok(Some(piece));
            }
            let Some(range) = self.ranges.next() else { return Ok(None) };
            let before = self.part.take().map_or(0..0, |part| part.data);
            let mut part = FileStream::new(&self.object, range)?;
            // To look for the next hole may cost milliseconds, and ranges may be small and many.
            if before.contains(&part.at) {
                part.data = before;
            }
            self.part = Some(part);
        }
    }
}

// === impl Object ===

impl Object {
    /// Fails if the file is no longer what was opened.
    fn unchanged(&self) -> Result<()> {
        let Some(modified) = self.modified else { return Ok(()) };
        let now = self.file.metadata().map_err(|error| self.failed(0, error))?;
        if now.len() != self.len {
            return Err(self.changed(&format!("it had {} bytes and has {} now", self.len, now.len())));
        }
        if (now.mtime(), now.mtime_nsec()) != modified {
            return Err(self.changed("it was written to"));
        }
        Ok(())
    }

    fn changed(&self, how: &str) -> Error {
        let text = format!("{}: changed while it was read: {how}: try again when it is complete", self.name);
        Error::new(Kind::Transient, text)
    }

    fn failed(&self, at: u64, error: impl Into<io::Error>) -> Error {
        Error::new(Kind::Transient, format!("{}: can't be read at offset {at:#x}", self.name)).because(error.into())
    }
}

/// A part of a file.
#[derive(Debug)]
struct FileStream {
    object: Arc<Object>,
    at: u64,
    end: u64,
    /// A range of the file in which there is no hole. It may end beyond this part.
    data: Range<u64>,
}

impl FileStream {
    fn new(object: &Arc<Object>, range: Range<u64>) -> Result<Self> {
        object.unchanged()?;
        Ok(Self { object: Arc::clone(object), at: range.start, end: range.end, data: range.start..range.start })
    }

    /// The length of the hole at the current offset; 0 if there is data, whose end is then known.
    fn hole(&mut self) -> Result<u64> {
        use rustix::io::Errno;

        let seek = |to| rustix::fs::seek(&self.object.file, to);
        let data = match seek(rustix::fs::SeekFrom::Data(self.at)) {
            // No data from here on: a hole to the end, unless the end is no longer where it was.
            Err(Errno::NXIO) => {
                self.object.unchanged()?;
                self.end
            }
            // It does not know of holes.
            Err(_) => {
                self.data = 0..u64::MAX;
                return Ok(0);
            }
            Ok(data) => data.min(self.end),
        };
        if data > self.at {
            return Ok(data - self.at);
        }
        let hole = seek(rustix::fs::SeekFrom::Hole(self.at)).unwrap_or(self.end);
        // At least one byte is data, whatever the file system says.
        self.data = self.at..hole.max(self.at.saturating_add(1));
        Ok(0)
    }

    /// Reads up to a block.
    ///
    /// Each has fresh memory: an allocator told to give none back made this no faster, so a pool would not either.
    fn read(&mut self) -> Result<Bytes> {
        let want = usize::try_from(self.data.end.min(self.end) - self.at).unwrap_or(usize::MAX).min(BLOCK);
        let mut block = Vec::with_capacity(want);
        while block.len() < want {
            let at = self.at + block.len() as u64;
            let object = &self.object;
            let read = rustix::io::retry_on_intr(|| rustix::io::pread(&object.file, spare_capacity(&mut block), at));
            if read.map_err(|error| object.failed(at, error))? == 0 {
                return Err(object.changed(&format!("it had {} bytes and ends at {at} now", object.len)));
            }
        }
        // The allocator may give more room than was asked for, and then more was read.
        block.truncate(want);
        self.at += want as u64;
        Ok(block.into())
    }
}

impl Stream for FileStream {
    fn next(&mut self) -> Result<Option<Piece>> {
        if self.at >= self.end {
            self.object.unchanged()?;
            return Ok(None);
        }
        if self.at >= self.data.end {
            let hole = self.hole()?;
            if hole > 0 {
                self.at += hole;
                return Ok(Some(Piece::Hole(hole)));
            }
        }
        self.read().map(Piece::Bytes).map(Some)
    }
}

/// How much is read at once. Measured from 128 KiB to 1 MiB, it is the same or best: what costs is not the calls but the
/// memory that waits downstream, when it is more than the caches of the processor hold.
const BLOCK: usize = 256 << 10;

#[cfg(test)]
mod tests;
