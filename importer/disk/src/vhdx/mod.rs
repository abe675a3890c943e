//! VHDX, the format of Hyper-V, as in Microsoft's [MS-VHDX].
//!
//! Everything is aligned to 1 MiB: a header section, a log, a block allocation table (BAT), metadata, and the blocks, in
//! any order. What must be read before what:
//!
//! ```text
//! headers ──► log, if it must be replayed ──► region tables ──► metadata ──► BAT ──► blocks
//! ```
//!
//! The first four are near the start of the file, and all but the BAT are small. A dirty log is replayed in memory: what it
//! wrote lies as an overlay over everything that is read after it, the blocks included.
//!
//! Fixed and dynamic images with sectors of 512 or 4096 bytes are read. Refused by name: differencing images, regions and
//! metadata that are required and unknown, logs above 16 MiB that must be replayed.
//!
//! [MS-VHDX]: https://learn.microsoft.com/openspecs/windows_protocols/ms-vhdx

mod bat;
mod entry;
mod header;
mod locator;
mod log;
mod metadata;
mod overlay;
mod region;
mod sequence;
#[cfg(test)]
mod tests;

use bat::{Bat, File};
use header::Header;
use locator::{LOCATOR_MAX, parent_path};
use log::{Log, Replayed};
use metadata::{Item, Metadata};
use overlay::Overlay;
use region::Regions;

use crate::text::printable_utf16;
use crate::{Error, Feature, Format, Found, Geometry, HostOffset, Kind, Page, Result};

/// A VHDX image. Costs a few pages at a time, 2 bits for each allocated block, and up to 32 MiB while a log is replayed
/// (half of that from then on).
#[derive(Debug)]
pub struct Vhdx {
    creator: String,
    file_len: Option<u64>,
    /// The log, while it is read, and what waits for it: the header that told of it and the region tables.
    log: Option<(Log, Header, Vec<u8>)>,
    overlay: Overlay,
    replayed: Option<Dirty>,
    regions: Option<Regions>,
    metadata: Metadata,
    bat: Option<Bat>,
}

/// What is remembered of a log that was replayed.
#[derive(Clone, Copy, Debug)]
struct Dirty {
    entries: usize,
    flushed_file_len: u64,
}

impl Vhdx {
    /// Reads the file type identifier at the start of the file; all else comes in pages.
    ///
    /// # Errors
    /// NotADisk without the signature; Truncated when `head`, or the file by its length, is too short to be one.
    pub fn open(head: &[u8], file_len: Option<u64>) -> Result<Self> {
        Self::read(head, file_len).map_err(|error| error.of(NAME))
    }

    fn read(head: &[u8], file_len: Option<u64>) -> Result<Self> {
        if !head.starts_with(b"vhdxfile") {
            return Err(Error::new(Kind::NotADisk, "no VHDX signature").at(0));
        }
        if file_len.is_some_and(|file_len| file_len < MIB) {
            return Err(Error::new(Kind::Truncated, "the file is shorter than the header section of 1 MiB"));
        }
        let creator = head.get(8..).unwrap_or_default().as_chunks().0.iter().take(256);
        Ok(Self {
            creator: printable_utf16(creator.map(|unit| u16::from_le_bytes(*unit))),
            file_len,
            log: None,
            overlay: Overlay::default(),
            replayed: None,
            regions: None,
            metadata: Metadata::default(),
            bat: None,
        })
    }

    /// The headers and region tables, which are read at once.
    fn take_front(&mut self, bytes: &[u8], found: &mut Found) -> Result<()> {
        let (first, rest) = bytes.split_at_checked(UNIT as usize).unwrap_or((bytes, &[]));
        let (second, tables) = rest.split_at_checked(UNIT as usize).unwrap_or((rest, &[]));
        let header = Header::current(first, second)?;
        if header.log_guid.is_nil() {
            found.skip(header.log_at, header.log_end());
            return self.take_regions(&header, tables, found);
        }
        let log = Log::new(&header)?;
        log.ask(LOG, found)?;
        self.log = Some((log, header, tables.to_vec()));
        // A log of no length is complete, and holds nothing to replay.
        self.replay(found)
    }

