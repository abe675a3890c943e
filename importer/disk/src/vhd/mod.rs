//! VHD (Virtual PC, Hyper-V, Azure), as in Microsoft's *Virtual Hard Disk Image Format Specification*, version 1.0.
//!
//! - A fixed disk is a raw disk with a footer of 512 bytes: see [`fixed_footer`].
//! - A dynamic disk ([`Vhd`]) starts with a copy of the footer, then comes a header, a block allocation table with one
//!   32-bit entry for each block, and the blocks, each behind a bitmap of its sectors.
//! - A differencing disk is refused with the name of its parent. (qemu-img reads it as if the parent were empty.)
//!
//! Since the copy at the start is required, the footer at the end of a dynamic disk is not read, and a file that lacks
//! it is accepted when all its data is there.

mod checksum;
mod fixed;
mod footer;
mod header;
#[cfg(test)]
mod tests;

use footer::{DiskType, Footer};
use header::Header;

pub use fixed::{FixedVhd, fixed_footer};

use crate::claims::Claims;
use crate::field::be32;
use crate::table::Table;
use crate::{
    Body, Error, Extent, Feature, Format, Found, Geometry, GuestOffset, HostOffset, Kind, Page, Result, SECTOR,
};

/// A dynamic VHD. Costs a page of the table at a time, and up to 4 bytes for each allocated block.
#[derive(Debug)]
pub struct Vhd {
    footer: Footer,
    virtual_size: u64,
    layout: Option<Layout>,
    file_len: Option<u64>,
}

