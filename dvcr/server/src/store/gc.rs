//! Garbage collection: removes what nobody can reach, while everything goes on.
//!
//! **What stays.** What a tag or a `--keep` list leads to, through indexes and to what refers to it; what a push that goes
//! on has brought; manifests that lost their last tag, or were pulled, less than the grace ago. Everything else goes,
//! blobs of manifests that were deleted by their digest at once.
//!
//! **Pushes.** A link counts the pushes that wait for their manifest. As long as there is one, it stays for [`LEASE`], anew
//! with each request that touches it, and as long as its repository has an upload that has not expired. What somebody has
//! asked for stays for [`ASKED`]: a client that was told that a blob is there leaves it out. None of that depends on the
//! grace.
//!
//! **Pulls.** Who reads a blob has it open and locked for sharing: the file stays readable without a name, and a repository
//! of which something is being read is not touched at all.
//!
//! **How it is safe without stopping anybody.** It looks first, without a lock, and writes down what it saw of everything.
//! Whoever adds something (a push, a mount, a tag, a question whether a blob is there) touches all links it relies on,
//! inside the gate (`gate.rs`). When all who were inside have left, it finds out what is needed. Then it removes the
//! rest in small batches inside the gate, and only what still looks as it was written down: what was touched since is in
//! use again and stays. That works in this process and in another, and does not depend on a clock that is right. One thing
//! goes before what it links to: tags, manifests, blobs, contents, each made durable before the next.
//!
//! Costs: reads all names and all manifests; about 100 bytes of memory for each link and each content.

mod keep;
mod mark;
mod sweep;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::{self, File};
use std::io;
use std::time::{Duration, SystemTime};

use dvcr_oci::{Digest, Name};
use rustix::fs::{FlockOperation, flock};

pub use keep::Keep;

use super::Store;
use super::link::absent;
use super::list::names;
use crate::error::{Error, Kind, Result};

/// What is removed.
#[derive(Clone, Debug)]
pub struct Options {
    /// How long a manifest stays after it lost its last tag or was pulled.
    pub grace: Duration,
    /// Manifests without a tag stay, however old they are.
    pub keep_untagged: bool,
    /// What stays besides.
    pub keep: Keep,
    /// Tags that the list does not name go, too, when they are older than the grace.
    pub only_kept: bool,
    /// Uploads that had no new bytes for so long are removed.
    pub expiry: Duration,
    /// Nothing but such uploads, and what a crash left, is removed.
    pub uploads_only: bool,
    /// Nothing is removed, only counted.
    pub dry_run: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            grace: Duration::from_secs(600),
            keep_untagged: false,
            keep: Keep::default(),
            only_kept: false,
            expiry: Duration::from_secs(24 * 3600),
            uploads_only: false,
            dry_run: false,
        }
    }
}

/// What was removed, or would be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Repositories that were looked at.
    pub repositories: usize,
    /// Tags that no list named.
    pub tags: usize,
    /// Manifests of repositories.
    pub manifests: usize,
    /// Blobs of repositories.
    pub blobs: usize,
    /// Contents that nobody had any more.
    pub contents: usize,
    /// Their bytes.
    pub bytes: u64,
    /// Uploads that had expired.
    pub uploads: usize,
    /// Manifests that nobody needs, but which lost their last tag or were pulled less than the grace ago.
    pub young: usize,
    /// How long it is at most until the last of them may go, if nobody touches it again.
    pub young_wait: Duration,
    /// Manifests and blobs that nobody needs, but which a push may rely on, whatever the grace.
    pub held: usize,
    /// How long it is at most until the last of them may go, if nobody touches it again.
    pub held_wait: Duration,
    /// Repositories left alone, because somebody reads from them.
    pub read: usize,
    /// Repositories left alone, because they are damaged.
    pub skipped: usize,
}

impl Store {
    /// Collects garbage once.
    ///
    /// # Errors
    /// `TooManyRequests` when another process does, `Usage` for a `--keep` list of another store, `Io`.
    pub fn collect(&self, options: &Options) -> Result<Outcome> {
        let _alone = self.alone()?;
        let mut outcome = Outcome::default();
        self.clear_tmp()?;
        let pushed = self.expire(options, &mut outcome)?;
        if options.uploads_only {
            return Ok(outcome);
        }
        // What looks the same in the end was not touched since. The contents before the links, because a link that is made
        // later touches its content.
        let contents = self.contents()?;
        let mut seen = BTreeMap::new();
        for name in self.repositories(None, usize::MAX)?.0 {
            let links = self.look(&name)?;
            seen.insert(name, links);
        }
        // Whoever had touched something before it was looked at, and not yet linked what needs it, has done so now.
        drop(self.removing()?);
        let mut marks = BTreeMap::new();
        for name in self.repositories(None, usize::MAX)?.0 {
            outcome.repositories += 1;
            let seen = seen.remove(&name).unwrap_or_default();
            match self.mark(&name, seen, options, pushed.contains(&name)) {
                Ok(mark) => {
                    outcome.young += mark.young;
                    outcome.young_wait = outcome.young_wait.max(mark.young_wait);
                    outcome.held += mark.held;
                    outcome.held_wait = outcome.held_wait.max(mark.held_wait);
                    outcome.read += usize::from(mark.is_read);
                    marks.insert(name, mark);
                }
                Err(error) if error.kind() == Kind::Damaged => {
                    tracing::warn!(repository = %name, "left alone by garbage collection: {error}");
                    outcome.skipped += 1;
                    let linked = self.linked(&name)?;
                    marks.insert(name, mark::Mark::nothing(linked));
                }
                Err(error) => return Err(error),
            }
        }
        let swept = self.sweep(marks, contents, options.dry_run, &mut outcome);
        self.inner.space.freed();
        swept?;
        Ok(outcome)
    }

