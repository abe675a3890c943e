//! Disk image formats with a signature of their own.

use super::{Verdict, array, has, sign};
use crate::{Error, Kind, Result, SECTOR};

/// The format whose signature the file carries. Refuses those we don't read by name, and two signatures at once.
pub(super) fn find(head: &[u8]) -> Result<Option<Verdict>> {
    if let Some(error) = unread(head) {
        return Err(error);
    }
    let at_start = MAGICS.iter().find(|(magic, _)| has(head, 0, magic)).map(|(_, verdict)| *verdict);
    let at_start = at_start.or_else(|| is_descriptor(head).then_some(Verdict::VmdkDescriptor));
    let vdi = has(head, VDI_AT, VDI_MAGIC);
    let Some(verdict) = at_start.or(vdi.then_some(Verdict::Vdi)) else { return Ok(None) };
    if let Some((other, at)) = clash(head, verdict, vdi) {
        let message = format!(
            "the file carries the signatures of two formats, {} and {other}: what it holds depends on who reads it",
            name(verdict)
        );
        return Err(Error::new(Kind::Corrupt, message).at(at));
    }
    Ok(Some(verdict))
}

/// A second signature where the container, by its own header, can't have guest data.
fn clash(head: &[u8], verdict: Verdict, vdi: bool) -> Option<(&'static str, u64)> {
    let found = [
        ("vdi", VDI_AT, vdi && verdict != Verdict::Vdi),
        ("a partitioned raw disk", sign::MBR_AT, sign::is_partitioned(head)),
        ("a partitioned raw disk", sign::GPT_AT, sign::is_gpt(head)),
        ("iso", sign::ISO_AT, sign::is_iso(head)),
    ];
    let data = data_start(head, verdict);
    found.into_iter().filter(|(_, _, there)| *there).map(|(name, at, _)| (name, at as u64)).find(|(_, at)| *at < data)
}

/// Before which place in the file there can be no guest data, by the header alone. A small-cluster qcow2 of an ISO may
/// well have the sector with `CD001` where an ISO would have it; in a header or a table it is a trap. As much as the
/// header must have where it is cut or impossible: the parser then says so.
fn data_start(head: &[u8], verdict: Verdict) -> u64 {
    let le32 = |at| array(head, at).map(u32::from_le_bytes).map(u64::from);
    let le64 = |at| array(head, at).map(u64::from_le_bytes);
    let start = match verdict {
        Verdict::Qcow2 => array(head, 20).map(u32::from_be_bytes).and_then(|bits| 1u64.checked_shl(bits)),
        Verdict::VmdkSparse => le64(64).and_then(|sectors| sectors.checked_mul(SECTOR)),
        Verdict::Vdi => le32(0x158),
        Verdict::Vhdx => Some(1 << 20),
        Verdict::Qed => le32(4).zip(le32(12)).map(|(cluster, clusters)| cluster * clusters),
        Verdict::Parallels => le32(32).map(|entries| 64 + 4 * entries),
        // Text, all of it.
        Verdict::VmdkDescriptor => Some(u64::MAX),
        // The copy of the footer and the header behind it.
        Verdict::VhdDynamic => Some(1536),
        Verdict::VmdkCowd | Verdict::VmdkSeSparse | Verdict::Iso | Verdict::Raw(_) => None,
    };
    start.unwrap_or(0).max(SECTOR)
}

/// A text that begins like a VMDK descriptor: comments, then a version, as qemu knows it, or the usual first line.
fn is_descriptor(head: &[u8]) -> bool {
    let head = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head);
    let start = head.trim_ascii_start();
    let title = b"# Disk DescriptorFile";
    if start.get(..title.len()).is_some_and(|start| start.eq_ignore_ascii_case(title)) {
        return true;
    }
    let mut lines = start.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    let first = lines.find(|line| !line.is_empty() && !line.starts_with(b"#")).unwrap_or_default();
    let version = first.strip_prefix(b"version").map(<[u8]>::trim_ascii_start);
    version.is_some_and(|rest| rest.starts_with(b"=")) && lines.take(40).any(|line| line.starts_with(b"createType"))
}

