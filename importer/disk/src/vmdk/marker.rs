//! The sector that stands before everything in a stream and says what follows.

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use crate::{Error, Kind, Result};

/// What follows a marker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Marker {
    /// `size` bytes of a compressed grain, right behind the first 12 bytes of the marker.
    Grain {
        /// Its first sector in the disk.
        lba: u64,
        /// Length of the compressed data in bytes.
        size: u32,
    },
    /// A grain table, of that many sectors if not 0.
    Table(u64),
    /// The grain directory, of that many sectors if not 0.
    Directory(u64),
    /// A copy of the header.
    Footer(u64),
    /// Nothing but those sectors: vCenter sends it to keep a slow connection alive. It is in no specification.
    Progress(u64),
    /// Nothing: the end of the stream. A sector of zeros is the same thing, which is what images of qemu end with.
    End,
}

#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct OnDisk {
    value: U64,
    size: U32,
    kind: U32,
}

impl Marker {
    /// Reads a marker sector.
    pub fn parse(sector: &[u8]) -> Result<Self> {
        let (marker, padding) =
            OnDisk::ref_from_prefix(sector).map_err(|_| Error::new(Kind::Truncated, "the stream ends in a marker"))?;
        let value = marker.value.get();
        let size = marker.size.get();
        if size != 0 {
            return Ok(Self::Grain { lba: value, size });
        }
        match marker.kind.get() {
            0 if value == 0 && padding.iter().all(|&byte| byte == 0) => Ok(Self::End),
            0 => Err(Error::new(Kind::Corrupt, "the end-of-stream marker is not empty")),
            1 => Ok(Self::Table(value)),
            2 => Ok(Self::Directory(value)),
            3 => Ok(Self::Footer(value)),
            4 => Ok(Self::Progress(value)),
            kind => Err(Error::new(Kind::Corrupt, format!("unknown marker type {kind}"))),
        }
    }
}

/// How many bytes of a marker sector stand before the data of a grain.
pub(super) const GRAIN_PREFIX: u64 = 12;