    /// Replays the log, once all of it is there.
    fn replay(&mut self, found: &mut Found) -> Result<()> {
        let Some((log, header, tables)) = self.log.take_if(|(log, ..)| log.is_complete()) else { return Ok(()) };
        let Replayed { overlay, entries, flushed_file_len } = log.replay()?;
        self.overlay = overlay;
        self.replayed = Some(Dirty { entries, flushed_file_len });
        self.check_length(self.file_len)?;
        let tables = self.overlay.apply(Regions::AT, &tables).into_owned();
        self.take_regions(&header, &tables, found)
    }

    /// Refuses a file that was cut after its log was written.
    fn check_length(&self, file_len: Option<u64>) -> Result<()> {
        //# MS-VHDX 2.3.3: "If the file's size is less than the FlushedFileOffset field of the head entry of the candidate
        //# active sequence, then the file has been truncated, and the implementation MUST fail to open it."
        match (self.replayed, file_len) {
            (Some(dirty), Some(file_len)) if file_len < dirty.flushed_file_len => {
                let message = format!("the file ends at {file_len:#x}, but had {:#x} bytes", dirty.flushed_file_len);
                Err(Error::new(Kind::Truncated, message))
            }
            _ => Ok(()),
        }
    }

    fn take_regions(&mut self, header: &Header, tables: &[u8], found: &mut Found) -> Result<()> {
        let regions = Regions::read(tables, header)?;
        for region in regions.all.iter().filter(|region| region.what == Regions::OPTIONAL) {
            found.skip(region.start, region.end);
        }
        // The items usually follow the table at once.
        let at = HostOffset(regions.metadata.start);
        found.page(Page { at, len: 2 * UNIT, min: UNIT, tag: METADATA, index: 0 })?;
        self.regions = Some(regions);
        Ok(())
    }

    /// The metadata table, with what follows it.
    fn take_metadata(&mut self, bytes: &[u8], found: &mut Found) -> Result<()> {
        let Some(regions) = &self.regions else { return Err(out_of_order()) };
        let start = regions.metadata.start;
        self.metadata = Metadata::read(&regions.metadata, bytes)?;
        for item in Item::SHAPE {
            match self.at_hand(item, start, bytes) {
                Some(bytes) => self.metadata.take(item, bytes)?,
                None => self.ask_for(item, found)?,
            }
        }
        self.take_shape(start, bytes, found)
    }

    /// The bytes of an item, when they lie within `bytes`, which start at `start` in the file.
    fn at_hand<'a>(&self, item: Item, start: u64, bytes: &'a [u8]) -> Option<&'a [u8]> {
        let (at, len) = self.metadata.place(item)?;
        bytes.get(usize::try_from(at.checked_sub(start)?).ok()?..)?.get(..len as usize)
    }

    fn ask_for(&self, item: Item, found: &mut Found) -> Result<()> {
        let Some((at, len)) = self.metadata.place(item).filter(|(_, len)| *len > 0) else {
            return Err(Error::new(Kind::Corrupt, "a metadata item that is needed is empty"));
        };
        let len = len.min(LOCATOR_MAX);
        found.page(Page { at: HostOffset(at), len, min: len, tag: ITEM, index: item.index().into() })
    }

    /// Goes on when the shape of the disk is known. `bytes`, which start at `start` in the file, are at hand.
    fn take_shape(&mut self, start: u64, bytes: &[u8], found: &mut Found) -> Result<()> {
        let Some(regions) = &self.regions else { return Err(out_of_order()) };
        let metadata_at = regions.metadata.start;
        let Some(shape) = self.metadata.shape().map_err(|error| error.at(metadata_at))? else { return Ok(()) };
        if !shape.has_parent {
            let bat = Bat::new(shape, regions, BAT)?;
            bat.start(regions, found)?;
            self.bat = Some(bat);
            return Ok(());
        }
        match self.at_hand(Item::Locator, start, bytes) {
            Some(locator) => Err(refuse_parent(locator)),
            None if self.metadata.place(Item::Locator).is_some_and(|(_, len)| len > 0) => {
                self.ask_for(Item::Locator, found)
            }
            None => Err(refuse_parent(&[])),
        }
    }

    fn take_item(&mut self, page: &Page, bytes: &[u8], found: &mut Found) -> Result<()> {
        match Item::from_index(page.index) {
            Some(Item::Locator) => Err(refuse_parent(bytes)),
            Some(item) => {
                self.metadata.take(item, bytes).map_err(|error| error.at(page.at.0))?;
                self.take_shape(page.at.0, &[], found)
            }
            None => Err(out_of_order()),
        }
    }

    fn take_page(&mut self, page: &Page, bytes: &[u8], found: &mut Found) -> Result<()> {
        match page.tag {
            FRONT => self.take_front(bytes, found),
            LOG => {
                let Some((log, ..)) = &mut self.log else { return Err(out_of_order()) };
                log.take(page, bytes)?;
                self.replay(found)
            }
            METADATA => self.take_metadata(&self.overlay.apply(page.at.0, bytes), found),
            ITEM => self.take_item(page, &self.overlay.apply(page.at.0, bytes), found),
            _ => {
                let (Some(regions), Some(bat)) = (&self.regions, &mut self.bat) else { return Err(out_of_order()) };
                let file = File { regions, overlay: &self.overlay, len: self.file_len };
                bat.read(page, &self.overlay.apply(page.at.0, bytes), &file, found)
            }
        }
    }
}

