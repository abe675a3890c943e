use super::build::{self, at, put32, put64};
use super::*;

fn image() -> Vec<u8> {
    build::sparse(&build::disk(5, &[1]))
}

#[test]
fn refuses_headers_by_name() {
    type Spoil = fn(&mut Vec<u8>);
    let cases: [(&str, Kind, Spoil); 24] = [
        ("version 0", Kind::Unsupported, |image| put32(image, at::VERSION, 0)),
        ("version 4", Kind::Unsupported, |image| put32(image, at::VERSION, 4)),
        ("flags 0x40000", Kind::Unsupported, |image| put32(image, at::FLAGS, 0x40001)),
        ("text mode", Kind::Corrupt, |image| image[at::NEWLINES] = b'\r'),
        ("without markers", Kind::Unsupported, |image| {
            put32(image, at::FLAGS, 0x10001);
            image[at::COMPRESSION] = 1;
        }),
        ("markers without compression", Kind::Corrupt, |image| put32(image, at::FLAGS, 0x20001)),
        ("without an algorithm", Kind::Corrupt, |image| put32(image, at::FLAGS, 0x30001)),
        ("algorithm 2", Kind::Unsupported, |image| image[at::COMPRESSION] = 2),
        ("no compressed grains", Kind::Corrupt, |image| image[at::COMPRESSION] = 1),
        ("0 sectors by the header", Kind::Corrupt, |image| put64(image, at::CAPACITY, 0)),
        ("8 EiB", Kind::Oversized, |image| put64(image, at::CAPACITY, 1 << 54)),
        ("u64::MAX sectors", Kind::Oversized, |image| put64(image, at::CAPACITY, u64::MAX)),
        ("directory of", Kind::Oversized, |image| put64(image, at::CAPACITY, 1 << 50)),
        ("grain of 0", Kind::Corrupt, |image| put64(image, at::GRAIN, 0)),
        ("grain of 4", Kind::Corrupt, |image| put64(image, at::GRAIN, 4)),
        ("grain of 24", Kind::Corrupt, |image| put64(image, at::GRAIN, 24)),
        ("at most 131072", Kind::Oversized, |image| put64(image, at::GRAIN, 1 << 18)),
        ("0 entries per grain table", Kind::Unsupported, |image| put32(image, at::PER_TABLE, 0)),
        ("1024 entries per grain table", Kind::Unsupported, |image| put32(image, at::PER_TABLE, 1024)),
        ("sector 2;", Kind::Corrupt, |image| put64(image, at::DESCRIPTOR, 2)),
        ("descriptor of 0", Kind::Oversized, |image| put64(image, at::DESCRIPTOR_LEN, 0)),
        ("descriptor of 2049", Kind::Oversized, |image| put64(image, at::DESCRIPTOR_LEN, 2049)),
        ("no grain directory", Kind::Corrupt, |image| put64(image, at::DIRECTORY, 0)),
        ("only a stream has", Kind::Corrupt, |image| put64(image, at::DIRECTORY, u64::MAX)),
    ];
    for (name, kind, spoil) in cases {
        let mut image = image();
        spoil(&mut image);
        let message = refused(&image, kind);
        let words = if name == "u64::MAX sectors" { "8 EiB" } else { name };
        assert!(message.contains(words), "{name}: {message}");
    }
}

