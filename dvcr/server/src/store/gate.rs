//! The lock between those who add to the store and those who remove from it, in this process or in another.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

/// Lets many add, or one remove. It is held for a few system calls, never while bytes come from the network, so neither
/// side notices the other.
///
/// Two files, each locked as a whole by the kernel, which gives locks back when a process dies. Whoever waits to remove
/// holds the door, so that those who add can't keep him out by coming one after the other.
pub(crate) struct Gate {
    door: PathBuf,
    room: PathBuf,
}

/// Somebody is inside until this is dropped.
#[must_use]
pub(crate) struct Inside {
    _room: File,
    _door: Option<File>,
}

impl Gate {
    pub(crate) fn new(locks: &Path) -> io::Result<Self> {
        let gate = Self { door: locks.join("door"), room: locks.join("room") };
        for file in [&gate.door, &gate.room] {
            // Those who only look need not be allowed to write.
            if !file.exists() {
                File::options().create(true).append(true).open(file)?;
            }
        }
        Ok(gate)
    }

    /// Nothing is removed meanwhile.
    pub(crate) fn add(&self) -> io::Result<Inside> {
        let door = locked(&self.door, FlockOperation::LockShared)?;
        let room = locked(&self.room, FlockOperation::LockShared)?;
        drop(door);
        Ok(Inside { _room: room, _door: None })
    }

    /// Nothing is added, and nobody else removes, meanwhile.
    pub(crate) fn remove(&self) -> io::Result<Inside> {
        let door = locked(&self.door, FlockOperation::LockExclusive)?;
        let room = locked(&self.room, FlockOperation::LockExclusive)?;
        Ok(Inside { _room: room, _door: Some(door) })
    }
}

/// A new open file each time: a lock belongs to it, not to the process.
fn locked(path: &Path, how: FlockOperation) -> io::Result<File> {
    let file = File::open(path)?;
    loop {
        match flock(&file, how) {
            Ok(()) => return Ok(file),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn many_add_and_one_removes() {
        let dir = tempfile::tempdir().unwrap();
        let gate = Arc::new(Gate::new(dir.path()).unwrap());
        let adding = Arc::new(AtomicUsize::new(0));
        let together = [gate.add().unwrap(), gate.add().unwrap()];
        drop(together);
        let threads: Vec<_> = (0..8)
            .map(|n| {
                let (gate, adding) = (Arc::clone(&gate), Arc::clone(&adding));
                std::thread::spawn(move || {
                    for _ in 0..200 {
                        if n == 0 {
                            let _inside = gate.remove().unwrap();
                            assert_eq!(adding.load(Ordering::SeqCst), 0);
                        } else {
                            let _inside = gate.add().unwrap();
                            adding.fetch_add(1, Ordering::SeqCst);
                            adding.fetch_sub(1, Ordering::SeqCst);
                        }
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
    }
}
