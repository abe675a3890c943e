//! The header of a hosted sparse extent (`KDMV`), and its copy in the footer of a stream.
//!
//! Everything is little-endian, and counted in sectors of 512 bytes. Facts: VMware "Virtual Disk Format 5.0"; where it
//! is silent, what qemu's block/vmdk.c, VirtualBox and open-vmdk agree on.

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use crate::{Error, Found, Kind, MAX_VIRTUAL_SIZE, Result, SECTOR};

/// The first 79 bytes of the header sector; the rest of it is padding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct OnDisk {
    magic: [u8; 4],
    version: U32,
    flags: U32,
    capacity: U64,
    grain: U64,
    descriptor_at: U64,
    descriptor_len: U64,
    entries_per_table: U32,
    redundant_directory: U64,
    directory: U64,
    overhead: U64,
    unclean: u8,
    newlines: [u8; 4],
    compression: U16,
}

/// A checked header. All counts are in sectors unless a name says otherwise.
#[derive(Clone, Copy, Debug)]
pub(super) struct Header {
    disk: OnDisk,
    /// Format version, 1 to 3. Version 3 only adds changed block tracking, which readers ignore.
    pub version: u32,
    /// Size of the disk.
    pub capacity: u64,
    /// Size of a grain: a power of two.
    pub grain: u64,
    /// Length of the embedded descriptor, which begins in sector 1; 0 when there is none.
    pub descriptor_len: u64,
    /// Grains per grain table: 128, 256 or 512.
    pub per_table: u64,
    /// Where the grain directory is.
    pub directory: Place,
    /// How many sectors at the front hold metadata and no grain.
    pub overhead: u64,
    /// Whether a table entry of 1 means a grain of zeros.
    pub zeroed: bool,
    /// Whether there is a second copy of the directory and its tables.
    pub redundant: bool,
    /// Whether the last program that wrote to it did not close it.
    pub unclean: bool,
    /// How grains are stored.
    pub layout: Layout,
}

/// Where the grain directory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// At this sector.
    Sector(u64),
    /// At a sector that only the footer knows.
    AtEnd,
}

/// How grains are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    /// As they are, found by the tables (monolithicSparse).
    Plain,
    /// Compressed, each behind a marker that names its place in the disk (streamOptimized).
    Stream,
}

impl Header {
    /// Reads and checks the first sector of a file. Nothing here is allocated, whatever it claims.
    pub fn parse(sector: &[u8]) -> Result<Self> {
        let disk = on_disk(sector)?;
        let flags = disk.flags.get();
        let version = disk.version.get();
        if !(1..=3).contains(&version) {
            return Err(unsupported(format!("version {version} of the sparse format; 1 to 3 are known")));
        }
        // The detector only means something when its flag is set.
        if flags & NEWLINE_TEST != 0 && disk.newlines != *b"\n \r\n" {
            return Err(corrupt("damaged, as by a transfer in text mode; transfer it again in binary mode"));
        }
        // open-vmdk: the upper half of the flags must be understood, the lower half may be ignored.
        let unknown = flags & 0xffff_0000 & !(COMPRESSED | MARKERS);
        if unknown != 0 {
            return Err(unsupported(format!("unknown incompatible flags {unknown:#x}")));
        }
        let layout = layout(flags, disk.compression.get())?;
        let capacity = disk.capacity.get();
        let grain = disk.grain.get();
        let per_table = u64::from(disk.entries_per_table.get());
        if capacity > MAX_VIRTUAL_SIZE / SECTOR {
            return Err(oversized(format!("a disk of {capacity} sectors is larger than 8 EiB")));
        }
        if !matches!(per_table, 128 | 256 | 512) {
            return Err(unsupported(format!("{per_table} entries per grain table; 128, 256 and 512 are known")));
        }
        if grain == 0 {
            return Err(corrupt("a grain of 0 sectors"));
        }
        // Before the grain's shape, so that a header which wants a table of gigabytes is called what it is.
        let entries = capacity.div_ceil(grain.saturating_mul(per_table));
        if entries > MAX_DIRECTORY {
            return Err(oversized(format!("a grain directory of {entries} entries; at most {MAX_DIRECTORY} are read")));
        }
        if !grain.is_power_of_two() || grain < MIN_GRAIN {
            return Err(corrupt(format!("a grain of {grain} sectors; it must be a power of two of at least 8")));
        }
        let most = if layout == Layout::Stream { MAX_PACKED_GRAIN } else { MAX_GRAIN };
        if grain > most {
            return Err(oversized(format!("a grain of {grain} sectors; at most {most} are read")));
        }
        Ok(Self {
            version,
            capacity,
            grain,
            descriptor_len: descriptor_len(&disk)?,
            per_table,
            directory: directory(&disk, layout)?,
            overhead: overhead(&disk, layout)?,
            zeroed: flags & ZEROED_GRAINS != 0,
            redundant: flags & REDUNDANT != 0,
            unclean: disk.unclean != 0,
            layout,
            disk,
        })
    }

