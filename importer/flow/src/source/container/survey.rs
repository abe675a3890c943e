//! Which file of an image of layers is the disk.

use std::collections::{HashMap, HashSet};

use importer_codec::tar::{Entry, EntryKind};

use super::path::{EntryPath, shown};
use crate::{Error, Kind, Result};

/// What is seen of an image whose layers are read once, from the one on top down, and which file in it is the disk.
///
/// Looked at from above, what an upper layer has or has deleted hides what is below, so it is known of every entry at
/// once whether it is there. The first file in `disk/` is taken while it passes. That it is the only one is known at the
/// end.
#[derive(Debug)]
pub(super) struct Survey {
    want: Option<String>,
    /// What there is, looked at from above.
    seen: HashMap<EntryPath, Seen>,
    /// Files that a hard link of their own layer may still mean, though they are hidden.
    buried: HashMap<(usize, EntryPath), Place>,
    /// Deleted by an upper layer, with all that is below.
    deleted: HashSet<EntryPath>,
    /// Emptied by an upper layer.
    emptied: HashSet<EntryPath>,
    /// What the layer at hand has: it hides what is in the next ones only.
    fresh: Fresh,
    /// The file that was taken.
    taken: Option<Place>,
    /// How much is kept.
    weight: usize,
}

#[derive(Debug, Default)]
struct Fresh {
    seen: HashMap<EntryPath, Seen>,
    deleted: Vec<EntryPath>,
    emptied: Vec<EntryPath>,
}

/// An entry that is there.
#[derive(Clone, Debug)]
struct Seen {
    place: Place,
    what: What,
}

#[derive(Clone, Debug)]
enum What {
    File,
    Folder,
    Symlink(Vec<u8>),
    /// To what the layers below have.
    Hardlink(Vec<u8>),
    /// A hard link to a file that came before in its layer: it stays that file, whatever takes the other name later.
    Same(Place),
    Other,
}

/// Where a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Place {
    /// Of the layers from the lowest one on.
    pub(super) layer: usize,
    /// Of the entries of the layer.
    pub(super) entry: u64,
    /// In bytes.
    pub(super) size: u64,
}

impl Survey {
    /// Of an image in which the file called `want` is the disk, or the only one.
    pub(super) fn new(want: Option<String>) -> Self {
        Self {
            want,
            seen: HashMap::new(),
            buried: HashMap::new(),
            deleted: HashSet::new(),
            emptied: HashSet::new(),
            fresh: Fresh::default(),
            taken: None,
            weight: 0,
        }
    }

