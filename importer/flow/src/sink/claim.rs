//! What a target is when its import ends by force.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::File;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::fs::AtFlags;

use crate::{Error, Kind, Result};

/// How far a sink is with its target, shared with whoever may have to give the target up from another thread.
///
/// A signal leaves no time to bring an import to its end: it may wait for a server, or for a disk. What must not be left
/// behind is known here. Whatever the sink does to its target happens either before it is given up, or not at all.
#[derive(Clone, Debug, Default)]
pub struct Claim(Arc<Shared>);

/// What a target is once its import has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// As it was, there or not.
    Untouched,
    /// A device with a part of the disk, and with zeros where it begins.
    Part,
    /// Not complete, with a checkpoint from which the next copy goes on.
    Resumable,
    /// The whole disk.
    Whole,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    /// What was being completed elsewhere is not any more.
    settled: Condvar,
}

#[derive(Debug, Default)]
struct State {
    stage: Stage,
    /// The way to forget a checkpoint, where there is one.
    checkpoint: Option<Forget>,
}

#[derive(Debug, Default)]
enum Stage {
    #[default]
    Untouched,
    /// All there is has another name, in this directory.
    Elsewhere {
        dir: Arc<File>,
        name: OsString,
    },
    Part,
    /// What there is, is with somebody else, who has to be told.
    Abroad(Stop),
    /// The same, and it is just being completed there.
    Completing(Stop),
    Ended(Left),
}

/// Ends what is with somebody else, within a second or two.
struct Stop(Box<dyn FnOnce() + Send>);

/// Removes a checkpoint and what it is of. Holds the lock on it until then.
pub(super) struct Forget(Box<dyn FnOnce() -> io::Result<()> + Send>);

impl Claim {
    /// A claim on what is written under this name first.
    pub(super) fn elsewhere(dir: Arc<File>, name: OsString) -> Self {
        let stage = Stage::Elsewhere { dir, name };
        Self::at(stage)
    }

    /// A claim on what is with somebody else until it is complete; `stop` ends it there, within a second or two.
    pub(crate) fn abroad(stop: impl FnOnce() + Send + 'static) -> Self {
        Self::at(Stage::Abroad(Stop(Box::new(stop))))
    }

    fn at(stage: Stage) -> Self {
        let state = Mutex::new(State { stage, checkpoint: None });
        Self(Arc::new(Shared { state, settled: Condvar::new() }))
    }

    /// Gives the target up: removes what has a temporary name, unless there is a checkpoint of it, and makes the sink fail
    /// where it would change or finish the target. A target that is complete stays so; one that is just being completed
    /// is waited for, for a second or two where that depends on
    /// others.
    pub fn abandon(&self) -> Left {
        let completing = |state: &mut State| matches!(state.stage, Stage::Completing(_));
        let state = self.0.settled.wait_timeout_while(self.lock(), PATIENCE, completing);
        let mut state = state.unwrap_or_else(PoisonError::into_inner).0;
        let left = match std::mem::replace(&mut state.stage, Stage::Ended(Left::Untouched)) {
            Stage::Ended(left) => left,
            _ if state.checkpoint.is_some() => Left::Resumable,
            Stage::Untouched => Left::Untouched,
            Stage::Elsewhere { dir, name } => {
                if let Err(error) = rustix::fs::unlinkat(&dir, &name, AtFlags::empty()) {
                    tracing::warn!(name = %name.display(), %error, "a temporary file could not be removed");
                }
                Left::Untouched
            }
            Stage::Part => Left::Part,
            Stage::Abroad(stop) | Stage::Completing(stop) => {
                (stop.0)();
                Left::Untouched
            }
        };
        state.stage = Stage::Ended(left);
        left
    }

    /// Gives the target up, and its checkpoint: no copy can go on from it, or should.
    pub fn discard(&self) {
        if self.abandon() != Left::Resumable {
            return;
        }
        let forget = self.lock().checkpoint.take();
        if let Some(Err(error)) = forget.map(|forget| forget.0()) {
            tracing::warn!(%error, "a checkpoint could not be removed");
        }
    }

    /// Does `first`, after which the target is not what it was, unless it was given up.
    pub(super) fn begin(&self, first: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let mut state = self.lock();
        if matches!(state.stage, Stage::Ended(_)) {
            return Err(given_up());
        }
        state.stage = Stage::Part;
        first()
    }

    /// Does `write`, after which there is a checkpoint that `forget` removes, unless the target was given up.
    pub(super) fn keep(&self, write: impl FnOnce() -> io::Result<()>, forget: Forget) -> io::Result<()> {
        let mut state = self.lock();
        if matches!(state.stage, Stage::Ended(_)) {
            return Err(given_up());
        }
        write()?;
        state.checkpoint = Some(forget);
        Ok(())
    }

    /// The checkpoint is of no use any more.
    pub(super) fn unkeep(&self) {
        self.lock().checkpoint = None;
    }

    /// Makes the target whole by doing `last`, unless it was given up.
    pub(super) fn complete(&self, last: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let mut state = self.lock();
        if matches!(state.stage, Stage::Ended(_)) {
            return Err(given_up());
        }
        last()?;
        state.stage = Stage::Ended(Left::Whole);
        Ok(())
    }

