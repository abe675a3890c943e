//! Every format × option × history, in every way of reading, compared with qemu-img: byte for byte, and where data is.
#![allow(clippy::unwrap_used, clippy::panic, reason = "in a test, that is the failure")]

mod common;

use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex};

use common::{Chunked, Way, assert_nothing_left, import_file, import_from, import_recorded, tight};
use fixtures::content::Random;
use fixtures::differ;
use fixtures::images::{Recipe, catalogue, refused, wrapped};
use fixtures::oracle::Run;
use importer_flow::{Error, Kind, Mode, Settings};

fn compare(recipe: &Recipe, directory: &Path, ways: &[Way]) {
    let image = recipe.build(directory);
    let expected = image.raw();
    // A raw disk in a stream has no holes; what has tables has the same in every way.
    let map = if image.format == "raw" { Vec::new() } else { image.map() };
    for way in ways {
        if *way == Way::InOrder && recipe.name == OUT_OF_ORDER {
            assert_refused_in_order(&image.path, directory);
            continue;
        }
        let (outcome, target, writes) = import_recorded(&image.path, *way, directory, &tight(directory))
            .unwrap_or_else(|error| panic!("{} {way:?}: {error}", recipe.name));
        if let Some(at) = differ(&target, &expected) {
            panic!("{} {way:?}: differs from qemu-img at {at:#x}", recipe.name);
        }
        if let Some(write) = written_as_data(&map, &writes) {
            panic!("{} {way:?}: {write:#x?} was written and reads as zeros by the tables", recipe.name);
        }
        assert_eq!(outcome.image.wrappers, recipe.wrappers, "{}", recipe.name);
        assert_eq!(outcome.image.cdrom, recipe.cdrom, "{}", recipe.name);
        if let Way::Once(_) = way {
            assert!(matches!(outcome.mode, Mode::Streaming | Mode::Spooled), "{}: {:?}", recipe.name, outcome.mode);
        }
        std::fs::remove_file(target).unwrap();
    }
    std::fs::remove_file(expected).unwrap();
}

/// The only image of the catalogue that can't be read in the order of its disk: what places the grains of a stream are
/// markers between them.
const OUT_OF_ORDER: &str = "vmdk-stream-unordered";

fn assert_refused_in_order(path: &Path, directory: &Path) {
    match import_file(path, Way::InOrder, directory, &tight(directory)) {
        // How much disorder there is, is up to the threads of qemu-img.
        Ok((_, target)) => std::fs::remove_file(target).unwrap(),
        Err(error) => {
            assert!(error.to_string().contains("takes a disk in order only"), "{error}");
            assert_eq!(error.kind().exit_code(), 5, "{error}");
        }
    }
}

/// The first of `writes` that touches what qemu-img finds to be zeros without looking at data. Both in guest order.
fn written_as_data(map: &[Run], writes: &[Range<u64>]) -> Option<Range<u64>> {
    let mut zeros = map.iter().filter(|run| run.zero && !run.data).map(|run| run.start..run.start + run.length);
    let mut next = zeros.next();
    for write in writes {
        while next.as_ref().is_some_and(|zero| zero.end <= write.start) {
            next = zeros.next();
        }
        if next.as_ref().is_some_and(|zero| zero.start < write.end) {
            return Some(write.clone());
        }
    }
    None
}

/// A share of the catalogue, so that the test runner can use both cores.
fn share(all: Vec<Recipe>, number: usize, of: usize, ways: &[Way]) {
    let directory = tempfile::tempdir().unwrap();
    for recipe in all.iter().skip(number).step_by(of) {
        compare(recipe, directory.path(), ways);
    }
}

const ALL_WAYS: [Way; 7] = [
    Way::Ranged,
    Way::InOrder,
    Way::Again(1 << 20),
    Way::Again(70_001),
    Way::Once(300_000),
    Way::Once(611),
    Way::Glimpsed(70_001),
];

#[test]
fn catalogue_first_quarter() {
    share(catalogue(), 0, 4, &ALL_WAYS);
}

#[test]
fn catalogue_second_quarter() {
    share(catalogue(), 1, 4, &ALL_WAYS);
}

#[test]
fn catalogue_third_quarter() {
    share(catalogue(), 2, 4, &ALL_WAYS);
}

#[test]
fn catalogue_last_quarter() {
    share(catalogue(), 3, 4, &ALL_WAYS);
}

#[test]
fn wrapped_first_half() {
    share(wrapped(), 0, 2, &[Way::Ranged, Way::Again(90_001), Way::Once(5_003)]);
}

#[test]
fn wrapped_second_half() {
    share(wrapped(), 1, 2, &[Way::Ranged, Way::Again(90_001), Way::Once(5_003)]);
}

#[test]
#[allow(clippy::single_range_in_vec_init, reason = "one write is what is meant")]
fn the_map_is_compared() {
    let zero = |start, length| Run { start, length, zero: true, data: false, compressed: false, offset: None };
    let map = [zero(0, 10), Run { zero: false, data: true, ..zero(10, 10) }, zero(20, 10)];
    assert_eq!(written_as_data(&map, &[10..15, 15..20]), None);
    assert_eq!(written_as_data(&map, &[10..15, 15..21]), Some(15..21));
    assert_eq!(written_as_data(&map, &[9..15]), Some(9..15));
    assert_eq!(written_as_data(&map, &[29..40]), Some(29..40));
}

