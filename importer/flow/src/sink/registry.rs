//! An image in a registry.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use dvcr_client::{Repository, Target, Upload};
use dvcr_oci::{Descriptor, Digest, ImageConfig, ImageManifest, Platform, Reference, Tag, media};

use super::{Claim, InOrder, OrderedSink};
use crate::layer::{Layer, LayerKind, LayerWriter};
use crate::network::Network;
use crate::registry::{Registry, failed};
use crate::{Error, Image, Kind, Piece, Result};

/// A sink that makes an image of the disk and pushes it.
pub type RegistrySink = OrderedSink<Push>;

/// How a disk is stored in a registry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Storing {
    /// Which formats are kept as they are.
    pub keep: Keep,
    /// How the layer is stored; by itself a raw disk is compressed, and an image that is kept is not.
    pub layer: Option<LayerKind>,
    /// How many threads compress.
    pub threads: usize,
}

/// Which formats are kept as they are; all others become raw disks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Keep {
    /// What virtual machines start from: qcow2 (and raw, which is raw in any case).
    #[default]
    Usual,
    /// Every one.
    All,
    /// None.
    Nothing,
}

/// What was pushed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pushed {
    /// Where it is, with its digest.
    pub reference: String,
    /// Of the manifest.
    pub digest: String,
}

/// Where it is said what was pushed, once the sink is finished.
pub type Receipt = Arc<OnceLock<Pushed>>;

/// Pushes one image: its layer while the disk comes, then its configuration, and at last, when everything is there and
/// verified, the manifest under its tag. What fails before leaves no tag.
pub struct Push {
    reference: Reference,
    tag: Tag,
    platform: Platform,
    storing: Storing,
    repository: Repository,
    network: Arc<Network>,
    /// Format and size of the disk, as far as they were told.
    image: Option<(&'static str, Option<u64>)>,
    layer: Option<LayerWriter>,
    upload: Arc<Mutex<Option<Upload>>>,
    pushed: Receipt,
}

/// A sink that pushes to `reference`, which has a tag; without one, `latest`. Connects to nothing yet. What was pushed is
/// found in the second part once the sink is finished.
///
/// # Errors
///
/// `Kind::Usage` for a reference with a digest: that is known only at the end.
pub fn registry(
    registry: &Registry,
    reference: &Reference,
    platform: &Platform,
    storing: Storing,
) -> Result<(Box<RegistrySink>, Receipt)> {
    if reference.digest().is_some() {
        let message = format!("docker://{reference}: a target has a tag and no digest, which comes of what is pushed");
        return Err(Error::new(Kind::Usage, message));
    }
    let repository = registry.client.repository_of(reference);
    let pushed = Receipt::default();
    let push = Push {
        tag: reference.tag().cloned().unwrap_or_else(Tag::latest),
        reference: reference.clone(),
        platform: platform.clone(),
        storing,
        upload: Arc::new(Mutex::new(Some(repository.upload()))),
        repository,
        network: Arc::clone(&registry.network),
        image: None,
        layer: None,
        pushed: Arc::clone(&pushed),
    };
    Ok((Box::new(OrderedSink::new(push)), pushed))
}

impl Push {
    fn layer(&mut self) -> Result<&mut LayerWriter> {
        self.layer.as_mut().ok_or_else(|| Error::new(Kind::Ours, "a layer is written before its size is known"))
    }

    /// Waits for something that the network does.
    fn wait<T: Send + 'static>(
        &self,
        work: impl Future<Output = dvcr_client::Result<T>> + Send + 'static,
    ) -> Result<T> {
        self.network.wait(work)?.map_err(failed)
    }

    /// Pushes what is small.
    fn push(&self, media_type: &str, bytes: Vec<u8>) -> Result<Descriptor> {
        let descriptor = Descriptor::of(media_type, &bytes);
        let (repository, blob) = (self.repository.clone(), descriptor.clone());
        self.wait(async move { repository.push(&blob, &Bytes::from(bytes)).await })?;
        Ok(descriptor)
    }

