use std::fs;

use fixtures::devices::{LoopDevice, TinyTmpfs};

use super::super::model::Model;
use super::super::{Left, create};
use super::*;

const MIB: usize = 1 << 20;

fn sink(device: &LoopDevice) -> Box<BlockSink> {
    Box::new(BlockSink::open(device.path(), Options::default()).unwrap())
}

fn refusal(result: Result<impl Sized>) -> String {
    let error = result.err().expect("it must be refused");
    assert_eq!(error.kind().exit_code(), 8, "{error}");
    error.to_string()
}

/// Imports a model onto a device that is full of garbage and compares the device, its file and what is behind the disk.
fn check(seed: u64, disk: usize, capacity: usize, sector: u32, granule: usize, options: Options, way: Option<u8>) {
    let Some(device) = LoopDevice::filled(capacity, sector, 0xFF) else { return };
    let model = Model::new(seed, disk, granule, 1 + (1 << 19) / granule);
    let sink = Box::new(BlockSink::open(device.path(), options).unwrap());
    if let Some(way) = way {
        sink.eraser.force(way);
    }
    sink.prepare(seed.is_multiple_of(2).then_some(disk as u64)).unwrap();
    model.apply(&*sink, 4).unwrap();
    assert!(fs::read(device.path()).unwrap().iter().take(MIB.min(disk)).all(|byte| *byte == 0), "the head is early");
    assert_eq!(sink.finish(disk as u64).unwrap().size, disk as u64);

    let mut expected = model.disk;
    expected.resize(disk.next_multiple_of(sector as usize).max(MIB.min(capacity)), 0);
    expected.resize(capacity, 0xFF);
    for path in [device.path(), device.backing()] {
        let found = fs::read(path).unwrap();
        assert_eq!(found.len(), expected.len());
        let first = found.iter().zip(&expected).position(|(found, expected)| found != expected);
        assert_eq!(first, None, "{} differs: seed {seed}, {granule} on {sector}", path.display());
    }
}

#[test]
fn a_dirty_device_is_what_was_written() {
    for (seed, granule) in (0..).zip([512, 512, 1024, 4096, 65536, 1]) {
        let size = 5 * MIB + 512 * 3;
        check(seed, size, 8 * MIB, 512, granule, Options::default(), None);
        check(seed, size, 8 * MIB, 4096, granule, Options::default(), None);
    }
}

#[test]
fn every_way_to_erase_gives_zeros() {
    for (seed, way) in (10..).zip([0, 1, 2]) {
        check(seed, 6 * MIB, 6 * MIB, 512, 65536, Options::default(), Some(way));
        check(seed, 6 * MIB, 6 * MIB, 4096, 512, Options::default(), Some(way));
    }
    let options = Options { size: None, preallocate: true, ..Options::default() };
    check(20, 6 * MIB, 6 * MIB, 512, 4096, options, None);
}

#[test]
fn disks_smaller_than_the_head_and_devices_of_odd_size() {
    check(30, 700, MIB, 4096, 512, Options::default(), None);
    check(31, MIB - 512, 2 * MIB, 512, 512, Options::default(), None);
    check(32, 64 << 10, 64 << 10, 512, 512, Options::default(), None);
    // 512-byte sectors that are not a multiple of a page, filled to the last.
    check(33, 3 * MIB + 512 * 5, 3 * MIB + 512 * 5, 512, 512, Options::default(), None);
}

#[test]
fn zeros_give_blocks_back() {
    let Some(device) = LoopDevice::filled(64 * MIB, 512, 0xFF) else { return };
    let sink = sink(&device);
    sink.prepare(Some(64 << 20)).unwrap();
    sink.write(0, &vec![1; 2 * MIB]).unwrap();
    sink.zero(2 << 20, 30 << 20).unwrap();
    sink.write(32 << 20, &vec![0; 32 * MIB]).unwrap();
    sink.finish(64 << 20).unwrap();
    let mut expected = vec![1; 2 * MIB];
    expected.resize(64 * MIB, 0);
    assert!(fs::read(device.backing()).unwrap() == expected);
    let allocated = std::os::unix::fs::MetadataExt::blocks(&fs::metadata(device.backing()).unwrap()) * 512;
    assert!(allocated <= 2 * (MIB as u64) * 21 / 20, "{allocated} bytes are allocated");
}

// A device is opened once in a test, wherever it matters that it is free again: other tests start programs, and each of
// these has all that is open here for the moment between fork and exec.

#[test]
fn a_device_that_is_refused_is_not_touched() {
    let Some(device) = LoopDevice::filled(4 * MIB, 512, 0xEE) else { return };
    let sink = sink(&device);
    let message = refusal(sink.prepare(Some((4 << 20) + 1)));
    assert!(message.contains("4194304") && message.contains("4194305"), "{message}");
    drop(sink);
    assert!(fs::read(device.path()).unwrap().iter().all(|byte| *byte == 0xEE));
}

