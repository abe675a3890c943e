//! The header of a VDI file: pre-header and header version 1.1, 512 bytes, little-endian.

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use crate::guid::Guid;
use crate::text::printable;
use crate::{Error, Kind, MAX_VIRTUAL_SIZE, Result, SECTOR};

/// What the header says, checked: the block map and the first block lie behind the header and in this order, and the
/// map is long enough for the disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Header {
    /// Text of whoever made the file.
    pub(super) creator: String,
    /// Every block was allocated at creation.
    pub(super) fixed: bool,
    /// Size of the disk in bytes, a multiple of 512.
    pub(super) virtual_size: u64,
    /// Bytes of the disk in a block; a power of two.
    pub(super) block_size: u64,
    /// Bytes in front of the data of each block.
    pub(super) block_extra: u64,
    /// Entries of the map.
    pub(super) blocks: u64,
    /// How many blocks are allocated, by the header's account.
    pub(super) allocated: u64,
    /// Where the map starts.
    pub(super) map_at: u64,
    /// Where block 0 starts.
    pub(super) data_at: u64,
}

impl Header {
    /// Length of the header in bytes.
    pub(super) const LEN: usize = 512;

    /// Entries of the map that the disk uses.
    pub(super) fn blocks_used(&self) -> u64 {
        self.virtual_size.div_ceil(self.block_size)
    }

    /// Reads the header from the first bytes of the file.
    pub(super) fn read(head: &[u8]) -> Result<Self> {
        let Ok((disk, _)) = Disk::ref_from_prefix(head) else {
            return Err(Error::new(Kind::Truncated, "the file is shorter than a VDI header"));
        };
        if disk.signature != SIGNATURE {
            return Err(Error::new(Kind::NotADisk, "no VDI signature").at(0x40));
        }
        if disk.version != VERSION {
            let version = disk.version.get();
            let message = format!(
                "VDI version {}.{}, only 1.1 is read; rewrite it with VBoxManage clonemedium",
                version >> 16,
                version & 0xffff
            );
            return Err(Error::new(Kind::Unsupported, message).at(0x44));
        }
        let fixed = disk.refuse_differences()?;
        let unknown = disk.flags.get() & !KNOWN_FLAGS;
        if unknown != 0 {
            return Err(Error::new(Kind::Unsupported, format!("unknown VDI image flags {unknown:#x}")).at(0x50));
        }

        let block_size = u64::from(disk.block_size.get());
        if !block_size.is_power_of_two() || block_size < SECTOR {
            let message = format!("block size of {block_size} bytes is no power of two of at least 512");
            return Err(Error::new(Kind::Corrupt, message).at(0x178));
        }
        let block_extra = u64::from(disk.block_extra.get());
        if block_extra != 0 && !block_extra.is_power_of_two() {
            let message = format!("{block_extra} extra bytes for each block are no power of two");
            return Err(Error::new(Kind::Corrupt, message).at(0x17c));
        }
        if disk.sector_size.get() != 512 {
            let message = format!("sector size of {} bytes, VDI has only 512", disk.sector_size);
            return Err(Error::new(Kind::Corrupt, message).at(0x168));
        }

        // Old VBoxManage made disks of odd sizes. Like qemu we give the guest whole sectors: the last block has them.
        let size = disk.disk_size.get();
        let Some(virtual_size) = size.checked_next_multiple_of(SECTOR).filter(|size| *size <= MAX_VIRTUAL_SIZE) else {
            return Err(Error::new(Kind::Oversized, format!("virtual size of {size} bytes")).at(0x170));
        };
        let blocks = u64::from(disk.blocks.get());
        if virtual_size.div_ceil(block_size) > blocks {
            let message = format!("{blocks} blocks of {block_size} bytes don't make up a disk of {size} bytes");
            return Err(Error::new(Kind::Corrupt, message).at(0x170));
        }

        let map_at = u64::from(disk.map_at.get());
        let data_at = u64::from(disk.data_at.get());
        if map_at < HEADER_END {
            return Err(Error::new(Kind::Corrupt, "the block map overlaps the header").at(0x154));
        }
        if data_at < map_at + blocks * 4 {
            return Err(Error::new(Kind::Corrupt, "the data overlaps the block map").at(0x158));
        }
        Ok(Self {
            creator: disk.creator(),
            fixed,
            virtual_size,
            block_size,
            block_extra,
            blocks,
            allocated: u64::from(disk.blocks_allocated.get()),
            map_at,
            data_at,
        })
    }
}

/// As it is in the file.
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Disk {
    text: [u8; 64],
    signature: U32,
    version: U32,
    header_size: U32,
    kind: U32,
    flags: U32,
    comment: [u8; 256],
    map_at: U32,
    data_at: U32,
    cylinders: U32,
    heads: U32,
    sectors: U32,
    sector_size: U32,
    unused: U32,
    disk_size: U64,
    block_size: U32,
    block_extra: U32,
    blocks: U32,
    blocks_allocated: U32,
    uuid: [u8; 16],
    uuid_snapshot: [u8; 16],
    uuid_link: [u8; 16],
    uuid_parent: [u8; 16],
    rest: [u8; 56],
}

const _: () = assert!(size_of::<Disk>() == Header::LEN);

impl Disk {
    /// The text at the start of the file, without the end of its line.
    fn creator(&self) -> String {
        let text = self.text.split(|byte| *byte == 0).next().unwrap_or_default();
        printable(text.trim_ascii_end())
    }

    /// Refuses an image that only holds what differs from another; tells whether it is a fixed one.
    fn refuse_differences(&self) -> Result<bool> {
        let fixed = match self.kind.get() {
            1 => false,
            2 => true,
            kind @ (3 | 4) => {
                let what = if kind == 3 { "an undo image" } else { "a differencing image" };
                let message = format!("{what} needs its parent; merge it with VBoxManage clonemedium first");
                return Err(Error::new(Kind::External, message).at(0x4c));
            }
            kind => return Err(Error::new(Kind::Corrupt, format!("unknown VDI image type {kind}")).at(0x4c)),
        };
        let refers = [(Guid(self.uuid_link), 0x1a8), (Guid(self.uuid_parent), 0x1b8)];
        if let Some((uuid, at)) = refers.iter().find(|(uuid, _)| !uuid.is_nil()) {
            let message = format!("it needs its parent {uuid}; merge it with VBoxManage clonemedium first");
            return Err(Error::new(Kind::External, message).at(*at));
        }
        if self.flags.get() & FLAG_DIFFERENCING != 0 {
            let message = "flagged as a differencing image; merge it with VBoxManage clonemedium first";
            return Err(Error::new(Kind::External, message).at(0x50));
        }
        Ok(fixed)
    }
}

const SIGNATURE: U32 = U32::new(0xbeda_107f);
const VERSION: U32 = U32::new(0x0001_0001);
/// The end of the shortest header of version 1.1 (that without the logical geometry).
const HEADER_END: u64 = 0x1c8;
const FLAG_DIFFERENCING: u32 = 0x2_0000;
/// Blocks are filled with zeros when they are allocated (0x100), fixed, differencing.
const KNOWN_FLAGS: u32 = 0x100 | 0x1_0000 | FLAG_DIFFERENCING;
