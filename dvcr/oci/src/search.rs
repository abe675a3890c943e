//! From what is under a reference to one image for one platform.

use crate::config::ImageConfig;
use crate::descriptor::Descriptor;
use crate::digest::Digest;
use crate::error::{Error, Kind, Result};
use crate::manifest::{ImageManifest, Manifest};
use crate::media;
use crate::platform::Platform;

/// A search for the image for a platform, which may be in an index, or in an index within one.
///
/// Reads nothing itself: each [`Step`] says what has to be read next.
///
/// - With a platform, only an image for it is found. Without one, a single image is taken as it is, and of an index the
///   one for Linux on a machine like this one.
/// - What an index declares counts, and the configuration must not contradict it. Where nothing is declared, the
///   configuration counts alone.
/// - An artifact, which has no configuration, is for any platform by itself, and for none in an index that does not say so.
///
/// ```
/// use dvcr_oci::{Digest, Manifest, Platform, Search, Step};
///
/// # fn read(_: &dvcr_oci::Descriptor) -> Vec<u8> { Vec::new() }
/// # let bytes = br#"{"schemaVersion":2,"config":{"mediaType":"application/vnd.example","size":2,
/// #     "digest":"sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"},"layers":[]}"#;
/// let mut search = Search::new(Some(Platform::parse("linux/arm64")?));
/// let mut step = search.root(Digest::of(bytes), Manifest::parse(bytes, None)?)?;
/// let found = loop {
///     step = match step {
///         Step::Manifest(entry) => {
///             let manifest = Manifest::parse(&read(entry.descriptor()), None)?;
///             search.manifest(entry, manifest)?
///         }
///         Step::Config(image) => {
///             let config = dvcr_oci::ImageConfig::parse(&read(image.config()))?;
///             search.config(image, config)?
///         }
///         Step::Found(found) => break found,
///     };
/// };
/// assert!(found.config.is_none());
/// # Ok::<(), dvcr_oci::Error>(())
/// ```
#[derive(Debug)]
pub struct Search {
    asked: Option<Platform>,
    /// The platforms that were come across.
    there: Vec<Platform>,
    /// What is still to be looked at, the first one last. Of each index on the way down, the rest of its manifests.
    open: Vec<Entry>,
    opened: usize,
}

/// What has to be done next.
#[derive(Debug)]
pub enum Step {
    /// This manifest has to be read, and given to [`Search::manifest`].
    Manifest(Entry),
    /// The configuration of this image has to be read, and given to [`Search::config`].
    Config(Candidate),
    /// Nothing.
    Found(Found),
}

/// The image that was searched for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Found {
    /// What its manifest is known by.
    pub digest: Digest,
    /// Its manifest.
    pub manifest: ImageManifest,
    /// What it says about itself; `None` for an artifact, which has anything in its place.
    pub config: Option<ImageConfig>,
    /// For which machines it is, by the index or by its configuration.
    pub platform: Option<Platform>,
}

/// A manifest in an index that has to be looked at.
#[derive(Debug)]
pub struct Entry {
    descriptor: Descriptor,
    depth: usize,
}

/// An image whose configuration tells whether it is the one.
#[derive(Debug)]
pub struct Candidate {
    digest: Digest,
    manifest: ImageManifest,
    declared: Option<Platform>,
}

impl Entry {
    /// What the index says of it.
    #[must_use]
    pub fn descriptor(&self) -> &Descriptor {
        &self.descriptor
    }
}

impl Candidate {
    /// Where its configuration is.
    #[must_use]
    pub fn config(&self) -> &Descriptor {
        &self.manifest.config
    }
}

impl Search {
    /// A search for this platform.
    #[must_use]
    pub fn new(asked: Option<Platform>) -> Self {
        Self { asked, there: Vec::new(), open: Vec::new(), opened: 1 }
    }

