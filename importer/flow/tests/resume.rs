//! Imports that end in the middle and are continued by another.
#![allow(clippy::unwrap_used, clippy::panic, reason = "in a test, that is the failure")]

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fixtures::content::{Pattern, Random};
use fixtures::devices::{LoopDevice, TinyTmpfs};
use fixtures::{run, sha256_file, tool};
use importer_flow::sink::{self, Options};
use importer_flow::source::FileSource;
use importer_flow::{Error, Kind, Outcome, Piece, Result, Settings, Source, Stream, import};
use tempfile::TempDir;

const DISK: u64 = 24 << 20;

/// A file whose reader is cut off after so many bytes, and which may have become another.
struct Failing {
    file: FileSource,
    left: Arc<AtomicU64>,
    identity: Option<&'static str>,
}

impl Failing {
    fn wrap(&self, stream: Box<dyn Stream>) -> Box<dyn Stream> {
        Box::new(Cut { stream, left: Arc::clone(&self.left) })
    }
}

impl Source for Failing {
    fn open(&mut self) -> Result<Box<dyn Stream>> {
        let stream = self.file.open()?;
        Ok(self.wrap(stream))
    }

    fn read(&mut self, ranges: Vec<Range<u64>>) -> Result<Box<dyn Stream>> {
        let stream = self.file.read(ranges)?;
        Ok(self.wrap(stream))
    }

    fn len(&self) -> Option<u64> {
        self.file.len()
    }

    fn ranges(&self) -> bool {
        true
    }

    fn reopens(&self) -> bool {
        true
    }

    fn identity(&self) -> Option<String> {
        self.identity.map(Into::into)
    }

    fn name(&self) -> String {
        "failing".into()
    }
}

struct Cut {
    stream: Box<dyn Stream>,
    left: Arc<AtomicU64>,
}

impl Stream for Cut {
    fn next(&mut self) -> Result<Option<Piece>> {
        let piece = self.stream.next()?;
        let len = piece.as_ref().map_or(0, Piece::len);
        let cut = |left: u64| left.checked_sub(len);
        if self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, cut).is_err() {
            return Err(Error::new(Kind::Transient, "cut"));
        }
        Ok(piece)
    }
}

/// How an attempt is made.
#[derive(Clone, Copy)]
struct Attempt {
    identity: Option<&'static str>,
    resume: bool,
    memory: u64,
}

const SAME: Attempt = Attempt { identity: Some("one"), resume: true, memory: 2 << 20 };

impl Attempt {
    /// Imports until the source has given `bytes`; gives the outcome and how many it gave.
    fn run(self, image: &Path, target: &Path, bytes: u64) -> (Result<Outcome>, u64) {
        self.checked(image, target, bytes, Vec::new())
    }

    fn checked(
        self,
        image: &Path,
        target: &Path,
        bytes: u64,
        checksums: Vec<importer_flow::Checksum>,
    ) -> (Result<Outcome>, u64) {
        let left = Arc::new(AtomicU64::new(bytes));
        let file = FileSource::open(image).unwrap();
        let mut source = Failing { file, left: Arc::clone(&left), identity: self.identity };
        let sink = sink::create(target, Options { resume: self.resume, ..Options::default() }).unwrap();
        let settings = Settings {
            memory: self.memory,
            threads: 2,
            spool_directory: target.parent().unwrap().to_owned(),
            checkpoint_every: 1 << 20,
            checksums,
            ..Settings::default()
        };
        let result = import(&mut source, sink, &settings, Arc::default());
        (result, bytes - left.load(Ordering::Relaxed))
    }
}

struct Place {
    dir: TempDir,
    disk: PathBuf,
    /// One test at a time: a tool that another one starts has our locks from its fork to its exec.
    _turn: MutexGuard<'static, ()>,
}

static TURN: Mutex<()> = Mutex::new(());

