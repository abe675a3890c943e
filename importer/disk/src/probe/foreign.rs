//! Files that are no disk at all, named.
//!
//! Magics are long enough, or checked further, so that random bytes (an encrypted disk) are not taken for one.

use super::{array, has};
use crate::{Error, Kind};

/// Something else, by its signature.
pub(super) fn by_magic(head: &[u8]) -> Option<Error> {
    let by_table = || MAGICS.iter().find(|(at, magic, _)| has(head, *at, magic)).map(|(.., what)| *what);
    let what = by_table().or_else(|| by_rule(head))?;
    Some(Error::new(Kind::NotADisk, format!("not a disk image: looks like {what}")))
}

/// Kinds whose signature alone is too short.
fn by_rule(head: &[u8]) -> Option<&'static str> {
    let be32 = |at| array(head, at).map(u32::from_be_bytes);
    if is_dos_program(head) {
        return Some("a Windows or DOS program");
    }
    // The first box of the file, of a plausible size.
    if has(head, 4, b"ftyp") && be32(0).is_some_and(|len| (8..=4096).contains(&len)) {
        return Some(if has(head, 8, b"qt  ") { "mov" } else { "mp4" });
    }
    let movie = [b"moov", b"mdat", b"wide"].iter().any(|kind| has(head, 4, *kind));
    if movie && be32(0).is_some_and(|len| len == 1 || len >= 8) {
        return Some("mov");
    }
    if has(head, 0, b"RIFF") {
        return [(b"AVI ", "avi"), (b"WAVE", "wav"), (b"WEBP", "webp")]
            .iter()
            .find(|(kind, _)| has(head, 8, *kind))
            .map(|(_, what)| *what);
    }
    let [first, second, third, ..] = head else { return None };
    match (first, second, third) {
        (0x1f, 0x8b, 8) => Some("gzip"),
        (0x1f, 0x9d, flags) if flags & 0x60 == 0 && (9..=16).contains(&(flags & 0x1f)) => Some("compress (.Z)"),
        (b'B', b'Z', b'h') if has(head, 4, b"1AY&SY") || has(head, 4, b"\x17\x72\x45\x38\x50\x90") => Some("bzip2"),
        // LZMA alone: the usual properties, a dictionary of a power of two, and the size not known or below 256 GiB.
        (0x5d, 0, 0) if array(head, 1).map(u32::from_le_bytes).is_some_and(u32::is_power_of_two) => {
            let size = array(head, 5).map(u64::from_le_bytes);
            size.is_some_and(|size| size == u64::MAX || size < 1 << 38).then_some("lzma")
        }
        _ if skippable_frame(head) => Some("zstd or lz4 (skippable frame)"),
        _ => None,
    }
}

/// A program for Windows (`MZ` and, where it points, another header) or DOS (`MZ` and a header that makes sense). The
/// boot sector of a disk never begins with MZ: its first bytes are run.
fn is_dos_program(head: &[u8]) -> bool {
    if !has(head, 0, b"MZ") {
        return false;
    }
    let le16 = |at| array(head, at).map(u16::from_le_bytes);
    let new_header = array(head, 0x3c).map(u32::from_le_bytes).and_then(|at| usize::try_from(at).ok());
    let new_header = new_header.is_some_and(|at| {
        [b"PE\0\0".as_slice(), b"NE", b"LE", b"LX"].iter().any(|magic| at > 0x3c && has(head, at, magic))
    });
    let last_page = le16(2).is_some_and(|bytes| bytes < 512);
    let pages = le16(4).is_some_and(|pages| pages > 0);
    let header = le16(8).is_some_and(|paragraphs| (2..=64).contains(&paragraphs));
    new_header || last_page && pages && header
}

fn skippable_frame(head: &[u8]) -> bool {
    array(head, 0).map(u32::from_le_bytes).is_some_and(|magic| magic & !0xf == 0x184d_2a50)
}

