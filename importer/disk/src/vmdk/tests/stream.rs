use super::build::{self, GRAIN, SECTOR, at, get32, get64, put32, put64};
use super::*;
use crate::Body;
use crate::testing::{ORDERS, walk};

fn disks() -> Vec<Vec<u8>> {
    vec![
        build::disk(0, &[0]),
        build::disk(5, &[]),
        build::disk(5, &[0, 1, 2, 3, 4, 5]),
        build::disk(1300, &[0, 511, 1299, 1300]),
        build::disk(1300, &[600]),
    ]
}

#[test]
fn reads_every_layout_in_any_order() {
    for disk in disks() {
        for image in [build::stream_front(&disk), build::stream_behind(&disk).0] {
            for order in ORDERS {
                assert!(assemble(&image, order).unwrap() == disk, "{order:?}");
            }
            assert!(assemble_unsized(&image).unwrap() == disk);
            assert!(open(&image, None).unwrap().sequential());
        }
    }
}

#[test]
fn a_stream_may_end_without_a_marker_when_the_tables_are_in_front() {
    let disk = build::disk(600, &[1, 2, 512]);
    let image = build::stream_front(&disk);
    let end = image.len() - SECTOR;
    let padding = image[..end].iter().rev().take_while(|&&byte| byte == 0).count();
    // Without the marker, without some padding of the last grain, with less than a sector of zeros, with many zeros.
    for len in
        [end, end - padding, end - padding / 2, end + 100, end + 5000, end + (1 << 20), end + (64 << 10) + SECTOR]
    {
        let mut image = image.clone();
        image.resize(len, 0);
        assert!(assemble(&image, Order::Forward).unwrap() == disk, "{len}");
        assert!(assemble_unsized(&image).unwrap() == disk, "{len}");
        if len > end {
            image.push(1);
            assert!(assemble(&image, Order::Forward).is_err(), "{len}");
        }
    }
    let mut image = image;
    image.resize(end - padding - 1, 0);
    refused(&image, Kind::Truncated);
}

#[test]
fn cut_anywhere_is_refused() {
    let disk = build::disk(600, &[1, 2, 512, 600]);
    let front = build::stream_front(&disk);
    let (behind, places) = build::stream_behind(&disk);
    // The marker at the end of the first is not needed, nor the padding before it.
    let needed = front.iter().rposition(|&byte| byte != 0).unwrap();
    let end = behind.len() - SECTOR;
    for (image, ends) in [(&front, needed), (&behind, end)] {
        for len in (512..ends).step_by(128).chain([ends]) {
            let cut = &image[..len];
            for result in [assemble(cut, Order::Forward), assemble(cut, Order::Newest), assemble_unsized(cut)] {
                let kind = result.map(|_| ()).unwrap_err().kind();
                // Without its length a cut file gives a grain that can't be unpacked.
                assert!(matches!(kind, Kind::Truncated | Kind::Corrupt), "{len}: {kind:?}");
            }
        }
        // Filled up with zeros, as by a transfer that set the length first.
        let first = get64(image, at::OVERHEAD) as usize * SECTOR;
        for len in (first..ends).step_by(SECTOR) {
            let mut cut = image[..len].to_vec();
            cut.resize(image.len(), 0);
            if *image != cut {
                assert!(assemble(&cut, Order::Forward).is_err(), "{len}");
            }
        }
    }
    // At every structure of the exported kind.
    for sector in places.grains.iter().chain(&places.tables).chain([&places.directory, &places.footer]) {
        for at in [sector * SECTOR, sector * SECTOR - SECTOR] {
            refused(&behind[..at], Kind::Truncated);
        }
    }
}

#[test]
fn order_of_grains_is_free_but_once_each() {
    let mut disk = build::disk(20, &[3, 9]);
    let (mut image, places) = build::stream_behind(&disk);
    let (third, ninth) = (places.grains[0] * SECTOR, places.grains[1] * SECTOR);
    // Swap where they belong, in the markers and in the table.
    put64(&mut image, third, 9 * 16);
    put64(&mut image, ninth, 3 * 16);
    let table = places.tables[0] * SECTOR;
    put32(&mut image, table + 3 * 4, places.grains[1] as u32);
    put32(&mut image, table + 9 * 4, places.grains[0] as u32);
    let (before, behind) = disk.split_at_mut(9 * GRAIN);
    before[3 * GRAIN..4 * GRAIN].swap_with_slice(&mut behind[..GRAIN]);
    assert!(assemble(&image, Order::Forward).unwrap() == disk);

    put64(&mut image, ninth, 9 * 16);
    assert!(refused(&image, Kind::Corrupt).contains("given twice"));
}

