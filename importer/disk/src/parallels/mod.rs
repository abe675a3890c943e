//! Parallels expandable images, `.hds` and `.hdd` (docs/interop/parallels).
//!
//! One table, the BAT, gives the cluster of the file for each cluster of the disk; 0 is a hole. No cluster is used twice.
//!
//! - An image that is marked as in use was not closed; its BAT in the file may lag behind what was written last. qemu reads
//!   such an image as it is, and so do we; it is reported as dirty. What its repair would look for (a cluster used twice,
//!   or outside the file) is refused in any image.
//! - The flag "empty image" is ignored, as qemu does: qemu leaves it set when it writes into an empty image, so a BAT that
//!   says otherwise is right.
//! - The format extension holds dirty bitmaps, which mean nothing to a copy. It is not read.
//! - A snapshot in a Parallels bundle is a file of this format whose holes are filled from its parent. Nothing in the file
//!   tells: only the bundle's `DiskDescriptor.xml` does.

mod header;
#[cfg(test)]
mod tests;

use header::{BAT_OFFSET, Header, Variant};

use crate::claims::Claims;
use crate::{
    Body, Error, Extent, Feature, Format, Found, Geometry, GuestOffset, HostOffset, Kind, Page, Result, SECTOR, field,
};

/// A Parallels expandable image. Costs about a bit per allocated cluster.
#[derive(Debug)]
pub struct Parallels {
    header: Header,
    file_len: Option<u64>,
    claims: Claims,
}

impl Parallels {
    /// Reads the header. `head` is the start of the file: 64 KiB of it, or all there is.
    ///
    /// Refuses versions other than 2, sizes that contradict each other or that qemu refuses.
    pub fn open(head: &[u8], file_len: Option<u64>) -> Result<Self> {
        let header = Header::parse(head).map_err(|error| error.of(NAME))?;
        let claims = Claims::new(header.cluster / SECTOR);
        Ok(Self { header, file_len, claims })
    }

    fn read_bat(&mut self, page: &Page, table: &[u8], found: &mut Found) -> Result<()> {
        let cluster = self.header.cluster;
        for ((entry, index), at) in field::le32(table).zip(page.index..).zip((page.at.0..).step_by(4)) {
            let guest = index * cluster;
            let len = cluster.min(self.header.size.saturating_sub(guest));
            let body = match entry {
                0 => Body::Zero,
                entry => Body::Data { at: self.place(entry, len).map_err(|error| error.at(at))? },
            };
            found.extent(Extent { guest: GuestOffset(guest), len, body });
        }
        Ok(())
    }

    /// Where an entry points, for a cluster of which `len` bytes are needed.
    fn place(&mut self, entry: u32, len: u64) -> Result<HostOffset> {
        let host = self.header.place(entry);
        //# parallels.rst: "the value must not be lower than data offset […] the result of (cluster offset - data offset)
        //# must be aligned to cluster size"
        // The data offset itself is not to be trusted for that: qemu rounds it wrongly when it opens an image whose cluster
        // size is not a power of two, and never looks at it again. What counts is that clusters keep clear of the BAT and
        // of each other.
        if host < self.header.bat_end {
            let message = format!("the cluster at {host:#x} lies in the BAT, which ends at {:#x}", self.header.bat_end);
            return Err(Error::new(Kind::Corrupt, message));
        }
        let Some(end) = host.checked_add(len).filter(|end| *end <= i64::MAX as u64) else {
            return Err(Error::new(Kind::Corrupt, format!("the cluster at {host:#x} lies beyond any file")));
        };
        if let Some(file_len) = self.file_len
            && end > file_len
        {
            let message = format!("the cluster at {host:#x} lies past the end of the file ({file_len} bytes)");
            return Err(Error::new(Kind::Truncated, message));
        }
        //# parallels.rst: "the value must be unique among all BAT entries"
        self.claims.claim(host / SECTOR)?;
        Ok(HostOffset(host))
    }
}

impl Format for Parallels {
    fn start(&mut self, found: &mut Found) -> Result<()> {
        let bytes = self.header.bat_used * 4;
        for part in (0..bytes).step_by(PAGE_LEN as usize) {
            let len = u32::try_from((bytes - part).min(u64::from(PAGE_LEN))).unwrap_or(PAGE_LEN);
            let page = Page { at: HostOffset(BAT_OFFSET + part), len, min: len, tag: TAG_BAT, index: part / 4 };
            found.page(page).map_err(|error| error.of(NAME))?;
        }
        found.skip(0, BAT_OFFSET);
        found.skip(BAT_OFFSET + bytes, self.header.bat_end);
        Ok(())
    }

    fn expand(&mut self, page: &Page, bytes: &[u8], found: &mut Found) -> Result<()> {
        found.skip(page.at.0, page.end());
        self.read_bat(page, bytes, found).map_err(|error| error.of(NAME))
    }

    fn geometry(&self) -> Option<Geometry> {
        Some(Geometry { virtual_size: Some(self.header.size), cdrom: false })
    }

    fn finish(&mut self, _file_len: Option<u64>, _found: &mut Found) -> Result<()> {
        // The BAT gives every extent, and whoever brings the data notices when it is not there.
        Ok(())
    }

    fn features(&self) -> Vec<Feature> {
        let variant = match self.header.variant {
            Variant::Sectors => "WithoutFreeSpace",
            Variant::Clusters => "WithouFreSpacExt",
        };
        let mut features = vec![Feature::text("variant", variant), Feature::number("clusterSize", self.header.cluster)];
        let flags = [("dirty", self.header.in_use), ("extension", self.header.extension)];
        features.extend(flags.into_iter().filter(|(_, set)| *set).map(|(name, set)| Feature::flag(name, set)));
        features
    }

    fn name(&self) -> &'static str {
        NAME
    }
}

const NAME: &str = "parallels";

const TAG_BAT: u32 = 1;

/// The BAT is read in parts of this many bytes. All of them are asked for at once: the largest BAT has 32768.
const PAGE_LEN: u32 = 64 << 10;
