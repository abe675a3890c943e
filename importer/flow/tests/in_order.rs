//! Images for a target that takes the disk in order: what that costs, what it refuses, and which streams it can take.
#![allow(clippy::unwrap_used, clippy::panic, reason = "in a test, that is the failure")]

mod common;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use common::{Chunked, Way, assert_nothing_left, import_file, tight};
use fixtures::hostile::hostile;
use fixtures::images::catalogue;
use importer_flow::sink::{Claim, Written};
use importer_flow::{Result, Settings, Sink, import};

/// What lies between, and at the ends of what is wanted, is all that may be read besides.
#[test]
fn it_reads_what_any_order_reads() {
    let directory = tempfile::tempdir().unwrap();
    let ample = Settings { spool_directory: directory.path().to_owned(), ..Settings::default() };
    for recipe in catalogue().iter().filter(|recipe| !recipe.name.starts_with("vmdk-stream")) {
        let image = recipe.build(directory.path());
        let read = |way, settings: &Settings| {
            let (outcome, target) = import_file(&image.path, way, directory.path(), settings).unwrap();
            std::fs::remove_file(target).unwrap();
            outcome.source_bytes
        };
        let (any, ordered) = (read(Way::Ranged, &ample), read(Way::InOrder, &ample));
        // With half a MiB for a bundle, of images of 8 MiB.
        let scarce = read(Way::InOrder, &tight(directory.path()));
        println!("{:44} any {any:9} in order {ordered:9} with little memory {scarce:9}", recipe.name);
        let percent = if is_converted(&recipe.name) { 2 } else { 25 };
        let most = any + any * percent / 100;
        assert!(ordered <= most && scarce <= most, "{}: {ordered} and {scarce} instead of {any}", recipe.name);
        std::fs::remove_file(image.path).unwrap();
    }
}

#[test]
fn dishonest_images_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("image");
    for image in hostile() {
        std::fs::write(&path, image.bytes()).unwrap();
        let error = match import_file(&path, Way::InOrder, directory.path(), &tight(directory.path())) {
            Ok((outcome, _)) => panic!("{image:?} was accepted: {outcome:?}"),
            Err(error) => error,
        };
        assert!(image.exits.contains(&error.kind().exit_code()), "{image:?}: {error}");
        assert_nothing_left(directory.path());
    }
}

/// Takes a disk in order, and keeps what comes early.
struct Patient {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    next: u64,
    /// Start, length, and how much of it must be kept: nothing of zeros.
    early: BTreeMap<u64, (u64, u64)>,
    kept: u64,
    most: u64,
}

impl State {
    fn take(&mut self, at: u64, len: u64, kept: u64) {
        self.early.insert(at, (len, kept));
        self.kept += kept;
        while let Some((len, kept)) = self.early.remove(&self.next) {
            self.next += len;
            self.kept -= kept;
        }
        self.most = self.most.max(self.kept);
    }
}

impl Sink for Patient {
    fn prepare(&self, _size: Option<u64>) -> Result<()> {
        Ok(())
    }

    fn ordered(&self) -> bool {
        true
    }

    fn write(&self, at: u64, bytes: &[u8]) -> Result<()> {
        self.state.lock().unwrap().take(at, bytes.len() as u64, bytes.len() as u64);
        Ok(())
    }

    fn zero(&self, at: u64, len: u64) -> Result<()> {
        self.state.lock().unwrap().take(at, len, 0);
        Ok(())
    }

    fn finish(self: Box<Self>, size: u64) -> Result<Written> {
        assert_eq!(self.state.lock().unwrap().next, size);
        Ok(Written { data: 0, size })
    }

    fn name(&self) -> String {
        "patient".into()
    }

    fn claim(&self) -> Claim {
        Claim::default()
    }
}

/// How many bytes had to be kept because others of the disk came later in the stream.
fn kept(path: &Path, settings: &Settings) -> Result<u64> {
    let state = Arc::<Mutex<State>>::default();
    let sink = Box::new(Patient { state: Arc::clone(&state) });
    import(&mut Chunked::new(path, 100_000, true, true), sink, settings, Arc::default())?;
    let most = state.lock().unwrap().most;
    Ok(most)
}

/// Images that a stream brings in the order of their disk: what qemu-img has just written, one request behind the other.
#[test]
fn what_was_converted_streams_in_order() {
    let directory = tempfile::tempdir().unwrap();
    let settings = Settings { threads: 0, spool_directory: directory.path().to_owned(), ..Settings::default() };
    for recipe in catalogue() {
        let image = recipe.build(directory.path());
        let kept = kept(&image.path, &settings);
        println!("{:44} {kept:?}", recipe.name);
        if is_converted(&recipe.name) {
            let kept = kept.unwrap();
            // One compressed run may lie before its table.
            assert!(kept <= 1 << 20, "{}: {kept}", recipe.name);
        }
        std::fs::remove_file(image.path).unwrap();
    }
}

/// Whether the image of this name is as one process has written it, from the start of the disk to its end.
fn is_converted(name: &str) -> bool {
    !OTHERS.iter().any(|word| name.contains(word))
}

/// What the names of all others have.
const OTHERS: [&str; 15] = [
    "written",
    "used",
    "installed",
    "zeroed",
    "discarded",
    "snapshot",
    "grown",
    "unordered",
    "nbdcopy",
    "bitmap",
    "lazy",
    "dirty",
    "falloc",
    "full",
    "large",
];
