//! The QED header (docs/interop/qed_spec, "Header").

use zerocopy::byteorder::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use crate::{Error, Kind, MAX_VIRTUAL_SIZE, Result, SECTOR, text};

#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Raw {
    magic: [u8; 4],
    cluster_size: U32,
    table_size: U32,
    header_size: U32,
    features: U64,
    compat_features: U64,
    autoclear_features: U64,
    l1_table_offset: U64,
    image_size: U64,
    backing_filename_offset: U32,
    backing_filename_size: U32,
}

/// What the header says, checked.
#[derive(Debug)]
pub(super) struct Header {
    /// Bytes in a cluster: a power of two from 4 KiB to 64 MiB.
    pub(super) cluster: u64,
    /// Clusters in a table: a power of two from 1 to 16.
    pub(super) table_clusters: u64,
    /// Where the header and what belongs to it end, in bytes; at least one cluster.
    pub(super) end: u64,
    /// Virtual size in bytes.
    pub(super) size: u64,
    pub(super) l1_offset: u64,
    /// The image was not closed.
    pub(super) need_check: bool,
}

impl Header {
    /// Reads and checks the header at the start of `head`.
    pub(super) fn parse(head: &[u8]) -> Result<Self> {
        let (raw, _) = Raw::ref_from_prefix(head).map_err(|_| {
            Error::new(Kind::Truncated, format!("the file ends inside the header, after {} bytes", head.len()))
        })?;
        if raw.magic != MAGIC {
            return Err(Error::new(Kind::NotADisk, "no QED signature").at(0));
        }
        let features = raw.features.get();
        //# qed_spec: "An image with unknown features bits enabled must not be opened."
        if features & !KNOWN != 0 {
            let message = format!("feature bits {:#x} are not known", features & !KNOWN);
            return Err(Error::new(Kind::Unsupported, message).at(16));
        }
        if features & BACKING_FILE != 0 {
            return Err(backing_file(raw, head));
        }
        let cluster = u64::from(raw.cluster_size.get());
        if !cluster.is_power_of_two() || !(1 << 12..=1 << 26).contains(&cluster) {
            let message = format!("cluster size {cluster} is not a power of two from 4 KiB to 64 MiB");
            return Err(Error::new(Kind::Corrupt, message).at(4));
        }
        let table_clusters = u64::from(raw.table_size.get());
        if !table_clusters.is_power_of_two() || table_clusters > 16 {
            let message = format!("table size {table_clusters} is not 1, 2, 4, 8 or 16 clusters");
            return Err(Error::new(Kind::Corrupt, message).at(8));
        }
        let header = Self {
            cluster,
            table_clusters,
            end: cluster * u64::from(raw.header_size.get()).max(1),
            size: raw.image_size.get(),
            l1_offset: raw.l1_table_offset.get(),
            need_check: features & NEED_CHECK != 0,
        };
        header.check()?;
        Ok(header)
    }

    fn check(&self) -> Result<()> {
        if self.size > MAX_VIRTUAL_SIZE {
            return Err(Error::new(Kind::Oversized, format!("virtual size {} is impossible", self.size)).at(48));
        }
        if !self.size.is_multiple_of(SECTOR) {
            let message = format!("virtual size {} is not a multiple of {SECTOR}", self.size);
            return Err(Error::new(Kind::Corrupt, message).at(48));
        }
        let reach = u128::from(self.entries()) * u128::from(self.entries()) * u128::from(self.cluster);
        if u128::from(self.size) > reach {
            let message = format!("virtual size {} is more than the tables can hold ({reach})", self.size);
            return Err(Error::new(Kind::Corrupt, message).at(48));
        }
        self.check_place("the L1 table", self.l1_offset, self.table_bytes()).map_err(|error| error.at(40))
    }

    /// Refuses a table or cluster that is not on a cluster, lies in the header, or beyond any file.
    pub(super) fn check_place(&self, what: &str, host: u64, len: u64) -> Result<()> {
        let wrong = if !host.is_multiple_of(self.cluster) {
            "is not on a cluster"
        } else if host < self.end {
            "lies in the header"
        } else if host.checked_add(len).is_none_or(|end| end > MAX_OFFSET) {
            "lies beyond any file"
        } else {
            return Ok(());
        };
        Err(Error::new(Kind::Corrupt, format!("{what} at {host:#x} {wrong}")))
    }

    pub(super) fn table_bytes(&self) -> u64 {
        self.cluster * self.table_clusters
    }

    /// Entries in a table.
    pub(super) fn entries(&self) -> u64 {
        self.table_bytes() / 8
    }

    /// Guest bytes under one L1 entry.
    pub(super) fn span(&self) -> u64 {
        self.entries() * self.cluster
    }
}

fn backing_file(raw: &Raw, head: &[u8]) -> Error {
    let start = raw.backing_filename_offset.get() as usize;
    let name = start.checked_add(raw.backing_filename_size.get() as usize).and_then(|end| head.get(start..end));
    let name = name.map(|name| format!(" '{}'", text::printable(name))).unwrap_or_default();
    let message = format!("it needs its backing file{name}; flatten it first with qemu-img convert");
    Error::new(Kind::External, message).at(16)
}

const MAGIC: [u8; 4] = *b"QED\0";
const BACKING_FILE: u64 = 1;
const NEED_CHECK: u64 = 2;
/// The last one says that the backing file is raw, which means nothing without one.
const KNOWN: u64 = BACKING_FILE | NEED_CHECK | 4;

/// No file reaches further.
const MAX_OFFSET: u64 = i64::MAX as u64;
