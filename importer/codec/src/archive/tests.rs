use super::*;
use crate::testing::{Pieces, block, corpus, disk_like, member, sha256, tool};

/// What a member gave: its name, and its bytes with the holes filled.
type Got = (Chosen, Vec<u8>);

fn read(archive: &[u8], disk: Option<&str>, pieces: Pieces) -> Result<Got> {
    let mut member = Member::new(disk.map(str::to_owned));
    let mut pieces = pieces.cut(archive).peekable();
    let mut piece = Bytes::new();
    let mut data = Vec::new();
    loop {
        let end = pieces.peek().is_none();
        match member.next(&mut piece, end)? {
            None => {
                assert!(piece.is_empty() && !end);
                piece = pieces.next().unwrap();
            }
            Some(Part::Data(bytes)) => {
                assert!(member.chosen().is_some(), "known before its first byte");
                data.extend_from_slice(&bytes);
            }
            Some(Part::Hole(len)) => data.resize(data.len() + usize::try_from(len).unwrap(), 0),
            Some(Part::End) => {
                assert_eq!(member.consumed(), archive.len() as u64);
                return Ok((member.chosen().unwrap().clone(), data));
            }
        }
    }
}

fn gives(archive: &[u8], disk: Option<&str>, name: &str, want: &[u8]) {
    for pieces in [Pieces::Whole, Pieces::Of(100), Pieces::Random(5)] {
        let (chosen, data) = read(archive, disk, pieces).unwrap();
        assert_eq!(chosen.name, name);
        assert!(data == want, "{name}");
        assert_eq!(chosen.size, Some(want.len() as u64));
    }
}

fn fails(archive: &[u8], disk: Option<&str>, kind: Kind) -> String {
    let error = read(archive, disk, Pieces::Of(1000)).unwrap_err();
    assert_eq!(error.kind(), kind, "{error}");
    error.to_string()
}

fn archive(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut archive: Vec<u8> = members.iter().flat_map(|(name, data)| member(name.as_bytes(), data, b'0')).collect();
    archive.resize(archive.len() + 1024, 0);
    archive
}

#[test]
fn the_one_disk_among_other_things() {
    let disk = disk_like(50_000);
    let packed = [
        member(b"./", b"", b'5'),
        member(b"./._disk.raw", b"mac", b'0'),
        member(b"./.hidden/x.img", b"mac", b'0'),
        member(b"__MACOSX/disk.raw", b"mac", b'0'),
        member(b"README", b"read me", b'0'),
        member(b"disk.raw.sha256", b"0123", b'0'),
        member(b"SHA256SUMS", b"0123", b'0'),
        member(b"manifest.json", b"{}", b'0'),
        member(b"empty.img", b"", b'0'),
        member(b"current.img", b"", b'2'),
        member(b"./disk.raw", &disk, b'0'),
        member(b"second.img", b"", b'1'),
        member(b"disk.nvram", &[1; 500], b'0'),
        vec![0; 1024],
    ]
    .concat();
    gives(&packed, None, "./disk.raw", &disk);
    gives(&packed, Some("disk.raw"), "./disk.raw", &disk);
    gives(&packed, Some("./disk.raw"), "./disk.raw", &disk);
    // What is small and looks like text can be asked for.
    gives(&packed, Some("manifest.json"), "manifest.json", b"{}");
    // A large file is a disk, whatever its name.
    let large = disk_like(2 << 20);
    gives(&archive(&[("disk.txt", &large)]), None, "disk.txt", &large);
}

#[test]
fn as_gnu_tar_writes_a_cloud_image() {
    let folder = crate::testing::Folder::new("member");
    let path = folder.0.join("disk.raw");
    let file = std::fs::File::create(&path).unwrap();
    file.set_len(4 << 20).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &disk_like(100_000), 1 << 20).unwrap();
    let want = std::fs::read(&path).unwrap();
    let folder = folder.0.to_str().unwrap();
    for format in ["oldgnu", "gnu", "posix"] {
        let packed = tool("tar", &["-cS", "--format", format, "-C", folder, "disk.raw"], b"");
        assert!(packed.len() < 200_000);
        gives(&packed, None, "disk.raw", &want);
    }
}

