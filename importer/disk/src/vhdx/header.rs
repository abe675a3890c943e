//! The two headers: of 4 KiB each, at 64 KiB and 128 KiB. (MS-VHDX 2.2.2)

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use super::MIB;
use crate::crc32c;
use crate::guid::Guid;
use crate::{Error, Kind, Result};

/// What the current header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    /// The identifier of the entries of a log that must be replayed; nil when there is none to replay.
    pub(super) log_guid: Guid,
    /// Where the log lies, in bytes; both are multiples of 1 MiB.
    pub(super) log_at: u64,
    /// How long it is. May be 0 when nothing is to be replayed.
    pub(super) log_len: u32,
}

impl Header {
    /// Where the first header lies. The second lies as far behind it.
    pub(super) const AT: u64 = 64 << 10;

    /// Finds the current header, given the two.
    pub(super) fn current(first: &[u8], second: &[u8]) -> Result<Self> {
        //# MS-VHDX 2.2.2: "A header is current if it is the only valid header or if it is valid and its SequenceNumber
        //# field is greater than the other header's SequenceNumber field. […] If there is no current header, then the
        //# VHDX file is corrupt."
        // Two equal numbers are no damage when the headers are equal too: qemu takes that, and so do we.
        let (one, other) = (Disk::valid(first), Disk::valid(second));
        let disk = match (one, other) {
            (Some(one), Some(other)) if one.sequence.get() == other.sequence.get() => {
                if first.get(..LEN) != second.get(..LEN) {
                    let message = "both headers have the same sequence number and differ";
                    return Err(Error::new(Kind::Corrupt, message).at(Self::AT));
                }
                one
            }
            (Some(one), Some(other)) if one.sequence.get() < other.sequence.get() => other,
            (Some(one), _) => one,
            (None, Some(other)) => other,
            (None, None) => {
                let message = "both headers are damaged: their signatures or checksums are wrong";
                return Err(Error::new(Kind::Corrupt, message).at(Self::AT));
            }
        };
        disk.checked()
    }

    /// The offset just behind the log.
    pub(super) fn log_end(&self) -> u64 {
        self.log_at.saturating_add(u64::from(self.log_len))
    }
}

/// As it is in the file, without the reserved rest of the 4 KiB.
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Disk {
    signature: [u8; 4],
    checksum: U32,
    sequence: U64,
    file_write_guid: [u8; 16],
    data_write_guid: [u8; 16],
    log_guid: [u8; 16],
    log_version: U16,
    version: U16,
    log_len: U32,
    log_at: U64,
}

impl Disk {
    /// The header, when its signature and checksum are right.
    fn valid(bytes: &[u8]) -> Option<&Self> {
        let bytes = bytes.get(..LEN)?;
        let (disk, _) = Self::ref_from_prefix(bytes).ok()?;
        let sum = crc32c::without_field(bytes, 4)?;
        (disk.signature == *b"head" && sum == disk.checksum.get()).then_some(disk)
    }

    fn checked(&self) -> Result<Header> {
        let refuse = |kind, message| Err(Error::new(kind, message).at(Header::AT));
        if self.version != 1 {
            return refuse(Kind::Unsupported, format!("VHDX version {}, only 1 is known", self.version));
        }
        let (log_guid, log_at) = (Guid(self.log_guid), self.log_at.get());
        if !log_guid.is_nil() && self.log_version != 0 {
            let version = self.log_version;
            return refuse(Kind::Unsupported, format!("a log of version {version} must be replayed, only 0 is known"));
        }
        let log_len = self.log_len.get();
        let aligned = log_at % MIB == 0 && u64::from(log_len) % MIB == 0;
        if log_len != 0 && (log_at < MIB || !aligned || log_at.checked_add(u64::from(log_len)).is_none()) {
            return refuse(
                Kind::Corrupt,
                format!("a log of {log_len:#x} bytes at {log_at:#x} is not aligned to 1 MiB"),
            );
        }
        Ok(Header { log_guid, log_at, log_len })
    }
}

/// Length of a header in bytes, over which its checksum is.
const LEN: usize = 4096;
