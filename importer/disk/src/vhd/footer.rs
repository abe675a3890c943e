//! The footer of a VHD file, 512 bytes, big-endian; a dynamic disk has a copy of it at the start of the file.

use zerocopy::big_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use super::checksum::checksum;
use crate::text::printable;
use crate::{Error, Kind, Result};

/// What kind of disk a footer describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DiskType {
    Fixed,
    Dynamic,
    Differencing,
}

/// A footer, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Footer {
    pub(super) disk_type: DiskType,
    /// Where the header of a dynamic disk is.
    pub(super) header_at: u64,
    /// The four bytes that name the program that wrote it.
    pub(super) creator: [u8; 4],
    /// Size of the disk in bytes, by the footer.
    pub(super) current_size: u64,
    /// Size of the disk in bytes, by its geometry of cylinders, heads and sectors.
    pub(super) chs_size: u64,
    /// The virtual machine was suspended, and its memory is elsewhere.
    pub(super) saved_state: bool,
}

impl Footer {
    /// Length in bytes.
    pub(super) const LEN: usize = 512;
    /// What a footer starts with.
    pub(super) const COOKIE: [u8; 8] = *b"conectix";

    /// Reads a footer. `NotADisk` when there is none, `Corrupt` when there is one that is damaged.
    pub(super) fn read(bytes: &[u8; Self::LEN]) -> Result<Self> {
        let disk: &Disk = zerocopy::transmute_ref!(bytes);
        if disk.cookie != Self::COOKIE {
            return Err(Error::new(Kind::NotADisk, "no VHD footer"));
        }
        if checksum(bytes, CHECKSUM_AT) != disk.checksum.get() {
            return Err(Error::new(Kind::Corrupt, "the VHD footer is damaged: its checksum is wrong"));
        }
        let version = disk.version.get();
        if version >> 16 != 1 {
            return Err(Error::new(Kind::Unsupported, format!("VHD version {}.{}", version >> 16, version & 0xffff)));
        }
        let disk_type = match disk.disk_type.get() {
            2 => DiskType::Fixed,
            3 => DiskType::Dynamic,
            4 => DiskType::Differencing,
            other => return Err(Error::new(Kind::Corrupt, format!("unknown VHD disk type {other}"))),
        };
        let sectors = u64::from(disk.cylinders.get()) * u64::from(disk.heads) * u64::from(disk.sectors);
        Ok(Self {
            disk_type,
            header_at: disk.header_at.get(),
            creator: disk.creator,
            current_size: disk.current_size.get(),
            chs_size: sectors * 512,
            saved_state: disk.saved_state != 0,
        })
    }

    /// The program that wrote it, to be shown.
    pub(super) fn creator(&self) -> String {
        printable(self.creator.trim_ascii_end())
    }

    /// Whether the size of a dynamic disk is its geometry, not the size field.
    ///
    /// Virtual PC shows the guest what cylinders, heads and sectors make up, and writes the size that was asked for into
    /// the size field, which is a little more. qemu imitates it under the name `qemu`, and calls itself `qem2` when it is
    /// told not to (`force_size`). All others mean the size field: Hyper-V (`win `), disk2vhd (`d2v `), XenServer
    /// (`tap\0`), XenConverter (`CTXS`), Azure (`wa\0\0`), VirtualBox (`vbox`). What we have not heard of is taken as one
    /// of these: a few sectors too many at the end do no harm, where some too few lose data.
    ///
    /// The largest geometry (127 GiB) stands for all larger disks and says nothing, nor does one of nothing.
    pub(super) fn is_chs(&self) -> bool {
        matches!(&self.creator, b"vpc " | b"qemu") && self.chs_size != 0 && self.chs_size != CHS_MAX
    }
}

/// As it is in the file.
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Disk {
    cookie: [u8; 8],
    features: U32,
    version: U32,
    header_at: U64,
    time: U32,
    creator: [u8; 4],
    creator_version: U32,
    creator_system: [u8; 4],
    original_size: U64,
    current_size: U64,
    cylinders: U16,
    heads: u8,
    sectors: u8,
    disk_type: U32,
    checksum: U32,
    id: [u8; 16],
    saved_state: u8,
    reserved: [u8; 427],
}

const CHECKSUM_AT: usize = 64;
/// 65535 cylinders of 16 heads and 255 sectors.
const CHS_MAX: u64 = 65535 * 16 * 255 * 512;