#[test]
fn markers_are_held_to_their_word() {
    let disk = build::disk(600, &[1, 2, 512]);
    let (image, places) = build::stream_behind(&disk);
    let grain = places.grains[0] * SECTOR;
    let table = places.tables[0] * SECTOR;
    let marker = table - SECTOR;
    let cases: [(&str, Kind, usize, u64); 11] = [
        ("for sector 17", Kind::Corrupt, grain, 17),
        ("for sector 9603", Kind::Corrupt, grain, 9603),
        ("for sector 18446744073709551615", Kind::Corrupt, grain, u64::MAX),
        ("given twice", Kind::Corrupt, grain, 512 * 16),
        ("compressed to", Kind::Corrupt, grain + 8, u64::from(u32::MAX)),
        ("and not the same", Kind::Corrupt, grain, 7 * 16),
        ("instead of 4", Kind::Corrupt, marker, 5),
        ("unknown marker type 9", Kind::Corrupt, marker + 8, 9 << 32),
        ("is not empty", Kind::Corrupt, marker + 8, 0),
        ("beyond any file", Kind::Corrupt, marker + 8, 4 << 32),
        ("ends after 3 of 4", Kind::Truncated, table + 5 * 4, 77),
    ];
    for (words, kind, at, value) in cases {
        let mut image = image.clone();
        if words == "beyond any file" {
            put64(&mut image, marker, u64::MAX / 1024);
        }
        put64(&mut image, at, value);
        let message = refused(&image, kind);
        assert!(message.contains(words), "{words}: {message}");
    }
    // The length in a marker of tables is optional.
    let mut image = image;
    for sector in [marker, (places.directory - 1) * SECTOR, (places.footer - 1) * SECTOR] {
        put64(&mut image, sector, 0);
    }
    assert!(assemble(&image, Order::Forward).unwrap() == disk);
}

#[test]
fn tables_are_held_against_markers() {
    let disk = build::disk(600, &[0, 2, 512]);
    let front = build::stream_front(&disk);
    let entry = 4 * SECTOR;
    let sector = get32(&front, entry);
    // Another sector, one grain more, one less, and moved by one.
    for (edits, words) in [
        (&[(0, sector + 1)][..], "not the same"),
        (&[(1, sector + 1)], "ends after 3 of 4"),
        (&[(0, 0)], "the tables know 2"),
        (&[(0, 0), (1, sector)], "not the same"),
    ] {
        let mut image = front.clone();
        for &(place, value) in edits {
            put32(&mut image, entry + place * 4, value);
        }
        let kind = if words.contains("ends after") { Kind::Truncated } else { Kind::Corrupt };
        let message = refused(&image, kind);
        assert!(message.contains(words), "{words}: {message}");
    }

    let (behind, places) = build::stream_behind(&disk);
    let directory = places.directory * SECTOR;
    let (first, second) = (places.tables[0] as u32, places.tables[1] as u32);
    for (edits, words) in [
        (&[(0, second), (1, first)][..], "not the same"),
        (&[(1, first)], "twice to one"),
        (&[(1, 0)], "missing in the grain directory"),
        (&[(1, 77)], "isn't there"),
    ] {
        let mut image = behind.clone();
        for &(place, value) in edits {
            put32(&mut image, directory + place * 4, value);
        }
        let message = refused(&image, Kind::Corrupt);
        assert!(message.contains(words), "{words}: {message}");
    }
}

#[test]
fn footers_are_held_against_the_header() {
    let disk = build::disk(600, &[1, 2, 512]);
    let (image, places) = build::stream_behind(&disk);
    let footer = places.footer * SECTOR;
    for (field, words) in [
        (0, "no KDMV signature"),
        (at::VERSION, "contradicts"),
        (at::FLAGS, "contradicts"),
        (at::CAPACITY, "contradicts"),
        (at::GRAIN, "contradicts"),
        (at::DESCRIPTOR, "contradicts"),
        (at::DESCRIPTOR_LEN, "contradicts"),
        (at::PER_TABLE, "contradicts"),
        (at::NEWLINES, "contradicts"),
        (at::COMPRESSION, "contradicts"),
        (at::DIRECTORY, "the grain directory is at"),
    ] {
        let mut image = image.clone();
        image[footer + field] ^= 2;
        let message = refused(&image, Kind::Corrupt);
        assert!(message.contains(words), "{field}: {message}");
    }
    let mut without = image.clone();
    put64(&mut without, footer + at::DIRECTORY, u64::MAX);
    assert!(refused(&without, Kind::Corrupt).contains("doesn't say where"));

    // The footer is gone, but the header promised one.
    let mut gone = image.clone();
    gone.drain(footer - SECTOR..footer + SECTOR);
    refused(&gone, Kind::Truncated);
    // Without the promise it isn't needed: a writer that went back to the header.
    put64(&mut gone, at::DIRECTORY, places.directory as u64);
    assert!(assemble(&gone, Order::Forward).unwrap() == disk);
    put64(&mut gone, at::DIRECTORY, places.directory as u64 - 1);
    assert!(refused(&gone, Kind::Corrupt).contains("the grain directory is at"));

    // Something behind the footer.
    let mut more = image.clone();
    more.truncate(more.len() - SECTOR);
    build::push_grain(&mut more, 9, &disk[..GRAIN]);
    build::push_marker(&mut more, 0, 0);
    assert!(refused(&more, Kind::Corrupt).contains("behind its footer"));

    // A second directory.
    let mut second = image[..footer - SECTOR].to_vec();
    second.extend_from_within((places.directory - 1) * SECTOR..);
    assert!(refused(&second, Kind::Corrupt).contains("second grain directory"));
}

