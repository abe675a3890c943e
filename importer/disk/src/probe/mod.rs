//! What a file is, by its bytes alone.
//!
//! One decision per import, from signatures at fixed places: never from a name or a content type, and never again from
//! guest data. A file that carries the signatures of two formats is refused, because two programs would read two
//! different disks in it; the exception is ISO 9660, whose first 32 KiB belong to anyone (a hybrid image has a partition
//! table there).
//!
//! The start of a file can't tell a raw disk from a fixed VHD or a DMG, which are known by their last 512 bytes:
//! [`tail`] looks at those. [`Raw`](crate::raw::Raw) and [`RawStream`](crate::raw::RawStream) do so by themselves.

mod container;
mod foreign;
mod sign;
#[cfg(test)]
mod tests;
mod text;

pub use sign::RawSign;

use crate::vhd::{FixedVhd, fixed_footer};
use crate::{Error, Kind, Result, SECTOR};

/// What a file is, as far as its start tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// qcow2; also versions that its parser refuses by number.
    Qcow2,
    /// A VMDK with tables or markers: monolithicSparse, streamOptimized, or a part of a split one.
    VmdkSparse,
    /// A VMDK descriptor alone: a text that names the files with the data.
    VmdkDescriptor,
    /// A VMDK of ESX, vmfsSparse.
    VmdkCowd,
    /// A VMDK of ESX, seSparse.
    VmdkSeSparse,
    /// VirtualBox.
    Vdi,
    /// A VHD that begins with a copy of its footer: dynamic or differencing.
    VhdDynamic,
    /// VHDX.
    Vhdx,
    /// QED.
    Qed,
    /// A Parallels expandable image.
    Parallels,
    /// ISO 9660, hybrid or not: copied as it is, to be seen as a CD-ROM. A fixed VHD as long as its tail was not seen.
    Iso,
    /// None of these: the bytes of a disk as they are. A fixed VHD as long as its tail was not seen.
    Raw(RawSign),
}

/// How much of a file's start [`probe`] wants, in bytes.
pub const HEAD_LEN: usize = 64 << 10;

/// How much of a file's end [`tail`] wants, in bytes.
pub const TAIL_LEN: usize = 512;

/// Decides what a file is. `head` is its first 64 KiB, after all wrappers; when it is shorter, it is the whole file.
///
/// Data without any sign is taken for a raw disk: data disks and swap-less scratch disks have none, and neither have
/// encrypted ones. Text and the signatures of other kinds of files are not, so that an error page, a film or an archive
/// never becomes a disk. Of a plain text that is longer than the head, only its length tells: see [`whole`].
///
/// # Errors
/// - [`Kind::NotADisk`]: the file is empty, shorter than a sector, or something else, which is named;
/// - [`Kind::Unsupported`], [`Kind::Encrypted`]: a disk image we don't read, by name;
/// - [`Kind::Corrupt`]: the signatures of two formats.
pub fn probe(head: &[u8]) -> Result<Verdict> {
    if head.is_empty() {
        return Err(Error::new(Kind::NotADisk, "not a disk image: the file is empty (0 bytes)"));
    }
    if let Some(verdict) = container::find(head)? {
        return Ok(verdict);
    }
    if sign::is_iso(head) {
        return Ok(Verdict::Iso);
    }
    if let Some(error) = foreign::by_magic(head) {
        return Err(error);
    }
    let sign = sign::find(head);
    if sign == RawSign::None {
        text::refuse(head)?;
    }
    if (head.len() as u64) < SECTOR {
        let message = format!("not a disk image: the file has {} bytes, less than a sector of {SECTOR}", head.len());
        return Err(Error::new(Kind::NotADisk, message));
    }
    Ok(Verdict::Raw(sign))
}

/// Whether a file that begins with `head`, and that [`probe`] took for a raw disk, can be one with its `file_len` bytes.
/// Ask as soon as the length is known.
///
/// # Errors
/// [`Kind::NotADisk`] for text that is no whole number of sectors.
pub fn whole(head: &[u8], file_len: u64) -> Result<()> {
    if sign::find(head) == RawSign::None { text::refuse_odd(head, file_len) } else { Ok(()) }
}

/// Looks at the last 512 bytes of a file of `file_len` bytes whose start says ISO or raw. `None`: it is what its start
/// says.
///
/// # Errors
/// [`Kind::Unsupported`] for a DMG; what [`fixed_footer`] refuses.
pub fn tail(tail: &[u8; TAIL_LEN], file_len: u64) -> Result<Option<FixedVhd>> {
    // Magic, version 4, header size 512.
    if tail.starts_with(b"koly\0\0\0\x04\0\0\x02\0") {
        let message = "an Apple disk image (DMG) is not read; convert it first, with qemu-img convert -f dmg or with \
                       hdiutil convert -format UDTO";
        return Err(Error::new(Kind::Unsupported, message).of("dmg").at(file_len.saturating_sub(TAIL_LEN as u64)));
    }
    fixed_footer(tail, file_len)
}

/// Whether `magic` is at `at`.
fn has(head: &[u8], at: usize, magic: &[u8]) -> bool {
    head.get(at..).is_some_and(|rest| rest.starts_with(magic))
}

/// The bytes at `at`.
fn array<const N: usize>(head: &[u8], at: usize) -> Option<[u8; N]> {
    head.get(at..)?.first_chunk().copied()
}
