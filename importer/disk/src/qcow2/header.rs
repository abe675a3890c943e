//! The qcow2 header and its extensions (docs/interop/qcow2.txt, "Header").

use zerocopy::byteorder::big_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use crate::{Codec, Error, Kind, MAX_VIRTUAL_SIZE, Result, SECTOR, text};

/// The first 72 bytes, common to versions 2 and 3.
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Version2 {
    magic: [u8; 4],
    version: U32,
    backing_file_offset: U64,
    backing_file_size: U32,
    cluster_bits: U32,
    size: U64,
    crypt_method: U32,
    l1_size: U32,
    l1_table_offset: U64,
    refcount_table_offset: U64,
    refcount_table_clusters: U32,
    nb_snapshots: U32,
    snapshots_offset: U64,
}

/// Bytes 72 to 104, which version 3 added.
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Version3 {
    incompatible_features: U64,
    compatible_features: U64,
    autoclear_features: U64,
    refcount_order: U32,
    header_length: U32,
}

/// What the header says, checked.
#[derive(Debug)]
pub(super) struct Header {
    pub(super) version: u32,
    pub(super) cluster_bits: u32,
    pub(super) size: u64,
    pub(super) l1_offset: u64,
    /// Entries in the L1 table that the disk needs; more may be there.
    pub(super) l1_needed: u32,
    pub(super) refcount_table: (u64, u64),
    pub(super) refcount_order: u32,
    pub(super) snapshots: u32,
    pub(super) codec: Codec,
    pub(super) extended_l2: bool,
    pub(super) dirty: bool,
    pub(super) lazy_refcounts: bool,
    pub(super) bitmaps: u32,
}

impl Header {
    /// Reads and checks the header. `head` is the start of the file, as much of it as is at hand (at least the first
    /// cluster, or 64 KiB). Every refusal happens here, before a byte is written.
    pub(super) fn parse(head: &[u8], file_len: Option<u64>) -> Result<Self> {
        let (v2, rest) = Version2::ref_from_prefix(head).map_err(|_| truncated("the header", head.len() as u64))?;
        if v2.magic != MAGIC {
            return Err(Error::new(Kind::NotADisk, "no qcow2 signature").at(0));
        }
        let version = v2.version.get();
        if version != 2 && version != 3 {
            let hint = if version == 1 { "convert it with qemu-img convert" } else { "versions 2 and 3 are read" };
            return Err(Error::new(Kind::Unsupported, format!("version {version} is not supported, {hint}")).at(4));
        }
        let cluster_bits = v2.cluster_bits.get();
        if !(9..=21).contains(&cluster_bits) {
            let message = format!("cluster_bits {cluster_bits} is outside 9 to 21");
            return Err(Error::new(Kind::Corrupt, message).at(20));
        }
        let cluster = 1u64 << cluster_bits;

        let v3 = if version == 3 {
            let (v3, _) = Version3::ref_from_prefix(rest).map_err(|_| truncated("the header", head.len() as u64))?;
            Some(v3)
        } else {
            None
        };
        let header_length = v3.map_or(72, |v3| u64::from(v3.header_length.get()));
        if let Some(v3) = v3
            && (header_length < 104 || header_length % 8 != 0 || header_length > cluster)
        {
            let message = format!("header length {} is impossible", v3.header_length.get());
            return Err(Error::new(Kind::Corrupt, message).at(100));
        }

        let extensions = Extensions::parse(head, header_length, cluster, v2.backing_file_offset.get())?;
        let incompatible = v3.map_or(0, |v3| v3.incompatible_features.get());
        refuse_unreadable(v2, incompatible, &extensions, head)?;

        let compression = if header_length > 104 { head.get(104).copied().unwrap_or(0) } else { 0 };
        let codec = codec(compression, incompatible & COMPRESSION != 0)?;
        let refcount_order = v3.map_or(4, |v3| v3.refcount_order.get());
        if refcount_order > 6 {
            let message = format!("refcount_order {refcount_order} is larger than 6");
            return Err(Error::new(Kind::Corrupt, message).at(96));
        }

        let size = v2.size.get();
        if size > MAX_VIRTUAL_SIZE {
            return Err(Error::new(Kind::Oversized, format!("virtual size {size} is impossible")).at(24));
        }
        if size % SECTOR != 0 {
            let message = format!("virtual size {size} is not a multiple of {SECTOR}");
            return Err(Error::new(Kind::Corrupt, message).at(24));
        }
        let extended_l2 = incompatible & EXTENDED_L2 != 0;
        if extended_l2 && cluster_bits < 14 {
            let message = format!("extended L2 entries need clusters of 16 KiB or more, these have {cluster}");
            return Err(Error::new(Kind::Corrupt, message).at(20));
        }
        let header = Self {
            version,
            cluster_bits,
            size,
            l1_offset: v2.l1_table_offset.get(),
            l1_needed: l1_needed(size, cluster, extended_l2, v2.l1_size.get())?,
            refcount_table: refcount_table(v2, cluster)?,
            refcount_order,
            snapshots: v2.nb_snapshots.get(),
            codec,
            extended_l2,
            dirty: incompatible & DIRTY != 0,
            lazy_refcounts: v3.is_some_and(|v3| v3.compatible_features.get() & LAZY_REFCOUNTS != 0),
            bitmaps: extensions.bitmaps,
        };
        header.check_tables(v2, cluster, file_len)?;
        Ok(header)
    }