#[test]
fn several_disks() {
    let (a, b) = (disk_like(3000), disk_like(4000));
    let packed = archive(&[("vm/a.img", &a), ("vm/b.img", &b), ("other/a.img", &b)]);
    let text = fails(&packed, None, Kind::Ambiguous);
    assert!(text.contains("vm/a.img (3000 bytes), vm/b.img (4000 bytes)"), "{text}");
    assert!(text.contains("--disk NAME"), "{text}");
    gives(&packed, Some("b.img"), "vm/b.img", &b);
    gives(&packed, Some("vm/a.img"), "vm/a.img", &a);
    gives(&packed, Some("other/a.img"), "other/a.img", &b);
    assert!(fails(&packed, Some("a.img"), Kind::Ambiguous).contains("full path"));
    let text = fails(&packed, Some("c.img"), Kind::NotFound);
    assert!(text.contains("no file \"c.img\"") && text.contains("vm/a.img (3000 bytes)"), "{text}");
    // The same path twice: an archive that was added to.
    let twice = archive(&[("a.img", &a), ("a.img", &b)]);
    fails(&twice, None, Kind::Ambiguous);
    fails(&twice, Some("a.img"), Kind::Ambiguous);
    // The image of a container.
    let oci = archive(&[("blobs/sha256/aa", &a), ("blobs/sha256/bb", &b), ("oci-layout", b"{}")]);
    assert!(fails(&oci, None, Kind::Ambiguous).contains("oci-archive:"));
}

#[test]
fn no_disk() {
    fails(&[0; 1024], None, Kind::NotFound);
    fails(&archive(&[("README.md", b"hello"), ("empty", b"")]), None, Kind::NotFound);
    let link = [member(b"disk.img", b"", b'2'), member(b"disk", b"", b'5')].concat();
    fails(&link, None, Kind::NotFound);
    fails(&link, Some("disk"), Kind::NotFound);
    assert!(fails(&link, Some("disk.img"), Kind::NotFound).contains("link"));
    // A link beside the file of that name does not matter.
    let both = [member(b"a/disk.img", b"", b'2'), member(b"b/disk.img", b"hello", b'0'), link].concat();
    gives(&both, Some("disk.img"), "b/disk.img", b"hello");
    let many: Vec<_> = (0..50).map(|n| format!("{n}.img")).collect();
    let many: Vec<_> = many.iter().map(|name| (name.as_str(), &b"x"[..])).collect();
    assert!(fails(&archive(&many), Some("x"), Kind::NotFound).contains("15.img (1 bytes), …"));
}

#[test]
fn a_cut_archive_is_not_complete() {
    let packed = archive(&[("disk.img", &disk_like(1000))]);
    // After the last block of the disk all was there.
    for len in (0..512 + 1024).chain(512 + 1025..512 + 1024 + 512) {
        let error = read(&packed[..len], None, Pieces::Whole).map(|_| ()).unwrap_err();
        let want = if len == 0 { Kind::NotFound } else { Kind::Truncated };
        assert_eq!(error.kind(), want, "{len}");
    }
}

fn ovf(files: &[(&str, &str)]) -> Vec<u8> {
    let mut references = String::new();
    let mut disks = String::new();
    for (n, (href, more)) in files.iter().enumerate() {
        references += &format!("<File ovf:href='{href}' ovf:id='file{n}' {more}/>");
        disks += &format!("<Disk ovf:diskId='vmdisk{n}' ovf:fileRef='file{n}' ovf:capacity='{}'/>", n + 1);
    }
    format!(
        "<Envelope xmlns='http://schemas.dmtf.org/ovf/envelope/1' xmlns:ovf='http://schemas.dmtf.org/ovf/envelope/1'>\
         <References>{references}<File ovf:href='cd.iso' ovf:id='iso'/></References><DiskSection>{disks}</DiskSection>\
         </Envelope>"
    )
    .into_bytes()
}

