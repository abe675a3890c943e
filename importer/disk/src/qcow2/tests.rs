use super::build::Header as Build;
use super::*;

fn refusal(change: impl FnOnce(&mut Build)) -> Error {
    let mut header = Build::default();
    change(&mut header);
    let file = header.file();
    Qcow2::open(&file[..65536], Some(file.len() as u64)).expect_err("must be refused")
}

#[test]
fn a_plain_header_is_accepted() {
    let file = Build::default().file();
    let image = Qcow2::open(&file[..65536], Some(file.len() as u64)).unwrap();
    assert_eq!(image.geometry(), Some(Geometry { virtual_size: Some(1 << 20), cdrom: false }));
    assert!(image.features().contains(&Feature::number("clusterSize", 65536)));
}

#[test]
fn refusals_name_the_feature() {
    type Change = fn(&mut Build);
    let table: &[(Change, Kind, &str)] = &[
        (|h| h.version = 1, Kind::Unsupported, "version 1"),
        (|h| h.version = 4, Kind::Unsupported, "version 4"),
        (|h| h.backing = (200, 4), Kind::External, "backing file"),
        (|h| h.incompatible = 1 << 1, Kind::Corrupt, "marked corrupt"),
        (|h| h.incompatible = 1 << 2, Kind::External, "external data file"),
        (|h| h.incompatible = 1 << 5, Kind::Unsupported, "feature bit 5"),
        (|h| h.incompatible = 1 << 63, Kind::Unsupported, "feature bit 63"),
        (|h| h.incompatible = 1 << 3, Kind::Corrupt, "compression type"),
        (|h| h.crypt = 1, Kind::Encrypted, "AES"),
        (|h| h.crypt = 2, Kind::Encrypted, "LUKS"),
        (|h| h.crypt = 9, Kind::Encrypted, "9"),
        (|h| h.cluster_bits = 0, Kind::Corrupt, "cluster_bits 0"),
        (|h| h.cluster_bits = 8, Kind::Corrupt, "cluster_bits 8"),
        (|h| h.cluster_bits = 22, Kind::Corrupt, "cluster_bits 22"),
        (|h| h.cluster_bits = u32::MAX, Kind::Corrupt, "cluster_bits"),
        (|h| h.size = 1 << 63, Kind::Oversized, "virtual size"),
        (|h| h.size = u64::MAX, Kind::Oversized, "virtual size"),
        (|h| h.size = 1000, Kind::Corrupt, "multiple of 512"),
        (|h| h.size = 1 << 62, Kind::Oversized, "L1 table"),
        (|h| h.l1_size = u32::MAX, Kind::Oversized, "L1 table"),
        (|h| h.l1_size = 0, Kind::Corrupt, "needs 1"),
        (|h| h.l1_offset = 1 << 55, Kind::Truncated, "L1 table"),
        (|h| h.l1_offset = u64::MAX << 16, Kind::Corrupt, "beyond any file"),
        (|h| h.l1_offset = 0, Kind::Corrupt, "cluster of its own"),
        (|h| h.l1_offset = (1 << 16) + 512, Kind::Corrupt, "cluster of its own"),
        (|h| h.refcount_table.1 = u32::MAX, Kind::Oversized, "refcount table"),
        (|h| h.refcount_table.0 = 3, Kind::Corrupt, "refcount table"),
        (|h| h.refcount_order = 7, Kind::Corrupt, "refcount_order 7"),
        (|h| h.snapshots = (u32::MAX, 65536), Kind::Oversized, "snapshots"),
        (|h| h.snapshots = (1, 7), Kind::Corrupt, "snapshot table"),
        (|h| h.length = 3, Kind::Corrupt, "header length 3"),
        (|h| h.length = 0xffff_fff8, Kind::Corrupt, "header length"),
        (
            |h| {
                h.extended = true;
                h.cluster_bits = 12;
            },
            Kind::Corrupt,
            "16 KiB",
        ),
    ];
    for (change, kind, words) in table {
        let error = refusal(change);
        assert_eq!(error.kind(), *kind, "{error}");
        assert!(error.to_string().contains(words) && error.to_string().starts_with("qcow2: "), "{error}");
    }
}

#[test]
fn a_backing_file_is_named_without_its_control_characters() {
    let mut file = Build { backing: (200, 9), ..Build::default() }.file();
    file[200..209].copy_from_slice(b"/etc/\x1b[1m");
    let error = Qcow2::open(&file, None).unwrap_err();
    assert!(error.to_string().contains("(/etc/?[1m)"), "{error}");
}

#[test]
fn a_header_cut_anywhere_is_refused() {
    let file = Build::default().file();
    for len in 0..104 {
        assert!(Qcow2::open(&file[..len], Some(len as u64)).is_err(), "{len}");
    }
}

#[test]
fn contradicting_tables_are_refused() {
    let cluster = 1u64 << 16;
    let table: &[(u64, u64, &str)] = &[
        (cluster, 0, "lies on other metadata"),
        (2 * cluster, 0, "lies on other metadata"),
        (3 * cluster + 512, 0, "not on a cluster"),
        ((3 * cluster) | 1, 0, "reserved bits"),
        (3 * cluster, cluster, "where metadata is"),
        (3 * cluster, 3 * cluster, "where metadata is"),
        (3 * cluster, 3 * cluster + 512, "not on a cluster"),
        (3 * cluster, 1 << 1, "reserved bits"),
        (3 * cluster, 1 << 62 | cluster, "where metadata is"),
        (3 * cluster, 1 << 55, "past the end"),
        (3 * cluster, 1 << 62 | 1 << 52, "past the end"),
    ];
    for (l1, l2, words) in table {
        let mut file = Build::default().file();
        file[cluster as usize..][..8].copy_from_slice(&l1.to_be_bytes());
        file[3 * cluster as usize..][..8].copy_from_slice(&l2.to_be_bytes());
        let mut image = Qcow2::open(&file[..65536], Some(file.len() as u64)).unwrap();
        let mut found = Found::default();
        image.start(&mut found).unwrap();
        let mut error = None;
        while let Some(page) = found.pages.pop() {
            let bytes = &file[page.at.0 as usize..page.end() as usize];
            if let Err(refused) = image.expand(&page, bytes, &mut found) {
                error = Some(refused);
                break;
            }
        }
        let error = error.unwrap_or_else(|| panic!("{l1:#x} {l2:#x} must be refused"));
        assert!(error.to_string().contains(words), "{l1:#x} {l2:#x}: {error}");
    }
}
