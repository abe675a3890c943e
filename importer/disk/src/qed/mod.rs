//! QED, the QEMU enhanced disk format (docs/interop/qed_spec).
//!
//! Two levels of tables of equal size: L1, whose entries give L2 tables, whose entries give clusters. Each cluster of the
//! file is used once, as a table or as data; an image that uses one twice is refused.
//!
//! The need-check bit says that the image was not closed, so that its tables may contradict each other. qemu repairs such
//! an image when it opens it to write, and reads it as it is otherwise. What the repair would look for (a cluster used
//! twice, an offset outside the file) is refused here in any image, so the bit makes no difference to what is read; it
//! is reported.

mod header;
#[cfg(test)]
mod tests;

use header::Header;

use crate::claims::Claims;
use crate::{
    Body, Error, Extent, Feature, Format, Found, Geometry, GuestOffset, HostOffset, Kind, Page, Result, field,
};

/// A QED image. Costs about a bit per allocated cluster.
#[derive(Debug)]
pub struct Qed {
    header: Header,
    file_len: Option<u64>,
    claims: Claims,
    l2_bytes: u64,
}

impl Qed {
    /// Reads the header. `head` is the start of the file: 64 KiB of it, or all there is.
    ///
    /// Refuses a backing file, unknown feature bits, and sizes outside the specification.
    pub fn open(head: &[u8], file_len: Option<u64>) -> Result<Self> {
        let header = Header::parse(head).map_err(|error| error.of(NAME))?;
        let mut qed = Self { header, file_len, claims: Claims::new(1), l2_bytes: 0 };
        let l1 = qed.header.l1_offset;
        qed.claim_table(l1, "L1 table", 40).map_err(|error| error.of(NAME))?;
        Ok(qed)
    }

    fn read_l1(&mut self, page: &Page, table: &[u8], found: &mut Found) -> Result<()> {
        for ((host, index), at) in field::le64(table).zip(page.index..).zip((page.at.0..).step_by(8)) {
            let guest = index * self.header.span();
            if host == 0 {
                self.emit(guest, self.header.span(), Body::Zero, found);
                continue;
            }
            self.header.check_place("the L2 table", host, self.header.table_bytes()).map_err(|error| error.at(at))?;
            self.claim_table(host, "L2 table", at)?;
            self.l2_bytes = self.l2_bytes.saturating_add(self.header.table_bytes());
            if self.l2_bytes > MAX_L2_BYTES {
                let message = format!("more than {MAX_L2_BYTES} bytes of L2 tables");
                return Err(Error::new(Kind::Oversized, message).at(at));
            }
            let first = guest / self.header.cluster;
            for part in 0..READ_AHEAD {
                self.emit_l2(host, first, part * PAGE_ENTRIES, found)?;
            }
            // The last table may have entries past the end of the disk: they are not read.
            let used = self.entries_used(first);
            found.skip(host + used * 8, host + self.header.table_bytes());
        }
        Ok(())
    }

    /// Asks for the page of an L2 table that begins with this entry, if there is one. `table` is where the table lies,
    /// `first` the number of the guest cluster of its first entry.
    ///
    /// Not all pages of a table are asked for at once: it may have a gibibyte, by an L1 entry of 8 bytes.
    fn emit_l2(&self, table: u64, first: u64, entry: u64, found: &mut Found) -> Result<()> {
        let left = self.entries_used(first).saturating_sub(entry);
        if left == 0 {
            return Ok(());
        }
        let len = u32::try_from(left.min(PAGE_ENTRIES) * 8).unwrap_or(u32::MAX);
        found.page(Page { at: HostOffset(table + entry * 8), len, min: len, tag: TAG_L2, index: first + entry })
    }

    fn read_l2(&mut self, page: &Page, table: &[u8], found: &mut Found) -> Result<()> {
        let cluster = self.header.cluster;
        for ((host, index), at) in field::le64(table).zip(page.index..).zip((page.at.0..).step_by(8)) {
            let guest = index * cluster;
            //# qed_spec: "0 - unallocated. […] 1 - zero. The data cluster contents are all zeroes"
            if host <= 1 {
                self.emit(guest, cluster, Body::Zero, found);
                continue;
            }
            self.header.check_place("the cluster", host, cluster).map_err(|error| error.at(at))?;
            self.check_inside(host, cluster.min(self.header.size.saturating_sub(guest)), "cluster", at)?;
            self.claim(host, 1, at)?;
            self.emit(guest, cluster, Body::Data { at: HostOffset(host) }, found);
        }
        let entry = page.index % self.header.entries();
        let table_at = page.at.0 - entry * 8;
        self.emit_l2(table_at, page.index - entry, entry + READ_AHEAD * PAGE_ENTRIES, found)
    }