    /// L1 and snapshot tables lie on clusters and inside the file.
    fn check_tables(&self, v2: &Version2, cluster: u64, file_len: Option<u64>) -> Result<()> {
        let l1_bytes = u64::from(self.l1_needed) * 8;
        if l1_bytes > 0 {
            if !self.l1_offset.is_multiple_of(cluster) || self.l1_offset < cluster {
                let message = format!("the L1 table at {:#x} is not on a cluster of its own", self.l1_offset);
                return Err(Error::new(Kind::Corrupt, message).at(40));
            }
            let Some(end) = self.l1_offset.checked_add(l1_bytes).filter(|end| *end <= MAX_OFFSET) else {
                return Err(Error::new(Kind::Corrupt, "the L1 table lies beyond any file").at(40));
            };
            if file_len.is_some_and(|len| end > len) {
                return Err(Error::new(
                    Kind::Truncated,
                    format!("the L1 table ends at {end:#x}, the file at {:#x}", file_len.unwrap_or(0)),
                )
                .at(self.l1_offset));
            }
        }
        if self.snapshots > MAX_SNAPSHOTS {
            let message = format!("{} snapshots, at most {MAX_SNAPSHOTS} are possible", self.snapshots);
            return Err(Error::new(Kind::Oversized, message).at(60));
        }
        let snapshots_offset = v2.snapshots_offset.get();
        if self.snapshots > 0 && (!snapshots_offset.is_multiple_of(cluster) || snapshots_offset > MAX_OFFSET) {
            let message = format!("the snapshot table at {snapshots_offset:#x} is not on a cluster");
            return Err(Error::new(Kind::Corrupt, message).at(64));
        }
        if self.snapshots > 0 && file_len.is_some_and(|len| snapshots_offset >= len) {
            return Err(Error::new(Kind::Truncated, "the snapshot table lies past the end").at(snapshots_offset));
        }
        Ok(())
    }
}