#[test]
fn an_ova_with_one_disk() {
    let disk = disk_like(30_000);
    let iso = disk_like(5000);
    let xml = ovf(&[("vm-disk1.vmdk", "ovf:size='30000'")]);
    let packed =
        archive(&[("vm.ovf", &xml), ("vm.mf", b"SHA1"), ("cd.iso", &iso), ("vm-disk1.vmdk", &disk), ("x.img", &iso)]);
    gives(&packed, None, "vm-disk1.vmdk", &disk);
    for name in ["vm-disk1.vmdk", "vmdisk0"] {
        gives(&packed, Some(name), "vm-disk1.vmdk", &disk);
    }
    assert!(read(&packed, None, Pieces::Whole).unwrap().0.ova);
    let text = fails(&packed, Some("cd.iso"), Kind::NotFound);
    assert!(text.contains("vm-disk1.vmdk (vmdisk0, 1 x byte)"), "{text}");
    // In a folder, with a name that needs quoting in an address, under names with ./ in front.
    let xml = ovf(&[("vm%20disk1.vmdk", "")]);
    let packed = archive(&[("./vm/vm.OVF", &xml), ("./vm disk1.vmdk", &iso), ("./vm/vm disk1.vmdk", &disk)]);
    gives(&packed, None, "vm%20disk1.vmdk", &disk);
    // The descriptor comes in the middle of pieces, or after the disk: then it is one small file more.
    let late = archive(&[("vm-disk1.vmdk", &disk), ("vm.ovf", &xml)]);
    gives(&late, None, "vm-disk1.vmdk", &disk);
}

#[test]
fn an_ova_with_several_disks() {
    let (a, b) = (disk_like(3000), disk_like(4000));
    let xml = ovf(&[("a.vmdk", ""), ("b.vmdk", "")]);
    let packed = archive(&[("vm.ovf", &xml), ("a.vmdk", &a), ("b.vmdk", &b)]);
    let text = fails(&packed, None, Kind::Ambiguous);
    assert!(text.contains("a.vmdk (vmdisk0, 1 x byte), b.vmdk (vmdisk1, 2 x byte)"), "{text}");
    assert!(text.contains("--disk NAME"), "{text}");
    gives(&packed, Some("a.vmdk"), "a.vmdk", &a);
    gives(&packed, Some("vmdisk1"), "b.vmdk", &b);
    // It fails before any data.
    let mut early = Member::new(None);
    let mut input = Bytes::from(packed);
    assert_eq!(early.next(&mut input, false).unwrap_err().kind(), Kind::Ambiguous);
    assert!(early.consumed() < 2048);
}

#[test]
fn chunks_of_an_ova() {
    let disk = disk_like(2500);
    let xml = ovf(&[("d.vmdk", "ovf:size='2500' ovf:chunkSize='1000'")]);
    let (one, two, three) = (&disk[..1000], &disk[1000..2000], &disk[2000..]);
    let name = |n: u32| format!("d.vmdk.{n:09}");
    let build = |parts: &[(u32, &[u8])]| {
        let names: Vec<_> = parts.iter().map(|(n, _)| name(*n)).collect();
        let mut members = vec![("vm.ovf", &xml[..])];
        members.extend(names.iter().zip(parts).map(|(name, (_, data))| (name.as_str(), *data)));
        archive(&members)
    };
    gives(&build(&[(0, one), (1, two), (2, three)]), None, "d.vmdk", &disk);
    fails(&build(&[(0, one), (1, two)]), None, Kind::Truncated);
    fails(&build(&[(0, one), (2, three)]), None, Kind::Unsupported);
    fails(&build(&[(1, two), (0, one)]), None, Kind::Unsupported);
    fails(&build(&[(0, one), (0, one)]), None, Kind::Ambiguous);
    fails(&build(&[(0, three), (1, two)]), None, Kind::Corrupt);
    // As ESXi does: one chunk, and no word of it in the descriptor.
    let xml = ovf(&[("d.vmdk", "")]);
    let packed = archive(&[("vm.ovf", &xml), ("vm.mf", b"x"), ("d.vmdk.000000000", &disk)]);
    let (chosen, data) = read(&packed, None, Pieces::Of(300)).unwrap();
    assert_eq!((chosen.size, data), (None, disk.clone()));
    // A name that only looks like a chunk.
    let packed = archive(&[("vm.ovf", &xml), ("d.vmdk.00000000x", b"x"), ("d.vmdk.bak", b"x"), ("d.vmdk", &disk)]);
    gives(&packed, None, "d.vmdk", &disk);
    let packed = archive(&[("vm.ovf", &xml), ("d.vmdk", &disk), ("d.vmdk.000000000", &disk)]);
    fails(&packed, None, Kind::Ambiguous);
}