#[test]
fn progress_markers_are_passed_by() {
    let disk = build::disk(600, &[1, 512]);
    let front = build::stream_front(&disk);
    let mut image = front[..front.len() - SECTOR].to_vec();
    for sectors in [0, 0, 3] {
        build::push_marker(&mut image, sectors, 4);
        // The place it is at, which vCenter writes, and whatever.
        let end = image.len();
        put64(&mut image, end - SECTOR + 16, 4711);
        image.resize(end + sectors as usize * SECTOR, 0xaa);
    }
    build::push_marker(&mut image, 0, 0);
    assert!(assemble(&image, Order::Forward).unwrap() == disk);
}

#[test]
fn tables_in_front_stay_in_front() {
    let disk = build::disk(600, &[1, 512]);
    let image = build::stream_front(&disk);
    let overhead = get64(&image, at::OVERHEAD) as u32;
    for (entry, words) in [
        (overhead - 1, "into the grains"),
        (u32::MAX, "into the grains"),
        (4, "over each other"),
        (3, "over each other"),
        (1, "over each other"),
    ] {
        let mut image = image.clone();
        put32(&mut image, 3 * SECTOR + 4, entry);
        let message = refused(&image, Kind::Corrupt);
        assert!(message.contains(words), "{entry}: {message}");
    }
    // Within the descriptor.
    let mut image = image;
    put64(&mut image, at::OVERHEAD, 2);
    assert!(refused(&image, Kind::Corrupt).contains("within the header"));
}

#[test]
fn a_last_grain_may_be_whole() {
    // VirtualBox fills the last grain up with zeros, open-vmdk and qemu cut it.
    let disk = build::disk(5, &[5]);
    let (cut, _) = build::stream_behind(&disk);
    let mut whole = disk[5 * GRAIN..].to_vec();
    whole.resize(GRAIN, 0);
    let mut image = build::stream_front(&build::disk(5, &[]));
    image.truncate(image.len() - SECTOR);
    let sector = build::push_grain(&mut image, 5, &whole);
    put32(&mut image, 4 * SECTOR + 5 * 4, sector);
    for image in [cut, image] {
        assert!(assemble(&image, Order::Forward).unwrap() == disk);
        let walked = walk(&mut open(&image, None).unwrap(), &image, Order::Forward, false).unwrap();
        let last = walked.extents.iter().find(|extent| extent.body != Body::Zero).unwrap();
        assert_eq!(last.len, 3 * SECTOR as u64);
        assert!(matches!(last.body, Body::Packed { unpacked, .. } if unpacked as usize == GRAIN), "{last:?}");
    }
}

#[test]
fn zeros_are_joined() {
    let disk = build::disk(1300, &[600]);
    let (image, _) = build::stream_behind(&disk);
    let walked = walk(&mut open(&image, None).unwrap(), &image, Order::Forward, false).unwrap();
    assert_eq!(walked.extents.len(), 3, "{:?}", walked.extents);
    // All but the grain is given up: header and descriptor, and the padding of the grain.
    assert!(walked.skips.contains(&(0, 4 * 512)), "{:?}", walked.skips);
}

/// What a stream gives, page after page, to a target that takes the disk in order.
fn in_order(image: &[u8]) -> Result<Vec<crate::Extent>> {
    Ok(walk(&mut open(image, None)?.in_order(), image, Order::Forward, true)?.extents)
}

#[test]
fn zeros_come_with_the_grain_behind_them_when_order_is_asked_for() {
    for disk in disks() {
        for image in [build::stream_front(&disk), build::stream_behind(&disk).0] {
            let mut at = 0;
            for extent in in_order(&image).unwrap() {
                assert_eq!(extent.guest.0, at);
                at = extent.end();
            }
            assert_eq!(at, disk.len() as u64);
        }
    }
}

#[test]
fn grains_out_of_order_are_refused_when_order_is_asked_for() {
    let disk = build::disk(40, &[1, 5]);
    let mut image = build::stream_front(&disk);
    let grains: Vec<_> = in_order(&image)
        .unwrap()
        .into_iter()
        .filter_map(|extent| match extent.body {
            Body::Packed { at, .. } => Some(at.0 as usize - 12),
            _ => None,
        })
        .collect();
    // Both speak of the other's place: markers and tables still agree on one disk, its grains are swapped.
    let [one, other] = grains[..] else { panic!("{grains:?}") };
    for (marker, lba) in [(one, 5 * GRAIN / SECTOR), (other, GRAIN / SECTOR)] {
        put64(&mut image, marker, lba as u64);
    }
    let table = get32(&image, get64(&image, at::DIRECTORY) as usize * SECTOR) as usize * SECTOR;
    put32(&mut image, table + 4, (other / SECTOR) as u32);
    put32(&mut image, table + 5 * 4, (one / SECTOR) as u32);
    assert!(assemble(&image, Order::Forward).is_ok());
    let error = in_order(&image).unwrap_err();
    assert_eq!(error.kind(), Kind::Unsupported);
    assert!(error.to_string().contains("takes a disk in order only"), "{error}");
}
