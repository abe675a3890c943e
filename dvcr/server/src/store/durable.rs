//! Writing so that a crash leaves the old or the new, and knowing that it is on the disk.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use ring::rand::{SecureRandom, SystemRandom};

use crate::error::{Error, Result};

/// Writes a file as a whole: under another name in `tmp`, synced, renamed, the folder synced. Makes the folder.
pub(super) fn write(tmp: &Path, path: &Path, bytes: &[u8]) -> Result<()> {
    let draft = Draft::new(tmp, bytes)?;
    draft.place(path)
}

/// A synced file that has no name yet. Removed unless it gets one.
pub(super) struct Draft {
    path: PathBuf,
    placed: bool,
}

impl Draft {
    pub(super) fn new(tmp: &Path, bytes: &[u8]) -> Result<Self> {
        let draft = Self { path: unnamed(tmp), placed: false };
        let written = || -> io::Result<()> {
            let mut file = File::options().write(true).create_new(true).open(&draft.path)?;
            file.write_all(bytes)?;
            file.sync_all()
        };
        written().map_err(|error| Error::io("writing", &error))?;
        Ok(draft)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Gives it its name, in place of what had it.
    pub(super) fn place(mut self, path: &Path) -> Result<()> {
        rename(&self.path, path)?;
        self.placed = true;
        Ok(())
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if !self.placed {
            // It may not exist; and what stays in tmp is removed by the next garbage collection.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Renames a synced file to where it belongs and makes that durable.
pub(super) fn rename(from: &Path, to: &Path) -> Result<()> {
    let folder = to.parent().unwrap_or(to);
    let renamed = || -> io::Result<()> {
        folders(folder)?;
        fs::rename(from, to)?;
        sync(folder)
    };
    renamed().map_err(|error| Error::io("renaming", &error))
}

/// Makes a folder and those above it, durably. Costs one call when it is there.
pub(super) fn folders(folder: &Path) -> io::Result<()> {
    match fs::create_dir(folder) {
        Ok(()) => folder.parent().map_or(Ok(()), sync),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let Some(parent) = folder.parent() else { return Err(error) };
            folders(parent)?;
            // Again, not once: somebody else may have made or removed it meanwhile.
            folders(folder)
        }
        Err(error) => Err(error),
    }
}

/// Makes the names in a folder durable.
pub(super) fn sync(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// A new name in a folder.
pub(super) fn unnamed(folder: &Path) -> PathBuf {
    folder.join(uuid())
}

/// A random UUID (RFC 9562, version 4).
pub(crate) fn uuid() -> String {
    let mut bytes = [0; 16];
    // The kernel's generator does not fail once it is seeded; if it did, names would meet and `create_new` would refuse.
    let _ = SystemRandom::new().fill(&mut bytes);
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let mut text = String::with_capacity(36);
    for (at, byte) in bytes.iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text.push(char::from(HEX[usize::from(byte >> 4)]));
        text.push(char::from(HEX[usize::from(byte & 15)]));
    }
    text
}

const HEX: &[u8; 16] = b"0123456789abcdef";
