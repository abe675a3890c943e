//! The metadata region: a table of 64 KiB, and items of any length behind it. (MS-VHDX 2.6)

use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use super::MIB;
use super::region::Region;
use crate::guid::Guid;
use crate::{Error, Kind, Result};

/// An item that is read. What else is known (the disk's identifier, its physical sector) makes no difference to what the
/// guest reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Item {
    Parameters,
    Size,
    Sector,
    Locator,
}

/// Where the items are, and what those say that were read.
#[derive(Clone, Debug, Default)]
pub(super) struct Metadata {
    /// Offset in the file and length of each item, by its index.
    places: [Option<(u64, u32)>; 4],
    parameters: Option<Parameters>,
    virtual_size: Option<u64>,
    sector: Option<u32>,
}

#[derive(Clone, Copy, Debug)]
struct Parameters {
    block_size: u32,
    flags: u32,
}

/// The shape of the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    /// Size of the disk in bytes.
    pub(super) virtual_size: u64,
    /// Bytes of the disk in a block; a power of two from 1 MiB to 256 MiB.
    pub(super) block_size: u64,
    /// The logical sector, 512 or 4096 bytes.
    pub(super) sector: u32,
    /// Every block was allocated at creation.
    pub(super) fixed: bool,
    /// What is not in this file is in another.
    pub(super) has_parent: bool,
}

impl Item {
    /// Those that make up a [`Shape`].
    pub(super) const SHAPE: [Self; 3] = [Self::Parameters, Self::Size, Self::Sector];

    /// Its number, for pages.
    pub(super) fn index(self) -> u32 {
        match self {
            Self::Parameters => 0,
            Self::Size => 1,
            Self::Sector => 2,
            Self::Locator => 3,
        }
    }

    /// The item with this number.
    pub(super) fn from_index(index: u64) -> Option<Self> {
        [Self::Parameters, Self::Size, Self::Sector, Self::Locator]
            .into_iter()
            .find(|item| u64::from(item.index()) == index)
    }

    fn name(self) -> &'static str {
        match self {
            Self::Parameters => "file parameters",
            Self::Size => "virtual disk size",
            Self::Sector => "logical sector size",
            Self::Locator => "parent locator",
        }
    }

    fn of(guid: Guid) -> Option<Self> {
        match guid {
            PARAMETERS => Some(Self::Parameters),
            SIZE => Some(Self::Size),
            SECTOR => Some(Self::Sector),
            LOCATOR => Some(Self::Locator),
            _ => None,
        }
    }
}

impl Metadata {
    /// Length of the table in bytes.
    pub(super) const TABLE: usize = 64 << 10;

    /// Reads the table at the start of the region.
    pub(super) fn read(region: &Region, bytes: &[u8]) -> Result<Self> {
        Self::parse(region, bytes).map_err(|error| error.at(region.start))
    }

    fn parse(region: &Region, bytes: &[u8]) -> Result<Self> {
        let table = bytes.get(..Self::TABLE).and_then(|bytes| Top::ref_from_prefix(bytes).ok());
        let Some((top, rest)) = table else {
            return Err(Error::new(Kind::Truncated, "the file ends within the metadata table"));
        };
        if top.signature != *b"metadata" {
            return Err(Error::new(Kind::Corrupt, "no metadata table where the region table says"));
        }
        let Ok((entries, _)) = <[Entry]>::ref_from_prefix_with_elems(rest, top.count.get().into()) else {
            let message = format!("a metadata table of {} entries, at most 2047 fit", top.count);
            return Err(Error::new(Kind::Corrupt, message));
        };
        let mut metadata = Self::default();
        let mut ranges = Vec::with_capacity(entries.len());
        for entry in entries {
            let guid = Guid(entry.guid);
            let (start, end) = entry.range(region.end - region.start)?;
            if start < end {
                ranges.push((start, end));
            }
            let is_user = entry.flags.get() & USER != 0;
            let item = Item::of(guid).filter(|_| !is_user);
            let Some(item) = item else {
                let is_known = !is_user && (guid == DISK_ID || guid == PHYSICAL_SECTOR);
                if entry.flags.get() & REQUIRED != 0 && !is_known {
                    let message = format!("the file needs the unknown metadata item {guid} to be understood");
                    return Err(Error::new(Kind::Unsupported, message));
                }
                continue;
            };
            let place = metadata.places.get_mut(item.index() as usize);
            if place.is_some_and(|place| place.replace((region.start + start, entry.len.get())).is_some()) {
                return Err(Error::new(Kind::Corrupt, format!("the {} is given twice", item.name())));
            }
        }
        ranges.sort_unstable();
        if let Some((_, after)) = ranges.iter().zip(ranges.iter().skip(1)).find(|(before, after)| before.1 > after.0) {
            return Err(Error::new(Kind::Corrupt, format!("metadata items overlap at {:#x}", region.start + after.0)));
        }
        if let Some(item) = Item::SHAPE.into_iter().find(|item| metadata.place(*item).is_none()) {
            return Err(Error::new(Kind::Corrupt, format!("the metadata has no {}", item.name())));
        }
        Ok(metadata)
    }

