//! VDI, the format of VirtualBox: a header, a map with one 32-bit entry for each block, and the blocks.
//!
//! There is no specification but VirtualBox's own source (`src/VBox/Storage/VDI.cpp`); `block/vdi.c` of qemu reads a
//! subset. Everything VirtualBox 1.1 images can hold is read: dynamic and fixed, any block size, extra bytes before each
//! block. Refused by name: undo and differencing images, which need their parent, and the version before 1.1.
//!
//! The map always lies before the data, so a stream holds nothing but a page of it.

mod header;
#[cfg(test)]
mod tests;

use header::Header;

use crate::claims::Claims;
use crate::field::le32;
use crate::table::Table;
use crate::{Body, Error, Extent, Feature, Format, Found, Geometry, GuestOffset, HostOffset, Kind, Page, Result};

/// A VDI image. Costs a page of the map at a time, and 2 bits for each allocated block.
#[derive(Debug)]
pub struct Vdi {
    header: Header,
    map: Table,
    claims: Claims,
    file_len: Option<u64>,
}

impl Vdi {
    /// Reads the header from the first bytes of the file (512 are enough).
    ///
    /// # Errors
    /// Truncated when `head`, or the file by its length, ends before the block map does; External for undo and
    /// differencing images; Unsupported for other versions than 1.1 and unknown flags; Corrupt and Oversized for a header
    /// that can't be true.
    pub fn open(head: &[u8], file_len: Option<u64>) -> Result<Self> {
        Self::read(head, file_len).map_err(|error| error.of(NAME))
    }

    fn read(head: &[u8], file_len: Option<u64>) -> Result<Self> {
        let header = Header::read(head)?;
        let map = Table::new(header.map_at, header.blocks_used() * 4, MAP)?;
        if file_len.is_some_and(|file_len| file_len < map.end()) {
            return Err(Error::new(Kind::Truncated, "the file ends within the block map").at(header.map_at));
        }
        Ok(Self { header, map, claims: Claims::new(1), file_len })
    }

    /// Where the data of the block with this number lies in the file.
    fn place(&self, block: u32, len: u64) -> Result<u64> {
        // At most 2^32 blocks of 2^32 bytes, less than 2^63 in sum only if the map is honest.
        let stride = self.header.block_size + self.header.block_extra;
        let offset = u64::from(block).checked_mul(stride).and_then(|offset| offset.checked_add(self.header.data_at));
        let Some(at) = offset.and_then(|offset| offset.checked_add(self.header.block_extra)) else {
            return Err(Error::new(Kind::Corrupt, format!("block {block} lies beyond any file")));
        };
        match at.checked_add(len) {
            None => Err(Error::new(Kind::Corrupt, format!("block {block} lies beyond any file"))),
            Some(end) if self.file_len.is_some_and(|file_len| file_len < end) => {
                Err(Error::new(Kind::Truncated, format!("the file ends before the end of block {block}, {end:#x}")))
            }
            Some(_) => Ok(at),
        }
    }

    fn entry(&mut self, index: u64, entry: u32, found: &mut Found) -> Result<()> {
        let guest = index * self.header.block_size;
        let len = self.header.block_size.min(self.header.virtual_size - guest);
        let body = if entry >= DISCARDED {
            Body::Zero
        } else {
            if u64::from(entry) >= self.header.blocks {
                let message = format!("block {entry} of an image that has {}", self.header.blocks);
                return Err(Error::new(Kind::Corrupt, message));
            }
            self.claims.claim(u64::from(entry))?;
            Body::Data { at: HostOffset(self.place(entry, len)?) }
        };
        found.extent(Extent { guest: GuestOffset(guest), len, body });
        Ok(())
    }
}

impl Format for Vdi {
    fn start(&mut self, found: &mut Found) -> Result<()> {
        found.skip(0, self.header.map_at);
        found.skip(self.map.end(), self.header.data_at);
        self.map.start(found)
    }

    fn expand(&mut self, page: &Page, bytes: &[u8], found: &mut Found) -> Result<()> {
        self.map.read(page, bytes, found).map_err(|error| error.of(NAME))?;
        let first = page.index * u64::from(Table::PAGE / 4);
        let blocks = (first..self.header.blocks_used()).zip(le32(bytes));
        for (index, entry) in blocks {
            self.entry(index, entry, found)
                .map_err(|error| error.of(NAME).at(self.header.map_at.saturating_add(index * 4)))?;
        }
        Ok(())
    }

    fn geometry(&self) -> Option<Geometry> {
        Some(Geometry { virtual_size: Some(self.header.virtual_size), cdrom: false })
    }

    fn finish(&mut self, _file_len: Option<u64>, _found: &mut Found) -> Result<()> {
        if self.map.complete() { Ok(()) } else { Err(Error::new(Kind::Ours, "the block map was not read").of(NAME)) }
    }

    fn features(&self) -> Vec<Feature> {
        vec![
            Feature::text("subformat", if self.header.fixed { "static" } else { "dynamic" }),
            Feature::number("blockSize", self.header.block_size),
            Feature::number("blocksAllocated", self.header.allocated),
            Feature::text("creator", self.header.creator.clone()),
        ]
    }

    fn name(&self) -> &'static str {
        NAME
    }
}

const NAME: &str = "vdi";
/// The tag of pages of the block map.
const MAP: u32 = 0;
/// An entry of the map: the block was discarded and reads as zeros. The one above, all ones, was never allocated.
const DISCARDED: u32 = 0xffff_fffe;