    /// One collection at a time.
    fn alone(&self) -> Result<File> {
        let path = self.layout().locks().join("gc");
        let locked = || -> io::Result<File> {
            let file = File::options().create(true).append(true).open(&path)?;
            flock(&file, FlockOperation::NonBlockingLockExclusive)?;
            Ok(file)
        };
        locked().map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => {
                Error::new(Kind::TooManyRequests, "another garbage collection of this store runs: wait for it")
            }
            _ => Error::io(path.display(), &error),
        })
    }

    /// What a crash left.
    fn clear_tmp(&self) -> Result<()> {
        let tmp = self.layout().tmp();
        let now = SystemTime::now();
        let clear = || -> io::Result<()> {
            for entry in tmp.read_dir()? {
                let entry = entry?;
                let Ok(modified) = entry.metadata().and_then(|meta| meta.modified()) else { continue };
                if now.duration_since(modified).unwrap_or_default() > LEASE {
                    let _ = fs::remove_file(entry.path());
                }
            }
            Ok(())
        };
        clear().map_err(|error| Error::io(tmp.display(), &error))
    }

    /// Removes uploads that have expired. Returns the repositories that have others.
    fn expire(&self, options: &Options, outcome: &mut Outcome) -> Result<HashSet<Name>> {
        let uploads = self.layout().uploads();
        let now = SystemTime::now();
        let mut pushed = HashSet::new();
        for id in names::<String>(&uploads).map_err(|error| Error::io(uploads.display(), &error))? {
            let folder = uploads.join(&id);
            let age = || -> io::Result<Duration> {
                let meta = fs::metadata(folder.join("data")).or_else(|_| fs::metadata(&folder))?;
                Ok(now.duration_since(meta.modified()?).unwrap_or_default())
            };
            let Ok(first) = age() else { continue };
            if first >= options.expiry {
                let lock = match File::open(folder.join("data")) {
                    Ok(file) => flock(&file, FlockOperation::NonBlockingLockExclusive).map(|()| Some(file)).ok(),
                    Err(error) if absent(&error) => Some(None),
                    Err(_) => None,
                };
                // Written to since, or just now.
                if lock.is_some() && age().is_ok_and(|age| age >= options.expiry) {
                    outcome.uploads += 1;
                    if !options.dry_run {
                        fs::remove_dir_all(&folder).map_err(|error| Error::io(folder.display(), &error))?;
                    }
                    continue;
                }
            }
            let owner = fs::read_to_string(folder.join("repository")).unwrap_or_default();
            pushed.extend(Name::parse(&owner).ok());
        }
        Ok(pushed)
    }

    /// All contents, with when they were last linked and how much they occupy.
    fn contents(&self) -> Result<HashMap<Digest, (SystemTime, u64)>> {
        let mut found = HashMap::new();
        self.each_content(|digest, meta| {
            found.insert(digest, (meta.modified()?, meta.len()));
            Ok(())
        })?;
        Ok(found)
    }

    /// Calls `see` for each content.
    pub(super) fn each_content(&self, mut see: impl FnMut(Digest, fs::Metadata) -> io::Result<()>) -> Result<()> {
        let blobs = self.layout().blobs();
        let mut walk = || -> io::Result<()> {
            for algorithm in blobs.read_dir()? {
                let algorithm = algorithm?;
                for group in algorithm.path().read_dir()? {
                    for content in group?.path().read_dir()? {
                        let content = content?;
                        let text = format!("{}:{}", algorithm.file_name().display(), content.file_name().display());
                        let Ok(digest) = Digest::parse(&text) else { continue };
                        match content.metadata() {
                            Ok(meta) => see(digest, meta)?,
                            Err(error) if absent(&error) => {}
                            Err(error) => return Err(error),
                        }
                    }
                }
            }
            Ok(())
        };
        walk().map_err(|error| Error::io(blobs.display(), &error))
    }

    /// Everything a repository has.
    fn linked(&self, name: &Name) -> Result<Vec<Digest>> {
        let layout = self.layout();
        let mut linked = Vec::new();
        for folder in [layout.blob_links(name), layout.manifest_links(name)] {
            linked.extend(names::<Digest>(&folder).map_err(|error| Error::io(folder.display(), &error))?);
        }
        Ok(linked)
    }
}

/// How long a push may take between a blob and its manifest, while nothing is uploaded to the repository.
pub const LEASE: Duration = Duration::from_secs(3600);
/// How long a client may take between the question whether a blob is there and the manifest that relies on it.
pub const ASKED: Duration = Duration::from_secs(600);

#[cfg(test)]
mod tests;
