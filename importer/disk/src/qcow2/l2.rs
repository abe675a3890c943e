//! L2 tables: which cluster, and which parts of it, hold what.

use super::{OFFSET_MASK, Qcow2};
use crate::{Body, Error, Extent, Found, GuestOffset, HostOffset, Kind, Page, Result, field};

impl Qcow2 {
    pub(super) fn read_l2(&mut self, page: &Page, table: &[u8], found: &mut Found) -> Result<()> {
        if self.header.extended_l2 {
            let (entries, _) = table.as_chunks::<16>();
            for (entry, index) in entries.iter().zip(page.index..) {
                let mut words = field::be64(entry);
                let (Some(entry), Some(bitmap)) = (words.next(), words.next()) else { continue };
                self.read_extended(entry, bitmap, index, page, found)?;
            }
        } else {
            for (entry, index) in field::be64(table).zip(page.index..) {
                self.read_standard(entry, index, page, found)?;
            }
        }
        Ok(())
    }

    fn read_standard(&mut self, entry: u64, index: u64, page: &Page, found: &mut Found) -> Result<()> {
        let Some((guest, len)) = self.guest_range(index) else { return Ok(()) };
        let body = if entry & COMPRESSED != 0 {
            self.packed(entry, index, page)?
        } else {
            let host = self.cluster_offset(entry, STANDARD_RESERVED, index, page)?;
            let zero = entry & ZERO != 0;
            if zero && self.header.version < 3 {
                return Err(entry_error("a zero flag, which version 2 does not have", index, page));
            }
            if zero || host == 0 {
                // A zero cluster may keep a place in the file: what is there is of no interest.
                if host != 0
                    && let Some(references) = &mut self.references
                {
                    references.refer(host, 1);
                }
                Body::Zero
            } else {
                self.check_data(host, index, page)?;
                Body::Data { at: HostOffset(host) }
            }
        };
        found.extent(Extent { guest: GuestOffset(guest), len, body });
        Ok(())
    }

    /// "Extended L2 entries": 32 subclusters, each allocated, zero, or neither.
    fn read_extended(&mut self, entry: u64, bitmap: u64, index: u64, page: &Page, found: &mut Found) -> Result<()> {
        let Some((guest, len)) = self.guest_range(index) else { return Ok(()) };
        if entry & COMPRESSED != 0 {
            if bitmap != 0 {
                return Err(entry_error("a subcluster bitmap on a compressed cluster", index, page));
            }
            let body = self.packed(entry, index, page)?;
            found.extent(Extent { guest: GuestOffset(guest), len, body });
            return Ok(());
        }
        let host = self.cluster_offset(entry, EXTENDED_RESERVED, index, page)?;
        let allocated = bitmap & 0xffff_ffff;
        let zero = bitmap >> 32;
        if allocated & zero != 0 {
            return Err(entry_error("subclusters that are both data and zero", index, page));
        }
        if host == 0 && allocated != 0 {
            return Err(entry_error("subclusters of a cluster that is not there", index, page));
        }
        if allocated != 0 {
            self.check_data(host, index, page)?;
        } else if host != 0
            && let Some(references) = &mut self.references
        {
            references.refer(host, 1);
        }
        let subcluster = self.cluster() / 32;
        for (bit, start) in (0..len).step_by(subcluster as usize).enumerate() {
            let body = if allocated >> bit & 1 != 0 { Body::Data { at: HostOffset(host + start) } } else { Body::Zero };
            found.extent(Extent { guest: GuestOffset(guest + start), len: subcluster.min(len - start), body });
        }
        Ok(())
    }

    /// The guest range of a cluster, cut at the end of the disk; `None` past it.
    fn guest_range(&self, index: u64) -> Option<(u64, u64)> {
        let guest = index.checked_mul(self.cluster())?;
        let left = self.header.size.checked_sub(guest).filter(|left| *left > 0)?;
        Some((guest, left.min(self.cluster())))
    }

    fn cluster_offset(&self, entry: u64, reserved: u64, index: u64, page: &Page) -> Result<u64> {
        let host = entry & OFFSET_MASK;
        if entry & reserved != 0 {
            return Err(entry_error(&format!("reserved bits set ({entry:#018x})"), index, page));
        }
        if !host.is_multiple_of(self.cluster()) {
            return Err(entry_error(&format!("offset {host:#x}, which is not on a cluster"), index, page));
        }
        Ok(host)
    }

    /// Guest data lies inside the file and on no metadata.
    fn check_data(&mut self, host: u64, index: u64, page: &Page) -> Result<()> {
        self.inside(host, self.cluster(), "a data cluster", page.at.0)?;
        if self.is_fixed_metadata(host) || self.tables.binary_search(&host).is_ok() {
            return Err(entry_error(&format!("a data cluster at {host:#x}, where metadata is"), index, page));
        }
        if let Some(references) = &mut self.references {
            references.refer(host, 1);
        }
        Ok(())
    }

    /// "Compressed Clusters Descriptor": x = 62 - (cluster_bits - 8); bits 0 to x-1 are the byte offset, x to 61 the
    /// number of additional 512-byte sectors.
    fn packed(&mut self, entry: u64, index: u64, page: &Page) -> Result<Body> {
        let x = 62 - (self.header.cluster_bits - 8);
        let host = entry & ((1 << x) - 1);
        let sectors = (entry >> x & ((1 << (self.header.cluster_bits - 8)) - 1)) + 1;
        let len = sectors * 512 - (host & 511);
        self.inside(host, len, "a compressed cluster", page.at.0)?;
        let cluster = self.cluster();
        let first = host & !(cluster - 1);
        let last = (host + len - 1) & !(cluster - 1);
        if self.is_fixed_metadata(first) || self.tables.binary_search(&first).is_ok() {
            return Err(entry_error(&format!("compressed data at {host:#x}, where metadata is"), index, page));
        }
        if let Some(references) = &mut self.references {
            references.refer(first, 1);
            if last != first {
                references.refer(last, 1);
            }
        }
        let at = HostOffset(host);
        let (Ok(len), Ok(unpacked)) = (u32::try_from(len), u32::try_from(cluster)) else {
            return Err(Error::new(Kind::Ours, "cluster size"));
        };
        Ok(Body::Packed { at, len, unpacked, codec: self.header.codec })
    }
}

fn entry_error(what: &str, index: u64, page: &Page) -> Error {
    Error::new(Kind::Corrupt, format!("the L2 entry of cluster {index} has {what}")).at(page.at.0)
}

const COMPRESSED: u64 = 1 << 62;
const ZERO: u64 = 1 << 0;
const STANDARD_RESERVED: u64 = 0x3f00_0000_0000_01fe;
const EXTENDED_RESERVED: u64 = STANDARD_RESERVED | ZERO;
