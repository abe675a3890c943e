//! What an image says about itself.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::digest::Digest;
use crate::error::{Error, Result};
use crate::json::Object;
use crate::manifest::{MAX_DESCRIPTORS, to_bytes};
use crate::platform::Platform;

/// The configuration of an image: for which machines it is, and its labels. What starts containers is not read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ImageConfig {
    /// When it was made, as RFC 3339 has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created: Option<String>,
    /// By whom.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub author: Option<String>,
    /// As in `GOARCH`; empty where it is not said.
    pub architecture: String,
    /// As in `GOOS`; empty where it is not said.
    pub os: String,
    /// Of the processor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
    #[serde(rename = "config", skip_serializing_if = "Run::is_empty")]
    run: Run,
    /// What the layers are before they are compressed.
    pub rootfs: RootFs,
}

/// What the layers of an image are before they are compressed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RootFs {
    /// `layers`.
    #[serde(rename = "type")]
    kind: &'static str,
    /// The digest of each, from the lowest one on.
    pub diff_ids: Vec<Digest>,
}

impl Default for RootFs {
    fn default() -> Self {
        Self { kind: "layers", diff_ids: Vec::new() }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
struct Run {
    #[serde(rename = "Labels")]
    labels: BTreeMap<String, String>,
}

impl Run {
    fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }
}

impl ImageConfig {
    /// The label with the length of the source, in bytes: for Deckhouse.
    pub const SOURCE_SIZE: &str = "source-image-size";
    /// The label with the length of the disk, in bytes: for Deckhouse.
    pub const VIRTUAL_SIZE: &str = "source-image-virtual-size";
    /// The label with the format of the disk: for Deckhouse.
    pub const FORMAT: &str = "source-image-format";

    /// Of an image for these machines, with layers that unpacked have these digests.
    #[must_use]
    pub fn new(platform: &Platform, diff_ids: Vec<Digest>) -> Self {
        let Platform { os, architecture, variant, .. } = platform.normalised();
        let rootfs = RootFs { diff_ids, ..RootFs::default() };
        Self { architecture, os, variant, rootfs, ..Self::default() }
    }

    /// Understands a configuration.
    ///
    /// # Errors
    ///
    /// `Kind::Malformed`, `Kind::TooLarge`, and `Kind::Digest` for a digest in it.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        let mut object = Object::parse(bytes, "the configuration of the image")?;
        Self::read(&mut object).map_err(|error| error.at("the configuration of the image"))
    }

    fn read(object: &mut Object) -> Result<Self> {
        let labels = match object.object("config")? {
            Some(mut run) => run.named("Labels")?,
            None => BTreeMap::new(),
        };
        let diff_ids = match object.object("rootfs")? {
            Some(mut rootfs) => rootfs.texts("diff_ids", MAX_DESCRIPTORS)?,
            None => Vec::new(),
        };
        Ok(Self {
            created: object.text("created")?,
            author: object.text("author")?,
            architecture: object.text("architecture")?.unwrap_or_default(),
            os: object.text("os")?.unwrap_or_default(),
            variant: object.text("variant")?.filter(|text| !text.is_empty()),
            run: Run { labels },
            rootfs: RootFs {
                diff_ids: diff_ids.iter().map(|text| Digest::parse(text)).collect::<Result<_>>()?,
                ..RootFs::default()
            },
        })
    }

    /// The document, as it is pushed.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        to_bytes(self)
    }

    /// The labels.
    #[must_use]
    pub fn labels(&self) -> &BTreeMap<String, String> {
        &self.run.labels
    }

    /// The labels, to be changed.
    pub fn labels_mut(&mut self) -> &mut BTreeMap<String, String> {
        &mut self.run.labels
    }

    /// For which machines it is; `None` where it does not say.
    #[must_use]
    pub fn platform(&self) -> Option<Platform> {
        let platform = Platform::new(&self.os, &self.architecture, self.variant.as_deref());
        Some(platform).filter(|platform| !platform.is_unknown())
    }

    /// Whether it is for `asked`. One that does not say for what it is, is for nothing.
    ///
    /// # Errors
    ///
    /// `Kind::NoPlatform`, with what it is for.
    pub fn check(&self, asked: &Platform) -> Result<()> {
        match self.platform() {
            Some(there) if asked.accepts(&there) => Ok(()),
            there => Err(Error::no_platform(asked, there.as_slice())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Kind;

    #[test]
    fn is_read_and_written() {
        let text = br#"{"architecture":"arm64","variant":"v8","os":"linux","created":"1970-01-01T00:00:00Z",
            "config":{"Env":["PATH=/bin"],"Labels":{"source-image-format":"qcow2","source-image-size":"7"}},
            "rootfs":{"type":"layers","diff_ids":["sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"]},
            "history":[{"created_by":"x"}]}"#;
        let config = ImageConfig::parse(text).unwrap();
        assert_eq!(config.labels()[ImageConfig::FORMAT], "qcow2");
        assert_eq!(config.platform().unwrap().to_string(), "linux/arm64");
        assert_eq!(config.rootfs.diff_ids, [Digest::of(b"")]);
        config.check(&Platform::parse("linux/aarch64").unwrap()).unwrap();
        let error = config.check(&Platform::parse("linux/amd64").unwrap()).unwrap_err();
        assert_eq!(error.kind(), Kind::NoPlatform);
        assert_eq!(error.to_string(), "there is no image for linux/amd64: there is linux/arm64");
        assert_eq!(ImageConfig::parse(&config.to_bytes()).unwrap(), config);
    }

    #[test]
    fn is_made_for_a_platform() {
        let mut config = ImageConfig::new(&Platform::parse("linux/x86_64").unwrap(), vec![Digest::of(b"x")]);
        config.labels_mut().insert(ImageConfig::SOURCE_SIZE.into(), "7".into());
        let text = String::from_utf8(config.to_bytes()).unwrap();
        let digest = Digest::of(b"x");
        let expected = format!(
            r#"{{"architecture":"amd64","os":"linux","config":{{"Labels":{{"source-image-size":"7"}}}},"rootfs":{{"type":"layers","diff_ids":["{digest}"]}}}}"#
        );
        assert_eq!(text, expected);
    }

    #[test]
    fn what_says_nothing_is_for_nothing() {
        let config = ImageConfig::parse(b"{}").unwrap();
        assert_eq!(config.platform(), None);
        let error = config.check(&Platform::parse("linux/amd64").unwrap()).unwrap_err();
        assert_eq!(error.to_string(), "there is no image for linux/amd64: there is none for any");
        for text in [
            &br#"{"os": 1}"#[..],
            br#"{"config": []}"#,
            br#"{"config": {"Labels": {"a": 1}}}"#,
            br#"{"config": {"Labels": {"a": "1", "a": "2"}}}"#,
            br#"{"rootfs": {"diff_ids": "x"}}"#,
            b"[]",
        ] {
            assert_eq!(ImageConfig::parse(text).unwrap_err().kind(), Kind::Malformed);
        }
        assert!(ImageConfig::parse(br#"{"config": {"Labels": null}, "rootfs": null}"#).is_ok());
    }
}
