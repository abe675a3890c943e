//! Where an upload goes.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use importer_flow::registry::{Platform, Reference, Registry};
use importer_flow::sink::{self, Options, Storing};
use importer_flow::{Destination, Error, Kind, Receipt, Result, Sink};

/// Where an upload goes: a file, a block device or a registry. Cheap to clone.
#[derive(Clone)]
pub struct Target(Arc<Place>);

enum Place {
    Path { path: PathBuf, options: Options },
    Registry(Box<Repository>),
}

struct Repository {
    registry: Registry,
    reference: Reference,
    platform: Platform,
    storing: Storing,
    spool: Spool,
}

/// Where an image waits whose length shows only at its end, and a registry wants it first.
#[derive(Clone, Debug)]
pub struct Spool {
    /// A folder.
    pub directory: PathBuf,
    /// The most bytes of it.
    pub limit: u64,
}

impl Target {
    /// A file or a block device.
    #[must_use]
    pub fn path(path: &Path, options: Options) -> Self {
        Self(Arc::new(Place::Path { path: path.to_owned(), options }))
    }

    /// An image in a registry.
    #[must_use]
    pub fn registry(
        registry: Registry,
        reference: Reference,
        platform: Platform,
        storing: Storing,
        spool: Spool,
    ) -> Self {
        Self(Arc::new(Place::Registry(Box::new(Repository { registry, reference, platform, storing, spool }))))
    }

    /// The sink for one import, and where it says what was pushed if it is one of a registry.
    ///
    /// # Errors
    ///
    /// Those of the sink: it can't be written, or somebody else writes it.
    pub fn open(&self) -> Result<(Box<dyn Sink>, Option<Receipt>)> {
        match &*self.0 {
            Place::Path { path, options } => Ok((sink::create(path, *options)?, None)),
            Place::Registry(to) => {
                let destination = Destination::new(&to.registry, &to.reference)?;
                let (sink, receipt) = sink::registry(destination, &to.platform, to.storing);
                Ok((sink, Some(receipt)))
            }
        }
    }

    /// Where the whole image may wait.
    #[must_use]
    pub fn spool(&self) -> Option<&Spool> {
        match &*self.0 {
            Place::Registry(to) => Some(&to.spool),
            Place::Path { .. } => None,
        }
    }

    /// Where tables that come late may wait: on the target's side.
    #[must_use]
    pub fn spool_directory(&self) -> Option<&Path> {
        match &*self.0 {
            Place::Path { path, .. } if !path.starts_with("/dev") => {
                path.parent().map(|parent| if parent.as_os_str().is_empty() { Path::new(".") } else { parent })
            }
            _ => None,
        }
    }
}

/// As people know it.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.0 {
            Place::Path { path, .. } => write!(f, "{}", path.display()),
            Place::Registry(to) => write!(f, "docker://{}", to.reference),
        }
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Target({self})")
    }
}

/// The name of a file for an upload that people have named: its last part, if that is a plain name.
///
/// # Errors
///
/// `Kind::Usage` for what could leave the folder, is hidden, or is no name.
pub fn file_name(name: &str) -> Result<&str> {
    let plain = !name.is_empty()
        && name.len() <= MAX_NAME
        && !name.starts_with('.')
        && !name.contains(['/', '\\', '\0'])
        && !name.chars().any(char::is_control);
    if plain {
        return Ok(name);
    }
    let message = "the name of the disk is not a plain file name: no slashes, no dot in front, at most 200 bytes";
    Err(Error::new(Kind::Usage, message))
}

/// File systems have 255 bytes, and names of parts and checkpoints are longer than those of their targets.
const MAX_NAME: usize = 200;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_in_their_folder() {
        for name in ["a", "jammy server.img", "größe.qcow2", "a..b"] {
            assert_eq!(file_name(name).unwrap(), name);
        }
        for name in ["", ".", "..", ".hidden", "a/b", "/etc/passwd", "a\\b", "a\0", "a\nb", &"x".repeat(201)] {
            assert_eq!(file_name(name).unwrap_err().kind(), Kind::Usage, "{name:?}");
        }
    }

    #[test]
    fn spools_lie_beside_the_target() {
        let spool =
            |path: &str| Target::path(Path::new(path), Options::default()).spool_directory().map(Path::to_owned);
        assert_eq!(spool("/disks/a"), Some("/disks".into()));
        assert_eq!(spool("a"), Some(".".into()));
        assert_eq!(spool("/dev/vdb"), None);
    }
}
