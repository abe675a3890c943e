//! What a registry has under a tag or a digest.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::descriptor::Descriptor;
use crate::error::{Error, Kind, Result, shown};
use crate::index::Index;
use crate::json::{Object, missing};
use crate::media;

/// What a registry has under a tag or a digest: an image, or a list of them.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "there is one at a time")]
pub enum Manifest {
    /// One image, or one artifact.
    Image(ImageManifest),
    /// A list of them.
    Index(Index),
}

/// One image: a configuration and layers. Also an artifact, which has anything in their place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ImageManifest {
    /// 2.
    schema_version: u8,
    /// [`media::OCI_MANIFEST`] or [`media::DOCKER_MANIFEST`].
    pub media_type: String,
    /// Of what kind an artifact is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub artifact_type: Option<String>,
    /// The configuration.
    pub config: Descriptor,
    /// From the lowest one to the one on top.
    pub layers: Vec<Descriptor>,
    /// The manifest that this one is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<Descriptor>,
    /// What somebody had to say about it.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

/// The most layers of an image, and the most images of an index.
pub const MAX_DESCRIPTORS: usize = 4096;

impl Manifest {
    /// Understands a document that came as `content_type`, which may be missing or wrong: what the document says itself
    /// counts, and it must say one thing only.
    ///
    /// # Errors
    ///
    /// `Kind::Unsupported` for schema 1 and what else is known and not read, `Kind::TooLarge` beyond the limits,
    /// `Kind::Malformed` for the rest, `Kind::Digest` for a digest in it.
    pub fn parse(bytes: &[u8], content_type: Option<&str>) -> Result<Self> {
        let hint = content_type.map(media::essence).unwrap_or_default();
        let mut object = Object::parse(bytes, "the manifest")?;
        Self::read(&mut object, &hint).map_err(|error| error.at("the manifest"))
    }

    fn read(object: &mut Object, hint: &str) -> Result<Self> {
        let malformed = |message: String| Error::new(Kind::Malformed, message);
        let declared = object.text("mediaType")?.filter(|text| !text.is_empty());
        let version = object.number("schemaVersion")?;
        let of_old = object.has("fsLayers") || version == Some(1);
        let known = declared.as_deref().or(of_old.then_some(hint));
        if let Some(why) = known.and_then(media::refusal) {
            return Err(Error::new(Kind::Unsupported, why));
        }
        match version {
            Some(2) => {}
            Some(1) => {
                let why = media::refusal("application/vnd.docker.distribution.manifest.v1+json").unwrap_or_default();
                return Err(Error::new(Kind::Unsupported, why));
            }
            Some(version) => {
                return Err(malformed(format!("\"schemaVersion\" is {version}, only 2 is known")));
            }
            None => return Err(missing("schemaVersion")),
        }
        let is_image = object.has("layers") || object.has("config");
        let is_index = object.has("manifests");
        if is_image && is_index {
            return Err(malformed("it has layers and manifests, so nobody knows what it is".into()));
        }
        let media_type = match declared.as_deref() {
            Some(declared) if media::is_manifest(declared) || media::is_index(declared) => declared,
            Some(other) => {
                let message = format!("\"mediaType\" is \"{}\", which is no manifest", shown(other));
                return Err(Error::new(Kind::Unsupported, message));
            }
            // OCI's may leave it out; the header may have it.
            None if is_image && media::is_manifest(hint) => hint,
            None if is_index && media::is_index(hint) => hint,
            None if is_image => media::OCI_MANIFEST,
            None if is_index => media::OCI_INDEX,
            None if media::is_index(hint) => hint,
            None => return Err(malformed("it has neither layers nor manifests".into())),
        };
        if media::is_index(media_type) {
            if is_image {
                return Err(malformed("it has layers, but calls itself an index".into()));
            }
            return Index::read(object, media_type).map(Self::Index);
        }
        if is_index {
            return Err(malformed("it has manifests, but calls itself an image".into()));
        }
        ImageManifest::read(object, media_type).map(Self::Image)
    }

    /// Of what kind the document is, as it says itself or has to be.
    #[must_use]
    pub fn media_type(&self) -> &str {
        match self {
            Self::Image(image) => &image.media_type,
            Self::Index(index) => &index.media_type,
        }
    }

    /// The manifest that this one is about.
    #[must_use]
    pub fn subject(&self) -> Option<&Descriptor> {
        match self {
            Self::Image(image) => image.subject.as_ref(),
            Self::Index(index) => index.subject.as_ref(),
        }
    }

    /// Of what kind an artifact is: its own word for it, or that of its configuration.
    #[must_use]
    pub fn artifact_type(&self) -> Option<&str> {
        match self {
            Self::Image(image) => Some(image.artifact_type.as_deref().unwrap_or(&image.config.media_type)),
            Self::Index(index) => index.artifact_type.as_deref(),
        }
    }

    /// What somebody had to say about it.
    #[must_use]
    pub fn annotations(&self) -> &BTreeMap<String, String> {
        match self {
            Self::Image(image) => &image.annotations,
            Self::Index(index) => &index.annotations,
        }
    }
}

impl ImageManifest {
    /// An image of OCI.
    #[must_use]
    pub fn new(config: Descriptor, layers: Vec<Descriptor>) -> Self {
        Self {
            schema_version: 2,
            media_type: media::OCI_MANIFEST.into(),
            artifact_type: None,
            config,
            layers,
            subject: None,
            annotations: BTreeMap::new(),
        }
    }

    fn read(object: &mut Object, media_type: &str) -> Result<Self> {
        let config = object.object("config")?.ok_or_else(|| missing("config"))?;
        let subject = object.object("subject")?.map(Descriptor::read).transpose();
        Ok(Self {
            schema_version: 2,
            media_type: media_type.into(),
            artifact_type: object.text("artifactType")?.filter(|text| !text.is_empty()),
            config: Descriptor::read(config).map_err(|error| error.at("\"config\""))?,
            // Go writes null for no layers.
            layers: object.objects("layers", MAX_DESCRIPTORS, Descriptor::read)?.unwrap_or_default(),
            subject: subject.map_err(|error| error.at("\"subject\""))?,
            annotations: object.named("annotations")?,
        })
    }

    /// The document, as it is pushed.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        to_bytes(self)
    }
}

/// JSON of what always has some: maps with texts as keys.
pub(crate) fn to_bytes<T: Serialize>(value: &T) -> Vec<u8> {
    serde_json::to_vec(value).unwrap_or_default()
}

#[cfg(test)]
mod tests;
