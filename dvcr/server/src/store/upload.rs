//! Uploads: content that is not complete.

use std::fs::{self, File};
use std::io::{self, IoSlice};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use dvcr_oci::{Algorithm, Digest, Hasher, Name};
use rustix::fs::{FlockOperation, flock};

use super::Store;
use super::durable;
use super::link::absent;
use crate::error::{Error, Kind, Result};

/// An upload that one request writes to. No other request, in this process or another, has it at the same time.
pub struct Upload {
    store: Store,
    name: Name,
    id: String,
    /// Locked as a whole as long as it is open.
    file: Arc<File>,
    len: u64,
    /// What was written since the room was last looked at.
    unchecked: u64,
}

impl Store {
    /// Begins an upload to a repository. `size` is how much will come, if that is known.
    ///
    /// # Errors
    /// `Full` when there is no room for so much.
    pub fn begin(&self, name: &Name, size: u64) -> Result<Upload> {
        self.inner.space.require(size)?;
        let id = durable::uuid();
        let folder = self.upload_folder(&id);
        let made = || -> io::Result<File> {
            fs::create_dir(&folder)?;
            fs::write(folder.join("repository"), name.as_str())?;
            let file = File::options().read(true).write(true).create_new(true).open(folder.join("data"))?;
            flock(&file, FlockOperation::NonBlockingLockExclusive)?;
            Ok(file)
        };
        match made() {
            Ok(file) => {
                Ok(Upload { store: self.clone(), name: name.clone(), id, file: Arc::new(file), len: 0, unchecked: 0 })
            }
            Err(error) => {
                let _ = fs::remove_dir_all(&folder);
                Err(Error::io("beginning an upload", &error))
            }
        }
    }

    /// Goes on with an upload.
    ///
    /// # Errors
    /// `UploadUnknown` when the repository has none of this name; `TooManyRequests` when another request has it.
    pub fn upload(&self, name: &Name, id: &str) -> Result<Upload> {
        self.check_upload(name, id)?;
        let opened = || -> io::Result<File> {
            let file = File::options().read(true).write(true).open(self.upload_folder(id).join("data"))?;
            flock(&file, FlockOperation::NonBlockingLockExclusive)?;
            Ok(file)
        };
        let file = opened().map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => {
                Error::new(Kind::TooManyRequests, format!("another request writes to the upload {id}: wait for it"))
            }
            _ if absent(&error) => unknown(name, id),
            _ => Error::io(format_args!("upload {id}"), &error),
        })?;
        let meta = file.metadata().map_err(|error| Error::io(format_args!("upload {id}"), &error))?;
        if meta.nlink() == 0 {
            // It was completed or removed between the opening and the lock.
            return Err(unknown(name, id));
        }
        let len = meta.len();
        Ok(Upload {
            store: self.clone(),
            name: name.clone(),
            id: id.to_owned(),
            file: Arc::new(file),
            len,
            unchecked: 0,
        })
    }

    /// How many bytes an upload has.
    ///
    /// # Errors
    /// `UploadUnknown` when the repository has none of this name.
    pub fn upload_len(&self, name: &Name, id: &str) -> Result<u64> {
        self.check_upload(name, id)?;
        match fs::metadata(self.upload_folder(id).join("data")) {
            Ok(meta) => Ok(meta.len()),
            Err(error) if absent(&error) => Err(unknown(name, id)),
            Err(error) => Err(Error::io(format_args!("upload {id}"), &error)),
        }
    }

    /// Whether there is room for `more` bytes now.
    ///
    /// # Errors
    /// `Full` when there is not.
    pub fn has_room(&self, more: u64) -> Result<()> {
        self.inner.space.require(more)
    }

    fn check_upload(&self, name: &Name, id: &str) -> Result<()> {
        // It becomes part of a path.
        let is_uuid = id.len() == 36 && id.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
        if !is_uuid {
            return Err(unknown(name, id));
        }
        match fs::read_to_string(self.upload_folder(id).join("repository")) {
            Ok(owner) if owner == name.as_str() => Ok(()),
            Ok(_) => Err(unknown(name, id)),
            Err(error) if absent(&error) => Err(unknown(name, id)),
            Err(error) => Err(Error::io(format_args!("upload {id}"), &error)),
        }
    }

    pub(super) fn upload_folder(&self, id: &str) -> PathBuf {
        self.layout().uploads().join(id)
    }
}

