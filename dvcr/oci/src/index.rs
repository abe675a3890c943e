//! A list of manifests, and the choice among them.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::descriptor::Descriptor;
use crate::error::{Error, Result};
use crate::json::{Object, missing};
use crate::manifest::{MAX_DESCRIPTORS, to_bytes};
use crate::media;
use crate::platform::Platform;

/// A list of manifests: one image for several platforms, or what refers to a manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Index {
    /// 2.
    schema_version: u8,
    /// [`media::OCI_INDEX`] or [`media::DOCKER_LIST`].
    pub media_type: String,
    /// Of what kind an artifact is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub artifact_type: Option<String>,
    /// In the order of whoever made it.
    pub manifests: Vec<Descriptor>,
    /// The manifest that this one is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<Descriptor>,
    /// What somebody had to say about it.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

impl Index {
    /// An index of OCI.
    #[must_use]
    pub fn new(manifests: Vec<Descriptor>) -> Self {
        Self {
            schema_version: 2,
            media_type: media::OCI_INDEX.into(),
            artifact_type: None,
            manifests,
            subject: None,
            annotations: BTreeMap::new(),
        }
    }

    pub(crate) fn read(object: &mut Object, media_type: &str) -> Result<Self> {
        let manifests = object.objects("manifests", MAX_DESCRIPTORS, Descriptor::read)?;
        let subject = object.object("subject")?.map(Descriptor::read).transpose();
        Ok(Self {
            schema_version: 2,
            media_type: media_type.into(),
            artifact_type: object.text("artifactType")?.filter(|text| !text.is_empty()),
            manifests: manifests.ok_or_else(|| missing("manifests"))?,
            subject: subject.map_err(|error| error.at("\"subject\""))?,
            annotations: object.named("annotations")?,
        })
    }

    /// The document, as it is pushed.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        to_bytes(self)
    }

    /// The manifests that can be images: no attestations, and nothing that is neither manifest nor index.
    pub fn images(&self) -> impl Iterator<Item = &Descriptor> {
        self.manifests.iter().filter(|entry| {
            let of_image = media::is_manifest(&entry.media_type) || media::is_index(&entry.media_type);
            let attestation = entry.annotations.contains_key(ATTESTATION);
            of_image && !attestation && !entry.platform.as_ref().is_some_and(Platform::is_unknown)
        })
    }

    /// Which manifests to look at for this platform, the first one first.
    ///
    /// The first one that declares the platform, as all clients do where several are declared for it; it alone. Otherwise
    /// those that declare none, and so have to be opened to be known: nested indexes, and images whose configuration says
    /// it.
    ///
    /// # Errors
    ///
    /// `Kind::NoPlatform`, with a list of what there is.
    pub fn choose(&self, asked: &Platform) -> Result<Vec<&Descriptor>> {
        let declared = |entry: &&Descriptor| entry.platform.as_ref().is_some_and(|there| asked.accepts(there));
        if let Some(found) = self.images().find(declared) {
            return Ok(vec![found]);
        }
        let silent: Vec<_> = self.images().filter(|entry| entry.platform.is_none()).collect();
        if silent.is_empty() { Err(Error::no_platform(asked, &self.platforms())) } else { Ok(silent) }
    }

    /// The platforms that are declared, each once, in order.
    #[must_use]
    pub fn platforms(&self) -> Vec<Platform> {
        let mut found: Vec<Platform> = Vec::new();
        for platform in self.images().filter_map(|entry| entry.platform.as_ref()) {
            let platform = platform.normalised();
            if !found.contains(&platform) {
                found.push(platform);
            }
        }
        found
    }
}

/// What buildx marks its attestations with.
const ATTESTATION: &str = "vnd.docker.reference.type";