/// What is known once the header was read.
#[derive(Debug)]
struct Layout {
    header: Header,
    table: Table,
    /// Host ranges that no block may touch, with their names.
    taken: [(u64, u64, &'static str); 3],
    claims: Claims,
}

impl Vhd {
    /// Reads the footer at the start of the file, and the header when it lies within `head`, the first bytes of the file.
    ///
    /// # Errors
    /// NotADisk without a footer; Truncated when `head`, or the file by its length, ends before the block table does;
    /// External for differencing disks; Corrupt for wrong checksums, and structures that overlap or contradict each
    /// other; Oversized beyond 2040 GiB, the most the format allows.
    pub fn open_dynamic(head: &[u8], file_len: Option<u64>) -> Result<Self> {
        Self::read(head, file_len).map_err(|error| error.of(NAME))
    }

    fn read(head: &[u8], file_len: Option<u64>) -> Result<Self> {
        let Some(bytes) = head.first_chunk() else {
            return Err(Error::new(Kind::Truncated, "the file is shorter than a VHD footer"));
        };
        let footer = Footer::read(bytes)?;
        if footer.disk_type == DiskType::Fixed {
            return Err(Error::new(Kind::Corrupt, "the file starts with the footer of a fixed disk"));
        }
        let size = if footer.is_chs() { footer.chs_size } else { footer.current_size };
        // An odd number of bytes is rounded up, for the block that holds the last of them has the whole sector.
        let Some(virtual_size) = size.checked_next_multiple_of(SECTOR).filter(|size| *size <= MAX_SIZE) else {
            let message = format!("virtual size of {size} bytes, VHD has at most 2040 GiB");
            return Err(Error::new(Kind::Oversized, message).at(0));
        };
        let mut vhd = Self { footer, virtual_size, layout: None, file_len };
        let header_at = vhd.footer.header_at;
        if header_at < Footer::LEN as u64 || header_at.checked_add(Header::LEN as u64).is_none() {
            return Err(Error::new(Kind::Corrupt, format!("dynamic disk header at {header_at:#x}")).at(16));
        }
        let within = usize::try_from(header_at).ok().and_then(|at| head.get(at..at.checked_add(Header::LEN)?));
        if let Some(bytes) = within {
            vhd.take_header(bytes)?;
        } else if file_len.is_some_and(|file_len| file_len < header_at + Header::LEN as u64) {
            return Err(Error::new(Kind::Truncated, "the file ends before the dynamic disk header").at(header_at));
        }
        Ok(vhd)
    }

    fn take_header(&mut self, bytes: &[u8]) -> Result<()> {
        let header_at = self.footer.header_at;
        let header = Header::read(bytes).map_err(|error| error.at(header_at))?;
        if self.footer.disk_type == DiskType::Differencing {
            let message = format!("a differencing disk needs its parent \"{}\"; merge them first", header.parent);
            return Err(Error::new(Kind::External, message));
        }
        let used = self.virtual_size.div_ceil(header.block_size);
        if used > header.entries {
            let message = format!(
                "{} blocks of {} bytes don't make up a disk of {} bytes",
                header.entries, header.block_size, self.virtual_size
            );
            return Err(Error::new(Kind::Corrupt, message).at(header_at));
        }
        // Some programs make room for the disk to grow, but never for more than can be addressed.
        if header.entries * header.block_size > MAX_TABLE_COVERS {
            let message = format!("a block table of {} entries, of which the disk uses {used}", header.entries);
            return Err(Error::new(Kind::Oversized, message).at(header_at));
        }
        let whole = Table::new(header.table_at, (header.entries * 4).next_multiple_of(SECTOR), TABLE)?;
        let taken = [
            (0, Footer::LEN as u64, "footer"),
            (header_at, header_at + Header::LEN as u64, "header"),
            (header.table_at, whole.end(), "block table"),
        ];
        if let Some((_, _, what)) =
            taken.iter().take(2).find(|(start, end, _)| *start < whole.end() && header.table_at < *end)
        {
            return Err(Error::new(Kind::Corrupt, format!("the block table overlaps the {what}")).at(header.table_at));
        }
        let table = Table::new(header.table_at, used * 4, TABLE)?;
        if self.file_len.is_some_and(|file_len| file_len < table.end()) {
            return Err(Error::new(Kind::Truncated, "the file ends within the block table").at(header.table_at));
        }
        let claims = Claims::new((header.bitmap_size() + header.block_size) / SECTOR);
        self.layout = Some(Layout { header, table, taken, claims });
        Ok(())
    }

    fn ask_for_table(&self, found: &mut Found) -> Result<()> {
        let Some(layout) = &self.layout else { return Ok(()) };
        let [.., (_, table_end, _)] = layout.taken;
        found.skip(layout.table.end(), table_end);
        layout.table.start(found)
    }
}

impl Layout {
    /// Where the data of the block whose entry is `sector` lies in the file.
    ///
    /// The sector bitmap in front of it is not read. In a dynamic disk a clear bit means that the sector was never
    /// written since its block was filled with zeros: it is a hint for sparse reading, the bytes are there either way,
    /// and qemu and Hyper-V read them. Only a differencing disk needs it.
    fn place(&mut self, sector: u32, len: u64, file_len: Option<u64>) -> Result<u64> {
        let start = u64::from(sector) * SECTOR;
        let data = start + self.header.bitmap_size();
        let end = data + self.header.block_size;
        if let Some((_, _, what)) = self.taken.iter().find(|(from, to, _)| *from < end && start < *to) {
            return Err(Error::new(Kind::Corrupt, format!("the block at {start:#x} overlaps the {what}")));
        }
        if file_len.is_some_and(|file_len| file_len < data + len) {
            return Err(Error::new(
                Kind::Truncated,
                format!("the file ends before the end of the block at {start:#x}"),
            ));
        }
        self.claims.claim(u64::from(sector))?;
        Ok(data)
    }
}

impl Format for Vhd {
    fn start(&mut self, found: &mut Found) -> Result<()> {
        found.skip(0, Footer::LEN as u64);
        let header_at = self.footer.header_at;
        if self.layout.is_some() {
            found.skip(header_at, header_at + Header::LEN as u64);
            return self.ask_for_table(found);
        }
        let len = 1024;
        found.page(Page { at: HostOffset(header_at), len, min: len, tag: HEADER, index: 0 })
    }

    fn expand(&mut self, page: &Page, bytes: &[u8], found: &mut Found) -> Result<()> {
        if page.tag == HEADER {
            self.take_header(bytes).map_err(|error| error.of(NAME))?;
            return self.ask_for_table(found);
        }
        let Some(layout) = &mut self.layout else {
            return Err(Error::new(Kind::Ours, "a page of a table that was not asked for").of(NAME));
        };
        layout.table.read(page, bytes, found).map_err(|error| error.of(NAME))?;
        let (block_size, table_at) = (layout.header.block_size, layout.header.table_at);
        let first = page.index * u64::from(Table::PAGE / 4);
        for (index, sector) in (first..self.virtual_size.div_ceil(block_size)).zip(be32(bytes)) {
            let guest = index * block_size;
            let len = block_size.min(self.virtual_size - guest);
            let body = if sector == UNALLOCATED {
                Body::Zero
            } else {
                let at = layout.place(sector, len, self.file_len);
                Body::Data { at: HostOffset(at.map_err(|error| error.of(NAME).at(table_at + index * 4))?) }
            };
            found.extent(Extent { guest: GuestOffset(guest), len, body });
        }
        Ok(())
    }

    fn geometry(&self) -> Option<Geometry> {
        Some(Geometry { virtual_size: Some(self.virtual_size), cdrom: false })
    }

    fn finish(&mut self, _file_len: Option<u64>, _found: &mut Found) -> Result<()> {
        if self.layout.as_ref().is_some_and(|layout| layout.table.complete()) {
            Ok(())
        } else {
            Err(Error::new(Kind::Ours, "the block table was not read").of(NAME))
        }
    }

    fn features(&self) -> Vec<Feature> {
        let mut features = vec![
            Feature::text("subformat", "dynamic"),
            Feature::text("creator", self.footer.creator()),
            Feature::text("sizeFrom", if self.footer.is_chs() { "geometry" } else { "currentSize" }),
            Feature::flag("savedState", self.footer.saved_state),
        ];
        if let Some(layout) = &self.layout {
            features.push(Feature::number("blockSize", layout.header.block_size));
        }
        features
    }

    fn name(&self) -> &'static str {
        NAME
    }
}

/// qemu-img says `vpc`, after Virtual PC; people and file names say VHD.
const NAME: &str = "vhd";
/// Tags of pages.
const HEADER: u32 = 0;
const TABLE: u32 = 1;
/// An entry of the table: nothing was written to the block.
const UNALLOCATED: u32 = u32::MAX;
/// Hyper-V and qemu refuse larger disks.
const MAX_SIZE: u64 = 2040 << 30;
/// How much a table may cover: entries count sectors in 32 bits.
const MAX_TABLE_COVERS: u64 = 1 << 41;