/// Everything that is named and refused: other files, encryption, damage, features nobody told us of.
fn refuse_unreadable(v2: &Version2, incompatible: u64, extensions: &Extensions, head: &[u8]) -> Result<()> {
    let backing = v2.backing_file_offset.get();
    if backing != 0 {
        let name = usize::try_from(backing)
            .ok()
            .and_then(|start| head.get(start..start.checked_add(v2.backing_file_size.get() as usize)?))
            .map_or_else(|| "?".to_owned(), text::printable);
        let message = format!(
            "the image has a backing file ({name}) and holds only the difference to it; flatten it first, \
             for example with qemu-img convert"
        );
        return Err(Error::new(Kind::External, message).at(8));
    }
    if incompatible & DATA_FILE != 0 || extensions.data_file.is_some() {
        let name = extensions.data_file.as_deref().unwrap_or("?");
        let message = format!(
            "the guest data is in an external data file ({name}); convert it to one file first, for example with \
             qemu-img convert"
        );
        return Err(Error::new(Kind::External, message).at(72));
    }
    match (v2.crypt_method.get(), extensions.luks) {
        (0, false) => {}
        (1, _) => return Err(Error::new(Kind::Encrypted, "the image is encrypted (AES); decrypt it first").at(32)),
        (2, _) | (0, true) => {
            return Err(Error::new(Kind::Encrypted, "the image is encrypted (LUKS); decrypt it first").at(32));
        }
        (other, _) => {
            return Err(Error::new(Kind::Encrypted, format!("unknown encryption method {other}")).at(32));
        }
    }
    if incompatible & CORRUPT != 0 {
        let message = "the image is marked corrupt; repair it first with qemu-img check -r all";
        return Err(Error::new(Kind::Corrupt, message).at(72));
    }
    let unknown = incompatible & !(DIRTY | CORRUPT | DATA_FILE | COMPRESSION | EXTENDED_L2);
    if unknown != 0 {
        let bit = unknown.trailing_zeros();
        let name = extensions.feature_name(bit).map_or_else(String::new, |name| format!(" ({name})"));
        let message = format!("the image needs the unknown incompatible feature bit {bit}{name}");
        return Err(Error::new(Kind::Unsupported, message).at(72));
    }
    Ok(())
}

/// "compression_type … 0: deflate, 1: zstd"; non-zero exactly when the incompatible bit is set.
fn codec(compression: u8, flagged: bool) -> Result<Codec> {
    match (compression, flagged) {
        (0, false) => Ok(Codec::Deflate),
        (1, true) => Ok(Codec::Zstd),
        (0 | 1, _) => {
            Err(Error::new(Kind::Corrupt, "compression type and its feature bit contradict each other").at(104))
        }
        (other, _) => Err(Error::new(Kind::Unsupported, format!("unknown compression type {other}")).at(104)),
    }
}

/// How many L1 entries the disk needs; refuses a table that is too small, or larger than qemu accepts.
fn l1_needed(size: u64, cluster: u64, extended: bool, l1_size: u32) -> Result<u32> {
    let entries = cluster / if extended { 16 } else { 8 };
    let needed = size.div_ceil(cluster * entries);
    if u64::from(l1_size) * 8 > MAX_L1_BYTES || needed * 8 > MAX_L1_BYTES {
        let message = format!(
            "an L1 table of {} entries for a disk of {size} bytes, at most {} are possible",
            u64::from(l1_size).max(needed),
            MAX_L1_BYTES / 8
        );
        return Err(Error::new(Kind::Oversized, message).at(36));
    }
    if needed > u64::from(l1_size) {
        let message = format!("the L1 table has {l1_size} entries, a disk of {size} bytes needs {needed}");
        return Err(Error::new(Kind::Corrupt, message).at(36));
    }
    u32::try_from(needed).map_err(|_| Error::new(Kind::Oversized, "L1 table too large").at(36))
}

/// The refcount table's `(offset, length)`.
fn refcount_table(v2: &Version2, cluster: u64) -> Result<(u64, u64)> {
    let offset = v2.refcount_table_offset.get();
    let bytes = u64::from(v2.refcount_table_clusters.get()) * cluster;
    if bytes > MAX_REFCOUNT_TABLE_BYTES {
        let message = format!("a refcount table of {bytes} bytes, at most {MAX_REFCOUNT_TABLE_BYTES} are possible");
        return Err(Error::new(Kind::Oversized, message).at(56));
    }
    if bytes > 0 && (!offset.is_multiple_of(cluster) || offset > MAX_OFFSET) {
        let message = format!("the refcount table at {offset:#x} is not on a cluster");
        return Err(Error::new(Kind::Corrupt, message).at(48));
    }
    Ok((offset, bytes))
}