#[test]
fn refuses_descriptors_by_name() {
    let disk = build::disk(5, &[1]);
    let good = build::descriptor(&disk, "monolithicSparse");
    let cases = [
        (good.replace("ffffffff", "0172e8a4"), Kind::External, "parent"),
        (format!("{good}parentFileNameHint=\"base.vmdk\"\n"), Kind::External, "parent"),
        (format!("{good}ddb.iofilters = \"vmwarevmcrypt\"\n"), Kind::Encrypted, "encrypted"),
        (good.replace("monolithicSparse", "custom"), Kind::Incomplete, "custom"),
        (good.replace("monolithicSparse", "twoGbMaxExtentSparse"), Kind::Incomplete, "x.vmdk"),
        (good.replace("monolithicSparse", "fullDevice"), Kind::External, "device"),
        (format!("{good}RW 5 SPARSE \"y.vmdk\"\n"), Kind::Incomplete, "y.vmdk"),
        (format!("{good}RW 5 FLAT \"/etc/passwd\" 0\n"), Kind::External, "/etc/passwd"),
        (good.replace("SPARSE", "VMFSSPARSE"), Kind::Incomplete, "x.vmdk"),
        (good.replace("RW", "NOACCESS"), Kind::Unsupported, "NOACCESS"),
        (good.replace("RW 83 ", "RW 84 "), Kind::Corrupt, "84 by the descriptor"),
        (good.replace("RW 83 ", "RW 80 "), Kind::Corrupt, "80 by the descriptor"),
        (good.replace("RW 83 SPARSE \"x.vmdk\"", ""), Kind::Corrupt, "names no file"),
        ("no descriptor at all".to_owned(), Kind::Corrupt, "createType"),
        (String::new(), Kind::Incomplete, "-s001.vmdk"),
    ];
    for (text, kind, words) in cases {
        let mut image = build::sparse(&disk);
        build::describe(&mut image, &text);
        let message = refused(&image, kind);
        assert!(message.contains(words), "{text}: {message}");
    }

    let mut part = build::sparse(&disk);
    put64(&mut part, at::DESCRIPTOR, 0);
    assert!(refused(&part, Kind::Incomplete).contains("-s001.vmdk"));
}

#[test]
fn a_capacity_rounded_up_to_a_grain_is_read_as_it_is() {
    let mut disk = build::disk(5, &[1]);
    disk.truncate(5 * build::GRAIN);
    let mut image = build::sparse(&disk);
    let text = build::descriptor(&disk, "monolithicSparse").replace("RW 80 ", "RW 79 ");
    build::describe(&mut image, &text);
    assert_eq!(assemble(&image, Order::Forward).unwrap(), disk);
}

#[test]
fn a_flat_disk_behind_a_header_is_named() {
    let mut image = image();
    put64(&mut image, at::CAPACITY, 0);
    build::describe(&mut image, "createType=\"monolithicFlat\"\nRW 80 FLAT \"x-flat.vmdk\" 0\n");
    assert!(refused(&image, Kind::Incomplete).contains("x-flat.vmdk"));
}

#[test]
fn snapshots_of_esxi_are_named() {
    assert!(refused(b"COWD\x01\0\0\0\x03\0\0\0", Kind::External).contains("COWD"));
    assert!(refused(b"\xbe\xba\xfe\xca\0\0\0\0\x01\0\0\0\x02\0\0\0", Kind::External).contains("seSparse"));
}

#[test]
fn a_descriptor_beyond_the_head_is_asked_for_first() {
    let disk = build::disk(600, &[1, 599]);
    for image in [build::sparse(&disk), build::stream_front(&disk), build::stream_behind(&disk).0] {
        let mut vmdk = Vmdk::open(&image[..512], None).unwrap();
        assert!(vmdk.geometry().is_none());
        let mut found = Found::default();
        vmdk.start(&mut found).unwrap();
        assert_eq!(found.pages.len(), 1, "nothing but the descriptor");

        let mut vmdk = Vmdk::open(&image[..512], None).unwrap();
        assert_eq!(read(&mut vmdk, &image, Order::Newest, false).unwrap().bytes(), disk);
        assert!(vmdk.features().iter().any(|feature| feature.name == "createType"));
    }
    let mut image = build::sparse(&disk);
    build::describe(&mut image, "createType=\"custom\"\nRW 5 SPARSE \"y.vmdk\"\n");
    let mut vmdk = Vmdk::open(&image[..512], None).unwrap();
    let error = read(&mut vmdk, &image, Order::Forward, false).unwrap_err();
    assert_eq!(error.kind(), Kind::Incomplete, "{error}");
}

#[test]
fn short_files_are_truncated() {
    for len in [4, 100, 511] {
        assert_eq!(Vmdk::open(&image()[..len], None).unwrap_err().kind(), Kind::Truncated, "{len}");
    }
}
