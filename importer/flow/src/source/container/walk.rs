//! The layers of an image, one behind the other.

use std::ops::Range;
use std::sync::Arc;

use importer_codec::tar::Event;
use importer_codec::{Limits, Wrapper, wrapper};

use super::counted::counted;
use super::entries::Entries;
use super::survey::{Place, Survey};
use super::verified::{AtHand, Verified};
use super::{Image, Reading};
use crate::peek::peek;
use crate::source::Counter;
use crate::{Error, Kind, Piece, Result, Source};

/// Reads layers, from the one on top down, and gives the bytes of one file of them.
pub(super) struct Walk {
    image: Arc<Image>,
    find: Find,
    reading: Reading,
    at_hand: AtHand,
    /// The layers below this one are still to come.
    below: usize,
    at: Option<(usize, Entries)>,
    /// Whether what comes belongs to the file.
    taking: bool,
    counter: Option<Counter>,
    /// Whether what is left is only looked at where that is cheap.
    frugal: bool,
    ended: Option<Option<Place>>,
}

/// Which file is wanted.
pub(super) enum Find {
    /// The only one that can be the disk.
    Only(Box<Survey>),
    /// The one that is there.
    At(Place),
}

/// What comes next.
pub(super) enum Step {
    /// The file begins.
    Disk(Place),
    /// The next part of it.
    Data(Piece),
    /// The only layer is no archive.
    NoArchive(usize),
    /// What is left would have to be unpacked to be seen, and is large.
    Unseen,
    /// All layers were read. The file is there, which is not where one has begun if a link leads elsewhere.
    End(Option<Place>),
}

impl Walk {
    /// Of this image. What is read and verified is put `at_hand`.
    pub(super) fn new(image: Arc<Image>, find: Find, reading: Reading, at_hand: AtHand) -> Self {
        let below = match &find {
            Find::Only(_) => image.manifest.layers.len(),
            Find::At(place) => place.layer + 1,
        };
        Self {
            image,
            find,
            reading,
            at_hand,
            below,
            at: None,
            taking: false,
            counter: None,
            frugal: false,
            ended: None,
        }
    }

    /// The same; `counter` is told of the bytes of layers as they come.
    pub(super) fn counted(self, counter: Option<Counter>) -> Self {
        Self { counter, ..self }
    }

    /// How many bytes the layers have that it reads.
    pub(super) fn weight(&self) -> u64 {
        let layers = self.image.manifest.layers.iter().take(self.below).skip(self.last());
        layers.fold(0, |sum, layer| sum.saturating_add(layer.size))
    }

    /// The lowest layer that is read.
    fn last(&self) -> usize {
        match &self.find {
            Find::Only(_) => 0,
            Find::At(place) => place.layer,
        }
    }

    pub(super) fn next(&mut self) -> Result<Step> {
        loop {
            if let Some(place) = self.ended {
                return Ok(Step::End(place));
            }
            if self.frugal && self.is_costly() {
                return Ok(Step::Unseen);
            }
            let Some((layer, entries)) = &mut self.at else {
                match self.open()? {
                    Some(step) => return Ok(step),
                    None => continue,
                }
            };
            let layer = *layer;
            let event = entries.next().map_err(|error| in_layer(error, &self.image, layer))?;
            match event {
                (Event::Entry(entry), number) => {
                    let place = Place { layer, entry: number, size: entry.size };
                    self.taking = match &mut self.find {
                        Find::Only(survey) => survey.entry(&entry, place)?,
                        Find::At(wanted) => *wanted == place,
                    };
                    if self.taking {
                        return Ok(Step::Disk(place));
                    }
                    entries.pass_over()?;
                }
                (Event::Data(bytes), _) if self.taking => return Ok(Step::Data(Piece::Bytes(bytes))),
                (Event::Hole(len), _) if self.taking => return Ok(Step::Data(Piece::Hole(len))),
                (Event::Data(_) | Event::Hole(_), _) => {}
                (Event::End, _) => {
                    self.taking = false;
                    self.at = None;
                    if let Find::Only(survey) = &mut self.find {
                        survey.end_layer();
                    }
                }
            }
        }
    }

