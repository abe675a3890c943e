//! What an image in a registry says of the disk in it.

use dvcr_oci::{Descriptor, Digest, ImageConfig, ImageManifest, Platform, media};

use crate::layer::LayerKind;

/// What an image in a registry says of the disk in it. The documents follow from this alone, and say nothing of when they
/// were made: so equal disks are equal images, and whether an image is one of ours is told by its digest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Described {
    /// For which machines it is.
    pub platform: Platform,
    /// The format of what is stored: `raw`, `qcow2`, …
    pub format: String,
    /// How many bytes are stored, before the layer is compressed.
    pub size: u64,
    /// How many bytes the guest sees.
    pub virtual_size: u64,
    /// How the layer is stored.
    pub kind: LayerKind,
    /// The digest of the archive in the layer.
    pub diff_id: Digest,
    /// The digest of the layer.
    pub digest: Digest,
    /// Its length.
    pub stored: u64,
}

impl Described {
    /// What an image says, if it says it as we do, to the byte.
    pub(crate) fn of(digest: &Digest, manifest: &ImageManifest, config: &ImageConfig) -> Option<Self> {
        let ([layer], [diff_id]) = (manifest.layers.as_slice(), config.rootfs.diff_ids.as_slice()) else { return None };
        let kind = match layer.media_type.as_str() {
            media::OCI_LAYER => LayerKind::Plain,
            media::OCI_LAYER_ZSTD => LayerKind::Zstd,
            _ => return None,
        };
        let label = |name| config.labels().get(name);
        let described = Self {
            platform: config.platform()?,
            format: label(ImageConfig::FORMAT)?.clone(),
            size: label(ImageConfig::SOURCE_SIZE)?.parse().ok()?,
            virtual_size: label(ImageConfig::VIRTUAL_SIZE)?.parse().ok()?,
            kind,
            diff_id: *diff_id,
            digest: layer.digest,
            stored: layer.size,
        };
        let ours = described.manifest().to_bytes();
        (Digest::of(&ours) == *digest).then_some(described)
    }

    /// What the image says about itself, for those who boot from it.
    #[must_use]
    pub fn config(&self) -> ImageConfig {
        let mut config = ImageConfig::new(&self.platform, vec![self.diff_id]);
        let labels = config.labels_mut();
        labels.insert(ImageConfig::SOURCE_SIZE.into(), self.size.to_string());
        labels.insert(ImageConfig::VIRTUAL_SIZE.into(), self.virtual_size.to_string());
        labels.insert(ImageConfig::FORMAT.into(), self.format.clone());
        config
    }

    /// What points to the layer.
    #[must_use]
    pub fn layer(&self) -> Descriptor {
        let media_type = match self.kind {
            LayerKind::Plain => media::OCI_LAYER,
            LayerKind::Zstd => media::OCI_LAYER_ZSTD,
        };
        Descriptor::new(media_type, self.digest, self.stored)
    }

    /// The manifest.
    #[must_use]
    pub fn manifest(&self) -> ImageManifest {
        let config = Descriptor::of(media::OCI_CONFIG, &self.config().to_bytes());
        ImageManifest::new(config, vec![self.layer()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_ours_to_the_byte_is_known_again() {
        let ours = Described {
            platform: Platform::parse("linux/arm64/v8").unwrap(),
            format: "raw".into(),
            size: 7,
            virtual_size: 512,
            kind: LayerKind::Zstd,
            diff_id: Digest::of(b"archive"),
            digest: Digest::of(b"layer"),
            stored: 5,
        };
        let digest = |manifest: &ImageManifest| Digest::of(&manifest.to_bytes());
        let (manifest, config) = (ours.manifest(), ours.config());
        let known = Described::of(&digest(&manifest), &manifest, &config).unwrap();
        assert_eq!((known.layer(), known.manifest(), known.size), (ours.layer(), manifest.clone(), 7));
        assert_eq!(Described::of(&Digest::of(b"x"), &manifest, &config), None);
        let mut other = manifest.clone();
        other.annotations.insert("a".into(), "b".into());
        assert_eq!(Described::of(&digest(&other), &other, &config), None);
        let mut other = config.clone();
        other.author = Some("somebody".into());
        let mut pointing = manifest.clone();
        pointing.config = Descriptor::of(media::OCI_CONFIG, &other.to_bytes());
        assert_eq!(Described::of(&digest(&pointing), &pointing, &other), None);
        let mut twice = manifest;
        twice.layers.push(ours.layer());
        assert_eq!(Described::of(&digest(&twice), &twice, &config), None);
    }
}