    /// Makes the target whole by giving `target` as the name to what had another.
    pub(super) fn rename(&self, target: &OsStr) -> io::Result<()> {
        let mut state = self.lock();
        let Stage::Elsewhere { dir, name } = &state.stage else { return Err(given_up()) };
        rustix::fs::renameat(dir, name, dir, target)?;
        state.stage = Stage::Ended(Left::Whole);
        Ok(())
    }

    /// Makes the target whole by `last`, which somebody else has to answer and so may take long, unless it was given up.
    /// Whoever gives it up meanwhile waits for the end of `last` for a while, and then stops it.
    pub(crate) fn complete_abroad<T>(&self, last: impl FnOnce() -> Result<T>) -> Result<T> {
        let given_up = || Error::new(Kind::Transient, "the push was given up");
        let mut state = self.lock();
        match std::mem::take(&mut state.stage) {
            Stage::Abroad(stop) => state.stage = Stage::Completing(stop),
            stage => {
                state.stage = stage;
                return Err(given_up());
            }
        }
        drop(state);
        let done = last();
        let mut state = self.lock();
        match (std::mem::take(&mut state.stage), &done) {
            (Stage::Completing(_), Ok(_)) => state.stage = Stage::Ended(Left::Whole),
            (Stage::Completing(stop), Err(_)) => state.stage = Stage::Abroad(stop),
            (stage, _) => state.stage = stage,
        }
        drop(state);
        self.0.settled.notify_all();
        done
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Forget {
    pub(super) fn new(forget: impl FnOnce() -> io::Result<()> + Send + 'static) -> Self {
        Self(Box::new(forget))
    }
}

impl fmt::Debug for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Stop")
    }
}

impl fmt::Debug for Forget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Forget")
    }
}

/// How long others may take to complete what is being given up.
const PATIENCE: Duration = Duration::from_secs(1);

fn given_up() -> io::Error {
    io::Error::new(io::ErrorKind::Interrupted, "the import was given up")
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::super::{Earlier, FileSink, Options, Sink};
    use super::*;

    fn sink(path: &Path) -> Box<FileSink> {
        let sink = Box::new(FileSink::create(path, Options::default()).unwrap());
        sink.prepare(Some(8192)).unwrap();
        sink.write(0, &[7; 8192]).unwrap();
        sink
    }

    #[test]
    fn a_file_that_was_given_up_never_appears() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("disk");
        for old in [None, Some("precious")] {
            if let Some(old) = old {
                fs::write(&path, old).unwrap();
            }
            let there = fs::read_dir(dir.path()).unwrap().count();
            let sink = sink(&path);
            let claim = sink.claim();
            assert_eq!(fs::read_dir(dir.path()).unwrap().count(), there + 1);
            assert_eq!(claim.abandon(), Left::Untouched);
            assert_eq!(fs::read_dir(dir.path()).unwrap().count(), there);
            // Threads that know nothing of it go on for a while.
            sink.write(4096, &[8; 4096]).unwrap();
            sink.finish(8192).unwrap_err();
            assert_eq!(fs::read_to_string(&path).ok().as_deref(), old);
            assert_eq!(fs::read_dir(dir.path()).unwrap().count(), there);
            assert_eq!(claim.abandon(), Left::Untouched);
        }
    }

    #[test]
    fn a_file_that_is_complete_stays() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("disk");
        let sink = sink(&path);
        let claim = sink.claim();
        sink.finish(8192).unwrap();
        assert_eq!(claim.abandon(), Left::Whole);
        assert_eq!(fs::read(&path).unwrap(), [7; 8192]);
    }

    #[test]
    fn a_file_whose_import_failed_is_removed_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("disk");
        let sink = sink(&path);
        let claim = sink.claim();
        drop(sink);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        assert_eq!(claim.abandon(), Left::Untouched);
    }

    #[test]
    fn what_has_a_checkpoint_stays_unless_it_is_discarded() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("disk");
        let names = || fs::read_dir(dir.path()).unwrap().count();
        let sink = || {
            let sink = Box::new(FileSink::create(&path, Options { resume: true, ..Options::default() }).unwrap());
            sink.prepare(Some(8192)).unwrap();
            sink.write(0, &[7; 8192]).unwrap();
            sink
        };
        let first = sink();
        let claim = first.claim();
        first.checkpoint("record").unwrap();
        assert_eq!((claim.abandon(), names()), (Left::Resumable, 2));
        first.checkpoint("late").unwrap_err();
        first.finish(8192).unwrap_err();
        drop(claim);
        let second = sink();
        assert_eq!(second.resumed(), Earlier::Record("record".into()));
        let claim = second.claim();
        drop(second);
        claim.discard();
        assert_eq!((claim.abandon(), names()), (Left::Resumable, 0));
        drop(claim);
        let third = sink();
        let claim = third.claim();
        assert_eq!(third.resumed(), Earlier::Nothing);
        assert_eq!((claim.abandon(), names()), (Left::Untouched, 0));
    }
}
