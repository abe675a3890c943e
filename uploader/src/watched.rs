//! Files that are read again when they change.

use std::fmt;
use std::fs;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use importer_flow::{Error, Kind, Result};

/// What was made of the content of some files, and is made anew when one of them changes. While the new content makes no
/// sense, the old counts: files are not always replaced in one step.
pub struct Watched<T> {
    files: Vec<PathBuf>,
    make: Make<T>,
    state: Mutex<(Vec<Stamp>, Arc<T>)>,
}

/// Gets the contents in the order of the files, and says in a line what is wrong with them.
type Make<T> = Box<dyn Fn(&[Vec<u8>]) -> Result<T, String> + Send + Sync>;

/// What changes when a file does. A path through a symbolic link, as Kubernetes mounts a Secret, is followed.
type Stamp = Option<(u64, u64, SystemTime)>;

impl<T> Watched<T> {
    /// Reads the files for the first time.
    ///
    /// # Errors
    ///
    /// `Kind::Usage` for what can't be read or makes no sense.
    pub fn new(
        files: Vec<PathBuf>,
        make: impl Fn(&[Vec<u8>]) -> Result<T, String> + Send + Sync + 'static,
    ) -> Result<Self> {
        let make: Make<T> = Box::new(make);
        let stamps = stamps(&files);
        let made = load(&files, &make).map_err(|why| Error::new(Kind::Usage, why))?;
        Ok(Self { files, make, state: Mutex::new((stamps, Arc::new(made))) })
    }

    /// What the files say now. Costs a look at each.
    pub fn now(&self) -> Arc<T> {
        let stamps = stamps(&self.files);
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if stamps != state.0 {
            state.0 = stamps;
            match load(&self.files, &self.make) {
                Ok(made) => {
                    state.1 = Arc::new(made);
                    tracing::info!("read {} again", list(&self.files));
                }
                Err(why) => tracing::warn!("{why}: what was there before stays in force"),
            }
        }
        Arc::clone(&state.1)
    }
}

impl<T> fmt::Debug for Watched<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Watched({})", list(&self.files))
    }
}

fn stamps(files: &[PathBuf]) -> Vec<Stamp> {
    let stamp = |file: &PathBuf| {
        let meta = fs::metadata(file).ok()?;
        Some((meta.ino(), meta.len(), meta.modified().ok()?))
    };
    files.iter().map(stamp).collect()
}

fn load<T>(files: &[PathBuf], make: &Make<T>) -> Result<T, String> {
    let mut contents = Vec::new();
    for file in files {
        contents.push(read(file)?);
    }
    make(&contents).map_err(|why| format!("{}: {why}", list(files)))
}

fn read(file: &Path) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let read = fs::File::open(file).and_then(|file| file.take(MAX_FILE).read_to_end(&mut bytes));
    read.map_err(|error| format!("{}: {error}", file.display()))?;
    Ok(bytes)
}

fn list(files: &[PathBuf]) -> String {
    let names: Vec<_> = files.iter().map(|file| file.display().to_string()).collect();
    names.join(" and ")
}

const MAX_FILE: u64 = 4 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_makes_no_sense_changes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("number");
        let number = |contents: &[Vec<u8>]| {
            std::str::from_utf8(&contents[0]).unwrap().parse::<u32>().map_err(|error| error.to_string())
        };
        let write = |text: &str| {
            // A new file, as everything that replaces secrets makes it.
            fs::write(dir.path().join("new"), text).unwrap();
            fs::rename(dir.path().join("new"), &file).unwrap();
        };
        let error = Watched::new(vec![file.clone()], number).unwrap_err();
        assert_eq!(error.kind(), Kind::Usage);
        write("1");
        let watched = Watched::new(vec![file.clone()], number).unwrap();
        assert_eq!(*watched.now(), 1);
        write("many");
        assert_eq!(*watched.now(), 1);
        fs::remove_file(&file).unwrap();
        assert_eq!(*watched.now(), 1);
        write("20");
        assert_eq!(*watched.now(), 20);
    }
}
