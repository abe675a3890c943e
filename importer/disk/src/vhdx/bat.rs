//! The block allocation table: an entry of 64 bits for each block. (MS-VHDX 2.5)

use super::MIB;
use super::metadata::Shape;
use super::overlay::{Overlay, Part};
use super::region::Regions;
use crate::claims::Claims;
use crate::field::le64;
use crate::table::Table;
use crate::{Body, Error, Extent, Found, GuestOffset, HostOffset, Kind, Page, Result};

/// The table, as it is read.
#[derive(Debug)]
pub(super) struct Bat {
    shape: Shape,
    /// After so many entries for blocks comes one for a bitmap.
    chunk: u64,
    at: u64,
    table: Table,
    claims: Claims,
}

/// What a block is checked against, and may be changed by.
pub(super) struct File<'a> {
    pub(super) regions: &'a Regions,
    pub(super) overlay: &'a Overlay,
    /// The length of the file, if known.
    pub(super) len: Option<u64>,
}

impl Bat {
    /// The table of a disk of this shape. Its pages will carry `tag`.
    pub(super) fn new(shape: Shape, regions: &Regions, tag: u32) -> Result<Self> {
        let chunk = ((u64::from(shape.sector) << 23) / shape.block_size).max(1);
        //# MS-VHDX 2.5: "For dynamic and fixed VHDX, the last BAT entry MUST locate the last payload block"
        let blocks = shape.virtual_size.div_ceil(shape.block_size);
        let entries = blocks + blocks.saturating_sub(1) / chunk;
        let (at, len) = (regions.bat.start, entries * 8);
        if len > regions.bat.end - at {
            let message = format!("the block allocation table is too small for {blocks} blocks");
            return Err(Error::new(Kind::Corrupt, message).at(at));
        }
        let claims = Claims::new(shape.block_size / MIB);
        Ok(Self { shape, chunk, at, table: Table::new(at, len, tag)?, claims })
    }

    pub(super) fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Asks for the first pages.
    pub(super) fn start(&self, regions: &Regions, found: &mut Found) -> Result<()> {
        found.skip(self.table.end(), regions.bat.end);
        self.table.start(found)
    }

    pub(super) fn is_complete(&self) -> bool {
        self.table.complete()
    }

    /// Reads a page, which the overlay has been applied to.
    pub(super) fn read(&mut self, page: &Page, bytes: &[u8], file: &File<'_>, found: &mut Found) -> Result<()> {
        self.table.read(page, bytes, found)?;
        let first = page.index * u64::from(Table::PAGE / 8);
        for (index, entry) in (first..).zip(le64(bytes)) {
            let (chunk, within) = (index / (self.chunk + 1), index % (self.chunk + 1));
            if within == self.chunk {
                // Sector bitmaps tell what is in a parent. Without one nothing depends on them.
                continue;
            }
            let block = chunk * self.chunk + within;
            self.block(block, entry, file, found).map_err(|error| error.at(self.at + index * 8))?;
        }
        Ok(())
    }

    fn block(&mut self, block: u64, entry: u64, file: &File<'_>, found: &mut Found) -> Result<()> {
        let guest = block * self.shape.block_size;
        let len = self.shape.block_size.min(self.shape.virtual_size.saturating_sub(guest));
        match entry & 7 {
            // Zeros, by its state or because the specification allows any data; qemu and Hyper-V give zeros. 5 was
            // the state of an unmapped block before version 1.0, and qemu still takes it for that.
            NOT_PRESENT | UNDEFINED | ZERO | UNMAPPED | UNMAPPED_DRAFT => {
                found.extent(Extent { guest: GuestOffset(guest), len, body: Body::Zero });
                Ok(())
            }
            FULLY_PRESENT => {
                let at = self.place(entry, len, file)?;
                emit(at, guest, len, file, found);
                Ok(())
            }
            PARTIALLY_PRESENT => {
                let message = format!("block {block} is partly in a parent, but the file has none");
                Err(Error::new(Kind::Corrupt, message))
            }
            state => Err(Error::new(Kind::Corrupt, format!("block {block} has the unknown state {state}"))),
        }
    }

    /// Where a block that is in the file lies there.
    fn place(&mut self, entry: u64, len: u64, file: &File<'_>) -> Result<u64> {
        if entry & RESERVED != 0 {
            return Err(Error::new(Kind::Corrupt, format!("the entry {entry:#x} has reserved bits set")));
        }
        let at = entry & !(MIB - 1);
        let Some(end) = at.checked_add(self.shape.block_size) else {
            return Err(Error::new(Kind::Corrupt, format!("the block at {at:#x} lies beyond any file")));
        };
        if let Some(region) = file.regions.overlapped(at, end) {
            return Err(Error::new(Kind::Corrupt, format!("the block at {at:#x} overlaps the {}", region.what)));
        }
        // Only what the disk needs of it: the last block may be cut with the disk.
        if file.len.is_some_and(|file_len| file_len.max(file.overlay.file_len) < at + len) {
            return Err(Error::new(Kind::Truncated, format!("the file ends before the end of the block at {at:#x}")));
        }
        self.claims.claim(at / MIB)?;
        Ok(at)
    }
}

/// Emits `len` bytes at `at` in the file as those at `guest` of the disk, but what the log replaced as the log has it.
fn emit(at: u64, guest: u64, len: u64, file: &File<'_>, found: &mut Found) {
    file.overlay.split(at, len, |start, len, part| {
        let guest = GuestOffset(guest + (start - at));
        let body = match part {
            Part::Zero => Body::Zero,
            Part::Bytes(bytes) => Body::Inline(bytes),
            Part::File => {
                //# MS-VHDX 2.3.3: "After all the entries have been replayed, the implementation MUST expand the file size
                //# to be at least as large as the LastFileOffset field of the head entry of the active sequence."
                // What lies in that expansion, and was not written by the log, is zeros. It can be told from truncation
                // only when the length of the file is known; a stream of unknown length that ends too soon is cut.
                let here = file.len.map_or(len, |file_len| file_len.saturating_sub(start).min(len));
                found.extent(Extent { guest, len: here, body: Body::Data { at: HostOffset(start) } });
                let behind = GuestOffset(guest.0 + here);
                found.extent(Extent { guest: behind, len: len - here, body: Body::Zero });
                return;
            }
        };
        found.extent(Extent { guest, len, body });
    });
}

const NOT_PRESENT: u64 = 0;
const UNDEFINED: u64 = 1;
const ZERO: u64 = 2;
const UNMAPPED: u64 = 3;
const UNMAPPED_DRAFT: u64 = 5;
const FULLY_PRESENT: u64 = 6;
const PARTIALLY_PRESENT: u64 = 7;
/// Bits 3 to 19.
const RESERVED: u64 = 0xf_fff8;
