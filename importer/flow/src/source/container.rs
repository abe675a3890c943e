//! A disk in an image of layers: in a registry, in a folder or in an archive.

mod counted;
mod entries;
mod layout;
mod path;
mod pulled;
mod resolve;
mod survey;
mod verified;
mod walk;

use std::ops::Range;
use std::sync::Arc;

use dvcr_client::Repository;
pub use dvcr_oci::Platform;
use dvcr_oci::{Descriptor, Digest, ImageConfig, ImageManifest, media};

use self::counted::counted;
pub use self::layout::layout;
pub use self::pulled::pulled;
pub use self::resolve::{Documents, resolve};
use self::survey::{Place, Survey};
use self::verified::{AtHand, Verified};
use self::walk::{Find, Step, Walk};
use super::Counter;
use super::part::Part;
use crate::{Error, Kind, Piece, Result, Source, Stream};

/// Where blobs of an image are.
pub trait Blobs: Send + Sync {
    /// The blob, as a source. Reads nothing yet.
    fn blob(&self, descriptor: &Descriptor) -> Result<Box<dyn Source>>;

    /// The repository they are in, if they are in one.
    fn repository(&self) -> Option<&Repository> {
        None
    }
}

/// An image of layers, for one platform. Cheap to clone.
#[derive(Clone)]
pub struct Image {
    /// How a person knows it.
    pub name: String,
    /// The digest of its manifest.
    pub digest: Digest,
    /// What it consists of.
    pub manifest: ImageManifest,
    /// What it says about itself; `None` for an artifact, which says something else.
    pub config: Option<ImageConfig>,
    /// For which machines it is, as far as it is known.
    pub platform: Option<Platform>,
    /// Where its layers are.
    pub blobs: Arc<dyn Blobs>,
}

impl Image {
    /// The platform that what is made of it is for: that of its configuration, or that of the list it stands in.
    #[must_use]
    pub fn inherited(&self) -> Option<Platform> {
        self.config.as_ref().and_then(ImageConfig::platform).or_else(|| self.platform.clone())
    }

    /// A layer, as a source; one that is known to have another length is refused before it is read.
    fn layer(&self, descriptor: &Descriptor) -> Result<Box<dyn Source>> {
        let source = self.blobs.blob(descriptor)?;
        let Descriptor { digest, size, .. } = descriptor;
        match source.len() {
            Some(len) if len != *size => {
                let message =
                    format!("{}, layer {digest}: it has {len} bytes, by the manifest it has {size}", self.name);
                Err(Error::new(Kind::Mismatch, message))
            }
            _ => Ok(source),
        }
    }
}

/// How the layers of an image are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// Whole: what comes is compared with the digests.
    Verified,
    /// Only what is asked for, where that is possible: to look at it. Nothing proves it.
    Partial,
}

/// The disk of an image of layers.
///
/// - A *container disk* has one file in `disk/`, in any layer. Layers are told by their bytes and have their full
///   meaning: an upper one hides and deletes what is below, links are followed inside the image. Two files are refused.
/// - An *artifact* has the disk itself as its only layer, or as the one of the title that is asked for.
///
/// The disk streams out of its layer; nothing is stored. With [`Reading::Verified`] the stream ends only after all layers
/// were read and are what their digests say: that also shows whether it is the only disk. An image whose disk is found
/// only at the end, behind a link, is read twice. Where the disk lies in the layer as it is, it gives [glimpses], which
/// whoever reads the stream can compare with it.
///
/// [glimpses]: Source::glimpse
pub struct ContainerSource {
    image: Arc<Image>,
    disk: Option<String>,
    reading: Reading,
    found: Option<Found>,
    /// Of layers, that a pass reads.
    weight: u64,
    counter: Option<Counter>,
    /// The disk, where it can be read at any offset. Nothing proves what is read so.
    part: Option<Box<dyn Source>>,
    /// What is read and verified.
    at_hand: AtHand,
}

/// Where the disk was found.
#[derive(Clone, Copy, Debug)]
enum Found {
    /// In a layer.
    File(Place),
    /// It is the layer.
    Blob(usize),
}

