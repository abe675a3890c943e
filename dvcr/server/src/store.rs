//! Where the registry keeps what it holds: a folder of a file system, shared by everything that works on it.
//!
//! ```text
//! VERSION                                   which layout this is
//! blobs/sha256/ab/abcd…                     every content once, manifests too, named by its digest, read-only
//! repositories/NAME/_blobs/sha256:abcd…     NAME has this blob: a file of nothing, as long as pushes wait
//! repositories/NAME/_manifests/sha256:ef…   NAME has this manifest: its media type
//! repositories/NAME/_tags/TAG               the digest of a manifest
//! repositories/NAME/_referrers/sha256:ef…/sha256:01…   the second names the first as its subject
//! uploads/UUID/{repository,data}            an upload that is not complete
//! tmp/                                      files that get their name by a rename
//! locks/                                    see `gate`
//! ```
//!
//! A name of a repository has no part that begins with `_`, so folders of both kinds never meet.
//!
//! **Crash-safe.** Content is written under another name, synced, renamed, and its folder synced; a link is made after
//! what it links to is durable, and a tag after its manifest. Whatever moment the power fails at, what is visible is
//! complete. Removal goes the other way round.
//!
//! **Links say who may have what, and what is in use.** The time of a link is when it was last pushed, mounted, asked for
//! or let go; its mode and its length say who relies on it. [`gc`] explains what follows from that.
//!
//! All functions block; the server calls them on threads of their own.

mod blob;
pub mod check;
mod durable;
mod gate;
pub mod gc;
mod layout;
mod link;
mod list;
mod manifest;
mod referrers;
mod space;
mod upload;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

pub use blob::Blob;
pub use manifest::Stored;
pub use space::{Limits, Room};
pub use upload::Upload;

use crate::error::{Error, Kind, Result};
use gate::Gate;
use layout::Layout;
use space::Space;

/// A store, open. Clones are the same store.
#[derive(Clone)]
pub struct Store {
    inner: Arc<Inner>,
}

struct Inner {
    layout: Layout,
    gate: Gate,
    space: Space,
    /// Held while a tag is set.
    tags: Mutex<()>,
}

impl Store {
    /// Opens the store at `root`, and makes it if there is nothing yet. Reads one file: what is in the store costs no
    /// time here.
    ///
    /// # Errors
    /// `Usage` when the folder is something else; `Io` when it can't be written.
    pub fn create(root: &Path, limits: Limits) -> Result<Self> {
        let layout = Layout::new(root.to_owned());
        for folder in [root.to_owned(), layout.tmp()] {
            std::fs::create_dir_all(&folder).map_err(|error| Error::io(folder.display(), &error))?;
        }
        let version = layout.version();
        if !version.exists() {
            let strangers = layout.strangers().map_err(|error| Error::io(root.display(), &error))?;
            if let Some(stranger) = strangers.first() {
                return Err(Error::new(
                    Kind::Usage,
                    format!(
                        "{} is no store of dvcr: there is {stranger:?} in it; name an empty folder",
                        root.display()
                    ),
                ));
            }
            for folder in [layout.blobs(), layout.repositories(), layout.uploads(), layout.locks()] {
                std::fs::create_dir_all(&folder).map_err(|error| Error::io(folder.display(), &error))?;
            }
            durable::write(&layout.tmp(), &version, VERSION.as_bytes())?;
        }
        Self::with(layout, limits)
    }

    /// Opens the store at `root`, which must be one.
    ///
    /// # Errors
    /// `Usage` when it is none.
    pub fn open(root: &Path) -> Result<Self> {
        Self::with(Layout::new(root.to_owned()), Limits::default())
    }

    fn with(layout: Layout, limits: Limits) -> Result<Self> {
        let root = layout.root().display();
        match std::fs::read_to_string(layout.version()) {
            Ok(version) if version == VERSION => {}
            Ok(_) => return Err(Error::new(Kind::Usage, format!("{root} is a store of another version of dvcr"))),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(Error::new(Kind::Usage, format!("{root} is no store of dvcr: `dvcr serve` makes one")));
            }
            Err(error) => return Err(Error::io(root, &error)),
        }
        let gate = Gate::new(&layout.locks()).map_err(|error| Error::io(layout.locks().display(), &error))?;
        let space = Space::new(&layout, limits);
        Ok(Self { inner: Arc::new(Inner { layout, gate, space, tags: Mutex::new(()) }) })
    }

    /// The folder it is in.
    #[must_use]
    pub fn root(&self) -> &Path {
        self.inner.layout.root()
    }

    /// How much room there is.
    ///
    /// # Errors
    /// When the file system can't be asked.
    pub fn room(&self) -> Result<Room> {
        self.inner.space.room()
    }

    /// Proves that a file can be written and removed.
    ///
    /// # Errors
    /// `Full` when there is no room, `Io` when it can't be written.
    pub fn probe(&self) -> Result<()> {
        self.inner.space.require(0)?;
        let path = self.tmp_file();
        let written = std::fs::write(&path, [0; 4096]);
        let removed = std::fs::remove_file(&path);
        written.and(removed).map_err(|error| Error::io("writing to try it", &error))
    }

    pub(crate) fn layout(&self) -> &Layout {
        &self.inner.layout
    }

    fn tmp_file(&self) -> PathBuf {
        durable::unnamed(&self.layout().tmp())
    }

    fn gate(&self) -> &Gate {
        &self.inner.gate
    }

    fn adding(&self) -> Result<gate::Inside> {
        self.inner.gate.add().map_err(|error| Error::io("the lock of the store", &error))
    }

    fn removing(&self) -> Result<gate::Inside> {
        self.inner.gate.remove().map_err(|error| Error::io("the lock of the store", &error))
    }
}

const VERSION: &str = "dvcr store 1\n";

#[cfg(test)]
mod tests;