    /// Looks at what comes behind the disk, which has just begun at `place` and seems to be the only one. Gives where the
    /// disk is, to be read from there; `None` if it is to be read on from here.
    pub(super) fn look_on(&mut self, place: Place) -> Result<Option<Place>> {
        if matches!(self.find, Find::At(_)) {
            return Ok(None);
        }
        if self.is_costly() {
            return Ok(None);
        }
        self.frugal = true;
        loop {
            if let Some((_, entries)) = &mut self.at
                && self.taking
            {
                entries.pass_over()?;
                self.taking = false;
            }
            match self.next()? {
                Step::Unseen => return Ok(Some(place)),
                Step::End(found) => return Ok(Some(found.unwrap_or(place))),
                Step::Disk(_) | Step::Data(_) | Step::NoArchive(_) => {}
            }
        }
    }

    /// Whether what is left of the layer at hand is large, and has to be unpacked to be seen.
    fn is_costly(&self) -> bool {
        let layer = |layer: usize| self.image.manifest.layers.get(layer);
        self.at.as_ref().is_some_and(|(at, entries)| {
            !entries.is_ranged() && layer(*at).is_some_and(|descriptor| descriptor.size > LARGE)
        })
    }

    /// The layer in which the file has just begun, and where it lies in it, if it can be read at any offset.
    pub(super) fn part(&mut self) -> Option<(Box<dyn Source>, Range<u64>)> {
        // Otherwise the walk goes on.
        self.at.as_ref().filter(|(_, entries)| entries.has_part())?;
        self.at.take()?.1.into_part()
    }

    /// The same, where the walk goes on all the same.
    pub(super) fn aside(&mut self) -> Option<(Box<dyn Source>, Range<u64>)> {
        self.at.as_mut()?.1.aside()
    }

    /// Opens the next layer. Gives the end when there are no more.
    fn open(&mut self) -> Result<Option<Step>> {
        if self.below <= self.last() {
            let place = match &self.find {
                Find::Only(survey) => Some(survey.conclude()?),
                Find::At(_) => None,
            };
            self.ended = Some(place);
            return Ok(None);
        }
        self.below -= 1;
        let layer = self.below;
        match self.entries(layer).map_err(|error| in_layer(error, &self.image, layer))? {
            Some(entries) => self.at = Some((layer, entries)),
            None if self.image.manifest.layers.len() == 1 => return Ok(Some(Step::NoArchive(layer))),
            None => {
                let error = Error::new(Kind::NotUsable, "it is no archive, which a layer has to be");
                return Err(in_layer(error, &self.image, layer));
            }
        }
        Ok(None)
    }

    /// The entries of a layer, whatever its label says; `None` when it is no archive.
    fn entries(&self, layer: usize) -> Result<Option<Entries>> {
        let missing = || Error::new(Kind::Ours, "there is no such layer");
        let descriptor = self.image.manifest.layers.get(layer).ok_or_else(missing)?;
        let mut source = self.image.layer(descriptor)?;
        let mut stream = counted(source.open()?, self.counter.as_ref());
        if self.reading == Reading::Verified {
            stream = self.at_hand.put(Verified::new(stream, descriptor, &self.image.name)?);
        }
        let (head, peeked) = peek(stream, wrapper::HEAD)?;
        match wrapper::detect(&head).unwrap_or_default() {
            Some(Wrapper::Tar) if self.reading == Reading::Partial && source.ranges() => {
                drop(peeked);
                Ok(Some(Entries::ranged(source)))
            }
            Some(Wrapper::Tar) if source.ranges() => Ok(Some(Entries::streamed_from(Box::new(peeked), source))),
            Some(Wrapper::Tar) => Ok(Some(Entries::streamed(Box::new(peeked)))),
            None if is_empty(&head) => Ok(Some(Entries::streamed(Box::new(peeked)))),
            None => Ok(None),
            Some(packed) => {
                let stream = crate::unwrap::decode(Box::new(peeked), packed, Limits::default())?;
                let (head, peeked) = peek(stream, wrapper::HEAD)?;
                let archive = is_empty(&head) || wrapper::detect(&head).unwrap_or_default() == Some(Wrapper::Tar);
                Ok(archive.then(|| Entries::streamed(Box::new(peeked))))
            }
        }
    }
}

/// Whether an archive that begins so has nothing in it: as builders write a layer that changes nothing.
fn is_empty(head: &[u8]) -> bool {
    head.iter().all(|&byte| byte == 0)
}

/// The same, of this layer; what names itself stays as it is.
fn in_layer(error: Error, image: &Image, layer: usize) -> Error {
    match (error.kind(), image.manifest.layers.get(layer)) {
        (Kind::NotUsable | Kind::Unsafe, Some(descriptor)) => error.within(format_args!("layer {}", descriptor.digest)),
        _ => error,
    }
}

/// Of a layer that is unpacked to see whether there is another disk in it: a second or so.
const LARGE: u64 = 64 << 20;
