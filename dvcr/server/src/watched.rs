//! A file that is read again when it changes.

use std::fs;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use crate::error::{Error, Kind, Result, words};

/// What was made of the content of some files, and is made anew when one of them changes. While the new content makes no
/// sense, the old counts: files are not always replaced in one step.
pub(crate) struct Watched<T> {
    files: Vec<PathBuf>,
    make: fn(&[Vec<u8>]) -> Result<T, String>,
    state: Mutex<(Vec<Stamp>, Arc<T>)>,
}

/// What changes when a file does. A path through a symbolic link, as Kubernetes mounts a Secret, is followed.
type Stamp = Option<(u64, u64, SystemTime)>;

impl<T> Watched<T> {
    pub(crate) fn new(files: Vec<PathBuf>, make: fn(&[Vec<u8>]) -> Result<T, String>) -> Result<Self> {
        let stamps = stamps(&files);
        let made = load(&files, make).map_err(|why| Error::new(Kind::Usage, why))?;
        Ok(Self { files, make, state: Mutex::new((stamps, Arc::new(made))) })
    }

    /// What the files say now. Costs a look at each.
    pub(crate) fn now(&self) -> Result<Arc<T>> {
        let stamps = stamps(&self.files);
        let mut state = self.state.lock().map_err(|_| Error::new(Kind::Internal, "what a file said is lost"))?;
        if stamps != state.0 {
            state.0 = stamps;
            match load(&self.files, self.make) {
                Ok(made) => {
                    state.1 = Arc::new(made);
                    tracing::info!("read {} again", list(&self.files));
                }
                Err(why) => tracing::warn!("{why}: what was there before stays in force"),
            }
        }
        Ok(Arc::clone(&state.1))
    }
}

fn stamps(files: &[PathBuf]) -> Vec<Stamp> {
    let stamp = |file: &PathBuf| {
        let meta = fs::metadata(file).ok()?;
        Some((meta.ino(), meta.len(), meta.modified().ok()?))
    };
    files.iter().map(stamp).collect()
}

fn load<T>(files: &[PathBuf], make: fn(&[Vec<u8>]) -> Result<T, String>) -> Result<T, String> {
    let mut contents = Vec::new();
    for file in files {
        contents.push(read(file)?);
    }
    make(&contents).map_err(|why| format!("{}: {why}", list(files)))
}

fn read(file: &Path) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let read = fs::File::open(file).and_then(|file| file.take(MAX_FILE).read_to_end(&mut bytes));
    read.map_err(|error| format!("{}: {}", file.display(), words(&error)))?;
    Ok(bytes)
}

fn list(files: &[PathBuf]) -> String {
    let names: Vec<_> = files.iter().map(|file| file.display().to_string()).collect();
    names.join(" and ")
}

const MAX_FILE: u64 = 4 << 20;
