//! An image in a registry.

use std::sync::Arc;

use bytes::Bytes;
use dvcr_oci::{Descriptor, Platform, media};

use super::{Claim, InOrder, OrderedSink};
use crate::described::Described;
use crate::destination::{Destination, Receipt};
use crate::layer::{LayerKind, LayerWriter};
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

/// Pushes one image: its layer while the disk comes, then its configuration, and at last, when everything is there and
/// verified, the manifest under its tag. What fails before leaves no tag.
pub struct Push {
    destination: Destination,
    platform: Platform,
    storing: Storing,
    /// Format and size of the disk, as far as they were told.
    image: Option<(&'static str, Option<u64>)>,
    layer: Option<LayerWriter>,
    pushed: Receipt,
    done: bool,
}

/// A sink that pushes to `destination`. What was pushed is found in the second part once the sink is finished.
#[must_use]
pub fn registry(destination: Destination, platform: &Platform, storing: Storing) -> (Box<RegistrySink>, Receipt) {
    let pushed = Receipt::default();
    let push = Push {
        destination,
        platform: platform.clone(),
        storing,
        image: None,
        layer: None,
        pushed: Arc::clone(&pushed),
        done: false,
    };
    (Box::new(OrderedSink::new(push)), pushed)
}

impl Storing {
    /// Whether an image of this format is kept as it is.
    #[must_use]
    pub fn keeps(&self, format: &str) -> bool {
        match self.keep {
            Keep::Usual => format == "qcow2",
            Keep::All => format != "raw",
            Keep::Nothing => false,
        }
    }

    /// How the layer is stored of what has this format.
    #[must_use]
    pub fn kind(&self, format: &str) -> LayerKind {
        self.layer.unwrap_or(if format == "raw" { LayerKind::Zstd } else { LayerKind::Plain })
    }
}

impl Push {
    fn layer(&mut self) -> Result<&mut LayerWriter> {
        self.layer.as_mut().ok_or_else(|| Error::new(Kind::Ours, "a layer is written before its size is known"))
    }

    fn format(&self) -> &'static str {
        self.image.map_or("raw", |(format, _)| format)
    }
}

impl InOrder for Push {
    fn prepare(&mut self, size: Option<u64>) -> Result<()> {
        let size = size.ok_or_else(|| Error::new(Kind::Ours, "a layer of unknown size"))?;
        let kind = self.storing.kind(self.format());
        let destination = self.destination.clone();
        let consumer = move |bytes: Bytes| destination.write(bytes);
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
        let described = Described {
            platform: self.platform.clone(),
            format: self.format().into(),
            size,
            virtual_size: self.image.and_then(|(_, size)| size).unwrap_or(size),
            kind: self.storing.kind(self.format()),
            diff_id: layer.diff_id,
            digest: layer.digest,
            stored: layer.size,
        };
        self.destination.end_layer(&described.layer())?;
        let config = described.config().to_bytes();
        let descriptor = Descriptor::of(media::OCI_CONFIG, &config);
        self.destination.place(&descriptor, Bytes::from(config))?;
        // Nobody else sets it.
        let _ = self.pushed.set(self.destination.tag(&described)?);
        self.done = true;
        Ok(())
    }

    fn sized(&self) -> bool {
        true
    }

    fn keeps(&self, format: &str) -> bool {
        self.storing.keeps(format)
    }

    fn tell(&mut self, image: &Image) {
        // Only what is kept as it is, is told of before it is prepared.
        let kept = self.layer.is_none() || self.format() != "raw";
        let format = if kept { image.format } else { "raw" };
        self.image = Some((format, image.virtual_size));
    }

    fn name(&self) -> String {
        self.destination.name()
    }

    fn claim(&self) -> Claim {
        self.destination.claim()
    }
}

impl Drop for Push {
    fn drop(&mut self) {
        // Nothing more comes of it.
        drop(self.layer.take());
        if !self.done {
            self.destination.give_up();
        }
    }
}
