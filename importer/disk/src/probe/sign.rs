//! What tells that plain bytes are a disk.

use super::{array, has};

/// The first sign, at the start of a raw disk, that it is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RawSign {
    /// A GUID partition table, for sectors of 512 or 4096 bytes.
    Gpt,
    /// An NTFS volume.
    Ntfs,
    /// An exFAT volume.
    ExFat,
    /// A FAT volume.
    Fat,
    /// A boot sector, usually with a partition table.
    Mbr,
    /// An Apple partition map.
    Apm,
    /// ext2, ext3 or ext4.
    Ext,
    /// XFS.
    Xfs,
    /// F2FS.
    F2fs,
    /// EROFS.
    Erofs,
    /// Squashfs.
    Squashfs,
    /// HFS+ or HFSX.
    Hfs,
    /// APFS.
    Apfs,
    /// A physical volume of LVM 2.
    Lvm,
    /// Linux swap.
    Swap,
    /// Zeros as far as one sees.
    Blank,
    /// None, as for most data disks without a file system, and for encrypted ones.
    None,
}

impl RawSign {
    /// Its name, for people; `None` for [`RawSign::None`].
    #[must_use]
    pub fn name(self) -> Option<&'static str> {
        Some(match self {
            Self::Gpt => "gpt",
            Self::Ntfs => "ntfs",
            Self::ExFat => "exfat",
            Self::Fat => "fat",
            Self::Mbr => "mbr",
            Self::Apm => "apm",
            Self::Ext => "ext",
            Self::Xfs => "xfs",
            Self::F2fs => "f2fs",
            Self::Erofs => "erofs",
            Self::Squashfs => "squashfs",
            Self::Hfs => "hfs",
            Self::Apfs => "apfs",
            Self::Lvm => "lvm",
            Self::Swap => "swap",
            Self::Blank => "blank",
            Self::None => return None,
        })
    }
}

/// The first sign found. btrfs has its own beyond the head (at 65600), and is taken for a disk without one.
pub(super) fn find(head: &[u8]) -> RawSign {
    let by_magic = SIGNS.iter().find(|(at, magic, _)| has(head, *at, magic)).map(|(_, _, sign)| *sign);
    let blank = || if head.iter().all(|byte| *byte == 0) { RawSign::Blank } else { RawSign::None };
    by_magic.unwrap_or_else(blank)
}

/// An ISO 9660 volume descriptor: a type, `CD001`, version 1.
pub(super) fn is_iso(head: &[u8]) -> bool {
    let kind = head.get(ISO_AT).is_some_and(|kind| matches!(kind, 0..=3 | 255));
    kind && has(head, ISO_AT + 1, b"CD001\x01")
}

/// A boot sector with a partition table in it: every entry is active or not, and at least one has a type and a length.
pub(super) fn is_partitioned(head: &[u8]) -> bool {
    let Some(table) = array::<66>(head, MBR_AT) else { return false };
    let (entries, signature) = (table.as_chunks::<16>().0, table.ends_with(b"\x55\xaa"));
    let sane = entries.iter().all(|[status, ..]| matches!(status, 0 | 0x80));
    let used =
        |entry: &[u8; 16]| matches!(entry, [_, _, _, _, kind, .., a, b, c, d] if *kind != 0 && a | b | c | d != 0);
    signature && sane && entries.iter().any(used)
}

/// The header of a GUID partition table, for sectors of 512 bytes.
pub(super) fn is_gpt(head: &[u8]) -> bool {
    has(head, GPT_AT, b"EFI PART")
}

pub(super) const ISO_AT: usize = 32768;
pub(super) const GPT_AT: usize = 512;
/// The partition table in a boot sector.
pub(super) const MBR_AT: usize = 446;

/// Offset, magic, sign; what says more comes first.
const SIGNS: [(usize, &[u8], RawSign); 24] = [
    (GPT_AT, b"EFI PART", RawSign::Gpt),
    (4096, b"EFI PART", RawSign::Gpt),
    (3, b"NTFS    ", RawSign::Ntfs),
    (3, b"EXFAT   ", RawSign::ExFat),
    (54, b"FAT12   ", RawSign::Fat),
    (54, b"FAT16   ", RawSign::Fat),
    (82, b"FAT32   ", RawSign::Fat),
    (510, b"\x55\xaa", RawSign::Mbr),
    (512, b"PM\0\0", RawSign::Apm),
    (512, b"LABELONE", RawSign::Lvm),
    (0, b"LABELONE", RawSign::Lvm),
    (1024, b"LABELONE", RawSign::Lvm),
    (1536, b"LABELONE", RawSign::Lvm),
    (0, b"XFSB", RawSign::Xfs),
    (0, b"hsqs", RawSign::Squashfs),
    (32, b"NXSB", RawSign::Apfs),
    (1024, b"\x10\x20\xf5\xf2", RawSign::F2fs),
    (1024, b"\xe2\xe1\xf5\xe0", RawSign::Erofs),
    (1024, b"H+\0\x04", RawSign::Hfs),
    (1024, b"HX\0\x05", RawSign::Hfs),
    (1080, b"\x53\xef", RawSign::Ext),
    (4086, b"SWAPSPACE2", RawSign::Swap),
    (8182, b"SWAPSPACE2", RawSign::Swap),
    (65526, b"SWAPSPACE2", RawSign::Swap),
];
