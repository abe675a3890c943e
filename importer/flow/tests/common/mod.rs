//! Sources and checks that the pipeline tests share.
#![allow(clippy::expect_used, reason = "in a test, that is the failure")]

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use fixtures::content::Random;
use importer_flow::sink::{Claim, FileSink, Options, Written};
use importer_flow::source::FileSource;
use importer_flow::{Error, Kind, Outcome, Piece, Result, Settings, Sink, Source, Stream, import};

/// A source that gives pieces of random size, and may or may not be opened again.
pub struct Chunked {
    file: Bytes,
    largest: u64,
    reopens: bool,
    known_len: bool,
    opened: bool,
    glimpses: Option<Glimpses>,
}

/// What ranges of a source give that nothing proves: the bytes of a range, to be changed, or a failure.
pub type Glimpses = Box<dyn FnMut(Range<u64>, &mut Vec<u8>) -> Result<()> + Send>;

impl Chunked {
    pub fn new(path: &Path, largest: u64, reopens: bool, known_len: bool) -> Self {
        let file = Bytes::from(std::fs::read(path).expect("the image can be read"));
        Self { file, largest, reopens, known_len, opened: false, glimpses: None }
    }

    /// The same, with ranges that nothing proves.
    #[allow(dead_code, reason = "not all tests have some")]
    pub fn with_glimpses(self, glimpses: Glimpses) -> Self {
        Self { glimpses: Some(glimpses), known_len: true, ..self }
    }
}

impl Source for Chunked {
    fn open(&mut self) -> Result<Box<dyn Stream>> {
        if self.opened && !self.reopens {
            return Err(Error::new(Kind::Ours, "opened twice"));
        }
        self.opened = true;
        let random = Random::new(self.largest + self.file.len() as u64);
        Ok(Box::new(Chunks { rest: self.file.clone(), largest: self.largest, random }))
    }

    fn read(&mut self, _ranges: Vec<Range<u64>>) -> Result<Box<dyn Stream>> {
        Err(Error::new(Kind::Ours, "there are no ranges"))
    }

    fn glimpse(&mut self, ranges: Vec<Range<u64>>) -> Result<Box<dyn Stream>> {
        let mut parts = VecDeque::new();
        for range in ranges {
            let [start, end] = [range.start, range.end].map(|at| usize::try_from(at).expect("small"));
            let mut bytes = self.file.get(start..end).expect("a range of the file").to_vec();
            self.glimpses.as_mut().expect("it has some")(range, &mut bytes)?;
            parts.push_back(bytes.into());
        }
        Ok(Box::new(Parts(parts)))
    }

    fn glimpses(&self) -> bool {
        self.glimpses.is_some()
    }

    fn len(&self) -> Option<u64> {
        self.known_len.then_some(self.file.len() as u64)
    }

    fn ranges(&self) -> bool {
        false
    }

    fn reopens(&self) -> bool {
        self.reopens
    }

    fn name(&self) -> String {
        "chunks".into()
    }
}

/// A stream of ranges, each in one piece.
struct Parts(VecDeque<Bytes>);

impl Stream for Parts {
    fn next(&mut self) -> Result<Option<Piece>> {
        Ok(self.0.pop_front().map(Piece::Bytes))
    }
}

struct Chunks {
    rest: Bytes,
    largest: u64,
    random: Random,
}

impl Stream for Chunks {
    fn next(&mut self) -> Result<Option<Piece>> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let len = usize::try_from(1 + self.random.below(self.largest)).expect("small").min(self.rest.len());
        Ok(Some(Piece::Bytes(self.rest.split_to(len))))
    }
}

/// How a test reads an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(dead_code, reason = "each test knows some of them")]
pub enum Way {
    /// At any offset.
    Ranged,
    /// At any offset, for a target that takes the disk in order.
    InOrder,
    /// In order, as often as needed, in pieces of at most so many bytes.
    Again(u64),
    /// Once, in order, of unknown length.
    Once(u64),
    /// In order, with ranges that nothing proves.
    Glimpsed(u64),
}

/// Settings with little memory, so that tables that come late matter.
pub fn tight(directory: &Path) -> Settings {
    Settings { memory: 2 << 20, threads: 2, spool_directory: directory.to_owned(), ..Settings::default() }
}

/// A file, and which ranges were written to it as data, before zeros were looked for in them.
struct Recorder {
    file: Box<FileSink>,
    writes: Arc<Mutex<Vec<Range<u64>>>>,
    /// Where it takes the disk in order, what has its turn.
    turn: Option<Mutex<Turn>>,
}