impl ContainerSource {
    /// The disk of `image`; with `disk`, the one of that name. Reads nothing yet.
    ///
    /// # Errors
    ///
    /// What is known to hold no disk is refused for what it is.
    pub fn new(image: Image, disk: Option<String>, reading: Reading) -> Result<Self> {
        if disk.is_none()
            && let Some(what) = no_disk(&image)
        {
            return Err(Error::new(Kind::NotUsable, format!("{}: {what}", image.name)));
        }
        Ok(Self {
            image: Arc::new(image),
            disk,
            reading,
            found: None,
            weight: 0,
            counter: None,
            part: None,
            at_hand: AtHand::default(),
        })
    }

    /// Finds the disk, and begins to read it.
    fn begin(&mut self) -> Result<Box<dyn Stream>> {
        match self.found {
            Some(Found::File(place)) => self.file(self.walk(Find::At(place))),
            Some(Found::Blob(layer)) => self.blob(layer),
            None if !media::is_config(&self.image.manifest.config.media_type) => self.blob(self.titled()?),
            None => {
                let find = Find::Only(Box::new(Survey::new(self.disk.clone())));
                self.file(self.walk(find))
            }
        }
    }

    fn walk(&self, find: Find) -> Walk {
        Walk::new(Arc::clone(&self.image), find, self.reading, self.at_hand.clone())
    }

    /// Walks to the disk.
    fn file(&mut self, walk: Walk) -> Result<Box<dyn Stream>> {
        let mut walk = walk.counted(self.counter.clone());
        self.weight = walk.weight();
        loop {
            match walk.next()? {
                Step::Disk(place) => {
                    // What a copy refuses for what comes behind is refused here too, as far as it is cheap to see.
                    if self.reading == Reading::Partial
                        && let Some(only) = walk.look_on(place)?
                    {
                        walk = self.walk(Find::At(only));
                        continue;
                    }
                    self.found = Some(Found::File(place));
                    if self.reading == Reading::Partial
                        && let Some(part) = walk.part()
                    {
                        let mut part = Part::of(part.0, part.1)?;
                        let stream = part.open()?;
                        self.part = Some(Box::new(part));
                        return Ok(stream);
                    }
                    let part = walk.aside().and_then(|(layer, range)| Part::of(layer, range).ok());
                    self.part = part.map(|part| Box::new(part) as Box<dyn Source>);
                    return Ok(Box::new(Disk { walk, place }));
                }
                Step::Data(_) | Step::Unseen => {}
                // Its only layer is no archive: then it is the disk.
                Step::NoArchive(layer) => {
                    if let Some(disk) = &self.disk {
                        let disk = path::shown(disk.as_bytes());
                        let message = format!("--disk {disk} chooses a file, and the layer is the disk: leave it out");
                        return Err(Error::new(Kind::Usage, message));
                    }
                    return self.blob(layer);
                }
                Step::End(place) => {
                    let place = place.ok_or_else(|| Error::new(Kind::Changed, "the disk is not there any more"))?;
                    walk = self.walk(Find::At(place)).counted(self.counter.clone());
                    self.weight += walk.weight();
                }
            }
        }
    }

    /// The layer that is the disk.
    fn blob(&mut self, layer: usize) -> Result<Box<dyn Stream>> {
        let none = || Error::new(Kind::NotUsable, "it has no layers, so there is no disk in it");
        let descriptor = self.image.manifest.layers.get(layer).ok_or_else(none)?;
        let mut source = self.image.layer(descriptor)?;
        let stream = counted(source.open()?, self.counter.as_ref());
        self.weight = descriptor.size;
        let stream = match self.reading {
            Reading::Verified => self.at_hand.put(Verified::new(stream, descriptor, &self.image.name)?),
            Reading::Partial => stream,
        };
        self.found = Some(Found::Blob(layer));
        self.part = Some(source).filter(|source| source.ranges());
        Ok(stream)
    }

