//! The start of an upload, kept for the case that its import has to go on in another process.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use bytes::Bytes;

/// The start of an upload in a file: what says which image it is, and what a device gets last. An import that goes on in
/// another process needs it, and whoever sends has sent it already.
#[derive(Debug)]
pub struct Front {
    path: PathBuf,
    kept: Bytes,
    file: Option<File>,
    written: usize,
}

impl Front {
    /// The front in this file, whole or not there yet. What is not whole is forgotten.
    ///
    /// # Errors
    ///
    /// Those of the file system.
    pub fn open(path: &Path) -> io::Result<Self> {
        let mut kept = Vec::new();
        match File::open(path) {
            Ok(file) => drop(file.take(LEN as u64).read_to_end(&mut kept)?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        if kept.len() < LEN {
            kept.clear();
        }
        Ok(Self { path: path.to_owned(), kept: kept.into(), file: None, written: 0 })
    }

    /// Whether an earlier process has kept it.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        !self.kept.is_empty()
    }

    /// What an earlier process has kept: all of it, or nothing.
    pub(super) fn kept(&self) -> &Bytes {
        &self.kept
    }

    /// The next bytes of the upload. Once there are enough, they are durable before this returns, and so before any
    /// checkpoint that relies on them.
    pub(super) fn pass(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.written == LEN || !self.kept.is_empty() {
            return Ok(());
        }
        let mut file = match self.file.take() {
            Some(file) => file,
            None => File::create(&self.path)?,
        };
        let part = bytes.get(..LEN - self.written).unwrap_or(bytes);
        file.write_all(part)?;
        self.written += part.len();
        if self.written < LEN {
            self.file = Some(file);
            return Ok(());
        }
        file.sync_all()?;
        let parent = self.path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        File::open(parent)?.sync_all()
    }

    /// Removes the file: nothing goes on from it.
    ///
    /// # Errors
    ///
    /// Those of the file system; that it is not there is none.
    pub fn remove(path: &Path) -> io::Result<()> {
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

/// What a device gets last, and what tells formats apart is in it. A checkpoint comes long after.
const LEN: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_kept_whole_or_not_at_all() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("front");
        let bytes: Vec<u8> = (0..LEN + 5000).map(|at| u8::try_from(at % 253).unwrap()).collect();
        let mut front = Front::open(&path).unwrap();
        for part in bytes[..LEN - 1].chunks(10_000) {
            front.pass(part).unwrap();
        }
        assert!(Front::open(&path).unwrap().kept().is_empty());
        let mut front = Front::open(&path).unwrap();
        for part in bytes.chunks(10_000) {
            front.pass(part).unwrap();
        }
        let mut kept = Front::open(&path).unwrap();
        assert!(kept.kept() == &bytes[..LEN]);
        kept.pass(b"what comes now is behind it").unwrap();
        assert!(Front::open(&path).unwrap().kept() == &bytes[..LEN]);
        Front::remove(&path).unwrap();
        Front::remove(&path).unwrap();
        assert!(Front::open(&path).unwrap().kept().is_empty());
    }
}