impl Place {
    fn new() -> Self {
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("out")).unwrap();
        let disk = Pattern::Noise.disk(dir.path(), DISK);
        Self { dir, disk, _turn: turn }
    }

    fn target(&self) -> PathBuf {
        self.dir.path().join("out/disk")
    }

    fn left(&self) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(self.dir.path().join("out"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    /// The disk in these formats; one takes more than one window.
    fn images(&self) -> Vec<PathBuf> {
        let convert = |name: &str, options: &[&str]| {
            let path = self.dir.path().join(name);
            run(tool("qemu-img").args(["convert", "-f", "raw"]).args(options).arg(&self.disk).arg(&path));
            path
        };
        vec![
            self.disk.clone(),
            convert("plain.qcow2", &["-O", "qcow2", "-o", "cluster_size=4k"]),
            convert("zlib.qcow2", &["-c", "-O", "qcow2", "-o", "cluster_size=4k"]),
            convert("sparse.vmdk", &["-O", "vmdk"]),
            convert("dynamic.vhd", &["-O", "vpc", "-o", "force_size=on"]),
            convert("disk.vhdx", &["-O", "vhdx"]),
        ]
    }

    #[track_caller]
    fn assert_done(&self, what: &str) {
        assert_eq!(fixtures::differ(&self.target(), &self.disk), None, "{what}");
        assert_eq!(self.left(), ["disk"], "{what}");
        fs::remove_file(self.target()).unwrap();
    }
}

#[test]
fn a_file_is_continued_in_every_format_and_from_everywhere() {
    let place = Place::new();
    for image in place.images() {
        let len = image.metadata().unwrap().len();
        let mut random = Random::new(len);
        for _ in 0..5 {
            // Three attempts: what was continued can be continued again.
            let first = 3 * len / 10 + random.below(len / 4);
            let what = format!("{} cut after {first}", image.display());
            let (result, one) = SAME.run(&image, &place.target(), first);
            assert_eq!(result.unwrap_err().kind(), Kind::Transient, "{what}");
            assert_eq!(place.left(), [".disk.checkpoint", ".disk.part"], "{what}");
            let (result, two) = SAME.run(&image, &place.target(), len / 4);
            assert_eq!(result.unwrap_err().kind(), Kind::Transient, "{what}");
            let (result, three) = SAME.run(&image, &place.target(), u64::MAX);
            let outcome = result.unwrap();
            place.assert_done(&what);
            let from = outcome.resumed_from.unwrap();
            assert!(from > first / 2 && three < len - from + (4 << 20), "{what}: {one}, {two}, {three}, from {from}");
        }
    }
}

#[test]
fn a_device_is_continued() {
    let place = Place::new();
    let Some(device) = LoopDevice::filled(usize::try_from(DISK).unwrap(), 512, 0xff) else { return };
    for image in place.images() {
        let len = image.metadata().unwrap().len();
        for first in [len / 3, len / 2] {
            let what = format!("{} cut after {first}", image.display());
            SAME.run(&image, device.path(), first).0.unwrap_err();
            let (result, fetched) = SAME.run(&image, device.path(), u64::MAX);
            assert!(result.unwrap().resumed_from.is_some(), "{what}");
            assert!(fetched < len - first + (5 << 20), "{what}: {fetched} of {len}");
            assert_eq!(sha256_file(device.path()), sha256_file(&place.disk), "{what}");
        }
    }
    // Nothing of it is left, so nothing is continued.
    let (result, _) = SAME.run(&place.disk, device.path(), u64::MAX);
    assert_eq!(result.unwrap().resumed_from, None);
}

#[test]
fn a_device_that_was_used_meanwhile_starts_over() {
    let place = Place::new();
    let Some(device) = LoopDevice::filled(usize::try_from(DISK).unwrap(), 512, 0xff) else { return };
    for at in [0, 65536, 900_000, 8 << 20] {
        SAME.run(&place.disk, device.path(), DISK / 2).0.unwrap_err();
        let all = vec![0x55; if at < 1 << 20 { 512 } else { 4 << 20 }];
        let file = fs::File::options().write(true).open(device.path()).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, &all, at).unwrap();
        file.sync_all().unwrap();
        drop(file);
        let outcome = SAME.run(&place.disk, device.path(), u64::MAX).0.unwrap();
        assert_eq!(outcome.resumed_from, None, "{at}");
        assert_eq!(sha256_file(device.path()), sha256_file(&place.disk), "{at}");
    }
}

#[test]
fn what_does_not_fit_starts_over() {
    let place = Place::new();
    let qcow2 = &place.images()[1];
    let other = Attempt { identity: Some("two"), ..SAME };
    let unknown = Attempt { identity: None, ..SAME };
    let larger = Attempt { memory: 8 << 20, ..SAME };
    let plain = Attempt { resume: false, ..SAME };
    for (attempt, what) in [(other, "other"), (unknown, "unknown"), (larger, "memory"), (plain, "plain")] {
        SAME.run(qcow2, &place.target(), DISK / 2).0.unwrap_err();
        assert_eq!(place.left(), [".disk.checkpoint", ".disk.part"], "{what}");
        let outcome = attempt.run(qcow2, &place.target(), u64::MAX).0.unwrap();
        assert_eq!(outcome.resumed_from, None, "{what}");
        place.assert_done(what);
    }
    // Without a proof nothing is kept.
    unknown.run(qcow2, &place.target(), DISK / 2).0.unwrap_err();
    assert_eq!(place.left(), [""; 0]);
}

