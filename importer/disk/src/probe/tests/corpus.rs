//! Every image that other people made.

use super::*;

/// What the index calls a file, and what it is. For most files the former decides the latter.
fn expected(name: &str, format: &str) -> &'static str {
    match name {
        "qemu-iotests/grub_mbr.raw" | "dfvfs/mbr.raw" | "vmdk-rs/vmfs_thick-flat.vmdk" => return "Raw(Mbr)",
        "dfvfs/ufs1.raw" | "dfvfs/ufs2.raw" => return "Raw(Mbr)",
        "dfvfs/fat12.raw" => return "Raw(Fat)",
        "dfvfs/ntfs.raw" | "dfvfs/vss.raw" => return "Raw(Ntfs)",
        "libvirt/raw" => return "Raw(Blank)",
        // The volume descriptors of an ISO image, without the 32 KiB before them: nothing that could be told.
        "go-diskfs/volrecords.iso" => return "Raw(None)",
        // The index has them as raw because an encoding is wrong inside; no one would boot them.
        "govmomi-ovf/sunVHW-DiskTypes-invalid.ovf" | "govmomi-ovf/sunVHW-DiskTypes_invalidUTF.ovf" => {
            return "got an OVF";
        }
        "dfvfs/hfsplus.hdd/DiskDescriptor.xml" => return "got XML",
        _ => {}
    }
    match format {
        "qcow2" => "Qcow2",
        "vmdk-sparse" => "VmdkSparse",
        "vmdk-descriptor" => "VmdkDescriptor",
        "vhd" | "vhd (qemu:vpc)" => "VhdDynamic",
        // Which qemu takes for raw.
        "vhd (qemu:raw)" => "Raw(Mbr) FixedVhd",
        "vhdx" => "Vhdx",
        "qed" => "Qed",
        "parallels" => "Parallels",
        "iso9660 (qemu:raw)" => "Iso",
        "raw-gpt" => "Raw(Gpt)",
        "raw-ext" => "Raw(Ext)",
        "luks1" => "luks1: an encrypted volume",
        "sparseimage" => "sparseimage: an Apple sparse image",
        "raw? (qemu:bochs)" => "bochs: ",
        "cloop" => "cloop: ",
        "dmg" => "Raw(None) dmg: ",
        "gz" => "looks like gzip",
        "bz2" => "looks like bzip2",
        "xz" => "looks like xz",
        "lz4" => "looks like lz4",
        "lz4-legacy" => "looks like lz4 (old format)",
        "zstd" => "looks like zstd",
        "zstd/lz4-skippable" => "looks like zstd or lz4 (skippable frame)",
        "tar" => "looks like tar",
        "ovf/xml" => "got an OVF",
        other => panic!("{name}: a format {other} that this test doesn't know"),
    }
}

#[test]
fn every_file_is_what_it_is() {
    let Some(corpus) = fixtures::corpus::corpus() else { return };
    let mut wrong = Vec::new();
    for row in &corpus.rows {
        let file = row.bytes();
        let verdict = match probe(&file[..file.len().min(HEAD_LEN)]) {
            Ok(verdict @ (Verdict::Iso | Verdict::Raw(_))) => match tail(file.last_chunk().unwrap(), row.size) {
                Ok(None) => format!("{verdict:?}"),
                Ok(Some(vhd)) => format!("{verdict:?} {vhd:?}"),
                Err(error) => format!("{verdict:?} {error}"),
            },
            Ok(verdict) => format!("{verdict:?}"),
            Err(error) => error.to_string().trim_start_matches("not a disk image: ").to_owned(),
        };
        if !verdict.starts_with(expected(row.name(), &row.format)) {
            wrong.push(format!("{} ({}): {verdict}", row.path, row.format));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(corpus.rows.len() >= 160, "{}", corpus.rows.len());
}