    /// Offset in the file and length of an item, if it has one.
    pub(super) fn place(&self, item: Item) -> Option<(u64, u32)> {
        self.places.get(item.index() as usize).copied().flatten()
    }

    /// Takes in one of the items that make up the shape. The parent locator is [`read elsewhere`](super::locator).
    pub(super) fn take(&mut self, item: Item, bytes: &[u8]) -> Result<()> {
        let word = |at: usize| Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
        let taken = match item {
            Item::Parameters => {
                self.parameters = word(0).zip(word(4)).map(|(block_size, flags)| Parameters { block_size, flags });
                self.parameters.is_some()
            }
            Item::Size => {
                self.virtual_size = bytes.first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
                self.virtual_size.is_some()
            }
            Item::Sector => {
                self.sector = word(0);
                self.sector.is_some()
            }
            Item::Locator => true,
        };
        if taken { Ok(()) } else { Err(Error::new(Kind::Corrupt, format!("the {} is too short", item.name()))) }
    }

    /// The shape of the disk, when all its items were read; refuses what can't be.
    pub(super) fn shape(&self) -> Result<Option<Shape>> {
        let (Some(parameters), Some(virtual_size), Some(sector)) = (self.parameters, self.virtual_size, self.sector)
        else {
            return Ok(None);
        };
        let block_size = u64::from(parameters.block_size);
        if !block_size.is_power_of_two() || !(MIB..=BLOCK_MAX).contains(&block_size) {
            let message = format!("block size of {block_size} bytes is no power of two from 1 MiB to 256 MiB");
            return Err(Error::new(Kind::Corrupt, message));
        }
        if parameters.flags & !(LEAVE_ALLOCATED | HAS_PARENT) != 0 {
            return Err(Error::new(Kind::Unsupported, format!("unknown file parameters {:#x}", parameters.flags)));
        }
        if sector != 512 && sector != 4096 {
            return Err(Error::new(Kind::Corrupt, format!("logical sector of {sector} bytes, VHDX has 512 or 4096")));
        }
        if virtual_size > SIZE_MAX {
            let message = format!("virtual size of {virtual_size} bytes, VHDX has at most 64 TiB");
            return Err(Error::new(Kind::Oversized, message));
        }
        if virtual_size % u64::from(sector) != 0 {
            let message = format!("virtual size of {virtual_size} bytes is no number of sectors of {sector}");
            return Err(Error::new(Kind::Corrupt, message));
        }
        Ok(Some(Shape {
            virtual_size,
            block_size,
            sector,
            fixed: parameters.flags & LEAVE_ALLOCATED != 0,
            has_parent: parameters.flags & HAS_PARENT != 0,
        }))
    }
}

/// The start of the table as it is in the file.
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Top {
    signature: [u8; 8],
    reserved: U16,
    count: U16,
    reserved2: [u8; 20],
}

/// An entry as it is in the file.
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Entry {
    guid: [u8; 16],
    at: U32,
    len: U32,
    flags: U32,
    reserved: U32,
}

impl Entry {
    /// Where the item lies in a region of this length; nowhere (`0..0`) when it is empty.
    fn range(&self, region_len: u64) -> Result<(u64, u64)> {
        let (start, len) = (u64::from(self.at.get()), u64::from(self.len.get()));
        if len == 0 {
            return Ok((0, 0));
        }
        if start < Metadata::TABLE as u64 || len > MIB || start + len > region_len {
            let guid = Guid(self.guid);
            let message = format!("metadata item {guid} of {len} bytes at {start:#x} of its region lies outside");
            return Err(Error::new(Kind::Corrupt, message));
        }
        Ok((start, start + len))
    }
}

const PARAMETERS: Guid = Guid::new(0xcaa1_6737, 0xfa36, 0x4d43, 0xb3b6_33f0_aa44_e76b);
const SIZE: Guid = Guid::new(0x2fa5_4224, 0xcd1b, 0x4876, 0xb211_5dbe_d83b_f4b8);
const SECTOR: Guid = Guid::new(0x8141_bf1d, 0xa96f, 0x4709, 0xba47_f233_a8fa_ab5f);
const LOCATOR: Guid = Guid::new(0xa8d3_5f2d, 0xb30b, 0x454d, 0xabf7_d3d8_4834_ab0c);
const DISK_ID: Guid = Guid::new(0xbeca_12ab, 0xb2e6, 0x4523, 0x93ef_c309_e000_c746);
const PHYSICAL_SECTOR: Guid = Guid::new(0xcda3_48c7, 0x445d, 0x4471, 0x9cc9_e988_5251_c556);

/// Flags of an entry.
const USER: u32 = 1;
const REQUIRED: u32 = 4;
/// Flags of the file parameters.
const LEAVE_ALLOCATED: u32 = 1;
const HAS_PARENT: u32 = 2;

const BLOCK_MAX: u64 = 256 << 20;
const SIZE_MAX: u64 = 64 << 40;

const _: () = assert!(size_of::<Top>() == 32 && size_of::<Entry>() == 32);
