use super::build::{self, GRAIN, SECTOR, at, get32, put32, put64};
use super::*;
use crate::Body;
use crate::testing::{ORDERS, walk};

/// Sector of the first table of a disk of up to 512 grains.
const TABLE: usize = 4;

#[test]
fn reads_in_any_order() {
    for disk in [
        build::disk(0, &[0]),
        build::disk(5, &[]),
        build::disk(5, &[0, 1, 2, 3, 4, 5]),
        build::disk(1300, &[0, 511, 512, 513, 1299, 1300]),
        build::disk(1300, &[600]),
    ] {
        let image = build::sparse(&disk);
        for order in ORDERS {
            assert!(assemble(&image, order).unwrap() == disk, "{order:?}");
        }
        assert!(assemble_unsized(&image).unwrap() == disk);
    }
}

#[test]
fn joins_what_follows_each_other() {
    let disk = build::disk(1500, &(100..1400).collect::<Vec<_>>());
    let image = build::sparse(&disk);
    let walked = walk(&mut open(&image, None).unwrap(), &image, Order::Forward, false).unwrap();
    let data = walked.extents.iter().filter(|extent| extent.body != Body::Zero).count();
    assert_eq!((walked.extents.len(), data), (3, 1), "{:?}", walked.extents);
}

#[test]
fn reads_grains_that_are_out_of_order() {
    let mut disk = build::disk(20, &[3, 4, 5]);
    let mut image = build::sparse(&disk);
    let (third, fifth) = (get32(&image, TABLE * SECTOR + 12), get32(&image, TABLE * SECTOR + 20));
    put32(&mut image, TABLE * SECTOR + 12, fifth);
    put32(&mut image, TABLE * SECTOR + 20, third);
    let (before, behind) = disk.split_at_mut(5 * GRAIN);
    before[3 * GRAIN..4 * GRAIN].swap_with_slice(&mut behind[..GRAIN]);
    assert!(assemble(&image, Order::Forward).unwrap() == disk);
}

#[test]
fn entries_of_zeros() {
    let disk = build::disk(600, &[1, 2]);
    // A directory entry of 0.
    let mut image = build::sparse(&disk);
    put32(&mut image, 3 * SECTOR + 4, 0);
    assert!(assemble(&image, Order::Newest).unwrap() == disk);
    // A table entry of 1 is a grain of zeros with flag 4, and the descriptor without.
    put32(&mut image, TABLE * SECTOR + 3 * 4, 1);
    assert!(refused(&image, Kind::Corrupt).contains("in the metadata"));
    put32(&mut image, at::FLAGS, 5);
    assert!(assemble(&image, Order::Newest).unwrap() == disk);
}

#[test]
fn entries_behind_the_disk_mean_nothing() {
    let disk = build::disk(5, &[1]);
    let mut image = build::sparse(&disk);
    put32(&mut image, TABLE * SECTOR + 6 * 4, u32::MAX);
    assert!(assemble(&image, Order::Forward).unwrap() == disk);
}

#[test]
fn smaller_tables() {
    let disk = build::disk(300, &[0, 127, 128, 300]);
    let mut image = build::sparse(&disk);
    // One table of 512 entries is four tables of 128.
    put32(&mut image, at::PER_TABLE, 128);
    for table in 1..3 {
        put32(&mut image, 3 * SECTOR + table * 4, (TABLE + table) as u32);
    }
    for order in ORDERS {
        assert!(assemble(&image, order).unwrap() == disk, "{order:?}");
    }
}

#[test]
fn metadata_is_not_data() {
    let disk = build::disk(600, &[1, 2]);
    let image = build::sparse(&disk);
    // Header, descriptor, directory, own table, other table.
    for sector in [1, 2, 3, 4, 8] {
        let mut image = image.clone();
        put64(&mut image, at::OVERHEAD, 0);
        put32(&mut image, (TABLE * SECTOR) + 5 * 4, sector);
        for order in ORDERS {
            let len = Some(image.len() as u64);
            let error = read(&mut open(&image, len).unwrap(), &image, order, true).unwrap_err();
            assert_eq!(error.kind(), Kind::Corrupt, "{sector} {order:?}: {error}");
        }
    }
    // The space that overHead keeps for metadata, even where none is.
    let mut image = image;
    let overhead = image.len() / SECTOR + 64;
    put64(&mut image, at::OVERHEAD, overhead as u64);
    assert!(refused(&image, Kind::Corrupt).contains("in the metadata"));
}

