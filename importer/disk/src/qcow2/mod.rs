//! qcow2, versions 2 and 3 (docs/interop/qcow2.txt).
//!
//! Two levels of tables: L1, whose entries give L2 tables, whose entries give clusters. The L1 table is read whole
//! (at most 32 MiB); L2 tables are emitted as pages of at most 64 KiB once every L1 entry is known, so that an L2 table
//! used twice, or a data cluster that is a table, is found out. Only the active layer is read: internal snapshots and
//! bitmaps are left alone. A dirty image is fine (only refcounts are stale), a corrupt one is refused.

#[cfg(test)]
pub(crate) mod build;
mod header;
mod l2;
mod references;
#[cfg(test)]
mod tests;

use header::{Header, MAX_OFFSET};
use references::References;

use crate::{
    Body, Codec, Error, Extent, Feature, Format, Found, Geometry, GuestOffset, HostOffset, Kind, Page, Result, field,
};

/// A qcow2 image.
#[derive(Debug)]
pub struct Qcow2 {
    header: Header,
    file_len: Option<u64>,
    /// L1 entries in use, gathered until the whole table is known.
    l1: Vec<L1Entry>,
    l1_left: u32,
    /// Host offsets of all L2 tables, sorted, once L1 is known.
    tables: Vec<u64>,
    references: Option<References>,
}

#[derive(Clone, Copy, Debug)]
struct L1Entry {
    index: u32,
    table: u64,
}

impl Qcow2 {
    /// Reads the header. `head` is the start of the file: the first cluster or 64 KiB of it, or all there is.
    ///
    /// Refuses by name what can't be read: a backing file, an external data file, encryption, the corrupt bit, unknown
    /// incompatible features, tables beyond the limits that qemu has.
    pub fn open(head: &[u8], file_len: Option<u64>) -> Result<Self> {
        let header = Header::parse(head, file_len).map_err(|error| error.of(NAME))?;
        let l1_left = header.l1_needed;
        Ok(Self { header, file_len, l1: Vec::new(), l1_left, tables: Vec::new(), references: None })
    }

    /// Also reads the refcounts, so that a stream can let go of bytes that nothing refers to (see
    /// [`Format::references`]). Not for ranged reading, where they would be fetched for nothing.
    #[must_use]
    pub fn with_references(mut self) -> Self {
        // The counts include the snapshots' use, and those of a dirty image are stale: then they prove nothing.
        if self.header.snapshots == 0 && !self.header.dirty {
            self.references = References::new(self.cluster(), self.header.refcount_order);
        }
        self
    }

    fn cluster(&self) -> u64 {
        1 << self.header.cluster_bits
    }

    /// Entries in an L2 table.
    fn entries(&self) -> u64 {
        self.cluster() / if self.header.extended_l2 { 16 } else { 8 }
    }

    fn read_l1(&mut self, page: &Page, table: &[u8], found: &mut Found) -> Result<()> {
        let cluster = self.cluster();
        for (entry, index) in field::be64(table).zip(page.index..) {
            let at = self.header.l1_offset + index * 8;
            self.l1_left = self.l1_left.saturating_sub(1);
            let host = entry & OFFSET_MASK;
            if entry & L1_RESERVED != 0 {
                return Err(Error::new(Kind::Corrupt, format!("L1 entry {entry:#018x} has reserved bits set")).at(at));
            }
            if host == 0 {
                continue;
            }
            if !host.is_multiple_of(cluster) {
                return Err(Error::new(Kind::Corrupt, format!("L2 table at {host:#x} is not on a cluster")).at(at));
            }
            self.inside(host, cluster, "L2 table", at)?;
            if self.l1.len() >= MAX_L2_TABLES {
                let message = format!("more than {MAX_L2_TABLES} L2 tables; convert the image to larger clusters");
                return Err(Error::new(Kind::Oversized, message).at(at));
            }
            let index = u32::try_from(index).map_err(|_| Error::new(Kind::Oversized, "L1 index").at(at))?;
            self.l1.push(L1Entry { index, table: host });
        }
        if self.l1_left == 0 { self.emit_tables(found) } else { Ok(()) }
    }

    /// All of L1 is known: checks the tables against each other and asks for them.
    fn emit_tables(&mut self, found: &mut Found) -> Result<()> {
        let mut l1 = std::mem::take(&mut self.l1);
        self.tables = l1.iter().map(|entry| entry.table).collect();
        self.tables.sort_unstable();
        if let Some([table, _]) = self.tables.array_windows().find(|[a, b]| a == b) {
            return Err(Error::new(Kind::Corrupt, format!("the L2 table at {table:#x} is used twice")).at(*table));
        }
        if let Some(table) = self.tables.iter().find(|table| self.is_fixed_metadata(**table)) {
            return Err(
                Error::new(Kind::Corrupt, format!("the L2 table at {table:#x} lies on other metadata")).at(*table)
            );
        }
        l1.sort_unstable_by_key(|entry| entry.index);
        let (cluster, span) = (self.cluster(), self.cluster() * self.entries());
        let mut guest = 0;
        for L1Entry { index, table } in l1 {
            let start = u64::from(index) * span;
            self.emit_zero(guest, start, found);
            guest = start + span;
            // The last table may have entries past the end of the disk: they are not read.
            let used = self.header.size.saturating_sub(start).div_ceil(cluster).min(self.entries());
            let bytes = used * self.entry_len();
            for part in (0..bytes).step_by(PAGE_LEN as usize) {
                let len = u32::try_from((bytes - part).min(u64::from(PAGE_LEN))).unwrap_or(PAGE_LEN);
                let index = start / cluster + part / self.entry_len();
                found.page(Page { at: HostOffset(table + part), len, min: len, tag: TAG_L2, index })?;
            }
            if let Some(references) = &mut self.references {
                references.refer(table, cluster);
            }
        }
        self.emit_zero(guest, self.header.size, found);
        Ok(())
    }

