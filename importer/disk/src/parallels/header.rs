//! The header of a Parallels expandable image (docs/interop/parallels, "Header").

use zerocopy::byteorder::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use crate::{Error, Kind, MAX_VIRTUAL_SIZE, Result, SECTOR};

#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Raw {
    magic: [u8; 16],
    version: U32,
    heads: U32,
    cylinders: U32,
    tracks: U32,
    bat_entries: U32,
    nb_sectors: U64,
    in_use: U32,
    data_off: U32,
    flags: U32,
    ext_off: U64,
}

/// In what the BAT counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Variant {
    /// `WithoutFreeSpace`: sectors.
    Sectors,
    /// `WithouFreSpacExt`: clusters.
    Clusters,
}

/// What the header says, checked.
#[derive(Debug)]
pub(super) struct Header {
    pub(super) variant: Variant,
    /// Bytes in a cluster: any number of sectors up to 2 GiB.
    pub(super) cluster: u64,
    /// Virtual size in bytes.
    pub(super) size: u64,
    /// BAT entries that the disk needs; more may be there.
    pub(super) bat_used: u64,
    /// Where the BAT ends, in bytes.
    pub(super) bat_end: u64,
    /// The image was not closed.
    pub(super) in_use: bool,
    /// There is a format extension (dirty bitmaps).
    pub(super) extension: bool,
}

impl Header {
    /// Reads and checks the header at the start of `head`.
    pub(super) fn parse(head: &[u8]) -> Result<Self> {
        let (raw, _) = Raw::ref_from_prefix(head).map_err(|_| {
            Error::new(Kind::Truncated, format!("the file ends inside the header, after {} bytes", head.len()))
        })?;
        let variant = match &raw.magic {
            b"WithoutFreeSpace" => Variant::Sectors,
            b"WithouFreSpacExt" => Variant::Clusters,
            _ => return Err(Error::new(Kind::NotADisk, "no Parallels signature").at(0)),
        };
        if raw.version.get() != 2 {
            let message = format!("version {} is not supported, only 2 is", raw.version.get());
            return Err(Error::new(Kind::Unsupported, message).at(16));
        }
        let tracks = raw.tracks.get();
        if tracks == 0 || tracks > MAX_TRACKS {
            let message = format!("a cluster of {tracks} sectors is outside 1 to {MAX_TRACKS}");
            return Err(Error::new(Kind::Corrupt, message).at(28));
        }
        let cluster = u64::from(tracks) * SECTOR;
        let size = virtual_size(raw, variant)?;
        let bat_entries = u64::from(raw.bat_entries.get());
        if bat_entries > MAX_BAT_ENTRIES {
            let message = format!("a BAT of {bat_entries} entries; at most {MAX_BAT_ENTRIES} are read");
            return Err(Error::new(Kind::Oversized, message).at(32));
        }
        let bat_used = size.div_ceil(cluster);
        if bat_used > bat_entries {
            let message = format!("the BAT has {bat_entries} entries, the disk of {size} bytes needs {bat_used}");
            return Err(Error::new(Kind::Corrupt, message).at(32));
        }
        let bat_end = BAT_OFFSET + bat_entries * 4;
        check_data_offset(raw, variant, bat_end)?;
        Ok(Self {
            variant,
            cluster,
            size,
            bat_used,
            bat_end,
            in_use: raw.in_use.get() == IN_USE,
            extension: raw.ext_off.get() != 0,
        })
    }

    /// Where a BAT entry that is not 0 points, in bytes.
    pub(super) fn place(&self, entry: u32) -> u64 {
        // Neither product overflows: a cluster has less than 2^31 bytes.
        match self.variant {
            Variant::Sectors => u64::from(entry) * SECTOR,
            Variant::Clusters => u64::from(entry) * self.cluster,
        }
    }
}

fn virtual_size(raw: &Raw, variant: Variant) -> Result<u64> {
    let sectors = match variant {
        //# parallels.rst: "Only the lowest 4 bytes are used."
        Variant::Sectors => raw.nb_sectors.get() & u64::from(u32::MAX),
        Variant::Clusters => raw.nb_sectors.get(),
    };
    match sectors.checked_mul(SECTOR) {
        Some(size) if size <= MAX_VIRTUAL_SIZE => Ok(size),
        _ => Err(Error::new(Kind::Oversized, format!("a disk of {sectors} sectors is impossible")).at(36)),
    }
}

fn check_data_offset(raw: &Raw, variant: Variant, bat_end: u64) -> Result<()> {
    let data_off = u64::from(raw.data_off.get()) * SECTOR;
    //# parallels.rst: "For "WithoutFreeSpace" images: If data_off is zero, the offset is calculated as the end of BAT"
    let left_out = data_off == 0 && variant == Variant::Sectors;
    if data_off < bat_end && !left_out {
        let message = format!("the data area at {data_off:#x} begins inside the BAT, which ends at {bat_end:#x}");
        return Err(Error::new(Kind::Corrupt, message).at(48));
    }
    Ok(())
}

/// Where the BAT lies: behind the header.
pub(super) const BAT_OFFSET: u64 = 64;

/// `in_use` while software has the image open to write. What else is found there (0, `v2.1`, `pd17`) names who closed it.
const IN_USE: u32 = 0x746f_6e59;

/// The limits of qemu.
const MAX_TRACKS: u32 = i32::MAX as u32 / 513;
const MAX_BAT_ENTRIES: u64 = i32::MAX as u64 / 4;