    /// The layer of an artifact that is asked for, or its only one.
    fn titled(&self) -> Result<usize> {
        let layers = &self.image.manifest.layers;
        let title = |layer: &Descriptor| layer.annotations.get(TITLE).cloned();
        let found: Vec<usize> = match &self.disk {
            Some(disk) => {
                (0..layers.len()).filter(|&at| layers.get(at).and_then(title).as_ref() == Some(disk)).collect()
            }
            None => (0..layers.len()).collect(),
        };
        if let [only] = found.as_slice() {
            return Ok(*only);
        }
        let names = layers.iter().take(LISTED).map(|layer| {
            let name = title(layer).unwrap_or_else(|| layer.media_type.clone());
            format!("{} ({} bytes)", path::shown(name.as_bytes()), layer.size)
        });
        let names = names.collect::<Vec<_>>().join(", ");
        let message = match (&self.disk, layers.is_empty()) {
            (_, true) => "it has no layers, so there is no disk in it".to_owned(),
            (Some(disk), _) => format!("it has not one layer titled {}: it has {names}", path::shown(disk.as_bytes())),
            (None, _) => format!("it has several layers: {names}; choose one by its title with --disk NAME"),
        };
        Err(Error::new(Kind::NotUsable, message))
    }

    fn size(&self) -> Option<u64> {
        match self.found? {
            Found::File(place) => Some(place.size),
            Found::Blob(layer) => Some(self.image.manifest.layers.get(layer)?.size),
        }
    }
}

/// What is known to hold no disk, and what it is.
fn no_disk(image: &Image) -> Option<&'static str> {
    let config = image.manifest.config.media_type.as_str();
    let kind = image.manifest.artifact_type.as_deref().unwrap_or(config);
    let labels = image.config.as_ref().map(ImageConfig::labels);
    if labels.is_some_and(|labels| labels.contains_key("containers.bootc") || labels.contains_key("ostree.bootable")) {
        return Some(
            "it is a bootable container (bootc), which holds an operating system and no disk: build a disk from it with \
             bootc-image-builder, and import that",
        );
    }
    match kind {
        _ if kind.starts_with("application/vnd.cncf.helm.") => Some("it is a Helm chart, and holds no disk"),
        _ if kind.starts_with("application/vnd.dev.cosign.") => Some("it is a signature, and holds no disk"),
        _ if kind.starts_with("application/vnd.wasm.") => Some("it is a WebAssembly module, and holds no disk"),
        _ => None,
    }
}

// === impl Source ===

impl Source for ContainerSource {
    fn open(&mut self) -> Result<Box<dyn Stream>> {
        self.part = None;
        self.begin()
    }

    fn read(&mut self, ranges: Vec<Range<u64>>) -> Result<Box<dyn Stream>> {
        if self.ranges() {
            return self.glimpse(ranges);
        }
        Err(Error::new(Kind::Ours, "a range was asked for, and nothing would prove it"))
    }

    fn glimpse(&mut self, ranges: Vec<Range<u64>>) -> Result<Box<dyn Stream>> {
        match &mut self.part {
            Some(part) => part.read(ranges),
            None => Err(Error::new(Kind::Ours, "a range was asked for, and there are none")),
        }
    }

    fn glimpses(&self) -> bool {
        self.part.is_some()
    }

    fn len(&self) -> Option<u64> {
        self.size()
    }

    fn weight(&self) -> Option<u64> {
        Some(self.weight)
    }

    fn count(&mut self, counter: &Counter) -> bool {
        self.counter = Some(Arc::clone(counter));
        true
    }

    fn ranges(&self) -> bool {
        self.reading == Reading::Partial && self.part.is_some()
    }

    fn reopens(&self) -> bool {
        true
    }

    fn doubt(&mut self) -> Result<()> {
        // Those before it were read to their ends, and of those behind it nothing was seen.
        self.at_hand.verify()
    }

    fn identity(&self) -> Option<String> {
        Some(self.image.digest.to_string())
    }

    fn digest(&self) -> Option<String> {
        Some(self.image.digest.to_string())
    }

    fn platform(&self) -> Option<String> {
        self.image.platform.as_ref().map(Platform::to_string)
    }

    fn name(&self) -> String {
        self.image.name.clone()
    }
}

/// The disk on its way out of its layer.
struct Disk {
    walk: Walk,
    place: Place,
}

impl Stream for Disk {
    fn next(&mut self) -> Result<Option<Piece>> {
        match self.walk.next()? {
            Step::Data(piece) => Ok(Some(piece)),
            Step::End(place) if place.is_none_or(|place| place == self.place) => Ok(None),
            _ => Err(Error::new(Kind::NotUsable, "there is more than one file that can be the disk")),
        }
    }
}

/// What ORAS calls a layer.
const TITLE: &str = "org.opencontainers.image.title";
/// How many names a message has.
const LISTED: usize = 16;

#[cfg(test)]
mod tests;