    /// How many entries of the L2 table that begins with the guest cluster `first` are for the disk.
    fn entries_used(&self, first: u64) -> u64 {
        let clusters = self.header.size.div_ceil(self.header.cluster);
        clusters.saturating_sub(first).min(self.header.entries())
    }

    fn claim_table(&mut self, host: u64, what: &str, at: u64) -> Result<()> {
        self.check_inside(host, self.header.table_bytes(), what, at)?;
        self.claim(host, self.header.table_clusters, at)
    }

    fn claim(&mut self, host: u64, clusters: u64, at: u64) -> Result<()> {
        let first = host / self.header.cluster;
        (first..first + clusters).try_for_each(|cluster| self.claims.claim(cluster)).map_err(|error| error.at(at))
    }

    fn check_inside(&self, host: u64, len: u64, what: &str, at: u64) -> Result<()> {
        match self.file_len {
            Some(file_len) if host.saturating_add(len) > file_len => {
                let message = format!("the {what} at {host:#x} lies past the end of the file ({file_len} bytes)");
                Err(Error::new(Kind::Truncated, message).at(at))
            }
            _ => Ok(()),
        }
    }

    /// Emits an extent, cut at the end of the disk.
    fn emit(&self, guest: u64, len: u64, body: Body, found: &mut Found) {
        let len = len.min(self.header.size.saturating_sub(guest));
        found.extent(Extent { guest: GuestOffset(guest), len, body });
    }
}

impl Format for Qed {
    fn start(&mut self, found: &mut Found) -> Result<()> {
        let Header { size, l1_offset, end, .. } = self.header;
        let used = size.div_ceil(self.header.span()) * 8;
        for part in (0..used).step_by(PAGE_LEN as usize) {
            let len = u32::try_from((used - part).min(u64::from(PAGE_LEN))).unwrap_or(PAGE_LEN);
            let page = Page { at: HostOffset(l1_offset + part), len, min: len, tag: TAG_L1, index: part / 8 };
            found.page(page).map_err(|error| error.of(NAME))?;
        }
        found.skip(0, end.min(l1_offset));
        found.skip(l1_offset + used, l1_offset + self.header.table_bytes());
        Ok(())
    }

    fn expand(&mut self, page: &Page, bytes: &[u8], found: &mut Found) -> Result<()> {
        let result = match page.tag {
            TAG_L1 => self.read_l1(page, bytes, found),
            TAG_L2 => self.read_l2(page, bytes, found),
            _ => Err(Error::new(Kind::Ours, "not a page of this image")),
        };
        found.skip(page.at.0, page.end());
        result.map_err(|error| error.of(NAME))
    }

    fn geometry(&self) -> Option<Geometry> {
        Some(Geometry { virtual_size: Some(self.header.size), cdrom: false })
    }

    fn finish(&mut self, _file_len: Option<u64>, _found: &mut Found) -> Result<()> {
        // The tables give every extent, and whoever brings the data notices when it is not there.
        Ok(())
    }

    fn features(&self) -> Vec<Feature> {
        let mut features = vec![
            Feature::number("clusterSize", self.header.cluster),
            Feature::number("tableSize", self.header.table_bytes()),
        ];
        if self.header.need_check {
            features.push(Feature::flag("dirty", true));
        }
        features
    }

    fn name(&self) -> &'static str {
        NAME
    }
}

const NAME: &str = "qed";

const TAG_L1: u32 = 1;
const TAG_L2: u32 = 2;

/// Tables are read in parts of this many bytes.
const PAGE_LEN: u32 = 64 << 10;
const PAGE_ENTRIES: u64 = PAGE_LEN as u64 / 8;

/// How many pages of an L2 table are asked for before the first was read: all of a table of the usual 256 KiB.
const READ_AHEAD: u64 = 4;

/// Bounds the memory for outstanding pages. With the usual tables of 256 KiB the largest disk reaches it only when all of
/// its 64 TiB are allocated.
const MAX_L2_BYTES: u64 = 32 << 30;