    /// What the image says about itself, for those who boot from it. It says nothing of when it was made, so that equal
    /// disks are equal images.
    fn config(&self, layer: &Layer, stored: u64) -> ImageConfig {
        let (format, size) = self.image.unwrap_or(("raw", Some(stored)));
        let mut config = ImageConfig::new(&self.platform, vec![layer.diff_id]);
        let labels = config.labels_mut();
        labels.insert(ImageConfig::SOURCE_SIZE.into(), stored.to_string());
        labels.insert(ImageConfig::VIRTUAL_SIZE.into(), size.unwrap_or(stored).to_string());
        labels.insert(ImageConfig::FORMAT.into(), format.into());
        config
    }

    fn taken(&self) -> MutexGuard<'_, Option<Upload>> {
        self.upload.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl InOrder for Push {
    fn prepare(&mut self, size: Option<u64>) -> Result<()> {
        let size = size.ok_or_else(|| Error::new(Kind::Ours, "a layer of unknown size"))?;
        let kept = self.image.is_some_and(|(format, _)| format != "raw");
        let kind = self.storing.layer.unwrap_or(if kept { LayerKind::Plain } else { LayerKind::Zstd });
        self.storing.layer = Some(kind);
        let (upload, network) = (Arc::clone(&self.upload), Arc::clone(&self.network));
        let consumer = move |bytes: Bytes| {
            let taken = upload.lock().unwrap_or_else(PoisonError::into_inner).take();
            let mut taken = taken.ok_or_else(|| Error::new(Kind::Ours, "an upload was given up"))?;
            let (back, written) = network.wait(async move {
                let written = taken.write(bytes).await;
                (taken, written)
            })?;
            *upload.lock().unwrap_or_else(PoisonError::into_inner) = Some(back);
            written.map_err(failed)
        };
        self.layer = Some(LayerWriter::start(size, kind, self.storing.threads, consumer)?);
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.layer()?.write(bytes)
    }

    fn zero(&mut self, len: u64) -> Result<()> {
        self.layer()?.push(Piece::Hole(len))
    }

    fn finish(mut self, size: u64) -> Result<()> {
        let layer = self.layer.take().ok_or_else(|| Error::new(Kind::Ours, "there is no layer"))?.finish()?;
        let upload = self.taken().take().ok_or_else(|| Error::new(Kind::Ours, "there is no upload"))?;
        let digest = layer.digest;
        self.wait(async move { upload.finish(&digest).await })?;
        let config = self.push(media::OCI_CONFIG, self.config(&layer, size).to_bytes())?;
        let media_type = match self.storing.layer {
            Some(LayerKind::Plain) => media::OCI_LAYER,
            _ => media::OCI_LAYER_ZSTD,
        };
        let layer = Descriptor::new(media_type, layer.digest, layer.size);
        let manifest = ImageManifest::new(config, vec![layer]).to_bytes();
        let digest = Digest::of(&manifest);
        let (repository, tag) = (self.repository.clone(), Target::Tag(self.tag.clone()));
        self.wait(async move { repository.put_manifest(&tag, media::OCI_MANIFEST, manifest).await })?;
        let reference = format!("docker://{}", self.reference.with_tag(self.tag.clone()));
        // Nobody else sets it.
        let _ = self.pushed.set(Pushed { reference, digest: digest.to_string() });
        Ok(())
    }

    fn sized(&self) -> bool {
        true
    }

    fn keeps(&self, format: &str) -> bool {
        match self.storing.keep {
            Keep::Usual => format == "qcow2",
            Keep::All => true,
            Keep::Nothing => false,
        }
    }

    fn tell(&mut self, image: &Image) {
        let format = if self.keeps(image.format) { image.format } else { "raw" };
        self.image = Some((format, image.virtual_size));
    }

    fn name(&self) -> String {
        format!("docker://{}", self.reference)
    }

    fn claim(&self) -> Claim {
        Claim::default()
    }
}

impl Drop for Push {
    fn drop(&mut self) {
        // Nothing more comes: then its consumer has given the upload back.
        drop(self.layer.take());
        let Some(upload) = self.taken().take() else { return };
        // A registry forgets an upload by itself; it is told so only to be free of it sooner.
        let given_up = self.network.wait(async move { tokio::time::timeout(PARTING, upload.cancel()).await });
        if !matches!(given_up, Ok(Ok(()))) {
            tracing::debug!(target = %self.reference, "the upload is left to the registry");
        }
    }
}

/// How long a registry has to take note that an upload was given up.
const PARTING: Duration = Duration::from_secs(5);
