//! Which manifests are about another one.

use std::io;

use dvcr_oci::{Descriptor, Digest, Manifest, Name};

use super::Store;
use super::link::absent;
use crate::error::{Error, Result};

impl Store {
    /// The manifests whose subject is `subject`, as an index lists them, by digest. The subject need not be there.
    ///
    /// # Errors
    /// When the store can't be read.
    pub fn referrers(&self, name: &Name, subject: &Digest) -> Result<Vec<Descriptor>> {
        let mut found = Vec::new();
        for digest in self.referrer_digests(name, subject)? {
            let stored = self.read_manifest(name, &digest).map_err(|error| Error::io(digest, &error))?;
            // One that is being pushed, or that was deleted just now.
            let Some(stored) = stored else { continue };
            let Ok(manifest) = Manifest::parse(&stored.bytes, Some(&stored.media_type)) else { continue };
            let mut descriptor = Descriptor::new(stored.media_type, digest, stored.bytes.len() as u64);
            descriptor.artifact_type = manifest.artifact_type().map(str::to_owned);
            descriptor.annotations = manifest.annotations().clone();
            found.push(descriptor);
        }
        Ok(found)
    }

    pub(super) fn referrer_digests(&self, name: &Name, subject: &Digest) -> Result<Vec<Digest>> {
        let folder = self.layout().referrers(name, subject);
        let read = || -> io::Result<Vec<Digest>> {
            let mut digests = Vec::new();
            for entry in folder.read_dir()? {
                digests.extend(entry?.file_name().to_str().and_then(|name| name.parse::<Digest>().ok()));
            }
            digests.sort_unstable();
            Ok(digests)
        };
        match read() {
            Err(error) if absent(&error) => Ok(Vec::new()),
            other => other.map_err(|error| Error::io(folder.display(), &error)),
        }
    }
}