    fn emit_zero(&self, start: u64, end: u64, found: &mut Found) {
        let end = end.min(self.header.size);
        if start < end {
            found.extent(Extent { guest: GuestOffset(start), len: end - start, body: Body::Zero });
        }
    }

    fn entry_len(&self) -> u64 {
        if self.header.extended_l2 { 16 } else { 8 }
    }

    /// Header, L1 table, refcount table: places where neither a table nor guest data can be.
    fn is_fixed_metadata(&self, host: u64) -> bool {
        let cluster = self.cluster();
        let l1_end = self.header.l1_offset + (u64::from(self.header.l1_needed) * 8).next_multiple_of(cluster);
        let (refcounts, refcounts_len) = self.header.refcount_table;
        host < cluster
            || (self.header.l1_offset..l1_end).contains(&host)
            || (refcounts..refcounts.saturating_add(refcounts_len)).contains(&host)
    }

    /// Refuses a host range that no file has, or that this one ends before.
    fn inside(&self, host: u64, len: u64, what: &str, at: u64) -> Result<()> {
        if host > MAX_OFFSET - len {
            return Err(Error::new(Kind::Corrupt, format!("{what} at {host:#x} lies beyond any file")).at(at));
        }
        match self.file_len {
            Some(file_len) if host >= file_len => {
                let message = format!("{what} at {host:#x} lies past the end of the file ({file_len} bytes)");
                Err(Error::new(Kind::Truncated, message).at(at))
            }
            _ => Ok(()),
        }
    }
}

impl Format for Qcow2 {
    fn start(&mut self, found: &mut Found) -> Result<()> {
        let bytes = u64::from(self.header.l1_needed) * 8;
        for part in (0..bytes).step_by(PAGE_LEN as usize) {
            let len = u32::try_from((bytes - part).min(u64::from(PAGE_LEN))).unwrap_or(PAGE_LEN);
            let at = HostOffset(self.header.l1_offset + part);
            found.page(Page { at, len, min: len, tag: TAG_L1, index: part / 8 }).map_err(|error| error.of(NAME))?;
        }
        let (at, len) = self.header.refcount_table;
        found.skip(0, self.cluster());
        if self.references.is_some() {
            for part in (0..len).step_by(PAGE_LEN as usize) {
                let len = u32::try_from((len - part).min(u64::from(PAGE_LEN))).unwrap_or(PAGE_LEN);
                found.page(Page { at: HostOffset(at + part), len, min: 0, tag: TAG_REFCOUNTS, index: part / 8 })?;
            }
        } else {
            found.skip(at, at.saturating_add(len));
        }
        Ok(())
    }

    fn expand(&mut self, page: &Page, bytes: &[u8], found: &mut Found) -> Result<()> {
        let result = match page.tag {
            TAG_L1 => self.read_l1(page, bytes, found),
            TAG_L2 => self.read_l2(page, bytes, found),
            TAG_REFCOUNTS | TAG_REFCOUNT_BLOCK => {
                if let Some(references) = &mut self.references {
                    references.read(page, bytes, found);
                }
                Ok(())
            }
            _ => Err(Error::new(Kind::Ours, "not a page of this image")),
        };
        result.map_err(|error| error.of(NAME))
    }

    fn geometry(&self) -> Option<Geometry> {
        Some(Geometry { virtual_size: Some(self.header.size), cdrom: false })
    }

    fn finish(&mut self, _file_len: Option<u64>, found: &mut Found) -> Result<()> {
        // A disk of no bytes has no L1 table and no page: nothing is left to emit for any disk.
        let _ = found;
        Ok(())
    }

    fn features(&self) -> Vec<Feature> {
        let header = &self.header;
        let mut features = vec![
            Feature::number("version", u64::from(header.version)),
            Feature::number("clusterSize", self.cluster()),
            Feature::text("compression", if header.codec == Codec::Zstd { "zstd" } else { "zlib" }),
            Feature::number("refcountBits", 1 << header.refcount_order),
            Feature::number("snapshots", u64::from(header.snapshots)),
        ];
        if header.bitmaps > 0 {
            features.push(Feature::number("bitmaps", u64::from(header.bitmaps)));
        }
        let flags =
            [("extendedL2", header.extended_l2), ("dirty", header.dirty), ("lazyRefcounts", header.lazy_refcounts)];
        features.extend(flags.into_iter().filter(|(_, set)| *set).map(|(name, set)| Feature::flag(name, set)));
        features
    }

    fn name(&self) -> &'static str {
        NAME
    }

    fn references(&self, host: u64) -> Option<(u32, u64)> {
        self.references.as_ref()?.left(host)
    }
}

const NAME: &str = "qcow2";

const TAG_L1: u32 = 1;
const TAG_L2: u32 = 2;
const TAG_REFCOUNTS: u32 = 3;
const TAG_REFCOUNT_BLOCK: u32 = 4;

/// Tables are read in parts of this many bytes; every cluster size above it is a multiple of it.
const PAGE_LEN: u32 = 64 << 10;

const OFFSET_MASK: u64 = 0x00ff_ffff_ffff_fe00;
const L1_RESERVED: u64 = 0x7f00_0000_0000_01ff;

/// Bounds the memory for table offsets and pages (40 bytes each). A fully allocated disk reaches it at 512 TiB with
/// clusters of 64 KiB and at 2 TiB with clusters of 4 KiB.
const MAX_L2_TABLES: usize = 1 << 20;