/// Disk images that we know and don't read.
fn unread(head: &[u8]) -> Option<Error> {
    if has(head, 0, b"QFI\xfb\0\0\0\x01") {
        let message = "version 1 is not read; convert it first with qemu-img convert -O qcow2";
        return Some(Error::new(Kind::Unsupported, message).of("qcow").at(4));
    }
    let (_, kind, name, message) = UNREAD.iter().find(|(magic, ..)| has(head, 0, magic))?;
    Some(Error::new(*kind, *message).of(name).at(0))
}

fn name(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Qcow2 => "qcow2",
        Verdict::VmdkSparse | Verdict::VmdkDescriptor | Verdict::VmdkCowd | Verdict::VmdkSeSparse => "vmdk",
        Verdict::Vdi => "vdi",
        Verdict::VhdDynamic => "vhd",
        Verdict::Vhdx => "vhdx",
        Verdict::Qed => "qed",
        Verdict::Parallels => "parallels",
        Verdict::Iso => "iso",
        Verdict::Raw(_) => "raw",
    }
}

const MAGICS: [(&[u8], Verdict); 9] = [
    (b"QFI\xfb", Verdict::Qcow2),
    (b"KDMV", Verdict::VmdkSparse),
    (b"COWD", Verdict::VmdkCowd),
    (b"\xbe\xba\xfe\xca\0\0\0\0", Verdict::VmdkSeSparse),
    (b"conectix", Verdict::VhdDynamic),
    (b"vhdxfile", Verdict::Vhdx),
    (b"QED\0", Verdict::Qed),
    (b"WithoutFreeSpace", Verdict::Parallels),
    (b"WithouFreSpacExt", Verdict::Parallels),
];

/// Behind a line of text, in which nobody looks for anything.
const VDI_AT: usize = 0x40;
const VDI_MAGIC: &[u8] = b"\x7f\x10\xda\xbe";

/// Magic at 0, kind, name, what to do.
const UNREAD: [(&[u8], Kind, &str, &str); 16] = [
    (b"LUKS\xba\xbe\0\x01", Kind::Encrypted, "luks1", DECRYPT),
    (b"LUKS\xba\xbe\0\x02", Kind::Encrypted, "luks2", DECRYPT),
    (b"LUKS\xba\xbe", Kind::Encrypted, "luks", DECRYPT),
    (b"encrcdsa", Kind::Encrypted, "dmg", "an encrypted Apple disk image; decrypt it first with hdiutil convert"),
    (b"EVF\x09\x0d\x0a\xff\0", Kind::Unsupported, "ewf", EXPORT),
    (b"EVF2\x0d\x0a\x81", Kind::Unsupported, "ewf2", EXPORT),
    (b"LVF\x09\x0d\x0a\xff\0", Kind::Unsupported, "ewf", EXPORT),
    (
        b"AFF10\r\n\0",
        Kind::Unsupported,
        "aff",
        "a forensic image (AFF) is not read; export it to raw first with affcat",
    ),
    (
        b"sprs\0\0\0\x03",
        Kind::Unsupported,
        "sparseimage",
        "an Apple sparse image is not read; convert it first with hdiutil convert -format UDTO",
    ),
    (
        b"#!/bin/sh\n#V2.0 Format\n",
        Kind::Unsupported,
        "cloop",
        "a compressed loop image is not read; convert it first with qemu-img convert",
    ),
    (
        b"Bochs Virtual HD Image\0",
        Kind::Unsupported,
        "bochs",
        "a Bochs image is not read; convert it first with qemu-img convert",
    ),
    (
        b"\x3a\xff\x26\xed\x01\0",
        Kind::Unsupported,
        "android-sparse",
        "an Android sparse image is not read; unfold it first with simg2img",
    ),
    (
        b"VMA\0\0\0\0\x01",
        Kind::Unsupported,
        "vma",
        "a Proxmox backup is not read; extract its disks first with vma extract",
    ),
    (
        b"partclone-image",
        Kind::Unsupported,
        "partclone",
        "a partclone image is not read; restore it to a raw image first with partclone.restore",
    ),
    (b"MSWIM\0\0\0", Kind::Unsupported, "wim", "a Windows image (WIM) holds files, not a disk"),
    (
        b"\0\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\0",
        Kind::Unsupported,
        "cd",
        "raw CD sectors of 2352 bytes (bin/cue) are not read; convert them to ISO first",
    ),
];

const DECRYPT: &str = "an encrypted volume is not read; open it with cryptsetup and import what is inside";
const EXPORT: &str = "a forensic image (EWF, E01) is not read; export it to raw first with ewfexport";
