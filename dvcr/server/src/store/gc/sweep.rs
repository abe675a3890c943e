//! Removing what was found to be garbage, if it still is.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use dvcr_oci::{Digest, Manifest, Name};

use super::Outcome;
use super::mark::Mark;
use crate::error::{Error, Result};
use crate::store::Store;
use crate::store::gate::Inside;
use crate::store::link::{Link, absent};

impl Store {
    pub(super) fn sweep(
        &self,
        mut marks: BTreeMap<Name, Mark>,
        contents: HashMap<Digest, (SystemTime, u64)>,
        dry_run: bool,
        outcome: &mut Outcome,
    ) -> Result<()> {
        let mut batch = Batch::new(self, dry_run);
        for (name, mark) in &marks {
            for (tag, modified) in &mark.tags {
                let path = self.layout().tag(name, tag);
                outcome.tags += batch.remove(&path, || Ok(fs::metadata(&path)?.modified()? == *modified))?;
            }
        }
        batch.settle()?;
        for (name, mark) in &mut marks {
            self.sweep_manifests(name, mark, &mut batch, outcome)?;
        }
        batch.settle()?;
        let mut gone: HashMap<Digest, usize> = HashMap::new();
        for (name, mark) in &marks {
            for (digest, link) in &mark.blobs {
                let path = self.layout().blob_link(name, digest);
                if batch.remove(&path, || Ok(Link::read(&path)?.as_ref() == Some(link)))? == 1 {
                    outcome.blobs += 1;
                    *gone.entry(*digest).or_default() += 1;
                }
            }
            for (digest, _) in &mark.manifests {
                *gone.entry(*digest).or_default() += 1;
            }
        }
        batch.settle()?;
        let mut linked: HashMap<Digest, usize> = HashMap::new();
        for digest in marks.values().flat_map(|mark| &mark.linked) {
            *linked.entry(*digest).or_default() += 1;
        }
        for (digest, (modified, size)) in contents {
            if linked.get(&digest).copied().unwrap_or_default() > gone.get(&digest).copied().unwrap_or_default() {
                continue;
            }
            let path = self.layout().content(&digest);
            if batch.remove(&path, || Ok(fs::metadata(&path)?.modified()? == modified))? == 1 {
                outcome.contents += 1;
                outcome.bytes += size;
            }
        }
        batch.leave();
        if !dry_run {
            for name in marks.keys() {
                self.remove_empty(name)?;
            }
        }
        Ok(())
    }

    /// Removes the manifests of a mark. Those that stay after all take what they need from it.
    fn sweep_manifests(
        &self,
        name: &Name,
        mark: &mut Mark,
        batch: &mut Batch<'_>,
        outcome: &mut Outcome,
    ) -> Result<()> {
        let mut removed = Vec::new();
        let mut needed = HashSet::new();
        for (digest, link) in std::mem::take(&mut mark.manifests) {
            let path = self.layout().manifest_link(name, &digest);
            let subject = self.subject(name, &digest);
            if batch.remove(&path, || Ok(Link::read(&path)?.as_ref() == Some(&link)))? == 0 {
                needed.extend(self.closure(name, digest)?);
                continue;
            }
            outcome.manifests += 1;
            removed.push((digest, link));
            if let Some(subject) = subject {
                let folder = self.layout().referrers(name, &subject);
                batch.remove(&folder.join(digest.to_string()), || Ok(true))?;
            }
        }
        mark.manifests = removed;
        mark.blobs.retain(|(digest, _)| !needed.contains(digest));
        Ok(())
    }

    fn subject(&self, name: &Name, digest: &Digest) -> Option<Digest> {
        let stored = self.read_manifest(name, digest).ok()??;
        Manifest::parse(&stored.bytes, Some(&stored.media_type)).ok()?.subject().map(|subject| subject.digest)
    }

    /// Removes the folders of a repository that has nothing any more.
    fn remove_empty(&self, name: &Name) -> Result<()> {
        let layout = self.layout();
        let referrers = layout.all_referrers(name);
        let mut folders: Vec<PathBuf> = match referrers.read_dir() {
            Ok(entries) => entries.filter_map(|entry| Some(entry.ok()?.path())).collect(),
            Err(_) => Vec::new(),
        };
        folders.extend([referrers, layout.manifest_links(name), layout.blob_links(name), layout.tags(name)]);
        let mut folder = layout.repository(name);
        while folder != layout.repositories() && folder.starts_with(layout.repositories()) {
            folders.push(folder.clone());
            folder.pop();
        }
        if layout.tags(name).read_dir().is_ok_and(|mut entries| entries.next().is_some()) {
            return Ok(());
        }
        let _inside = self.removing()?;
        for folder in folders {
            // Those that are not empty stay.
            let _ = fs::remove_dir(folder);
        }
        Ok(())
    }
}

/// Removals that share the gate: it is left and entered anew often enough that nobody outside notices.
struct Batch<'a> {
    store: &'a Store,
    dry_run: bool,
    inside: Option<Inside>,
    count: usize,
    /// Whether anything was removed since the last time everything was made durable.
    dirty: bool,
    /// Files that have lost their name and wait for their end: a large one takes long.
    condemned: Vec<PathBuf>,
}

impl<'a> Batch<'a> {
    fn new(store: &'a Store, dry_run: bool) -> Self {
        Self { store, dry_run, inside: None, count: 0, dirty: false, condemned: Vec::new() }
    }

    /// Removes a file that `still` looks as it did: how many were, 1 or 0.
    fn remove(&mut self, path: &Path, still: impl FnOnce() -> io::Result<bool>) -> Result<usize> {
        if self.count >= BATCH {
            self.leave();
        }
        if self.inside.is_none() {
            self.inside = Some(self.store.removing()?);
        }
        self.count += 1;
        let remove = || -> io::Result<usize> {
            if !still()? {
                return Ok(0);
            }
            if self.dry_run {
                return Ok(1);
            }
            let condemned = self.store.tmp_file();
            fs::rename(path, &condemned)?;
            self.condemned.push(condemned);
            self.dirty = true;
            Ok(1)
        };
        match remove() {
            Ok(removed) => Ok(removed),
            Err(error) if absent(&error) => Ok(0),
            Err(error) => Err(Error::io(path.display(), &error)),
        }
    }

    /// Leaves the gate.
    fn leave(&mut self) {
        self.inside = None;
        self.count = 0;
        for path in self.condemned.drain(..) {
            // What stays is removed another time.
            let _ = fs::remove_file(path);
        }
    }

    /// Makes all removals durable, before what was linked to is removed.
    fn settle(&mut self) -> Result<()> {
        self.leave();
        if std::mem::take(&mut self.dirty) {
            let root = self.store.root();
            let sync = || -> io::Result<()> { Ok(rustix::fs::syncfs(File::open(root)?)?) };
            sync().map_err(|error| Error::io(root.display(), &error))?;
        }
        Ok(())
    }
}

/// Removals in the gate at a time: some hundred microseconds.
const BATCH: usize = 32;
