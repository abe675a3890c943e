//! The region table: 64 KiB, in two copies at 192 KiB and 256 KiB. (MS-VHDX 2.2.3)

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use super::MIB;
use super::header::Header;
use crate::crc32c;
use crate::guid::Guid;
use crate::{Error, Kind, Result};

/// A range of the file with one purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Region {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) what: &'static str,
}

/// Where everything is but the blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Regions {
    pub(super) bat: Region,
    pub(super) metadata: Region,
    /// All regions, the header section and the log among them, in order; none overlaps another.
    pub(super) all: Vec<Region>,
}

impl Regions {
    /// Where the first table lies. The second follows it at once.
    pub(super) const AT: u64 = 192 << 10;
    /// Length of a table in bytes.
    pub(super) const LEN: usize = 64 << 10;
    /// What an unknown region that need not be understood is called.
    pub(super) const OPTIONAL: &str = "optional region";

    /// Reads the regions from the two copies of the table, of which the first that is undamaged counts.
    pub(super) fn read(tables: &[u8], header: &Header) -> Result<Self> {
        let (first, second) = tables.split_at_checked(Self::LEN).unwrap_or((tables, &[]));
        let Some(bytes) = [first, second].into_iter().find(|bytes| is_valid(bytes)) else {
            let message = "both region tables are damaged: their signatures or checksums are wrong";
            return Err(Error::new(Kind::Corrupt, message).at(Self::AT));
        };
        Self::parse(bytes, header).map_err(|error| error.at(Self::AT))
    }

    fn parse(bytes: &[u8], header: &Header) -> Result<Self> {
        let Ok((top, rest)) = Top::ref_from_prefix(bytes) else {
            return Err(Error::new(Kind::Ours, "a region table shorter than its header"));
        };
        let entries = <[Entry]>::ref_from_prefix_with_elems(rest, top.count.get() as usize);
        let Ok((entries, _)) = entries else {
            let message = format!("a region table of {} entries, at most 2047 fit", top.count);
            return Err(Error::new(Kind::Corrupt, message));
        };
        let mut all = vec![Region { start: 0, end: MIB, what: "header section" }];
        if header.log_len != 0 {
            all.push(Region { start: header.log_at, end: header.log_end(), what: "log" });
        }
        let (mut bat, mut metadata) = (None, None);
        for entry in entries {
            let region = entry.region()?;
            let known = match Guid(entry.guid) {
                BAT => &mut bat,
                METADATA => &mut metadata,
                guid if entry.required.get() & 1 == 1 => {
                    let message = format!("the file needs the unknown region {guid} to be understood");
                    return Err(Error::new(Kind::Unsupported, message));
                }
                _ => {
                    all.extend((region.start < region.end).then_some(region));
                    continue;
                }
            };
            if known.replace(region).is_some() || region.start == region.end {
                return Err(Error::new(Kind::Corrupt, format!("the {} is given twice, or is empty", region.what)));
            }
            all.push(region);
        }
        all.sort_unstable();
        let overlap = all.iter().zip(all.iter().skip(1)).find(|(before, after)| before.end > after.start);
        if let Some((before, after)) = overlap {
            let message = format!("the {} and the {} overlap at {:#x}", before.what, after.what, after.start);
            return Err(Error::new(Kind::Corrupt, message));
        }
        let missing = |what| Error::new(Kind::Corrupt, format!("the region table has no {what}"));
        let bat = bat.ok_or_else(|| missing("block allocation table"))?;
        let metadata = metadata.ok_or_else(|| missing("metadata region"))?;
        Ok(Self { bat, metadata, all })
    }

    /// The region that `start..end` overlaps, if any. Costs a binary search.
    pub(super) fn overlapped(&self, start: u64, end: u64) -> Option<&Region> {
        let before = self.all.partition_point(|region| region.start < end);
        self.all.get(before.checked_sub(1)?).filter(|region| region.end > start)
    }
}

fn is_valid(bytes: &[u8]) -> bool {
    let Ok((top, _)) = Top::ref_from_prefix(bytes) else { return false };
    bytes.len() == Regions::LEN
        && top.signature == *b"regi"
        && crc32c::without_field(bytes, 4) == Some(top.checksum.get())
}

/// The start of the table as it is in the file.
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Top {
    signature: [u8; 4],
    checksum: U32,
    count: U32,
    reserved: U32,
}

/// An entry as it is in the file.
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Entry {
    guid: [u8; 16],
    at: U64,
    len: U32,
    required: U32,
}

impl Entry {
    fn region(&self) -> Result<Region> {
        let (start, len) = (self.at.get(), u64::from(self.len.get()));
        let what = match Guid(self.guid) {
            BAT => "block allocation table",
            METADATA => "metadata region",
            _ => Regions::OPTIONAL,
        };
        match start.checked_add(len) {
            Some(end) if start >= MIB && start % MIB == 0 && len % MIB == 0 => Ok(Region { start, end, what }),
            _ => {
                let message = format!("the {what} of {len:#x} bytes at {start:#x} is not aligned to 1 MiB");
                Err(Error::new(Kind::Corrupt, message))
            }
        }
    }
}

const BAT: Guid = Guid::new(0x2dc2_7766, 0xf623, 0x4200, 0x9d64_115e_9bfd_4a08);
const METADATA: Guid = Guid::new(0x8b7c_a206, 0x4790, 0x4b9a, 0xb8fe_575f_050f_886e);
