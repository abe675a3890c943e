//! What there is.

use std::io;
use std::path::Path;

use dvcr_oci::{Digest, Name, Tag};

use super::Store;
use super::layout::{BLOBS, MANIFESTS, TAGS};
use super::link::absent;
use crate::error::{Error, Kind, Result};

impl Store {
    /// The tags of a repository in the order of their letters, whatever their case, at most `most` of those behind `after`, and whether there
    /// are more. Reads all names of the folder.
    ///
    /// # Errors
    /// `NameUnknown` when there is no such repository.
    pub fn tags(&self, name: &Name, after: Option<&str>, most: usize) -> Result<(Vec<Tag>, bool)> {
        let folder = self.layout().tags(name);
        let mut tags: Vec<Tag> = names(&folder).map_err(|error| Error::io(folder.display(), &error))?;
        if tags.is_empty() && !self.exists(name) {
            return Err(Error::new(Kind::NameUnknown, format!("there is no repository {name}")));
        }
        let after = after.map(order);
        tags.retain(|tag| after.as_ref().is_none_or(|after| order(tag.as_str()) > *after));
        tags.sort_by_cached_key(|tag| order(tag.as_str()));
        Ok(page(tags, most))
    }

    /// The repositories in the order of their bytes, at most `most` of those behind `after`, and whether there are more.
    /// Reads all folders of repositories.
    ///
    /// # Errors
    /// When the store can't be read.
    pub fn repositories(&self, after: Option<&str>, most: usize) -> Result<(Vec<Name>, bool)> {
        let mut found = Vec::new();
        let folder = self.layout().repositories();
        walk(&folder, &mut String::new(), &mut found).map_err(|error| Error::io(folder.display(), &error))?;
        found.retain(|name| after.is_none_or(|after| name.as_str() > after));
        found.sort_unstable();
        Ok(page(found, most))
    }

    /// Whether there is such a repository: whether anything was ever pushed to it that is still there.
    #[must_use]
    pub fn exists(&self, name: &Name) -> bool {
        let folder = self.layout().repository(name);
        [MANIFESTS, BLOBS, TAGS].iter().any(|part| folder.join(part).is_dir())
    }

    /// The manifests of a repository, tagged or not.
    ///
    /// # Errors
    /// When the store can't be read.
    pub fn manifests(&self, name: &Name) -> Result<Vec<Digest>> {
        let folder = self.layout().manifest_links(name);
        names(&folder).map_err(|error| Error::io(folder.display(), &error))
    }
}

/// What the names of the files in a folder stand for; other files are none of ours.
pub(super) fn names<T: std::str::FromStr>(folder: &Path) -> io::Result<Vec<T>> {
    let entries = match folder.read_dir() {
        Err(error) if absent(&error) => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut found = Vec::new();
    for entry in entries {
        found.extend(entry?.file_name().to_str().and_then(|name| name.parse::<T>().ok()));
    }
    Ok(found)
}

/// //# distribution-spec: "the tags MUST be in lexical order (i.e. case-insensitive alphanumeric order)"
///
/// Tags that differ in case only have an order too, so that a list can be told in parts.
fn order(tag: &str) -> (String, String) {
    (tag.to_ascii_lowercase(), tag.to_owned())
}

fn page<T>(mut all: Vec<T>, most: usize) -> (Vec<T>, bool) {
    let more = all.len() > most;
    all.truncate(most);
    (all, more)
}

/// The folders that are repositories, below `folder`, which is named `prefix`.
fn walk(folder: &Path, prefix: &mut String, found: &mut Vec<Name>) -> io::Result<()> {
    let entries = match folder.read_dir() {
        Err(error) if absent(&error) => return Ok(()),
        entries => entries?,
    };
    let mut is_repository = false;
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        let Some(part) = name.to_str() else { continue };
        if part.starts_with('_') {
            is_repository |= [MANIFESTS, BLOBS, TAGS].contains(&part);
        } else if entry.file_type()?.is_dir() {
            let len = prefix.len();
            if !prefix.is_empty() {
                prefix.push('/');
            }
            prefix.push_str(part);
            walk(&folder.join(part), prefix, found)?;
            prefix.truncate(len);
        }
    }
    if is_repository {
        found.extend(Name::parse(prefix).ok());
    }
    Ok(())
}