#[test]
fn a_part_that_is_not_what_it_was_starts_over() {
    let place = Place::new();
    let (part, checkpoint) =
        (place.target().with_file_name(".disk.part"), place.target().with_file_name(".disk.checkpoint"));
    let damages: [(&str, &dyn Fn()); 5] = [
        ("truncated", &|| fs::write(&part, "").unwrap()),
        ("removed", &|| fs::remove_file(&part).unwrap()),
        ("other bytes", &|| fs::write(&part, vec![7; usize::try_from(DISK).unwrap()]).unwrap()),
        ("a damaged checkpoint", &|| {
            let mut bytes = fs::read(&checkpoint).unwrap();
            bytes[40] ^= 1;
            fs::write(&checkpoint, bytes).unwrap();
        }),
        ("no checkpoint", &|| fs::remove_file(&checkpoint).unwrap()),
    ];
    for (what, damage) in damages {
        SAME.run(&place.disk, &place.target(), DISK / 2).0.unwrap_err();
        damage();
        let outcome = SAME.run(&place.disk, &place.target(), u64::MAX).0.unwrap();
        assert_eq!(outcome.resumed_from, None, "{what}");
        place.assert_done(what);
    }
}

#[test]
fn before_the_first_checkpoint_nothing_is_kept() {
    let place = Place::new();
    SAME.run(&place.disk, &place.target(), 1 << 19).0.unwrap_err();
    assert_eq!(place.left(), [""; 0]);
}

/// What a full disk held is kept, and goes on when there is room.
#[test]
fn a_copy_that_found_no_room_goes_on_when_there_is() {
    let place = Place::new();
    let Some(tmpfs) = TinyTmpfs::mount(DISK / 2) else { return };
    let target = tmpfs.path().join("disk");
    for image in place.images() {
        let what = image.display();
        tmpfs.resize(DISK / 2).unwrap();
        let error = SAME.run(&image, &target, u64::MAX).0.unwrap_err();
        assert_eq!(error.kind(), Kind::Target, "{what}: {error}");
        assert!(error.to_string().contains("no space left"), "{what}: {error}");
        assert!(tmpfs.path().join(".disk.checkpoint").exists(), "{what}");
        // It is no better the second time, and nothing is lost.
        assert_eq!(SAME.run(&image, &target, u64::MAX).0.unwrap_err().kind(), Kind::Target, "{what}");
        tmpfs.resize(2 * DISK).unwrap();
        let outcome = SAME.run(&image, &target, u64::MAX).0.unwrap();
        assert!(outcome.resumed_from.is_some(), "{what}");
        assert_eq!(fixtures::differ(&target, &place.disk), None, "{what}");
        assert_eq!(fs::read_dir(tmpfs.path()).unwrap().count(), 1, "{what}");
        fs::remove_file(&target).unwrap();
    }
}

#[test]
fn two_do_not_write_the_same_part() {
    let place = Place::new();
    let options = Options { resume: true, ..Options::default() };
    let first = sink::create(&place.target(), options).unwrap();
    let error = sink::create(&place.target(), options).err().unwrap();
    assert!(error.to_string().contains("another import"), "{error}");
    // Nor does one without remove it.
    let plain = sink::create(&place.target(), Options::default()).unwrap();
    assert!(place.left().contains(&".disk.part".to_owned()));
    drop((first, plain));
    assert_eq!(place.left(), [""; 0]);
}

#[test]
fn a_raw_disk_is_continued_with_its_checksum() {
    let place = Place::new();
    let device = LoopDevice::filled(usize::try_from(DISK).unwrap(), 512, 0xff);
    let sum = |path: &Path| vec![format!("sha256:{}", sha256_file(path)).parse().unwrap()];
    let targets = [Some(place.target()), device.as_ref().map(|device| device.path().to_owned())];
    for target in targets.into_iter().flatten() {
        for at in [DISK / 3, DISK - 10_000] {
            SAME.checked(&place.disk, &target, at, sum(&place.disk)).0.unwrap_err();
            let (result, fetched) = SAME.checked(&place.disk, &target, u64::MAX, sum(&place.disk));
            let outcome = result.unwrap();
            let from = outcome.resumed_from.unwrap();
            assert!(from + (2 << 20) > at && fetched < DISK - from + (3 << 20), "{fetched} after {from}");
            assert_eq!(outcome.source_digest.unwrap(), format!("sha256:{}", sha256_file(&place.disk)));
            assert_eq!(sha256_file(&target), sha256_file(&place.disk));
        }
    }
    assert_eq!(place.left(), ["disk"]);
    // What was changed between the runs, outside of the sample, does not get by.
    SAME.checked(&place.disk, &place.target(), DISK / 2, sum(&place.disk)).0.unwrap_err();
    let part = fs::File::options().write(true).open(place.target().with_file_name(".disk.part")).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&part, b"changed", (5 << 20) + 100_000).unwrap();
    drop(part);
    let error = SAME.checked(&place.disk, &place.target(), u64::MAX, sum(&place.disk)).0.unwrap_err();
    assert_eq!(error.kind(), Kind::Mismatch, "{error}");
}