#[test]
fn late_tables_take_another_pass_or_the_spool() {
    let directory = tempfile::tempdir().unwrap();
    let mut late = 0;
    for recipe in catalogue().iter().filter(|recipe| recipe.late) {
        let image = recipe.build(directory.path());
        let again =
            import_file(&image.path, Way::Again(100_000), directory.path(), &tight(directory.path())).unwrap().0;
        assert_eq!(again.mode, Mode::TwoPass, "{}", recipe.name);
        let once = import_file(&image.path, Way::Once(100_000), directory.path(), &tight(directory.path())).unwrap().0;
        assert_eq!(once.mode, Mode::Spooled, "{}", recipe.name);
        // The largest table of them has 32 KiB, and there must be room for what it names.
        let settings = Settings { memory: 4 << 20, ..tight(directory.path()) };
        let glimpsed = import_file(&image.path, Way::Glimpsed(40_000), directory.path(), &settings).unwrap().0;
        assert_eq!(glimpsed.mode, Mode::Streaming, "{}", recipe.name);
        assert!(glimpsed.source_bytes < again.source_bytes, "{}: {}", recipe.name, glimpsed.source_bytes);
        late += 1;
    }
    assert!(late > 0, "the catalogue has no image with late tables");
}

/// Whatever ranges give that nothing proves, the disk is that of the whole, or there is none.
#[test]
fn a_glimpse_that_is_not_of_the_whole_is_noticed() {
    let directory = tempfile::tempdir().unwrap();
    let settings = tight(directory.path());
    let (mut noticed, mut harmless) = (0, 0);
    for recipe in catalogue().iter().filter(|recipe| recipe.late) {
        let image = recipe.build(directory.path());
        let expected = image.raw();
        let pages = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&pages);
        let honest = Chunked::new(&image.path, 40_000, true, true).with_glimpses(Box::new(move |range, _| {
            seen.lock().unwrap().push(range);
            Ok(())
        }));
        std::fs::remove_file(import_from(&mut { honest }, false, directory.path(), &settings).unwrap().1).unwrap();
        let pages = std::mem::take(&mut *pages.lock().unwrap());
        assert!(!pages.is_empty(), "{}", recipe.name);
        let mut random = Random::new(7);
        for lie in 0..12 {
            let page = &pages[usize::try_from(random.below(pages.len() as u64)).unwrap()];
            let place = page.start + random.below(page.end - page.start);
            let place = if lie % 2 == 0 { page.start + (place - page.start) / 512 * 8 % 512 } else { place };
            let bit = random.below(8);
            let liar = Chunked::new(&image.path, 40_000, true, true).with_glimpses(Box::new(move |range, bytes| {
                if range.contains(&place) {
                    bytes[usize::try_from(place - range.start).unwrap()] ^= 1 << bit;
                }
                Ok(())
            }));
            match import_from(&mut { liar }, false, directory.path(), &settings) {
                Err(error) => {
                    assert_eq!(error.kind(), Kind::Mismatch, "{} {place:#x}: {error}", recipe.name);
                    assert_nothing_left(directory.path());
                    noticed += 1;
                }
                // It lay between two tables.
                Ok((_, target, _)) => {
                    assert_eq!(differ(&target, &expected), None, "{} {place:#x}", recipe.name);
                    std::fs::remove_file(target).unwrap();
                    harmless += 1;
                }
            }
        }
    }
    assert!(noticed > harmless, "{noticed} {harmless}");
}

#[test]
fn a_glimpse_that_fails_costs_a_pass() {
    let directory = tempfile::tempdir().unwrap();
    let settings = tight(directory.path());
    for recipe in catalogue().iter().filter(|recipe| recipe.late) {
        let image = recipe.build(directory.path());
        for works in [0, 1] {
            let mut count = 0;
            let source = Chunked::new(&image.path, 40_000, true, true).with_glimpses(Box::new(move |_, _| {
                count += 1;
                if count <= works { Ok(()) } else { Err(Error::new(Kind::Transient, "not now")) }
            }));
            let (outcome, target, _) = import_from(&mut { source }, false, directory.path(), &settings).unwrap();
            assert_eq!(differ(&target, &image.raw()), None, "{}", recipe.name);
            assert!(works > 0 || outcome.mode == Mode::TwoPass, "{}: {:?}", recipe.name, outcome.mode);
        }
    }
}

#[test]
fn what_must_be_refused_is_refused_in_every_way() {
    let directory = tempfile::tempdir().unwrap();
    for refused in refused() {
        let path = refused.build(directory.path());
        for way in [Way::Ranged, Way::InOrder, Way::Again(100_000), Way::Once(1000)] {
            let error = match import_file(&path, way, directory.path(), &tight(directory.path())) {
                Ok((outcome, _)) => panic!("{} {way:?} was accepted: {outcome:?}", refused.name),
                Err(error) => error,
            };
            let text = error.to_string().to_lowercase();
            assert!(text.contains(refused.says), "{} {way:?}: {error}", refused.name);
            assert_eq!(error.kind().exit_code(), refused.exit, "{} {way:?}: {error}", refused.name);
            assert_nothing_left(directory.path());
        }
    }
}
