//! The header of a dynamic VHD, 1024 bytes, big-endian, usually right behind the copy of the footer.

use zerocopy::big_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use super::checksum::checksum;
use crate::text::printable_utf16;
use crate::{Error, Kind, Result};

/// A header, checked by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Header {
    /// Where the block allocation table is.
    pub(super) table_at: u64,
    /// How many entries it has.
    pub(super) entries: u64,
    /// Bytes of the disk in a block; a power of two.
    pub(super) block_size: u64,
    /// The name of the parent of a differencing disk, to be shown.
    pub(super) parent: String,
}

impl Header {
    /// Length in bytes.
    pub(super) const LEN: usize = 1024;

    /// Reads a header.
    pub(super) fn read(bytes: &[u8]) -> Result<Self> {
        let Ok((disk, _)) = Disk::ref_from_prefix(bytes) else {
            return Err(Error::new(Kind::Truncated, "the file ends within the dynamic disk header"));
        };
        if disk.cookie != *b"cxsparse" {
            return Err(Error::new(Kind::Corrupt, "no dynamic disk header where the footer says"));
        }
        if checksum(bytes.get(..Self::LEN).unwrap_or_default(), CHECKSUM_AT) != disk.checksum.get() {
            return Err(Error::new(Kind::Corrupt, "the dynamic disk header is damaged: its checksum is wrong"));
        }
        let version = disk.version.get();
        if version >> 16 != 1 {
            let message = format!("dynamic disk header of version {}.{}", version >> 16, version & 0xffff);
            return Err(Error::new(Kind::Unsupported, message));
        }
        let block_size = u64::from(disk.block_size.get());
        if !block_size.is_power_of_two() || block_size < BLOCK_MIN {
            let message = format!("block size of {block_size} bytes is no power of two of at least {BLOCK_MIN}");
            return Err(Error::new(Kind::Corrupt, message));
        }
        Ok(Self {
            table_at: disk.table_at.get(),
            entries: u64::from(disk.entries.get()),
            block_size,
            parent: printable_utf16(disk.parent_name.iter().map(|unit| unit.get())),
        })
    }

    /// Length of the sector bitmap in front of each block in bytes: a bit for each sector, in whole sectors.
    pub(super) fn bitmap_size(&self) -> u64 {
        (self.block_size / (512 * 8)).next_multiple_of(512)
    }
}

/// As it is in the file.
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Disk {
    cookie: [u8; 8],
    next_at: U64,
    table_at: U64,
    version: U32,
    entries: U32,
    block_size: U32,
    checksum: U32,
    parent_id: [u8; 16],
    parent_time: U32,
    reserved: U32,
    parent_name: [U16; 256],
    parent_locators: [[u8; 24]; 8],
    rest: [u8; 256],
}

const _: () = assert!(size_of::<Disk>() == Header::LEN);
const CHECKSUM_AT: usize = 36;
/// A sector bitmap of one byte. Hyper-V writes 512 KiB and 2 MiB, Citrix PVS 16 MiB.
const BLOCK_MIN: u64 = 4096;
