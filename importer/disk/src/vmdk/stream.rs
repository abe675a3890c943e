//! streamOptimized: a chain of compressed grains, each behind a marker that says where in the disk it belongs.
//!
//! The grains are found by their markers alone, in any order, so the file is read once from front to back. The tables,
//! wherever they are, are only held against what the markers said: that tells a stream that was cut from one that ends,
//! and an image on which two readers would disagree.
//!
//! Three kinds of writers are known. VMware exports have tables behind the grains, each behind a marker, then a footer
//! with the true place of the directory, and an end marker. VMware Workstation and open-vmdk write the tables in front,
//! and an end marker. qemu writes the tables in front, and no end marker: its files end with zeros, or just end.

use super::census::Census;
use super::grains::GrainSet;
use super::header::Header;
use super::marker::{GRAIN_PREFIX, Marker};
use super::tables::Tables;
use super::tag;
use crate::{Body, Codec, Error, Extent, Found, GuestOffset, HostOffset, Kind, Page, Result, SECTOR};

/// The walk along the chain.
#[derive(Debug)]
pub(super) struct Stream {
    header: Header,
    /// Gone when they were compared.
    tables: Option<Tables>,
    seen: GrainSet,
    /// What the markers say.
    marked: Census,
    footer: Footer,
    ended: Option<End>,
    /// The end of the last grain.
    end: u64,
    /// Where grains must come in the order of the disk, the first that may come now.
    next: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Footer {
    Missing,
    /// Its marker was seen: only the end may follow.
    Marked,
    /// The sector of the grain directory.
    Read(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// An end marker, or the zeros that stand for it.
    Marker,
    /// The file just ended, where a marker could be.
    File,
}

impl Stream {
    /// The walk of this image.
    pub fn new(header: Header, file_len: Option<u64>) -> Result<Self> {
        if file_len.is_some_and(|len| len < header.overhead * SECTOR) {
            return Err(Error::new(Kind::Truncated, "the file ends before the first grain"));
        }
        Ok(Self {
            header,
            tables: Some(Tables::new(header)?),
            seen: GrainSet::default(),
            marked: Census::default(),
            footer: Footer::Missing,
            ended: None,
            end: 0,
            next: None,
        })
    }

    /// Refuses grains that are not in the order of the disk, and so knows at each that what lies before it is zeros.
    pub fn in_order(&mut self) {
        self.next = Some(0);
    }

    /// Asks for the directory when it is in front, and for the first marker.
    pub fn start(&mut self, found: &mut Found) -> Result<()> {
        self.tables()?.start(found)?;
        marker_at(self.header.overhead * SECTOR, found)
    }

    /// Reads a page.
    pub fn expand(&mut self, page: &Page, bytes: &[u8], found: &mut Found) -> Result<()> {
        // Whatever the page held, it is nothing more than the extents that come of it now.
        found.skip(page.at.0, page.end());
        match page.tag {
            tag::DIRECTORY => self.tables()?.directory(page, bytes, found)?,
            tag::TABLE | tag::CHAIN_TABLE => self.tables()?.table(page, bytes),
            tag::FOOTER => self.footer = Footer::Read(self.header.footer(bytes)?),
            tag::TAIL => tail(page, bytes, found)?,
            _ => self.marker(page.at.0, bytes, found)?,
        }
        Ok(())
    }

    /// Compares the accounts, and gives what no grain was about.
    pub fn finish(&mut self, file_len: Option<u64>, found: &mut Found) -> Result<()> {
        let Some(end) = self.ended else {
            return Err(Error::new(Kind::Ours, "the stream was not read to its end"));
        };
        if let Some(len) = file_len
            && len < self.end
        {
            return Err(Error::new(Kind::Truncated, "the stream ends in a grain").at(len));
        }
        let footer = match self.footer {
            Footer::Read(sector) => Some(sector),
            Footer::Missing | Footer::Marked => None,
        };
        let tables = self.tables.take().ok_or_else(finished)?;
        let census = tables.finish(end == End::Marker, footer)?;
        let (marked, tabled) = (self.marked.count, census.count);
        if marked < tabled {
            return Err(Error::new(Kind::Truncated, format!("the stream ends after {marked} of {tabled} grains")));
        }
        if self.marked != census {
            return Err(corrupt(format!(
                "the tables know {tabled} grains, the markers {marked}, and not the same; transfer or export it again"
            )));
        }
        let header = &self.header;
        match self.next {
            Some(next) => zeros(header, next, header.grains(), found),
            None => self.seen.gaps(header.grains(), |first, behind| zeros(header, first, behind, found)),
        }
        Ok(())
    }

    fn marker(&mut self, at: u64, bytes: &[u8], found: &mut Found) -> Result<()> {
        if bytes.is_empty() {
            self.ended = Some(End::File);
            return Ok(());
        }
        // A file may end with less than a sector of zeros, never with less than a sector of anything else.
        let marker = if bytes.len() < 512 && is_zero(bytes) {
            Marker::End
        } else if bytes.len() < 512 {
            return Err(Error::new(Kind::Truncated, "the stream ends in a marker").at(at));
        } else {
            Marker::parse(bytes).map_err(|error| error.at(at))?
        };
        if self.footer != Footer::Missing && marker != Marker::End {
            return Err(corrupt("the stream goes on behind its footer").at(at));
        }
        match marker {
            Marker::Grain { lba, size } => self.grain(at, lba, size, found),
            Marker::Table(sectors) => self.table_marker(at, sectors, found),
            Marker::Directory(sectors) => self.directory_marker(at, sectors, found),
            Marker::Footer(sectors) => {
                self.expect(at, sectors, 1)?;
                self.footer = Footer::Marked;
                let page = Page { at: HostOffset(at + SECTOR), len: 512, min: 512, tag: tag::FOOTER, index: 0 };
                found.page(page)?;
                marker_at(at + 2 * SECTOR, found)
            }
            Marker::Progress(sectors) => {
                let next = sectors.checked_mul(SECTOR).and_then(|len| len.checked_add(at + SECTOR));
                let next = next.filter(|&next| next <= MAX_FILE);
                marker_behind(at, next.ok_or_else(|| corrupt("a marker reaches beyond any file").at(at))?, found)
            }
            Marker::End => {
                self.ended = Some(End::Marker);
                tail_at(at + SECTOR, found)
            }
        }
    }

    fn grain(&mut self, at: u64, lba: u64, size: u32, found: &mut Found) -> Result<()> {
        let header = &self.header;
        let unpacked = header.grain_bytes();
        // Deflate grows what it can't shrink by far less; qemu draws the same line.
        if u64::from(size) > 2 * unpacked {
            return Err(corrupt(format!("a grain of {unpacked} bytes is compressed to {size} bytes")).at(at));
        }
        if lba >= header.capacity {
            return Err(corrupt(format!("a grain for sector {lba} of a disk of {} sectors", header.capacity)).at(at));
        }
        if !lba.is_multiple_of(header.grain) {
            return Err(corrupt(format!("a grain for sector {lba}, where none can begin")).at(at));
        }
        let grain = lba / header.grain;
        if !self.seen.insert(grain).map_err(|error| error.at(at))? {
            return Err(corrupt(format!("sector {lba} of the disk is given twice")).at(at));
        }
        if let Some(next) = &mut self.next {
            if grain < *next {
                return Err(late(lba).at(at));
            }
            zeros(header, *next, grain, found);
            *next = grain + 1;
        }
        self.marked.add(grain, at / SECTOR);
        let (start, end) = header.guest(grain, grain + 1);
        let data = at + GRAIN_PREFIX;
        let behind = data + u64::from(size);
        let unpacked = u32::try_from(unpacked).map_err(|_| Error::new(Kind::Ours, "grain too large"))?;
        let body = Body::Packed { at: HostOffset(data), len: size, unpacked, codec: Codec::Zlib };
        found.extent(Extent { guest: GuestOffset(start), len: end - start, body });
        self.end = self.end.max(behind);
        marker_behind(at, behind.next_multiple_of(SECTOR), found)
    }

    fn table_marker(&mut self, at: u64, sectors: u64, found: &mut Found) -> Result<()> {
        let len = self.header.table_bytes();
        self.expect(at, sectors, len / SECTOR)?;
        self.tables()?.table_in_chain(at + SECTOR, found)?;
        marker_behind(at, at + SECTOR + len, found)
    }

    fn directory_marker(&mut self, at: u64, sectors: u64, found: &mut Found) -> Result<()> {
        let len = (self.header.tables() * 4).next_multiple_of(SECTOR);
        self.expect(at, sectors, len / SECTOR)?;
        self.tables()?.directory_in_chain(at + SECTOR, found)?;
        marker_behind(at, at + SECTOR + len, found)
    }

    /// Checks the length a marker gives. Some writers give none; VirtualBox reads none.
    fn expect(&self, at: u64, sectors: u64, right: u64) -> Result<()> {
        if sectors == 0 || sectors == right {
            return Ok(());
        }
        Err(corrupt(format!("a marker announces {sectors} sectors instead of {right}")).at(at))
    }

    fn tables(&mut self) -> Result<&mut Tables> {
        self.tables.as_mut().ok_or_else(finished)
    }
}

/// Gives a run of grains that reads as zeros.
fn zeros(header: &Header, first: u64, behind: u64, found: &mut Found) {
    let (start, end) = header.guest(first, behind);
    found.extent(Extent { guest: GuestOffset(start), len: end - start, body: Body::Zero });
}

/// Asks for the marker at `at`. The file may end there.
fn marker_at(at: u64, found: &mut Found) -> Result<()> {
    found.page(Page { at: HostOffset(at), len: 512, min: 0, tag: tag::MARKER, index: 0 })
}

/// Asks for the marker that follows what began at `at`, of which nothing more is to be known: with all of the chain so
/// far as one range, whoever keeps the ranges has one to keep.
fn marker_behind(at: u64, next: u64, found: &mut Found) -> Result<()> {
    found.skip(at, next);
    marker_at(next, found)
}

/// Asks for what is behind the end marker. It should be nothing; zeros are let pass, however many, because qemu and
/// block devices leave them.
fn tail_at(at: u64, found: &mut Found) -> Result<()> {
    found.page(Page { at: HostOffset(at), len: TAIL, min: 0, tag: tag::TAIL, index: 0 })
}

fn tail(page: &Page, bytes: &[u8], found: &mut Found) -> Result<()> {
    if !is_zero(bytes) {
        let at = bytes.iter().position(|&byte| byte != 0).unwrap_or(0);
        return Err(corrupt("there is data behind the end of the stream").at(page.at.0.saturating_add(at as u64)));
    }
    if bytes.len() < TAIL as usize {
        return Ok(());
    }
    tail_at(page.end(), found)
}

/// Whether all bytes are zero. In blocks, for there may be gigabytes.
fn is_zero(bytes: &[u8]) -> bool {
    let (blocks, rest) = bytes.as_chunks::<64>();
    blocks.iter().all(|block| block.iter().fold(0, |all, byte| all | byte) == 0) && rest.iter().all(|&byte| byte == 0)
}

fn late(lba: u64) -> Error {
    let message = format!(
        "sector {lba} of the disk comes behind later ones, and this target takes a disk in order only: copy it to a file first, \
         and push that, or keep the image as it is (--as keep)"
    );
    Error::new(Kind::Unsupported, message)
}

fn finished() -> Error {
    Error::new(Kind::Ours, "the stream was compared before it was read")
}

fn corrupt(message: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    Error::new(Kind::Corrupt, message)
}

/// No file is longer, so sums of an offset and a length of 32 bits can't overflow.
const MAX_FILE: u64 = i64::MAX as u64;

/// Length of a page of what should be zeros, in bytes.
const TAIL: u32 = 64 << 10;
