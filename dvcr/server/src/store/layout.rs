//! Which file is where.

use std::io;
use std::path::{Path, PathBuf};

use dvcr_oci::{Digest, Name, Tag};

/// The paths of a store. Names, tags and digests are made of harmless characters by their types; nothing else from outside
/// becomes part of a path.
pub(crate) struct Layout {
    root: PathBuf,
}

impl Layout {
    pub(crate) fn new(root: PathBuf) -> Self {
        Self { root }
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn version(&self) -> PathBuf {
        self.root.join("VERSION")
    }

    pub(crate) fn blobs(&self) -> PathBuf {
        self.root.join("blobs")
    }

    pub(crate) fn repositories(&self) -> PathBuf {
        self.root.join("repositories")
    }

    pub(crate) fn uploads(&self) -> PathBuf {
        self.root.join("uploads")
    }

    pub(crate) fn tmp(&self) -> PathBuf {
        self.root.join("tmp")
    }

    pub(crate) fn locks(&self) -> PathBuf {
        self.root.join("locks")
    }

    pub(crate) fn content(&self, digest: &Digest) -> PathBuf {
        let hex = digest.hex();
        let mut path = self.blobs();
        path.push(digest.algorithm().name());
        path.push(hex.get(..2).unwrap_or(&hex));
        path.push(hex);
        path
    }

    pub(crate) fn repository(&self, name: &Name) -> PathBuf {
        self.repositories().join(name.as_str())
    }

    pub(crate) fn blob_links(&self, name: &Name) -> PathBuf {
        self.repository(name).join(BLOBS)
    }

    pub(crate) fn blob_link(&self, name: &Name, digest: &Digest) -> PathBuf {
        self.blob_links(name).join(digest.to_string())
    }

    pub(crate) fn manifest_links(&self, name: &Name) -> PathBuf {
        self.repository(name).join(MANIFESTS)
    }

    pub(crate) fn manifest_link(&self, name: &Name, digest: &Digest) -> PathBuf {
        self.manifest_links(name).join(digest.to_string())
    }

    pub(crate) fn tags(&self, name: &Name) -> PathBuf {
        self.repository(name).join(TAGS)
    }

    pub(crate) fn tag(&self, name: &Name, tag: &Tag) -> PathBuf {
        self.tags(name).join(tag.as_str())
    }

    pub(crate) fn all_referrers(&self, name: &Name) -> PathBuf {
        self.repository(name).join(REFERRERS)
    }

    pub(crate) fn referrers(&self, name: &Name, subject: &Digest) -> PathBuf {
        self.all_referrers(name).join(subject.to_string())
    }

    /// What is in the folder and does not belong to a store that is being made: a crash may have left the first of it.
    pub(crate) fn strangers(&self) -> io::Result<Vec<String>> {
        let mut strangers = Vec::new();
        for entry in self.root.read_dir()? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if !["blobs", "repositories", "uploads", "tmp", "locks", "lost+found"].contains(&name.as_str()) {
                strangers.push(name);
            }
        }
        Ok(strangers)
    }
}

pub(crate) const BLOBS: &str = "_blobs";
pub(crate) const MANIFESTS: &str = "_manifests";
pub(crate) const TAGS: &str = "_tags";
pub(crate) const REFERRERS: &str = "_referrers";
