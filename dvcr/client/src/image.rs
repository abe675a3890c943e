//! An image that was found, and the way to it.

use dvcr_oci::{Descriptor, Digest, Found, ImageConfig, ImageManifest, Manifest, Platform, Search, Step};

use crate::blob::Blob;
use crate::error::{Error, Kind, Result};
use crate::repository::{Document, Repository, Target};

/// An image, or an artifact, that was found in a registry.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Image {
    /// What its manifest is known by; that of the image, also where an index was asked for.
    pub digest: Digest,
    /// Its manifest.
    pub manifest: ImageManifest,
    /// What it says about itself; `None` for an artifact, which has anything in its place.
    pub config: Option<ImageConfig>,
    /// For which machines it is, by the index or by its configuration.
    pub platform: Option<Platform>,
    /// Where it was found, and where its blobs may be had as well.
    places: Vec<Repository>,
}

impl Image {
    /// One of its layers, or whatever its manifest points to. Connects to nothing.
    #[must_use]
    pub fn blob(&self, descriptor: &Descriptor) -> Blob {
        Blob::new(self.places.clone(), descriptor.clone())
    }

    /// Where it was found.
    #[must_use]
    pub fn repository(&self) -> Option<&Repository> {
        self.places.first()
    }

    pub(crate) fn or_from(mut self, places: Vec<Repository>) -> Self {
        self.places.extend(places);
        self
    }
}

impl Repository {
    /// The image for a platform that is under `target`; see [`Client::resolve`](crate::Client::resolve).
    pub(crate) async fn resolve(&self, target: &Target, platform: Option<&Platform>) -> Result<Image> {
        let failed = |error: dvcr_oci::Error| self.error(Error::from(error).at(format_args!("{self}{target}")));
        let mut search = Search::new(platform.cloned());
        let root = self.manifest(target).await?;
        let mut step = search.root(root.descriptor.digest, root.manifest).map_err(failed)?;
        loop {
            step = match step {
                Step::Manifest(entry) => {
                    let manifest = self.entry(entry.descriptor()).await?;
                    search.manifest(entry, manifest)
                }
                Step::Config(image) => {
                    let config = self.config(image.config()).await?;
                    search.config(image, config)
                }
                Step::Found(found) => {
                    let Found { digest, manifest, config, platform, .. } = found;
                    return Ok(Image { digest, manifest, config, platform, places: vec![self.clone()] });
                }
            }
            .map_err(failed)?;
        }
    }

    /// The manifest that an index has.
    async fn entry(&self, entry: &Descriptor) -> Result<Manifest> {
        let target = Target::Digest(entry.digest);
        let Document { descriptor, manifest, .. } = self.manifest(&target).await?;
        if entry.size != descriptor.size {
            let message = format!("{self}{target}: it has {} bytes, the index says {}", descriptor.size, entry.size);
            return Err(self.error(Error::new(Kind::Mismatch, message)));
        }
        Ok(manifest)
    }

    /// The configuration of an image.
    async fn config(&self, descriptor: &Descriptor) -> Result<ImageConfig> {
        let blob = Blob::new(vec![self.clone()], descriptor.clone());
        let bytes = blob.bytes(dvcr_oci::MAX_DOCUMENT).await?;
        ImageConfig::parse(&bytes).map_err(|error| self.error(Error::from(error).at(format_args!("{self}"))))
    }
}