impl Format for Vhdx {
    fn start(&mut self, found: &mut Found) -> Result<()> {
        found.skip(0, Header::AT);
        found.skip(Header::AT + u64::from(4 * UNIT), MIB);
        found.page(Page { at: HostOffset(Header::AT), len: 4 * UNIT, min: 4 * UNIT, tag: FRONT, index: 0 })
    }

    fn expand(&mut self, page: &Page, bytes: &[u8], found: &mut Found) -> Result<()> {
        self.take_page(page, bytes, found).map_err(|error| error.of(NAME))
    }

    fn geometry(&self) -> Option<Geometry> {
        let virtual_size = self.bat.as_ref()?.shape().virtual_size;
        Some(Geometry { virtual_size: Some(virtual_size), cdrom: false })
    }

    fn finish(&mut self, file_len: Option<u64>, _found: &mut Found) -> Result<()> {
        self.check_length(file_len).map_err(|error| error.of(NAME))?;
        if self.bat.as_ref().is_some_and(Bat::is_complete) { Ok(()) } else { Err(out_of_order().of(NAME)) }
    }

    fn features(&self) -> Vec<Feature> {
        let mut features = vec![Feature::text("creator", self.creator.clone())];
        if let Some(shape) = self.bat.as_ref().map(Bat::shape) {
            features.push(Feature::text("subformat", if shape.fixed { "fixed" } else { "dynamic" }));
            features.push(Feature::number("blockSize", shape.block_size));
            features.push(Feature::number("logicalSectorSize", shape.sector.into()));
            features.push(Feature::flag("logReplayed", self.replayed.is_some()));
        }
        if let Some(dirty) = self.replayed {
            features.push(Feature::number("logEntries", dirty.entries as u64));
        }
        features
    }

    fn name(&self) -> &'static str {
        NAME
    }
}

fn refuse_parent(locator: &[u8]) -> Error {
    let parent = parent_path(locator).map_or_else(String::new, |path| format!(" \"{path}\""));
    Error::new(Kind::External, format!("a differencing image needs its parent{parent}; merge them first"))
}

fn out_of_order() -> Error {
    Error::new(Kind::Ours, "a page before what it depends on")
}

const NAME: &str = "vhdx";
const MIB: u64 = 1 << 20;
/// Each item of the header section, and the metadata table, has 64 KiB.
const UNIT: u32 = 64 << 10;

/// Tags of pages: both headers with both region tables, the log, the metadata table, an item of it, the BAT.
const FRONT: u32 = 0;
const LOG: u32 = 1;
const METADATA: u32 = 2;
const ITEM: u32 = 3;
const BAT: u32 = 4;