/// What comes next, and zeros that were told of before their turn, as streams do.
#[derive(Default)]
struct Turn {
    next: u64,
    zeros: BTreeMap<u64, u64>,
}

impl Recorder {
    fn turn(&self, at: u64, len: u64, zeros: bool) -> Result<()> {
        let Some(turn) = &self.turn else { return Ok(()) };
        let Turn { next, zeros: early } = &mut *turn.lock().expect("no writer panics");
        if zeros && at > *next {
            early.insert(at, len);
        } else if at == *next {
            *next += len;
        } else {
            return Err(Error::new(Kind::Ours, format!("{at:#x} comes instead of {next:#x}")));
        }
        while let Some(len) = early.remove(next) {
            *next += len;
        }
        Ok(())
    }
}

impl Sink for Recorder {
    fn prepare(&self, size: Option<u64>) -> Result<()> {
        self.file.prepare(size)
    }

    fn ordered(&self) -> bool {
        self.turn.is_some()
    }

    fn write(&self, at: u64, bytes: &[u8]) -> Result<()> {
        self.turn(at, bytes.len() as u64, false)?;
        self.writes.lock().expect("no writer panics").push(at..at + bytes.len() as u64);
        self.file.write(at, bytes)
    }

    fn joins(&self) -> bool {
        self.file.joins()
    }

    fn zero(&self, at: u64, len: u64) -> Result<()> {
        self.turn(at, len, true)?;
        self.file.zero(at, len)
    }

    fn finish(self: Box<Self>, size: u64) -> Result<Written> {
        self.turn(size, 0, false)?;
        self.file.finish(size)
    }

    fn name(&self) -> String {
        self.file.name()
    }

    fn claim(&self) -> Claim {
        self.file.claim()
    }
}

/// Imports the image at `path` into a new file in `directory`.
pub fn import_file(path: &Path, way: Way, directory: &Path, settings: &Settings) -> Result<(Outcome, PathBuf)> {
    import_recorded(path, way, directory, settings).map(|(outcome, target, _)| (outcome, target))
}

/// The same, and gives the ranges that were written as data, in guest order.
pub fn import_recorded(
    path: &Path,
    way: Way,
    directory: &Path,
    settings: &Settings,
) -> Result<(Outcome, PathBuf, Vec<Range<u64>>)> {
    let mut source: Box<dyn Source> = match way {
        Way::Ranged | Way::InOrder => Box::new(FileSource::open(path)?),
        Way::Again(largest) => Box::new(Chunked::new(path, largest, true, largest % 2 == 0)),
        Way::Glimpsed(largest) => {
            Box::new(Chunked::new(path, largest, true, true).with_glimpses(Box::new(|_, _| Ok(()))))
        }
        Way::Once(largest) => Box::new(Chunked::new(path, largest, false, false)),
    };
    import_from(&mut *source, way == Way::InOrder, directory, settings)
}

/// Imports what `source` has, for a target that takes a disk in order or not.
pub fn import_from(
    source: &mut dyn Source,
    in_order: bool,
    directory: &Path,
    settings: &Settings,
) -> Result<(Outcome, PathBuf, Vec<Range<u64>>)> {
    let target = directory.join("imported.raw");
    let file = Box::new(FileSink::create(&target, Options::default())?);
    let writes = Arc::new(Mutex::default());
    let turn = in_order.then(Mutex::default);
    // Several threads overtake each other: no threads but one.
    let settings = Settings { threads: if turn.is_some() { 0 } else { settings.threads }, ..settings.clone() };
    let sink = Box::new(Recorder { file, writes: Arc::clone(&writes), turn });
    let outcome = import(source, sink, &settings, Arc::default())?;
    let mut writes = std::mem::take(&mut *writes.lock().expect("no writer panics"));
    writes.sort_unstable_by_key(|range| range.start);
    Ok((outcome, target, writes))
}

/// Nothing in `directory` looks like a disk, finished or not.
pub fn assert_nothing_left(directory: &Path) {
    let left: Vec<_> = std::fs::read_dir(directory)
        .expect("the directory can be read")
        .map(|entry| entry.expect("an entry").file_name())
        .filter(|name| name.to_string_lossy().contains("imported"))
        .collect();
    assert!(left.is_empty(), "{left:?} is left");
}
