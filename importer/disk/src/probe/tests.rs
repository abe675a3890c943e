mod corpus;
mod text;

use fixtures::content::Random;
use fixtures::images::catalogue;

use super::*;

/// Bytes and where they are.
type Part<'a> = (usize, &'a [u8]);

/// A head of 64 KiB of zeros with these bytes at these places.
fn head(parts: &[Part<'_>]) -> Vec<u8> {
    let mut head = vec![0; HEAD_LEN];
    for (at, bytes) in parts {
        head[*at..*at + bytes.len()].copy_from_slice(bytes);
    }
    head
}

const QCOW2: Part<'static> = (0, b"QFI\xfb\0\0\0\x03");
const CLUSTERS_OF_64K: Part<'static> = (20, b"\0\0\0\x10");
const CLUSTERS_OF_4K: Part<'static> = (20, b"\0\0\0\x0c");
const VDI: Part<'static> = (0x40, b"\x7f\x10\xda\xbe");
const ISO: Part<'static> = (32768, b"\x01CD001\x01");
const GPT: Part<'static> = (512, b"EFI PART");
/// One partition of type 0x83, and the signature.
const MBR: Part<'static> =
    (446, b"\x80\0\x02\0\x83\0\0\0\0\x08\0\0\0\x08\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x55\xaa");

#[test]
fn formats_and_signs() {
    let raw = Verdict::Raw;
    let cases: [(&[Part<'_>], Verdict); 33] = [
        (&[QCOW2], Verdict::Qcow2),
        (&[(0, b"QFI\xfb\0\0\0\x02")], Verdict::Qcow2),
        // Versions to come are for the parser to refuse.
        (&[(0, b"QFI\xfb\0\0\0\x09")], Verdict::Qcow2),
        (&[(0, b"KDMV")], Verdict::VmdkSparse),
        (&[(0, b"COWD")], Verdict::VmdkCowd),
        (&[(0, b"\xbe\xba\xfe\xca\0\0\0\0")], Verdict::VmdkSeSparse),
        (&[(0, b"conectix")], Verdict::VhdDynamic),
        (&[(0, b"vhdxfile")], Verdict::Vhdx),
        (&[(0, b"<<< Oracle VM VirtualBox Disk Image >>>\n"), VDI], Verdict::Vdi),
        (&[VDI], Verdict::Vdi),
        (&[(0, b"QED\0")], Verdict::Qed),
        (&[(0, b"WithoutFreeSpace")], Verdict::Parallels),
        (&[(0, b"WithouFreSpacExt")], Verdict::Parallels),
        (&[ISO], Verdict::Iso),
        (&[ISO, MBR], Verdict::Iso),
        (&[ISO, GPT, MBR], Verdict::Iso),
        // The first 32 KiB of an ISO are anybody's.
        (&[ISO, (0, b"MZ\x90\0\x03\0\0\0\x04\0")], Verdict::Iso),
        (&[(32768, b"\0CD001\x01")], Verdict::Iso),
        (&[(32768, b"\x09CD001\x01")], raw(RawSign::None)),
        (&[MBR], raw(RawSign::Mbr)),
        (&[MBR, GPT], raw(RawSign::Gpt)),
        (&[(4096, b"EFI PART")], raw(RawSign::Gpt)),
        (&[(3, b"NTFS    "), (510, b"\x55\xaa")], raw(RawSign::Ntfs)),
        (&[(3, b"EXFAT   "), (510, b"\x55\xaa")], raw(RawSign::ExFat)),
        (&[(82, b"FAT32   "), (510, b"\x55\xaa")], raw(RawSign::Fat)),
        (&[(1080, b"\x53\xef")], raw(RawSign::Ext)),
        (&[(0, b"XFSB")], raw(RawSign::Xfs)),
        (&[(0, b"hsqs")], raw(RawSign::Squashfs)),
        (&[(512, b"LABELONE")], raw(RawSign::Lvm)),
        (&[(4086, b"SWAPSPACE2")], raw(RawSign::Swap)),
        (&[], raw(RawSign::Blank)),
        (&[(77, b"\x01")], raw(RawSign::None)),
        (&[(0, b"hello\n")], raw(RawSign::None)),
    ];
    for (parts, verdict) in cases {
        assert_eq!(probe(&head(parts)), Ok(verdict), "{parts:?}");
    }
}

#[test]
fn two_signatures_are_refused() {
    let overhead_of_64k: Part<'_> = (64, b"\x80\0\0\0\0\0\0\0");
    let cases: [(&[Part<'_>], &str, u64); 13] = [
        (&[QCOW2, CLUSTERS_OF_64K, VDI], "qcow2 and vdi", 64),
        (&[(0, b"KDMV"), VDI], "vmdk and vdi", 64),
        (&[(0, b"vhdxfile"), VDI], "vhdx and vdi", 64),
        (&[QCOW2, CLUSTERS_OF_64K, ISO], "qcow2 and iso", 32768),
        (&[(0, b"vhdxfile"), ISO], "vhdx and iso", 32768),
        (&[(0, b"KDMV"), overhead_of_64k, ISO], "vmdk and iso", 32768),
        (&[(0, b"QED\0\0\0\x01\0\0\0\0\0\x01\0\0\0"), ISO], "qed and iso", 32768),
        (&[VDI, (0x158, b"\0\0\x10\0"), ISO], "vdi and iso", 32768),
        (&[(0, b"WithouFreSpacExt"), (32, b"\0\0\x01\0"), ISO], "parallels and iso", 32768),
        (&[(0, b"# Disk DescriptorFile\n"), ISO], "vmdk and iso", 32768),
        (&[QCOW2, CLUSTERS_OF_4K, MBR], "qcow2 and a partitioned raw disk", 446),
        (&[(0, b"conectix"), MBR], "vhd and a partitioned raw disk", 446),
        (&[QCOW2, CLUSTERS_OF_64K, GPT], "qcow2 and a partitioned raw disk", 512),
    ];
    for (parts, names, at) in cases {
        let error = probe(&head(parts)).unwrap_err();
        assert_eq!((error.kind(), error.offset()), (Kind::Corrupt, Some(at)), "{parts:?}");
        assert!(error.to_string().contains(&format!("two formats, {names}: ")), "{error}");
    }
}

/// Where a container may have its guest's data, the guest's signatures mean nothing.
#[test]
fn a_signature_in_guest_data_is_not_one() {
    let cases: [(&[Part<'_>], Verdict); 6] = [
        (&[QCOW2, CLUSTERS_OF_4K, ISO], Verdict::Qcow2),
        (&[QCOW2, (20, b"\0\0\0\x09"), GPT], Verdict::Qcow2),
        (&[(0, b"KDMV"), (64, b"\x40\0\0\0\0\0\0\0"), ISO], Verdict::VmdkSparse),
        (&[VDI, (0x158, b"\0\x42\0\0"), ISO], Verdict::Vdi),
        (&[(0, b"conectix"), ISO], Verdict::VhdDynamic),
        (&[(0, b"WithouFreSpacExt"), (32, b"\x10\0\0\0"), ISO], Verdict::Parallels),
    ];
    for (parts, verdict) in cases {
        assert_eq!(probe(&head(parts)), Ok(verdict), "{parts:?}");
    }
}

/// What qemu-img makes of a hybrid ISO is never ambiguous, wherever the pieces of the disk land.
#[test]
fn images_of_a_hybrid_iso_are_what_they_are() {
    let dir = tempfile::tempdir().unwrap();
    let (raw, out) = (dir.path().join("disk.raw"), dir.path().join("image"));
    let mut disk = head(&[ISO, GPT, MBR]);
    disk.resize(3 << 20, 0);
    disk[1 << 20..].fill(b'x');
    let formats: [(&str, &[&str]); 8] = [
        ("qcow2", &["512", "1k", "2k", "4k", "8k", "16k", "32k", "64k", "2M"]),
        ("qed", &["4k", "8k", "16k", "32k", "64k"]),
        ("parallels", &["512", "4k", "16k", "32k", "64k"]),
        ("vdi", &[""]),
        ("vpc", &[""]),
        ("vhdx", &[""]),
        ("vmdk", &[""]),
        ("vmdk", &["subformat=streamOptimized"]),
    ];
    for blank_start in [false, true] {
        if blank_start {
            // Only what the sign is in is allocated, so that it lands early.
            disk[..32768].fill(0);
        }
        std::fs::write(&raw, &disk).unwrap();
        for (format, options) in formats {
            for option in options {
                let mut convert = fixtures::tool("qemu-img");
                convert.args(["convert", "-f", "raw", "-O", format]);
                match option.is_empty() || option.contains('=') {
                    true if option.is_empty() => &mut convert,
                    true => convert.args(["-o", option]),
                    false => convert.args(["-o", &format!("cluster_size={option}")]),
                };
                fixtures::run(convert.args([&raw, &out]));
                assert_eq!(probe(&start_of(&out)), Ok(named(format)), "{format} {option} {blank_start}");
            }
        }
    }
}

/// Every honest image the project can make, but for the many histories of qcow2.
#[test]
fn images_are_what_they_were_made_as() {
    let dir = tempfile::tempdir().unwrap();
    for recipe in catalogue().iter().filter(|recipe| recipe.format != "qcow2") {
        let image = recipe.build(dir.path());
        let verdict = probe(&start_of(&image.inner)).unwrap();
        match (recipe.format, verdict) {
            ("raw", Verdict::Iso) => assert!(recipe.cdrom, "{recipe:?}"),
            ("raw", Verdict::Raw(_)) => assert!(!recipe.cdrom, "{recipe:?}"),
            // Fixed: known by its tail.
            ("vpc", Verdict::Raw(_)) => {
                let file = std::fs::read(&image.inner).unwrap();
                assert!(tail(file.last_chunk().unwrap(), file.len() as u64).unwrap().is_some(), "{recipe:?}");
            }
            (format, verdict) => assert_eq!(verdict, named(format), "{recipe:?}"),
        }
    }
}

fn start_of(path: &std::path::Path) -> Vec<u8> {
    use std::io::Read as _;
    let mut head = Vec::new();
    std::fs::File::open(path).unwrap().take(HEAD_LEN as u64).read_to_end(&mut head).unwrap();
    head
}

/// What a format of qemu-img is here.
fn named(format: &str) -> Verdict {
    match format {
        "qcow2" => Verdict::Qcow2,
        "qed" => Verdict::Qed,
        "parallels" => Verdict::Parallels,
        "vdi" => Verdict::Vdi,
        "vpc" => Verdict::VhdDynamic,
        "vhdx" => Verdict::Vhdx,
        "vmdk" => Verdict::VmdkSparse,
        other => panic!("{other}"),
    }
}

#[test]
fn disk_images_we_do_not_read_are_refused_by_name() {
    let cases: [(&[u8], Kind, &str); 12] = [
        (
            b"QFI\xfb\0\0\0\x01",
            Kind::Unsupported,
            "qcow: version 1 is not read; convert it first with qemu-img convert",
        ),
        (b"LUKS\xba\xbe\0\x01", Kind::Encrypted, "luks1: an encrypted volume is not read"),
        (b"LUKS\xba\xbe\0\x02", Kind::Encrypted, "luks2: an encrypted volume is not read"),
        (b"encrcdsa\0\0\0\x02", Kind::Encrypted, "dmg: an encrypted Apple disk image"),
        (b"EVF\x09\x0d\x0a\xff\0\x01", Kind::Unsupported, "ewf: a forensic image (EWF, E01) is not read"),
        (b"EVF2\x0d\x0a\x81\0", Kind::Unsupported, "ewf2: a forensic image (EWF, E01) is not read"),
        (b"sprs\0\0\0\x03", Kind::Unsupported, "sparseimage: an Apple sparse image is not read"),
        (b"#!/bin/sh\n#V2.0 Format\n", Kind::Unsupported, "cloop: a compressed loop image is not read"),
        (b"Bochs Virtual HD Image\0", Kind::Unsupported, "bochs: a Bochs image is not read"),
        (b"\x3a\xff\x26\xed\x01\0\0\0", Kind::Unsupported, "android-sparse: an Android sparse image is not read"),
        (b"VMA\0\0\0\0\x01", Kind::Unsupported, "vma: a Proxmox backup is not read"),
        (b"\0\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\0", Kind::Unsupported, "cd: raw CD sectors of 2352 bytes"),
    ];
    for (magic, kind, message) in cases {
        let error = probe(&head(&[(0, magic)])).unwrap_err();
        assert_eq!((error.kind(), error.to_string().starts_with(message)), (kind, true), "{message}\n{error}");
    }
}

#[test]
fn other_kinds_of_files_are_named() {
    let exe = std::fs::read(std::env::current_exe().unwrap()).unwrap();
    let cases: [(&[Part<'_>], &str); 39] = [
        (&[(0, b"d8:announce35:udp://tracker")], "a torrent; fetch what it is of"),
        (&[(0, &exe[..4096])], "ELF (a Linux program)"),
        (&[(0, b"\0\0\0\x20ftypisom\0\0\x02\0isomiso2avc1mp41")], "mp4"),
        (&[(0, b"\0\0\0\x14ftypqt  ")], "mov"),
        (&[(0, b"\0\0\x0c\x6amoov")], "mov"),
        (&[(0, b"%PDF-1.7\n")], "pdf"),
        (&[(0, b"PK\x03\x04\x14\0")], "zip"),
        (&[(0, b"7z\xbc\xaf\x27\x1c\0\x04")], "7z"),
        (&[(0, b"Rar!\x1a\x07\x01\0")], "rar"),
        (&[(0, b"\x1f\x8b\x08\0")], "gzip"),
        (&[(0, b"BZh91AY&SY")], "bzip2"),
        (&[(0, b"\xfd7zXZ\0\0\x04")], "xz"),
        (&[(0, b"\x28\xb5\x2f\xfd")], "zstd"),
        (&[(0, b"\x5a\x2a\x4d\x18\x04\0\0\0")], "zstd or lz4 (skippable frame)"),
        (&[(0, b"\x04\x22\x4d\x18")], "lz4"),
        (&[(0, b"\x5d\0\0\x80\0\xff\xff\xff\xff\xff\xff\xff\xff\0")], "lzma"),
        (&[(0, b"\x1f\x9d\x90")], "compress (.Z)"),
        (&[(0, b"disk.raw"), (257, b"ustar\0")], "tar"),
        (&[(0, b"070701")], "a cpio archive (initramfs)"),
        (&[(0, b"\xed\xab\xee\xdb\x03\0")], "an RPM package"),
        (&[(0, b"!<arch>\ndebian-binary   ")], "a Debian package"),
        (&[(0, b"!<arch>\nfoo.o/")], "an ar archive"),
        (&[(0, b"\xca\xfe\xba\xbe\0\0\0\x34")], "a Java class or macOS program"),
        (
            &[(0, b"MZ\x90\0\x03\0\0\0\x04\0\0\0\xff\xff"), (0x3c, b"\x80\0\0\0"), (0x80, b"PE\0\0")],
            "a Windows or DOS program",
        ),
        (&[(0, b"MZ\x90\0\x03\0\0\0\x04\0\0\0\xff\xff")], "a Windows or DOS program"),
        // An EFI stub is both, and has the signature of a boot sector.
        (
            &[(0, b"MZ\xea\x07"), (0x3c, b"\x82\0\0\0"), (0x82, b"PE\0\0"), (510, b"\x55\xaa"), (514, b"HdrS")],
            "a Linux kernel",
        ),
        (&[(0, b"\x89PNG\x0d\x0a\x1a\x0a")], "png"),
        (&[(0, b"\xff\xd8\xff\xe0\0\x10JFIF")], "jpeg"),
        (&[(0, b"GIF89a")], "gif"),
        (&[(0, b"RIFF\0\0\x01\0AVI LIST")], "avi"),
        (&[(0, b"\x1a\x45\xdf\xa3")], "mkv or webm"),
        (&[(0, b"OggS\0")], "ogg"),
        (&[(0, b"ID3\x04\0")], "mp3"),
        (&[(0, b"SQLite format 3\0")], "an SQLite database"),
        (&[(0, b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1")], "an Office document or Windows installer"),
        (&[(0, b"ANDROID!")], "an Android boot image"),
        (&[(0, b"\x27\x05\x19\x56")], "a U-Boot image"),
        (&[(0, b"Salted__")], "a file encrypted by openssl"),
        (&[(0, b"\0asm\x01\0\0\0")], "WebAssembly"),
    ];
    for (parts, what) in cases {
        let error = probe(&head(parts)).unwrap_err();
        assert_eq!((error.kind(), error.to_string()), (Kind::NotADisk, format!("not a disk image: looks like {what}")));
    }
}

/// Encrypted disks begin with random bytes, and a few of those with two that mean something else.
#[test]
fn random_bytes_are_a_disk() {
    let mut random = Random::new(11);
    let cases: [(&[u8], u32); 6] = [(b"", 0), (b"BM", 0), (b"BZh", 0), (b"RIFF", 0), (b"MZ", 2), (b"\x1f\x8b", 40)];
    for (start, at_most) in cases {
        let mut refused = 0;
        for _ in 0..5000 {
            let mut bytes = vec![0; 1024];
            random.fill(&mut bytes);
            bytes[..start.len()].copy_from_slice(start);
            refused += u32::from(probe(&bytes).is_err());
        }
        assert!(refused <= at_most, "{start:x?}: {refused}");
    }
}

#[test]
fn empty_and_tiny_files_are_refused_by_number() {
    let cases = [
        (0, "the file is empty (0 bytes)"),
        (1, "the file has 1 bytes"),
        (511, "the file has 511 bytes, less than a sector of 512"),
    ];
    for (len, message) in cases {
        let error = probe(&vec![0; len]).unwrap_err();
        assert_eq!(error.kind(), Kind::NotADisk);
        assert!(error.to_string().starts_with(&format!("not a disk image: {message}")), "{error}");
    }
    assert_eq!(probe(&[0; 512]), Ok(Verdict::Raw(RawSign::Blank)));
    // What is cut inside a header is refused by its parser, which knows what is missing.
    assert_eq!(probe(b"QFI\xfb\0\0"), Ok(Verdict::Qcow2));
}

#[test]
fn any_bytes_give_a_verdict() {
    let mut random = Random::new(5);
    let parts =
        [QCOW2, VDI, ISO, GPT, MBR, (0, b"KDMV".as_slice()), (0, b"WithoutFreeSpace"), (0, b"MZ"), (0, b"QED\0")];
    for round in 0..3000 {
        let chosen: Vec<_> = parts.iter().filter(|_| random.below(3) == 0).copied().collect();
        let mut bytes = head(&chosen);
        for _ in 0..random.below(40) {
            let at = random.below(if round % 2 == 0 { 600 } else { HEAD_LEN as u64 }) as usize;
            bytes[at] = random.number() as u8;
        }
        let _ = probe(&bytes);
        let _ = probe(&bytes[..random.below(600) as usize]);
    }
}

#[test]
fn the_tail_tells_a_dmg() {
    let mut end = [0; TAIL_LEN];
    end[..12].copy_from_slice(b"koly\0\0\0\x04\0\0\x02\0");
    let error = tail(&end, 5000).unwrap_err();
    assert_eq!((error.kind(), error.offset()), (Kind::Unsupported, Some(4488)));
    assert!(error.to_string().starts_with("dmg: an Apple disk image (DMG) is not read"), "{error}");
    // Four letters alone are no trailer.
    end[4..12].fill(b'a');
    assert_eq!(tail(&end, 5000), Ok(None));
    assert_eq!(tail(&[0; TAIL_LEN], 512), Ok(None));
}