impl Upload {
    /// Its name.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// How many bytes it has.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether nothing was written yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Appends these pieces with as few calls as there can be, and without a copy of ours.
    ///
    /// # Errors
    /// `Full` when there is no room: what was written before stays.
    pub fn append(&mut self, pieces: &[Bytes]) -> Result<()> {
        let total: u64 = pieces.iter().map(|piece| piece.len() as u64).sum();
        self.unchecked += total;
        if self.unchecked >= CHECK_EACH {
            self.store.inner.space.require(self.unchecked)?;
            self.unchecked = 0;
        }
        let mut slices: Vec<IoSlice<'_>> = pieces.iter().map(|piece| IoSlice::new(piece)).collect();
        let mut rest = slices.as_mut_slice();
        let mut at = self.len;
        IoSlice::advance_slices(&mut rest, 0);
        while !rest.is_empty() {
            let most = rest.len().min(MAX_PIECES);
            match rustix::io::pwritev(&self.file, rest.get(..most).unwrap_or_default(), at) {
                Ok(0) => return Err(Error::io(format_args!("upload {}", self.id), &io::ErrorKind::WriteZero.into())),
                Ok(written) => {
                    at += written as u64;
                    IoSlice::advance_slices(&mut rest, written);
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(Error::io(format_args!("upload {}", self.id), &error.into())),
            }
        }
        self.len = at;
        self.store.inner.space.written(total);
        Ok(())
    }

    /// Takes back what was written behind `len`.
    ///
    /// # Errors
    /// When the file can't be changed.
    pub fn truncate(&mut self, len: u64) -> Result<()> {
        self.file.set_len(len).map_err(|error| Error::io(format_args!("upload {}", self.id), &error))?;
        self.len = len;
        self.store.inner.space.freed();
        Ok(())
    }

    /// The hash of all bytes so far, read again.
    ///
    /// # Errors
    /// When they can't be read.
    pub fn hash(&self, algorithm: Algorithm) -> Result<Hasher> {
        let mut hasher = Hasher::new(algorithm);
        let mut buffer = vec![0; 1 << 18];
        let mut at = 0;
        while at < self.len {
            let read = self
                .file
                .read_at(&mut buffer, at)
                .map_err(|error| Error::io(format_args!("upload {}", self.id), &error))?;
            let Some(bytes) = buffer.get(..read).filter(|bytes| !bytes.is_empty()) else {
                return Err(Error::new(Kind::Io, format!("upload {} was cut by somebody else", self.id)));
            };
            hasher.update(bytes);
            at += read as u64;
        }
        Ok(hasher)
    }

    /// Makes it a blob of its repository. `digest` is that of its bytes, which the caller has compared.
    ///
    /// # Errors
    /// When the store can't be written; the upload stays then.
    pub fn commit(self, digest: &Digest) -> Result<()> {
        let layout = self.store.layout();
        let folder = self.store.upload_folder(&self.id);
        let synced = || -> io::Result<()> {
            self.file.set_permissions(fs::Permissions::from_mode(0o444))?;
            self.file.sync_all()
        };
        synced().map_err(|error| Error::io(digest, &error))?;
        {
            let _inside = self.store.adding()?;
            // Also when the content is there already: this one has just been proved, and those who read the other go on.
            durable::rename(&folder.join("data"), &layout.content(digest))?;
            self.store.link(&self.name, digest).map_err(|error| Error::io(digest, &error))?;
        }
        // What stays if this fails is removed when it has expired.
        let _ = fs::remove_dir_all(folder);
        Ok(())
    }

    /// Removes it.
    ///
    /// # Errors
    /// When the store can't be written.
    pub fn cancel(self) -> Result<()> {
        let folder = self.store.upload_folder(&self.id);
        let removed = fs::remove_dir_all(folder);
        self.store.inner.space.freed();
        removed.map_err(|error| Error::io(format_args!("upload {}", self.id), &error))
    }
}

fn unknown(name: &Name, id: &str) -> Error {
    let id: String = id.chars().take(40).filter(char::is_ascii_graphic).collect();
    Error::new(Kind::UploadUnknown, format!("{name} has no upload {id}: begin anew"))
}

/// The room is looked at this often, in bytes.
const CHECK_EACH: u64 = 16 << 20;
/// IOV_MAX of Linux.
const MAX_PIECES: usize = 1024;