#[test]
fn what_an_ova_may_not_say() {
    let disk = disk_like(3000);
    for href in ["http://example.org/d.vmdk", "../d.vmdk", "/d.vmdk", "file:d.vmdk"] {
        let packed = archive(&[("vm.ovf", &ovf(&[(href, "")])), ("d.vmdk", &disk)]);
        let text = fails(&packed, None, Kind::External);
        assert!(text.starts_with("ovf: "), "{text}");
    }
    let packed = archive(&[("vm.ovf", &ovf(&[("d.vmdk", "")])), ("e.vmdk", &disk)]);
    assert!(fails(&packed, None, Kind::NotFound).contains("d.vmdk"));
    fails(&archive(&[("vm.ovf", &ovf(&[])), ("d.vmdk", &disk)]), None, Kind::NotFound);
    fails(&archive(&[("vm.ovf", b""), ("d.vmdk", &disk)]), None, Kind::Corrupt);
    fails(&archive(&[("vm.ovf", b"<!DOCTYPE a []><Envelope/>")]), None, Kind::External);
    let huge = [&block(b"vm.ovf", (1 << 20) + 1, b'0')[..], &[b' '; 4096]].concat();
    fails(&huge, None, Kind::Oversized);
    let link = [member(b"vm.ovf", &ovf(&[("d.vmdk", "")]), b'0'), member(b"d.vmdk", b"", b'2')].concat();
    fails(&link, None, Kind::Unsupported);
}

#[test]
fn real_descriptors_with_real_disks() {
    let Some(corpus) = corpus() else { return };
    let disk = std::fs::read(corpus.join("dfvfs/ext2.vmdk")).unwrap();
    let ovf = |name: &str| std::fs::read(corpus.join(format!("govmomi-ovf/{name}.ovf"))).unwrap();
    let packed = archive(&[
        ("empty-disk.ovf", &ovf("empty-disk")),
        ("empty-disk.mf", b"SHA256(x)= 0"),
        ("empty-disk.vmdk", &disk),
    ]);
    gives(&packed, None, "empty-disk.vmdk", &disk);
    let members: Vec<_> = (1..=4).map(|n| format!("sunVHW-DiskTypes-disk{n}.vmdk")).collect();
    let xml = ovf("sunVHW-DiskTypes");
    let mut all = vec![("sunVHW-DiskTypes.ovf", &xml[..])];
    all.extend(members.iter().map(|name| (name.as_str(), if name.contains('3') { &disk[..] } else { b"no" })));
    let packed = archive(&all);
    let text = fails(&packed, None, Kind::Ambiguous);
    assert!(text.contains("there are 4 disks") && text.contains("vmdisk4"), "{text}");
    gives(&packed, Some("vmdisk3"), "sunVHW-DiskTypes-disk3.vmdk", &disk);
    assert_eq!(sha256(&disk), "578b5f75af790030113a92c4227c6e53dad53a17e65cb491781dc75b3cef31f8");
    let none = archive(&[("d.ovf", &ovf("disk-capacity-property")), ("d.vmdk", &disk)]);
    fails(&none, None, Kind::NotFound);
    for name in ["archive.tar", "bootc-registry-image.tar"] {
        let packed = std::fs::read(corpus.join("kubevirt-cdi").join(name)).unwrap();
        fails(&packed, None, Kind::Ambiguous);
    }
}

#[test]
fn an_archive_cut_between_members_needs_a_name() {
    let (one, two) = (disk_like(3000), disk_like(2000));
    let whole = archive(&[("a.img", &one), ("b.img", &two)]);
    let cut = &whole[..512 + one.len().next_multiple_of(512)];
    let said = fails(cut, None, Kind::Truncated);
    assert!(said.contains("--disk"), "{said}");
    gives(cut, Some("a.img"), "a.img", &one);
}
