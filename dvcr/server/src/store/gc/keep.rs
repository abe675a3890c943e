//! The list of what is to stay.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use dvcr_oci::{Digest, Name, Tag};

use crate::error::{Error, Kind, Result};

/// A list of what is to stay: `name`, `name:tag` or `name@digest`, one a line; what begins with `#` is a remark.
#[derive(Clone, Debug, Default)]
pub struct Keep {
    entries: HashMap<Name, Entry>,
}

#[derive(Clone, Debug, Default)]
struct Entry {
    whole: bool,
    tags: HashSet<Tag>,
    digests: HashSet<Digest>,
}

impl Keep {
    /// Adds the list in a file.
    ///
    /// # Errors
    /// `Usage` with the number of the line that makes no sense: a list that is half understood would delete images.
    pub fn read(&mut self, path: &Path) -> Result<()> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| Error::new(Kind::Usage, format!("{}: {}", path.display(), crate::error::words(&error))))?;
        for (at, line) in text.lines().enumerate() {
            let line = line.trim();
            if !line.is_empty() && !line.starts_with('#') {
                self.add(line).map_err(|error| {
                    Error::new(Kind::Usage, format!("{}: line {}: {error}", path.display(), at + 1))
                })?;
            }
        }
        Ok(())
    }

    /// Adds one line.
    ///
    /// # Errors
    /// `Usage` when it is no `name`, `name:tag` or `name@digest`.
    pub fn add(&mut self, line: &str) -> Result<()> {
        let usage = |error: dvcr_oci::Error| Error::new(Kind::Usage, error.to_string());
        let (name, digest) = match line.split_once('@') {
            Some((name, digest)) => (name, Some(Digest::parse(digest).map_err(usage)?)),
            None => (line, None),
        };
        let (name, tag) = match name.split_once(':') {
            Some((name, tag)) => (name, Some(Tag::parse(tag).map_err(usage)?)),
            None => (name, None),
        };
        let entry = self.entries.entry(Name::parse(name).map_err(usage)?).or_default();
        entry.whole |= digest.is_none() && tag.is_none();
        entry.digests.extend(digest);
        entry.tags.extend(tag);
        Ok(())
    }

    /// Whether everything in a repository stays.
    pub(super) fn whole(&self, name: &Name) -> bool {
        self.entries.get(name).is_some_and(|entry| entry.whole)
    }

    pub(super) fn tag(&self, name: &Name, tag: &Tag) -> bool {
        self.entries.get(name).is_some_and(|entry| entry.whole || entry.tags.contains(tag))
    }

    pub(super) fn digests(&self, name: &Name) -> impl Iterator<Item = Digest> {
        self.entries.get(name).into_iter().flat_map(|entry| entry.digests.iter().copied())
    }
}
