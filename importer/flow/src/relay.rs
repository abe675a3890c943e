//! From one place of images to another without touching what is in them.
//!
//! An image that already is what would be made of it, and whose layer is in the target or in another repository of its
//! registry, needs no bytes to be moved: its documents are enough.

use std::sync::Arc;

use bytes::Bytes;
use dvcr_oci::{Descriptor, Platform, media};
use importer_codec::tar::Around;
use importer_codec::{Bin, Status, Wrapper};

use crate::described::Described;
use crate::destination::{Destination, Pushed};
use crate::layer::LayerKind;
use crate::progress::Progress;
use crate::sink::Storing;
use crate::source::ContainerSource;
use crate::source::container::{self, Reading};
use crate::unwrap::refused;
use crate::{Image, Kind, Mode, Outcome, Piece, Result, Settings, inspect};

/// An image of ours, found in a registry or a layout.
pub struct Relay {
    source: container::Image,
    described: Described,
    image: Image,
}

/// What was taken over.
#[derive(Clone, Debug)]
pub struct Relayed {
    /// The reference and the digest of the manifest.
    pub pushed: Pushed,
    /// Where it comes from and what it is. `bytes_written` are those that were sent: none if all was there or was mounted.
    pub outcome: Outcome,
}

impl Relay {
    /// Looks whether `source` is an image as we make them: documents of ours, to the byte, around a layer that begins with
    /// the headers of one disk, and a disk that is what the labels say and would be taken. Costs a few ranges of the layer,
    /// and proves nothing that digests don't; the layer itself is not read.
    ///
    /// `None` for any other image, which has to be [imported](crate::import).
    ///
    /// # Errors
    ///
    /// What keeps it from being read. What is wrong with the image is no error here.
    pub fn find(source: &container::Image, settings: &Settings) -> Result<Option<Self>> {
        let described =
            source.config.as_ref().and_then(|config| Described::of(&source.digest, &source.manifest, config));
        let Some(described) = described else { return Ok(None) };
        // Of a stream the tables can't be judged without reading it.
        if described.kind == LayerKind::Zstd && described.format != "raw" {
            return Ok(None);
        }
        let looked = begins_as_ours(source, &described).and_then(|ours| {
            let mut disk = ContainerSource::new(source.clone(), None, Reading::Partial)?;
            Ok((ours, inspect(&mut disk, settings)?))
        });
        let (ours, image) = match looked {
            Ok(looked) => looked,
            Err(error) if error.kind() == Kind::Transient => return Err(error),
            // Whoever imports it finds out what is wrong, and says so.
            Err(error) => {
                tracing::info!(%error, "the image is not taken over as it is");
                return Ok(None);
            }
        };
        let same = match described.format.as_str() {
            "raw" => matches!(image.format, "raw" | "iso"),
            format => image.format == format,
        };
        let sized = image.virtual_size.is_none_or(|size| size == described.virtual_size);
        Ok((ours && same && sized).then(|| Self { source: source.clone(), described, image }))
    }

    /// What it says of itself.
    #[must_use]
    pub fn described(&self) -> &Described {
        &self.described
    }

    /// Whether an import for this platform, or for that of the source, to be stored so, would make the same of it.
    #[must_use]
    pub fn is_wanted(&self, platform: Option<&Platform>, storing: &Storing) -> bool {
        let Described { format, kind, .. } = &self.described;
        platform.is_none_or(|platform| self.described.platform.normalised() == platform.normalised())
            && (format == "raw" || storing.keeps(format))
            && storing.kind(format) == *kind
    }

    /// Takes it over to `destination`, the tag last, if its layer is there already or can be mounted from the same registry:
    /// then the image there is the one here, by the same digest, and nothing of the disk is read or sent. `None` if not:
    /// whoever has to bring the disk [imports](crate::import) it, and so sees that it is one.
    ///
    /// # Errors
    ///
    /// What the target says. What fails leaves no tag.
    pub fn push(&self, destination: &Destination, progress: &Arc<Progress>) -> Result<Option<Relayed>> {
        let near = self.source.blobs.repository().filter(|near| near.host() == destination.repository.host());
        let near = near.map(|near| near.name());
        if !destination.has(&self.described.layer(), near)? {
            return Ok(None);
        }
        progress.begin_pass();
        let config = self.described.config().to_bytes();
        let descriptor = Descriptor::of(media::OCI_CONFIG, &config);
        let tag = || {
            let there = destination.has(&descriptor, near)?;
            let sent = if there { 0 } else { destination.place(&descriptor, Bytes::from(config))? };
            Ok((sent, destination.tag(&self.described)?))
        };
        let tagged: Result<_> = tag();
        // The upload that was begun to see whether it can be.
        destination.give_up();
        let (bytes_written, pushed) = tagged?;
        let outcome = Outcome {
            image: self.image.clone(),
            mode: Mode::Streaming,
            source_bytes: progress.received(),
            source_digest: Some(self.source.digest.to_string()),
            bytes_written,
            target_size: self.described.size,
            resumed_from: None,
        };
        Ok(Some(Relayed { pushed, outcome }))
    }
}

/// Whether the archive in the layer begins with the headers around one disk, and has room for nothing else.
fn begins_as_ours(source: &container::Image, described: &Described) -> Result<bool> {
    let around = Around::disk(described.size);
    if described.kind == LayerKind::Plain && around.total(described.size) != described.stored {
        return Ok(false);
    }
    let mut layer = source.blobs.blob(&described.layer())?;
    let mut stream = layer.open()?;
    let mut decoder = match described.kind {
        LayerKind::Zstd => {
            Wrapper::Zstd.decoder(importer_codec::Limits::default(), &Bin::default()).map_err(refused)?
        }
        LayerKind::Plain => None,
    };
    let mut head: Vec<u8> = Vec::new();
    while head.len() < around.head.len() {
        let Some(Piece::Bytes(mut bytes)) = stream.next()? else { return Ok(false) };
        let Some(decoder) = &mut decoder else {
            head.extend_from_slice(&bytes);
            continue;
        };
        while head.len() < around.head.len() {
            match decoder.decode(&mut bytes, false).map_err(refused)? {
                Status::Made(made) => head.extend_from_slice(&made),
                Status::NeedInput => break,
                Status::Zeros(_) | Status::Done => return Ok(false),
            }
        }
    }
    Ok(head.starts_with(&around.head))
}
