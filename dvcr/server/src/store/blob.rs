//! Blobs: content that a repository has.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime};

use dvcr_oci::{Digest, Name};
use rustix::fs::{FlockOperation, flock};

use super::Store;
use super::link::{Link, absent, touch};
use crate::error::{Error, Kind, Result};

/// A blob, open. It can be read to its end whatever happens to its name meanwhile.
#[derive(Debug)]
pub struct Blob {
    /// Its bytes.
    pub file: File,
    /// How many they are.
    pub size: u64,
}

impl Store {
    /// Opens a blob of a repository.
    ///
    /// # Errors
    /// `BlobUnknown` when the repository does not have it, whoever else may.
    pub fn blob(&self, name: &Name, digest: &Digest) -> Result<Blob> {
        let layout = self.layout();
        let opened = || -> io::Result<Option<Blob>> {
            if Link::read(&layout.blob_link(name, digest))?.is_none() {
                return Ok(None);
            }
            let file = File::open(layout.content(digest))?;
            // As long as it is open, garbage collection leaves this repository alone.
            flock(&file, FlockOperation::LockShared)?;
            let size = file.metadata()?.len();
            Ok(Some(Blob { file, size }))
        };
        match opened() {
            Ok(Some(blob)) => Ok(blob),
            Ok(None) => Err(unknown(name, digest)),
            Err(error) if absent(&error) => Err(unknown(name, digest)),
            Err(error) => Err(Error::io(digest, &error)),
        }
    }

    /// How large a blob of a repository is. Whoever asks may be about to push a manifest with it instead of the blob, so
    /// garbage collection leaves it alone for a while.
    ///
    /// # Errors
    /// `BlobUnknown` when the repository does not have it.
    pub fn blob_size(&self, name: &Name, digest: &Digest) -> Result<u64> {
        let path = self.layout().blob_link(name, digest);
        let used = self.use_link(&path, true).and_then(|there| match there {
            true => fs::metadata(self.layout().content(digest)).map(|content| Some(content.len())),
            false => Ok(None),
        });
        match used {
            Ok(Some(size)) => Ok(size),
            Ok(None) => Err(unknown(name, digest)),
            Err(error) if absent(&error) => Err(unknown(name, digest)),
            Err(error) => Err(Error::io(digest, &error)),
        }
    }

    /// Says that a link is in use now: whether it is there. With `asked`, for who may leave it out of a push.
    pub(super) fn use_link(&self, path: &Path, asked: bool) -> io::Result<bool> {
        match Link::read(path)? {
            None => return Ok(false),
            Some(link) if (link.asked || !asked) && link.age(SystemTime::now()) < FRESH => return Ok(true),
            Some(_) => {}
        }
        let _inside = self.gate().add()?;
        let used = if asked { Link::ask(path) } else { touch(path) };
        match used {
            Err(error) if absent(&error) => Ok(false),
            // A store that can't be written can still be read, and nothing is removed from it either.
            Err(error) if !is_not_ours(&error) => Err(error),
            _ => Ok(true),
        }
    }

    /// Whether a repository has a blob, without any other effect.
    ///
    /// # Errors
    /// When the store can't be read.
    pub fn has_blob(&self, name: &Name, digest: &Digest) -> Result<bool> {
        let link = Link::read(&self.layout().blob_link(name, digest)).map_err(|error| Error::io(digest, &error))?;
        Ok(link.is_some())
    }

    /// Gives a repository a blob that is in the store: whether it was. Whether whoever asks may have it is the caller's
    /// to judge.
    ///
    /// # Errors
    /// When the store can't be written.
    pub fn mount(&self, name: &Name, digest: &Digest) -> Result<bool> {
        let _inside = self.adding()?;
        match self.link(name, digest) {
            Ok(()) => Ok(true),
            Err(error) if absent(&error) => Ok(false),
            Err(error) => Err(Error::io(digest, &error)),
        }
    }

    /// Links a content that is there. The caller is inside the gate.
    pub(super) fn link(&self, name: &Name, digest: &Digest) -> io::Result<()> {
        touch(&self.layout().content(digest))?;
        Link::push(&self.layout().blob_link(name, digest))
    }

    /// Takes a blob from a repository. Its content goes with the next garbage collection, if nobody else has it.
    ///
    /// # Errors
    /// `BlobUnknown` when the repository does not have it.
    pub fn delete_blob(&self, name: &Name, digest: &Digest) -> Result<()> {
        match remove(&self.layout().blob_link(name, digest)) {
            Ok(true) => Ok(()),
            Ok(false) => Err(unknown(name, digest)),
            Err(error) => Err(Error::io(digest, &error)),
        }
    }
}

/// Removes a file, durably: whether it was there.
pub(super) fn remove(path: &Path) -> io::Result<bool> {
    match fs::remove_file(path) {
        Ok(()) => {
            super::durable::sync(path.parent().unwrap_or(path))?;
            Ok(true)
        }
        Err(error) if absent(&error) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Whether it says that the store can't be written.
fn is_not_ours(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied)
}

fn unknown(name: &Name, digest: &Digest) -> Error {
    Error::new(Kind::BlobUnknown, format!("{name} has no blob {digest}"))
}

/// A link that was touched this recently need not be touched again. Far below what garbage collection leaves to a push.
pub(super) const FRESH: Duration = Duration::from_secs(60);
