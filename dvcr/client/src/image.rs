//! An image that was found, and the way to it.

use dvcr_oci::{Descriptor, Digest, ImageConfig, ImageManifest, Manifest, Platform, media};

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

/// Something to be looked at.
struct Open {
    what: Target,
    /// What the index says about it.
    entry: Option<Descriptor>,
    depth: usize,
}

impl Repository {
    /// The image for a platform that is under `target`; see [`Client::resolve`](crate::Client::resolve).
    pub(crate) async fn resolve(&self, target: &Target, platform: Option<&Platform>) -> Result<Image> {
        let mut asked = platform.cloned();
        let mut there: Vec<Platform> = Vec::new();
        let mut open = vec![Open { what: target.clone(), entry: None, depth: 0 }];
        let mut looked_at = 0;
        while let Some(next) = open.pop() {
            looked_at += 1;
            if looked_at > MAX_MANIFESTS {
                let message =
                    format!("{self}@{target}: more than {MAX_MANIFESTS} manifests would have to be looked at");
                return Err(Error::new(Kind::Malformed, message));
            }
            let document = self.document(&next.what, next.entry.as_ref()).await?;
            match document.manifest {
                Manifest::Index(index) => {
                    if next.depth >= MAX_DEPTH {
                        let message = format!("{self}@{target}: indexes are nested deeper than {MAX_DEPTH} levels");
                        return Err(Error::new(Kind::Malformed, message));
                    }
                    for platform in index.platforms() {
                        if !there.contains(&platform) {
                            there.push(platform);
                        }
                    }
                    let asked = asked.get_or_insert_with(Platform::of_this_machine);
                    let chosen = index.choose(asked).unwrap_or_default();
                    // The first one is looked at first.
                    open.extend(chosen.into_iter().rev().map(|entry| Open {
                        what: Target::Digest(entry.digest),
                        entry: Some(entry.clone()),
                        depth: next.depth + 1,
                    }));
                }
                Manifest::Image(manifest) => {
                    let declared = next.entry.and_then(|entry| entry.platform);
                    let config = self.config(&manifest).await?;
                    let said = config.as_ref().and_then(ImageConfig::platform);
                    let fits = match (&asked, &declared, &config) {
                        (None, _, _) | (_, _, None) => true,
                        // Configurations lack variants, so the index counts; but it can't make one machine of another.
                        (Some(asked), Some(_), Some(_)) => !said.as_ref().is_some_and(|said| asked.contradicts(said)),
                        (Some(asked), None, Some(config)) => config.check(asked).is_ok(),
                    };
                    if fits {
                        let (digest, platform) = (document.descriptor.digest, declared.or(said));
                        return Ok(Image { digest, manifest, config, platform, places: vec![self.clone()] });
                    }
                    there.extend(said.map(|said| said.normalised()).filter(|said| !there.contains(said)));
                }
            }
        }
        let asked = asked.unwrap_or_else(Platform::of_this_machine);
        let error = Error::from(dvcr_oci::Error::no_platform(&asked, &there));
        Err(self.error(error.at(format_args!("{self}{target}"))))
    }

    /// The configuration of an image; `None` for an artifact.
    async fn config(&self, manifest: &ImageManifest) -> Result<Option<ImageConfig>> {
        if !media::is_config(&manifest.config.media_type) {
            return Ok(None);
        }
        let blob = Blob::new(vec![self.clone()], manifest.config.clone());
        let bytes = blob.bytes(dvcr_oci::MAX_DOCUMENT).await?;
        let config = ImageConfig::parse(&bytes);
        let config = config.map_err(|error| self.error(Error::from(error).at(format_args!("{self}"))))?;
        Ok(Some(config))
    }

    async fn document(&self, what: &Target, entry: Option<&Descriptor>) -> Result<Document> {
        let document = self.manifest(what).await?;
        if let Some(entry) = entry.filter(|entry| entry.size != document.descriptor.size) {
            let message =
                format!("{self}{what}: it has {} bytes, the index says {}", document.descriptor.size, entry.size);
            return Err(self.error(Error::new(Kind::Mismatch, message)));
        }
        Ok(document)
    }
}

/// Nested deeper than anybody nests.
const MAX_DEPTH: usize = 4;
/// Each is a request.
const MAX_MANIFESTS: usize = 64;
