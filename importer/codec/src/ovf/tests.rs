use super::*;
use crate::testing::corpus;

fn envelope(references: &str, disks: &str) -> String {
    format!(
        "<?xml version='1.0' encoding='UTF-8'?>\n<Envelope xmlns='http://schemas.dmtf.org/ovf/envelope/1' \
         xmlns:ovf='http://schemas.dmtf.org/ovf/envelope/1'><References>{references}</References>\
         <DiskSection><Info>x</Info>{disks}</DiskSection></Envelope>"
    )
}

fn one(href: &str) -> String {
    envelope(
        &format!("<File ovf:href='{href}' ovf:id='f' ovf:size='68096' ovf:chunkSize='1000'/>"),
        "<Disk ovf:diskId='vmdisk1' ovf:fileRef='f' ovf:capacity='17' ovf:capacityAllocationUnits='byte * 2^30'/>",
    )
}

#[test]
fn disks_with_files() {
    let disks = super::disks(one("a.vmdk").as_bytes()).unwrap();
    assert_eq!(disks.len(), 1);
    assert_eq!((disks[0].href.as_str(), disks[0].size, disks[0].chunk), ("a.vmdk", Some(68096), Some(1000)));
    assert_eq!(disks[0].describe(), "a.vmdk (vmdisk1, 17 x byte * 2^30)");
    disks[0].check().unwrap();
    // Empty disks have no file, an ISO image is a file but no disk, and a file counts once.
    let xml = envelope(
        "<File ovf:href='a.vmdk' ovf:id='f'/><File ovf:href='b.iso' ovf:id='g'/>",
        "<Disk ovf:diskId='x' ovf:capacity='1'/><Disk ovf:diskId='1' ovf:fileRef='f'/><Disk ovf:diskId='2' \
         ovf:fileRef='f'/>",
    );
    assert_eq!(super::disks(xml.as_bytes()).unwrap().len(), 1);
    let bom = [b"\xef\xbb\xbf", one("a.vmdk").as_bytes()].concat();
    assert_eq!(super::disks(&bom).unwrap().len(), 1);
}

#[test]
fn references_outside_are_refused() {
    for href in [
        "http://example.org/a.vmdk",
        "file:///etc/passwd",
        "nbd:localhost:10809",
        "/etc/passwd",
        "../a.vmdk",
        "a/../../b.vmdk",
        "..\\a.vmdk",
        "\\\\host\\share",
        "",
    ] {
        let disks = super::disks(one(href).as_bytes()).unwrap();
        assert_eq!(disks[0].check().unwrap_err().kind(), Kind::External, "{href}");
    }
    for href in ["disk 1.vmdk", "disks/a..b.vmdk", "a:b/c".split(':').next().unwrap()] {
        super::disks(one(href).as_bytes()).unwrap()[0].check().unwrap();
    }
    let delta =
        envelope("<File ovf:href='a.vmdk' ovf:id='f'/>", "<Disk ovf:diskId='x' ovf:fileRef='f' ovf:parentRef='base'/>");
    assert_eq!(super::disks(delta.as_bytes()).unwrap()[0].check().unwrap_err().kind(), Kind::External);
}

#[test]
fn hostile_xml() {
    let laughs = "<?xml version='1.0'?><!DOCTYPE x [<!ENTITY a 'ha'><!ENTITY b '&a;&a;'>]><Envelope>&b;</Envelope>";
    assert_eq!(disks(laughs.as_bytes()).unwrap_err().kind(), Kind::External);
    let external = "<!DOCTYPE x SYSTEM 'file:///etc/passwd'><Envelope/>";
    assert_eq!(disks(external.as_bytes()).unwrap_err().kind(), Kind::External);
    // A megabyte of depth, and of breadth.
    let deep = "<a>".repeat(300_000);
    assert!(disks(deep.as_bytes()).is_err());
    let closed = format!("<Envelope>{}{}</Envelope>", "<a>".repeat(60_000), "</a>".repeat(60_000));
    assert_eq!(disks(closed.as_bytes()).unwrap(), []);
    let wide = format!("<Envelope>{}</Envelope>", "<a/>".repeat(200_000));
    assert_eq!(disks(wide.as_bytes()).unwrap_err().kind(), Kind::Oversized);
    for (xml, kind) in [
        (&b""[..], Kind::Corrupt),
        (b"<html></html>", Kind::Corrupt),
        (b"<Envelope>\xff</Envelope>", Kind::Corrupt),
        (b"\xff\xfe<\0E\0", Kind::Unsupported),
        (b"<Envelope><DiskSection><Disk fileRef='x'/></DiskSection></Envelope>", Kind::Corrupt),
    ] {
        assert_eq!(disks(xml).unwrap_err().kind(), kind);
    }
    let whole = one("a.vmdk");
    for len in 0..whole.len() {
        assert!(disks(&whole.as_bytes()[..len]).is_err());
    }
}

#[test]
fn descriptors_of_the_corpus() {
    let Some(corpus) = corpus() else { return };
    for (name, want) in [
        ("bitnami-tomcatstack-8.0.36-x86_64", Ok(1)),
        ("disk-capacity-property", Ok(0)),
        ("empty-disk", Ok(1)),
        ("empty", Ok(0)),
        ("sunVHW-DiskTypes", Ok(4)),
        ("sunVHW-DiskTypes-invalid", Ok(4)),
        ("sunVHW-DiskTypes_invalidUTF", Ok(4)),
        ("vApp_with_2vms", Ok(2)),
    ] {
        let xml = std::fs::read(corpus.join(format!("govmomi-ovf/{name}.ovf"))).unwrap();
        let got = disks(&xml).map(|disks| disks.len()).map_err(|error| error.to_string());
        assert_eq!(got, want, "{name}");
    }
}

#[test]
fn messages_do_not_repeat_control_characters() {
    for xml in ["<a \u{1b}='1'/>", "<a b\u{4}'1'/>", "<a><b\u{1b}[2J></a>", "<a b='1'>\u{7}</a>", "<a>&\u{1b};</a>"] {
        let error = super::disks(xml.as_bytes()).unwrap_err();
        assert_eq!(error.kind(), Kind::Corrupt, "{error}");
        assert!(!error.to_string().contains(char::is_control), "{error:?}");
    }
}