    /// Reads the footer of the stream this is the header of, and gives the sector of the grain directory.
    ///
    /// The footer takes precedence over the header, so one that says anything else than where the directory is would
    /// make two readers see two disks: refused.
    pub fn footer(&self, sector: &[u8]) -> Result<u64> {
        let disk = on_disk(sector)?;
        let sector = disk.directory.get();
        if sector == AT_END {
            return Err(corrupt("the footer doesn't say where the grain directory is"));
        }
        // These four may differ: the stream learns them only at its end.
        let same = OnDisk {
            redundant_directory: self.disk.redundant_directory,
            directory: self.disk.directory,
            overhead: self.disk.overhead,
            unclean: self.disk.unclean,
            ..disk
        };
        if same != self.disk {
            return Err(corrupt("the footer contradicts the header"));
        }
        Ok(sector)
    }

    /// Size of the disk in bytes.
    pub fn size(&self) -> u64 {
        self.capacity * SECTOR
    }

    /// Size of a grain in bytes.
    pub fn grain_bytes(&self) -> u64 {
        self.grain * SECTOR
    }

    /// How many grains the disk has; the last one may be cut.
    pub fn grains(&self) -> u64 {
        self.capacity.div_ceil(self.grain)
    }

    /// How many entries the grain directory has.
    pub fn tables(&self) -> u64 {
        self.grains().div_ceil(self.per_table)
    }

    /// Length of a grain table in bytes: a multiple of the sector.
    pub fn table_bytes(&self) -> u64 {
        self.per_table * 4
    }

    /// Lets go of what stands before the directory and holds no table: the second copy of the tables, with many
    /// programs half of all metadata, is never read.
    pub fn skip_front(&self, directory: u64, found: &mut Found) {
        let end = if self.redundant { self.overhead } else { 1 + self.descriptor_len };
        found.skip(0, directory.min(end * SECTOR));
    }

    /// First and last guest byte of a run of grains, cut at the end of the disk.
    pub fn guest(&self, first: u64, end: u64) -> (u64, u64) {
        let bytes = self.grain_bytes();
        (first.saturating_mul(bytes).min(self.size()), end.saturating_mul(bytes).min(self.size()))
    }
}

/// The capacity and the length of the descriptor in sectors, unchecked: what is needed to tell a header that only
/// carries the descriptor of a flat disk.
pub(super) fn claims(sector: &[u8]) -> Result<(u64, u64)> {
    let disk = on_disk(sector)?;
    Ok((disk.capacity.get(), descriptor_len(&disk)?))
}

fn on_disk(sector: &[u8]) -> Result<OnDisk> {
    if sector.len() < 512 {
        return Err(Error::new(Kind::Truncated, "the header is cut"));
    }
    let (disk, _) = OnDisk::read_from_prefix(sector).map_err(|_| Error::new(Kind::Truncated, "the header is cut"))?;
    if disk.magic != *b"KDMV" {
        return Err(corrupt("no KDMV signature"));
    }
    Ok(disk)
}

