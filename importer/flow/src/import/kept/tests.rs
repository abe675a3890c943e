use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;

use crate::sink::{Claim, InOrder, OrderedSink};
use crate::{Error, Kind, Piece, Result, Settings, Source, Stream, import};

/// A source of unknown length whose passes bring these.
struct Passes {
    bodies: Vec<Vec<u8>>,
    opened: usize,
}

struct Once(Option<Vec<u8>>);

impl Stream for Once {
    fn next(&mut self) -> Result<Option<Piece>> {
        Ok(self.0.take().map(|bytes| Piece::Bytes(Bytes::from(bytes))))
    }
}

impl Source for Passes {
    fn open(&mut self) -> Result<Box<dyn Stream>> {
        let body = self.bodies[self.opened.min(self.bodies.len() - 1)].clone();
        self.opened += 1;
        Ok(Box::new(Once(Some(body))))
    }

    fn read(&mut self, _ranges: Vec<Range<u64>>) -> Result<Box<dyn Stream>> {
        Err(Error::new(Kind::Ours, "it has no ranges"))
    }

    fn len(&self) -> Option<u64> {
        None
    }

    fn ranges(&self) -> bool {
        false
    }

    fn reopens(&self) -> bool {
        true
    }

    fn name(&self) -> String {
        "passes".to_owned()
    }
}

/// A target that wants to know its length first, and keeps qcow2.
struct Target {
    written: u64,
    finished: Arc<AtomicBool>,
}

impl InOrder for Target {
    fn prepare(&mut self, size: Option<u64>) -> Result<()> {
        assert!(size.is_some());
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.written += bytes.len() as u64;
        Ok(())
    }

    fn zero(&mut self, len: u64) -> Result<()> {
        self.written += len;
        Ok(())
    }

    fn finish(self, size: u64) -> Result<()> {
        assert_eq!(self.written, size);
        self.finished.store(true, Ordering::Relaxed);
        Ok(())
    }

    fn sized(&self) -> bool {
        true
    }

    fn keeps(&self, format: &str) -> bool {
        format == "qcow2"
    }

    fn name(&self) -> String {
        "target".to_owned()
    }

    fn claim(&self) -> Claim {
        Claim::default()
    }
}

/// Imports what these passes bring; gives how it ended, and whether the target was finished.
fn brought(bodies: Vec<Vec<u8>>) -> (Result<crate::Outcome>, bool) {
    let finished = Arc::<AtomicBool>::default();
    let sink = Box::new(OrderedSink::new(Target { written: 0, finished: Arc::clone(&finished) }));
    let result = import(&mut Passes { bodies, opened: 0 }, sink, &Settings::default(), Arc::default());
    (result, finished.load(Ordering::Relaxed))
}

#[test]
fn a_second_pass_must_bring_what_the_first_was_measured_by() {
    let dir = tempfile::tempdir().unwrap();
    for (name, format) in [("qcow2-64k-v1.1", "qcow2"), ("raw", "raw")] {
        let recipe = fixtures::images::catalogue().into_iter().find(|recipe| recipe.name == name).unwrap();
        let body = std::fs::read(recipe.build(dir.path()).path).unwrap();
        let (outcome, finished) = brought(vec![body.clone()]);
        let outcome = outcome.unwrap();
        assert!(finished && outcome.image.format == format && outcome.mode.name() == "two-pass", "{outcome:?}");
        let mut other = body.clone();
        let place = other.len() * 3 / 4;
        other[place] ^= 1;
        let (outcome, finished) = brought(vec![body, other]);
        assert_eq!(outcome.unwrap_err().kind(), Kind::Changed, "{name}");
        assert!(!finished, "{name}");
    }
}