#[test]
fn an_unfinished_disk_does_not_look_like_one() {
    let Some(device) = LoopDevice::filled(4 * MIB, 512, 0xEE) else { return };
    let sink = sink(&device);
    sink.prepare(None).unwrap();
    sink.write(0, &vec![7; 2 * MIB]).unwrap();
    drop(sink);
    fs::File::open(device.path()).unwrap().sync_all().unwrap();
    for path in [device.path(), device.backing()] {
        let found = fs::read(path).unwrap();
        assert!(found[..MIB].iter().all(|byte| *byte == 0));
        assert!(found[MIB..2 * MIB].iter().all(|byte| *byte == 7));
    }
}

#[test]
fn past_the_end_is_refused_whenever_it_is_known() {
    let Some(device) = LoopDevice::filled(2 * MIB, 4096, 0xEE) else { return };
    let sink = sink(&device);
    sink.prepare(None).unwrap();
    sink.write((2 << 20) - 4, b"fits").unwrap();
    for message in [
        refusal(sink.write((2 << 20) - 3, b"does")),
        refusal(sink.write(u64::MAX, b"not")),
        refusal(sink.zero(1 << 20, (1 << 20) + 1)),
        refusal(sink.finish((2 << 20) + 1)),
    ] {
        assert!(message.contains("too small: it has 2097152 bytes"), "{message}");
    }
}

#[test]
fn a_size_that_was_asked_for_must_be_there() {
    let Some(device) = LoopDevice::filled(2 * MIB, 512, 0) else { return };
    let options = Options { size: Some(3 << 20), preallocate: false, ..Options::default() };
    let message = refusal(BlockSink::open(device.path(), options).unwrap().prepare(Some(1 << 20)));
    assert!(message.contains("3145728"), "{message}");
}

#[test]
fn a_device_in_use_is_refused() {
    let Some(device) = LoopDevice::filled(2 * MIB, 512, 0) else { return };
    let _holder = sink(&device);
    let message = refusal(create(device.path(), Options::default()));
    assert!(message.contains("mounted or held by another program"), "{message}");
}

#[test]
fn a_read_only_device_is_refused() {
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_len(2 << 20).unwrap();
    let Some(device) = LoopDevice::read_only(file.path()) else { return };
    let result = create(device.path(), Options::default()).and_then(|sink| sink.prepare(Some(1 << 20)));
    let message = refusal(result);
    assert!(message.contains("it is read-only") || message.contains("it can only be read"), "{message}");
}

#[test]
fn an_error_of_the_device_is_not_missed_and_not_the_next_ones() {
    // The device says it is larger than the file system under it: writeback fails, as that of a full thin pool.
    let Some(tmpfs) = TinyTmpfs::mount(4 << 20) else { return };
    let file = tmpfs.path().join("backing");
    fs::File::create(&file).unwrap().set_len(48 << 20).unwrap();
    let Some(device) = LoopDevice::over(&file, 512) else { return };
    let import = |sink: Box<BlockSink>| {
        sink.prepare(Some(48 << 20))?;
        (0..48u64).try_for_each(|part| sink.write(part << 20, &vec![1; MIB]))?;
        sink.finish(48 << 20)
    };
    refusal(import(sink(&device)));
    let mut head = vec![1; 4096];
    fs::File::open(&file).unwrap().read_at(&mut head, 0).unwrap();
    assert!(head.iter().all(|byte| *byte == 0));

    // Someone makes room, and all is well, though what was written back after the failure has failed as well.
    tmpfs.resize(64 << 20).unwrap();
    let again = loop {
        match BlockSink::open(device.path(), Options::default()) {
            Ok(sink) => break Box::new(sink),
            // The moment between fork and exec.
            Err(error) if error.to_string().contains("held by another program") => std::thread::yield_now(),
            Err(error) => panic!("{error}"),
        }
    };
    assert_eq!(import(again).unwrap().size, 48 << 20);
    assert!(fs::read(&file).unwrap().iter().all(|byte| *byte == 1));
}

#[test]
fn what_is_no_device_is_refused() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let message = refusal(BlockSink::open(file.path(), Options::default()));
    assert!(message.contains("is no block device"), "{message}");
}

#[test]
fn a_device_that_was_given_up_never_begins_with_a_disk() {
    let Some(device) = LoopDevice::filled(4 * MIB, 512, 0xFF) else { return };
    let untouched = sink(&device);
    assert_eq!(untouched.claim().abandon(), Left::Untouched);
    assert_eq!(refusal(untouched.prepare(Some(4 << 20))).matches("given up").count(), 1);
    assert!(fs::read(device.path()).unwrap().iter().all(|byte| *byte == 0xFF));
    drop(untouched);

    let begun = sink(&device);
    begun.prepare(Some(4 << 20)).unwrap();
    begun.write(0, &[7; 2 * MIB]).unwrap();
    assert_eq!(begun.claim().abandon(), Left::Part);
    refusal(begun.finish(4 << 20));
    assert!(fs::read(device.path()).unwrap().iter().take(MIB).all(|byte| *byte == 0));

    let whole = sink(&device);
    whole.write(0, &[7; 4 * MIB]).unwrap();
    let claim = whole.claim();
    whole.finish(4 << 20).unwrap();
    assert_eq!(claim.abandon(), Left::Whole);
    assert!(fs::read(device.path()).unwrap().iter().all(|byte| *byte == 7));
}