fn layout(flags: u32, algorithm: u16) -> Result<Layout> {
    match (flags & COMPRESSED != 0, flags & MARKERS != 0, algorithm) {
        (false, false, 0) => Ok(Layout::Plain),
        (true, true, 1) => Ok(Layout::Stream),
        (_, _, 2..) => Err(unsupported(format!("compression algorithm {algorithm}; only deflate (1) is known"))),
        // open-vmdk puts a length before such a grain, qemu puts nothing: no way to know which is meant.
        (true, false, 1) => Err(unsupported(
            "compressed grains without markers; make a usual image of it with: qemu-img convert -O qcow2",
        )),
        (false, true, _) => Err(corrupt("markers without compression")),
        (true, _, _) => Err(corrupt("compressed grains without an algorithm")),
        (false, _, _) => Err(corrupt("a compression algorithm, but no compressed grains")),
    }
}

fn descriptor_len(disk: &OnDisk) -> Result<u64> {
    match (disk.descriptor_at.get(), disk.descriptor_len.get()) {
        (0, _) => Ok(0),
        // qemu reads it from sector 1 whatever the header says; two readers must not see two descriptors.
        (1, len) if len > 0 && len <= MAX_DESCRIPTOR => Ok(len),
        (1, len) => Err(oversized(format!("a descriptor of {len} sectors; 1 to {MAX_DESCRIPTOR} are read"))),
        (at, _) => Err(corrupt(format!("the descriptor is at sector {at}; it belongs to sector 1"))),
    }
}

fn directory(disk: &OnDisk, layout: Layout) -> Result<Place> {
    match (disk.directory.get(), layout) {
        (AT_END, Layout::Stream) => Ok(Place::AtEnd),
        (AT_END, Layout::Plain) => {
            Err(corrupt("the grain directory is said to be in a footer, which only a stream has"))
        }
        (0, _) => Err(corrupt("no grain directory")),
        (at, _) if at > MAX_SECTOR => Err(corrupt(format!("the grain directory is at sector {at}, beyond any file"))),
        (at, _) => Ok(Place::Sector(at)),
    }
}

fn overhead(disk: &OnDisk, layout: Layout) -> Result<u64> {
    let overhead = disk.overhead.get();
    if overhead > MAX_SECTOR {
        return Err(corrupt(format!("metadata of {overhead} sectors, beyond any file")));
    }
    let least = 1 + descriptor_len(disk)?;
    if layout == Layout::Stream && overhead < least {
        return Err(corrupt(format!("the stream begins at sector {overhead}, within the header or the descriptor")));
    }
    Ok(overhead)
}

fn corrupt(message: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    Error::new(Kind::Corrupt, message)
}

fn unsupported(message: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    Error::new(Kind::Unsupported, message)
}

fn oversized(message: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    Error::new(Kind::Oversized, message)
}

const NEWLINE_TEST: u32 = 1;
const REDUNDANT: u32 = 1 << 1;
const ZEROED_GRAINS: u32 = 1 << 2;
const COMPRESSED: u32 = 1 << 16;
const MARKERS: u32 = 1 << 17;

/// A grain directory that is in the footer.
const AT_END: u64 = u64::MAX;

/// Table entries are 32 bits, so nothing they name lies further on: 2 TiB.
const MAX_SECTOR: u64 = u32::MAX as u64;

/// The spec says "greater than 8", which everybody reads as "at least 8": 4 KiB.
const MIN_GRAIN: u64 = 8;

/// 64 MiB. VMware writes 64 KiB.
const MAX_GRAIN: u64 = 128 << 10;

/// 2 MiB, as the largest qcow2 cluster: a compressed grain is decoded as a whole, by several threads at a time.
const MAX_PACKED_GRAIN: u64 = 4 << 10;

/// 16 MiB of directory: 128 TiB of disk with the usual grain.
const MAX_DIRECTORY: u64 = 4 << 20;

/// 1 MiB. VMware writes 10 KiB.
const MAX_DESCRIPTOR: u64 = 2048;