    /// The next entry of the layer at hand, which is at `place`. Gives whether it is the disk, so far.
    pub(super) fn entry(&mut self, entry: &Entry, place: Place) -> Result<bool> {
        let Some(path) = EntryPath::of(&entry.path)? else { return Ok(false) };
        self.weight += path.len() + entry.link.len() + ENTRY;
        if self.weight > MOST {
            return Err(Error::new(Kind::Unsafe, "it has more files than any disk image; is it one?"));
        }
        if let Some(name) = path.base().strip_prefix(b".wh.") {
            // `.wh..wh.` is for what aufs keeps; of these only the one that empties its folder means something.
            match name.strip_prefix(b".wh.") {
                Some(b".opq") => self.fresh.emptied.extend(path.folder()),
                Some(_) => {}
                None => self.fresh.deleted.extend(path.beside(name)),
            }
            return Ok(false);
        }
        let what = match entry.kind {
            EntryKind::Regular => What::File,
            EntryKind::Directory => What::Folder,
            EntryKind::Symlink => What::Symlink(entry.link.clone()),
            EntryKind::Hardlink => self.linked(&entry.link, place.layer),
            _ => What::Other,
        };
        if self.is_hidden(&path) {
            if matches!(what, What::File) {
                self.buried.insert((place.layer, path), place);
            }
            return Ok(false);
        }
        let is_file = matches!(what, What::File);
        let disk = is_file && place.size > 0 && self.is_wanted(&path);
        let twice = self.fresh.seen.insert(path.clone(), Seen { place, what });
        if twice.is_some_and(|before| matches!(before.what, What::File)) && (disk || is_file && path.is_in_disk()) {
            return Err(Error::new(Kind::NotUsable, format!("a layer has {path} twice")));
        }
        match self.taken {
            None if disk => self.taken = Some(place),
            Some(_) if disk => return Err(self.several()),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// What a hard link in the layer at hand is.
    fn linked(&self, link: &[u8], layer: usize) -> What {
        let Ok(Some(target)) = EntryPath::of(link) else { return What::Hardlink(link.to_vec()) };
        match self.fresh.seen.get(&target).map(|seen| (seen.place, &seen.what)) {
            Some((place, What::File)) => What::Same(place),
            Some((_, what)) => what.clone(),
            None => match self.buried.get(&(layer, target)) {
                Some(place) => What::Same(*place),
                None => What::Hardlink(link.to_vec()),
            },
        }
    }

    /// The layer at hand has ended.
    pub(super) fn end_layer(&mut self) {
        let Fresh { seen, deleted, emptied } = std::mem::take(&mut self.fresh);
        for (path, new) in seen {
            // A folder that was there before stays what it was.
            self.seen.entry(path).or_insert(new);
        }
        self.deleted.extend(deleted);
        self.emptied.extend(emptied);
    }

    /// Which file is the disk, once all layers were seen.
    pub(super) fn conclude(&self) -> Result<Place> {
        let mut found: Vec<(&EntryPath, Place)> = Vec::new();
        let mut nowhere: Option<String> = None;
        for (path, seen) in self.seen.iter().filter(|(path, _)| self.is_wanted(path)) {
            match self.resolve(path, seen, 0) {
                Ok(Some(place)) if place.size > 0 => found.push((path, place)),
                Ok(Some(_)) => nowhere = Some(format!("{path} is empty")),
                Ok(None) => {}
                Err(why) => nowhere = Some(why),
            }
        }
        found.sort_unstable_by_key(|(_, place)| *place);
        let mut places: Vec<Place> = found.iter().map(|(_, place)| *place).collect();
        places.dedup();
        match places.as_slice() {
            [place] => Ok(*place),
            [] => Err(self.none(nowhere)),
            _ => Err(self.several()),
        }
    }

    /// Whether an upper layer hides what is at `path`.
    fn is_hidden(&self, path: &EntryPath) -> bool {
        let above = |seen: &Seen| !matches!(seen.what, What::Folder);
        if self.deleted.contains(path) || self.seen.get(path).is_some_and(above) {
            return true;
        }
        let mut folder = path.folder();
        while let Some(path) = folder {
            let gone = self.deleted.contains(&path) || self.emptied.contains(&path);
            if gone || self.seen.get(&path).is_some_and(above) {
                return true;
            }
            folder = path.folder();
        }
        false
    }

    /// Whether a file of this name is the disk.
    fn is_wanted(&self, path: &EntryPath) -> bool {
        match &self.want {
            None => path.is_in_disk() && !path.is_hidden(),
            Some(want) => {
                let full = EntryPath::of(want.as_bytes()).ok().flatten();
                full.as_ref() == Some(path) || path.is_in_disk() && path.base() == want.as_bytes()
            }
        }
    }

    /// The file that is at `path`, links followed; `None` for what is no file.
    fn resolve(&self, path: &EntryPath, seen: &Seen, depth: usize) -> Result<Option<Place>, String> {
        let target = match &seen.what {
            What::File => return Ok(Some(seen.place)),
            What::Same(place) => return Ok(Some(*place)),
            What::Folder | What::Other => return Ok(None),
            What::Symlink(link) => path.follow(link),
            What::Hardlink(link) => EntryPath::of(link).ok().flatten(),
        };
        let (What::Symlink(link) | What::Hardlink(link)) = &seen.what else { return Ok(None) };
        let lost = || format!("{path} is a link to {}, which is not in the image", shown(link));
        let target = target.ok_or_else(lost)?;
        if depth == LINKS {
            return Err(format!("{path} is a link that leads nowhere"));
        }
        let seen = self.seen.get(&target).ok_or_else(lost)?;
        self.resolve(&target, seen, depth + 1)
    }

    fn several(&self) -> Error {
        let all = self.seen.iter().chain(&self.fresh.seen);
        let mut names: Vec<String> = all
            .filter(|(path, _)| self.is_wanted(path))
            .filter_map(|(path, seen)| match &seen.what {
                What::File => Some(format!("{path} ({} bytes)", seen.place.size)),
                What::Symlink(link) | What::Hardlink(link) => Some(format!("{path} (a link to {})", shown(link))),
                What::Same(_) => Some(format!("{path} (a link)")),
                What::Folder | What::Other => None,
            })
            .collect();
        names.sort_unstable();
        names.truncate(LISTED);
        let message = format!(
            "there is more than one file that can be the disk: {}, perhaps more; choose one with --disk NAME",
            names.join(", ")
        );
        Error::new(Kind::NotUsable, message)
    }

    fn none(&self, why: Option<String>) -> Error {
        let what = match &self.want {
            Some(want) => format!("there is no file {} in the image", shown(want.as_bytes())),
            None => "there is no file in disk/, so it is no container disk".to_owned(),
        };
        let mut files: Vec<&EntryPath> =
            self.seen.iter().filter(|(_, seen)| matches!(seen.what, What::File)).map(|(path, _)| path).collect();
        files.sort_unstable_by_key(|path| path.bytes());
        let there = match (why, files.as_slice()) {
            (Some(why), _) => why,
            (None, []) => "it holds no files".to_owned(),
            (None, [first, ..]) => format!("it holds {} files, such as {first}", files.len()),
        };
        Error::new(Kind::NotUsable, format!("{what}; {there}"))
    }
}

/// As many links as the kernel follows.
const LINKS: usize = 40;
/// How many names a message has.
const LISTED: usize = 16;
/// What an entry costs to keep besides its names.
const ENTRY: usize = 64;
/// The most that is kept: half a million files with usual names.
const MOST: usize = 64 << 20;

#[cfg(test)]
mod tests;