#[test]
fn tables_and_grains_are_used_once() {
    let disk = build::disk(600, &[1, 2]);
    for table in [1, 3, 4, 5] {
        let mut image = build::sparse(&disk);
        put32(&mut image, 3 * SECTOR + 4, table);
        assert!(refused(&image, Kind::Corrupt).contains("over each other"), "{table}");
    }
    let mut image = build::sparse(&disk);
    let grain = get32(&image, TABLE * SECTOR + 4);
    put32(&mut image, TABLE * SECTOR + 9 * 4, grain);
    assert!(refused(&image, Kind::Corrupt).contains("in the same place of the file"));
    put32(&mut image, TABLE * SECTOR + 9 * 4, grain + 1);
    assert!(refused(&image, Kind::Corrupt).contains("in the same place of the file"));
}

#[test]
fn references_behind_the_end() {
    let disk = build::disk(600, &[1, 600]);
    let mut image = build::sparse(&disk);
    // The last grain is cut by the disk, so may be by the file.
    image.truncate(image.len() - GRAIN + 3 * SECTOR);
    assert!(assemble(&image, Order::Forward).unwrap() == disk);
    image.pop();
    refused(&image, Kind::Truncated);
    // Known only at the end.
    let mut vmdk = open(&image, None).unwrap();
    let error = walk(&mut vmdk, &image, Order::Forward, true).unwrap_err();
    assert_eq!(error.kind(), Kind::Truncated, "{error}");
}

#[test]
fn cut_anywhere_is_truncated() {
    let image = build::sparse(&build::disk(600, &[1, 5, 512, 600]));
    for len in (512..image.len() - GRAIN).step_by(256) {
        let error = assemble(&image[..len], Order::Forward).map(|_| ()).unwrap_err();
        assert_eq!(error.kind(), Kind::Truncated, "{len}: {error}");
        let error = assemble_unsized(&image[..len]).map(|_| ()).unwrap_err();
        assert_eq!(error.kind(), Kind::Truncated, "{len}: {error}");
    }
}

#[test]
fn a_huge_directory_costs_what_is_there() {
    // 128 TiB with one table: a directory of 16 MiB, nearly all zeros.
    let disk = build::disk(5, &[1]);
    let mut image = build::sparse(&disk);
    let sectors = (128u64 << 40) / 512;
    put64(&mut image, at::CAPACITY, sectors);
    put64(&mut image, at::GRAIN, 128);
    build::describe(&mut image, &format!("createType=\"monolithicSparse\"\nRW {sectors} SPARSE \"x\"\n"));
    let directory = image.len() / SECTOR + 256;
    put64(&mut image, at::DIRECTORY, directory as u64);
    image.resize((directory + 32768) * SECTOR, 0);
    put32(&mut image, directory * SECTOR, TABLE as u32);
    let mut vmdk = open(&image, None).unwrap();
    let walked = walk(&mut vmdk, &image, Order::Backward, false).unwrap();
    // Zeros, a grain, zeros of the table, zeros without a table.
    assert_eq!((vmdk.header.size(), walked.extents.len()), (128 << 40, 4));

    // The same full of tables in strewn places.
    for (nth, entry) in (0..).zip(image[directory * SECTOR..].chunks_exact_mut(4)) {
        put32(entry, 0, 1_000_000 + nth * 9);
    }
    let error = walk(&mut open(&image, None).unwrap(), &image, Order::Forward, false).unwrap_err();
    assert_eq!(error.kind(), Kind::Oversized, "{error}");
}

#[test]
fn tells_what_it_is() {
    let image = build::sparse(&build::disk(5, &[1]));
    let vmdk = open(&image, None).unwrap();
    assert_eq!((vmdk.name(), vmdk.sequential()), ("vmdk", false));
    assert_eq!(vmdk.geometry().unwrap().virtual_size, Some(83 * 512));
    let features = vmdk.features();
    for feature in [
        Feature::text("createType", "monolithicSparse"),
        Feature::number("version", 1),
        Feature::number("grainSize", GRAIN as u64),
        Feature::text("compression", "none"),
        Feature::flag("streamOptimized", false),
    ] {
        assert!(features.contains(&feature), "{feature:?} in {features:?}");
    }
}
