//! A pointer to content.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::digest::Digest;
use crate::error::{Error, Kind, Result};
use crate::json::{Object, missing};
use crate::platform::Platform;

/// A pointer to content: what it is, its digest and its length.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Descriptor {
    /// What it is.
    pub media_type: String,
    /// What its bytes are known by.
    pub digest: Digest,
    /// How many bytes there are; fits into an `i64`.
    pub size: u64,
    /// For which machines it is, in an index.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub platform: Option<Platform>,
    /// Of what kind an artifact is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub artifact_type: Option<String>,
    /// Where else it may be. Never followed: only kept.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub urls: Vec<String>,
    /// What somebody had to say about it.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

impl Descriptor {
    /// A pointer to this content.
    #[must_use]
    pub fn new(media_type: impl Into<String>, digest: Digest, size: u64) -> Self {
        Self {
            media_type: media_type.into(),
            digest,
            size,
            platform: None,
            artifact_type: None,
            urls: Vec::new(),
            annotations: BTreeMap::new(),
        }
    }

    /// A pointer to these bytes.
    #[must_use]
    pub fn of(media_type: impl Into<String>, bytes: &[u8]) -> Self {
        Self::new(media_type, Digest::of(bytes), bytes.len() as u64)
    }

    /// The same, for these machines.
    #[must_use]
    pub fn on(self, platform: Platform) -> Self {
        Self { platform: Some(platform), ..self }
    }

    pub(crate) fn read(mut object: Object) -> Result<Self> {
        let media_type = object.text("mediaType")?.filter(|text| !text.is_empty());
        let digest = object.text("digest")?.ok_or_else(|| missing("digest"))?;
        let size = object.number("size")?.ok_or_else(|| missing("size"))?;
        if i64::try_from(size).is_err() {
            return Err(Error::new(Kind::Malformed, format!("\"size\" is {size}, which no file can have")));
        }
        Ok(Self {
            media_type: media_type.ok_or_else(|| missing("mediaType"))?,
            digest: Digest::parse(&digest)?,
            size,
            platform: object.object("platform")?.map(Platform::read).transpose()?,
            artifact_type: object.text("artifactType")?.filter(|text| !text.is_empty()),
            urls: object.texts("urls", MAX_URLS)?,
            annotations: object.named("annotations")?,
        })
    }
}

const MAX_URLS: usize = 64;