    /// Begins with what the reference means.
    ///
    /// # Errors
    ///
    /// `Kind::NoPlatform`, with a list of what there is.
    pub fn root(&mut self, digest: Digest, manifest: Manifest) -> Result<Step> {
        match manifest {
            Manifest::Image(manifest) if is_image(&manifest) => {
                Ok(Step::Config(Candidate { digest, manifest, declared: None }))
            }
            Manifest::Image(manifest) => Ok(found(digest, manifest, None, None)),
            Manifest::Index(index) => self.index(&index, 0),
        }
    }

    /// Goes on with a manifest that was asked for.
    ///
    /// # Errors
    ///
    /// `Kind::NoPlatform`, with a list of what there is; `Kind::TooLarge` where indexes are nested deeper, or hold more,
    /// than is looked at.
    pub fn manifest(&mut self, entry: Entry, manifest: Manifest) -> Result<Step> {
        let Entry { descriptor, depth } = entry;
        match manifest {
            Manifest::Index(_) if depth >= MAX_DEPTH => {
                Err(Error::new(Kind::TooLarge, format!("indexes are nested deeper than {MAX_DEPTH} levels")))
            }
            Manifest::Index(index) => self.index(&index, depth),
            Manifest::Image(manifest) if is_image(&manifest) => {
                let declared = descriptor.platform;
                Ok(Step::Config(Candidate { digest: descriptor.digest, manifest, declared }))
            }
            // It was chosen for what the index says of it.
            Manifest::Image(manifest) if descriptor.platform.is_some() => {
                Ok(found(descriptor.digest, manifest, None, descriptor.platform))
            }
            Manifest::Image(_) => self.next(),
        }
    }

    /// Goes on with a configuration that was asked for.
    ///
    /// # Errors
    ///
    /// As [`manifest`](Self::manifest).
    pub fn config(&mut self, image: Candidate, config: ImageConfig) -> Result<Step> {
        let Candidate { digest, manifest, declared } = image;
        let said = config.platform();
        let fits = match (&self.asked, &declared) {
            (None, _) => true,
            // Configurations lack variants, so the index counts; but it can't make one machine of another.
            (Some(asked), Some(_)) => !said.as_ref().is_some_and(|said| asked.contradicts(said)),
            (Some(asked), None) => config.check(asked).is_ok(),
        };
        if fits {
            return Ok(found(digest, manifest, Some(config), declared.or(said)));
        }
        self.add(said);
        self.next()
    }

    fn index(&mut self, index: &crate::Index, depth: usize) -> Result<Step> {
        self.add(index.platforms());
        let asked = self.asked.get_or_insert_with(Platform::of_this_machine);
        let chosen = index.choose(asked).unwrap_or_default();
        let entries = chosen.into_iter().rev().map(|entry| Entry { descriptor: entry.clone(), depth: depth + 1 });
        self.open.extend(entries);
        self.next()
    }

    fn next(&mut self) -> Result<Step> {
        let Some(entry) = self.open.pop() else {
            let asked = self.asked.clone().unwrap_or_else(Platform::of_this_machine);
            return Err(Error::no_platform(&asked, &self.there));
        };
        self.opened += 1;
        if self.opened > MAX_MANIFESTS {
            let message = format!("more than {MAX_MANIFESTS} manifests would have to be looked at");
            return Err(Error::new(Kind::TooLarge, message));
        }
        Ok(Step::Manifest(entry))
    }

    fn add(&mut self, platforms: impl IntoIterator<Item = Platform>) {
        for platform in platforms {
            let platform = platform.normalised();
            if self.there.len() < MAX_KEPT && !self.there.contains(&platform) {
                self.there.push(platform);
            }
        }
    }
}

/// Whether it is an image, and no artifact.
fn is_image(manifest: &ImageManifest) -> bool {
    media::is_config(&manifest.config.media_type)
}

fn found(digest: Digest, manifest: ImageManifest, config: Option<ImageConfig>, platform: Option<Platform>) -> Step {
    Step::Found(Found { digest, manifest, config, platform })
}

/// Nested deeper than anybody nests.
const MAX_DEPTH: usize = 4;
/// Each is a request.
const MAX_MANIFESTS: usize = 64;
/// More platforms than there are.
const MAX_KEPT: usize = 1000;

#[cfg(test)]
mod tests;