/// Offset, magic, what it looks like.
const MAGICS: [(usize, &[u8], &str); 65] = [
    // Archives and packed files. Those we unpack end here when they lie in too many wrappers.
    (0, b"PK\x03\x04", "zip"),
    (0, b"PK\x05\x06", "an empty zip"),
    (0, b"PK\x07\x08", "a split zip"),
    (0, b"7z\xbc\xaf\x27\x1c", "7z"),
    (0, b"Rar!\x1a\x07", "rar"),
    (0, b"MSCF\0\0\0\0", "a cabinet file"),
    (0, b"\xfd7zXZ\0", "xz"),
    (0, b"\x28\xb5\x2f\xfd", "zstd"),
    (0, b"\x04\x22\x4d\x18", "lz4"),
    (0, b"\x02\x21\x4c\x18", "lz4 (old format)"),
    (0, b"LZIP\x01", "lzip"),
    (0, b"\x89LZO\0\x0d\x0a\x1a\x0a", "lzop"),
    (257, b"ustar", "tar"),
    (0, b"070701", "a cpio archive (initramfs)"),
    (0, b"070702", "a cpio archive (initramfs)"),
    (0, b"070707", "a cpio archive (initramfs)"),
    (0, b"!<arch>\ndebian-binary", "a Debian package"),
    (0, b"!<arch>\n", "an ar archive"),
    (0, b"\xed\xab\xee\xdb", "an RPM package"),
    (0, b"xar!\0\x1c", "a xar archive (macOS package)"),
    (0, b"btrfs-stream\0", "a btrfs send stream"),
    // Programs and kernels.
    (0, b"\x7fELF", "ELF (a Linux program)"),
    (0x202, b"HdrS", "a Linux kernel"),
    (0, b"ANDROID!", "an Android boot image"),
    (0, b"\x27\x05\x19\x56", "a U-Boot image"),
    (0, b"\xd0\x0d\xfe\xed", "a device tree or FIT image"),
    (0, b"\xca\xfe\xba\xbe\0\0\0", "a Java class or macOS program"),
    (0, b"\xfe\xed\xfa\xce", "a macOS program"),
    (0, b"\xfe\xed\xfa\xcf", "a macOS program"),
    (0, b"\xce\xfa\xed\xfe", "a macOS program"),
    (0, b"\xcf\xfa\xed\xfe", "a macOS program"),
    (0, b"\0asm\x01\0\0\0", "WebAssembly"),
    (0, b"dex\n03", "an Android program"),
    // Documents, pictures, sound, film.
    (0, b"%PDF-", "pdf"),
    (0, b"%!PS", "PostScript"),
    (0, b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an Office document or Windows installer"),
    (0, b"{\\rtf1", "rtf"),
    (0, b"\x89PNG\x0d\x0a\x1a\x0a", "png"),
    (0, b"GIF87a", "gif"),
    (0, b"GIF89a", "gif"),
    (0, b"\xff\xd8\xff\xdb", "jpeg"),
    (0, b"\xff\xd8\xff\xe0", "jpeg"),
    (0, b"\xff\xd8\xff\xe1", "jpeg"),
    (0, b"\xff\xd8\xff\xe2", "jpeg"),
    (0, b"\xff\xd8\xff\xee", "jpeg"),
    (0, b"II*\0", "tiff"),
    (0, b"MM\0*", "tiff"),
    (0, b"\x1a\x45\xdf\xa3", "mkv or webm"),
    (0, b"OggS\0", "ogg"),
    (0, b"fLaC\0", "flac"),
    (0, b"ID3\x02", "mp3"),
    (0, b"ID3\x03", "mp3"),
    (0, b"ID3\x04", "mp3"),
    (0, b"FLV\x01", "flv"),
    (0, b"\x30\x26\xb2\x75\x8e\x66\xcf\x11", "wmv"),
    (0, b"\0\0\x01\xba", "mpeg"),
    // What leads to a file and is not the file.
    (0, b"d8:announce", "a torrent; fetch what it is of"),
    (0, b"d13:announce-list", "a torrent; fetch what it is of"),
    (0, b"zsync: 0.", "a zsync description; fetch what it is of"),
    // Data.
    (0, b"SQLite format 3\0", "an SQLite database"),
    (0, b"Salted__", "a file encrypted by openssl"),
    (0, b"age-encryption.org/", "a file encrypted by age"),
    (0, b"PACK\0\0\0\x02", "a git pack"),
    (0, b"\xd4\xc3\xb2\xa1\x02\0", "a packet capture"),
    (0, b"wOF2", "a font"),
];