/// What the header extensions say.
#[derive(Default)]
struct Extensions {
    data_file: Option<String>,
    luks: bool,
    bitmaps: u32,
    features: Vec<(u32, String)>,
}

impl Extensions {
    /// Walks the extensions, which lie between the header and the end of the first cluster (or the backing file name).
    fn parse(head: &[u8], header_length: u64, cluster: u64, backing: u64) -> Result<Self> {
        let mut found = Self::default();
        let end = if backing > header_length { cluster.min(backing) } else { cluster };
        let end = usize::try_from(end).unwrap_or(usize::MAX).min(head.len());
        let start = usize::try_from(header_length).unwrap_or(usize::MAX);
        let mut rest = head.get(start..end).unwrap_or_default();
        while let Ok((fields, body)) = <[U32; 2]>::ref_from_prefix(rest) {
            let [kind, len] = fields.map(U32::get);
            if kind == EXTENSION_END {
                break;
            }
            let at = end - rest.len();
            let Some(data) = body.get(..len as usize) else {
                let message = format!("header extension {kind:#010x} of {len} bytes does not fit into the header");
                return Err(Error::new(Kind::Corrupt, message).at(at as u64));
            };
            found.read(kind, data);
            rest = body.get((len as usize).next_multiple_of(8)..).unwrap_or_default();
        }
        Ok(found)
    }

    fn read(&mut self, kind: u32, data: &[u8]) {
        match kind {
            EXTENSION_DATA_FILE => self.data_file = Some(text::printable(data)),
            EXTENSION_LUKS => self.luks = true,
            EXTENSION_BITMAPS => {
                self.bitmaps = data.first_chunk().map_or(0, |count| u32::from_be_bytes(*count));
            }
            EXTENSION_FEATURE_NAMES => {
                // Only names of incompatible bits (type 0) are of use: for the message that refuses one.
                let (entries, _) = data.as_chunks::<48>();
                self.features = entries
                    .iter()
                    .filter(|entry| entry.first() == Some(&0))
                    .filter_map(|entry| Some((u32::from(*entry.get(1)?), text::printable(entry.get(2..)?))))
                    .collect();
            }
            _ => {}
        }
    }

    fn feature_name(&self, bit: u32) -> Option<&str> {
        self.features.iter().find(|(number, _)| *number == bit).map(|(_, name)| name.as_str())
    }
}

fn truncated(what: &str, at: u64) -> Error {
    Error::new(Kind::Truncated, format!("the file ends inside {what}")).at(at)
}

const MAGIC: [u8; 4] = *b"QFI\xfb";

const DIRTY: u64 = 1 << 0;
const CORRUPT: u64 = 1 << 1;
const DATA_FILE: u64 = 1 << 2;
const COMPRESSION: u64 = 1 << 3;
const EXTENDED_L2: u64 = 1 << 4;
const LAZY_REFCOUNTS: u64 = 1 << 0;

const EXTENSION_END: u32 = 0;
const EXTENSION_FEATURE_NAMES: u32 = 0x6803_f857;
const EXTENSION_BITMAPS: u32 = 0x2385_2875;
const EXTENSION_LUKS: u32 = 0x0537_be77;
const EXTENSION_DATA_FILE: u32 = 0x4441_5441;

/// Offsets in entries have 56 bits.
pub(super) const MAX_OFFSET: u64 = (1 << 56) - 1;
/// The limits that qemu has (block/qcow2.h).
const MAX_L1_BYTES: u64 = 32 << 20;
const MAX_REFCOUNT_TABLE_BYTES: u64 = 8 << 20;
const MAX_SNAPSHOTS: u32 = 65536;
