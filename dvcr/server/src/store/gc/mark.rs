//! What a repository needs.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io;
use std::time::{Duration, SystemTime};

use dvcr_oci::{Digest, Manifest, Name, Tag};
use rustix::fs::{FlockOperation, flock};

use super::{ASKED, LEASE, Options};
use crate::error::{Error, Kind, Result};
use crate::store::Store;
use crate::store::link::Link;
use crate::store::list::names;
use crate::store::manifest::{Part, parts};

/// The links of a repository, as they looked at first.
#[derive(Debug, Default)]
pub(super) struct Links {
    blobs: Vec<(Digest, Link)>,
    manifests: Vec<(Digest, Link)>,
}

/// What a repository does not need, as it looked at first.
#[derive(Debug, Default)]
pub(super) struct Mark {
    pub(super) tags: Vec<(Tag, SystemTime)>,
    pub(super) manifests: Vec<(Digest, Link)>,
    pub(super) blobs: Vec<(Digest, Link)>,
    /// Everything it has, needed or not.
    pub(super) linked: Vec<Digest>,
    /// Manifests that are too young to go.
    pub(super) young: usize,
    /// How long the last of them stays.
    pub(super) young_wait: Duration,
    /// Manifests and blobs that a push may rely on.
    pub(super) held: usize,
    /// How long the last of them stays.
    pub(super) held_wait: Duration,
    /// Whether nothing goes because somebody reads from it.
    pub(super) is_read: bool,
}

impl Mark {
    /// Of a repository that needs everything.
    pub(super) fn nothing(linked: Vec<Digest>) -> Self {
        Self { linked, ..Self::default() }
    }

    /// One more stays, for so long because of its age, and for so long because of a push.
    fn stays(&mut self, young: Duration, held: Duration) {
        if young > held {
            self.young += 1;
            self.young_wait = self.young_wait.max(young);
        } else {
            self.held += 1;
            self.held_wait = self.held_wait.max(held);
        }
    }
}

impl Store {
    /// Writes down how the links of a repository look.
    pub(super) fn look(&self, name: &Name) -> Result<Links> {
        let layout = self.layout();
        Ok(Links { blobs: self.links(&layout.blob_links(name))?, manifests: self.links(&layout.manifest_links(name))? })
    }

    /// Finds out what a repository needs of what was `seen` in it. `pushed` says that it has an upload.
    ///
    /// # Errors
    /// `Damaged` when it can't be told.
    pub(super) fn mark(&self, name: &Name, seen: Links, options: &Options, pushed: bool) -> Result<Mark> {
        let layout = self.layout();
        let now = SystemTime::now();
        // How long each reason holds, at most.
        let leased = |link: &Link| match (link.pending, pushed) {
            (false, _) => Duration::ZERO,
            (true, true) => options.expiry.max(LEASE),
            (true, false) => LEASE.saturating_sub(link.age(now)),
        };
        let asked = |link: &Link| if link.asked { ASKED.saturating_sub(link.age(now)) } else { Duration::ZERO };
        let manifests = self.links(&layout.manifest_links(name))?;
        let mut mark = Mark::nothing(self.linked(name)?);
        if options.keep.whole(name) {
            return Ok(mark);
        }

        let mut needed = Needed::new(self, name);
        for tag in names::<Tag>(&layout.tags(name)).map_err(|error| Error::io(name, &error))? {
            let modified = fs::metadata(layout.tag(name, &tag)).and_then(|meta| meta.modified());
            let (Ok(modified), Some(digest)) = (modified, self.tagged(name, &tag)?) else { continue };
            let age = now.duration_since(modified).unwrap_or_default();
            if options.only_kept && age >= options.grace && !options.keep.tag(name, &tag) {
                mark.tags.push((tag, modified));
            } else {
                needed.follow(digest, true)?;
            }
        }
        for digest in options.keep.digests(name) {
            needed.follow(digest, false)?;
        }
        let untagged: Vec<_> = manifests.into_iter().filter(|(digest, _)| !needed.seen.contains(digest)).collect();
        for (digest, link) in untagged {
            let (young, held) = (options.grace.saturating_sub(link.age(now)), leased(&link));
            if options.keep_untagged || !young.max(held).is_zero() {
                let is_new = needed.follow(digest, false)?;
                if is_new && !options.keep_untagged {
                    mark.stays(young, held);
                }
            }
        }

        mark.manifests.extend(seen.manifests.into_iter().filter(|(digest, _)| !needed.seen.contains(digest)));
        for (digest, link) in seen.blobs {
            if needed.seen.contains(&digest) {
                continue;
            }
            match leased(&link).max(asked(&link)) {
                Duration::ZERO => mark.blobs.push((digest, link)),
                held => mark.stays(Duration::ZERO, held),
            }
        }
        if !(mark.manifests.is_empty() && mark.blobs.is_empty()) && self.is_being_read(name, &mark.linked) {
            return Ok(Mark { is_read: true, ..Mark::nothing(mark.linked) });
        }
        Ok(mark)
    }

    /// The links in a folder, as they look.
    fn links(&self, folder: &std::path::Path) -> Result<Vec<(Digest, Link)>> {
        let failed = |error: io::Error| Error::io(folder.display(), &error);
        let mut links = Vec::new();
        for digest in names::<Digest>(folder).map_err(failed)? {
            links.extend(Link::read(&folder.join(digest.to_string())).map_err(failed)?.map(|link| (digest, link)));
        }
        Ok(links)
    }

    /// Whether somebody reads a blob of a repository at this moment. Who has just pushed one has it locked against all
    /// others, for as long as it takes to make that durable: he reads nothing, and may have pushed it elsewhere.
    fn is_being_read(&self, name: &Name, linked: &[Digest]) -> bool {
        linked.iter().any(|digest| {
            let Ok(file) = File::open(self.layout().content(digest)) else { return false };
            if flock(&file, FlockOperation::NonBlockingLockShared).is_err() {
                return false;
            }
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Err(rustix::io::Errno::WOULDBLOCK) => {
                    tracing::debug!(repository = %name, %digest, "left alone by garbage collection: it is being read");
                    true
                }
                _ => false,
            }
        })
    }

    /// What a manifest leads to in its repository, itself included: to be left alone after all.
    pub(super) fn closure(&self, name: &Name, digest: Digest) -> Result<HashSet<Digest>> {
        let mut needed = Needed::new(self, name);
        needed.follow(digest, false)?;
        Ok(needed.seen)
    }
}

/// What is needed, as far as it is known.
struct Needed<'a> {
    store: &'a Store,
    name: &'a Name,
    seen: HashSet<Digest>,
}

impl<'a> Needed<'a> {
    fn new(store: &'a Store, name: &'a Name) -> Self {
        Self { store, name, seen: HashSet::new() }
    }

    /// Follows a manifest to everything it leads to: whether it was new. One that is missing is an error where it `must`
    /// be there.
    fn follow(&mut self, digest: Digest, must: bool) -> Result<bool> {
        if !self.seen.insert(digest) {
            return Ok(false);
        }
        let mut open = vec![(digest, must)];
        while let Some((digest, must)) = open.pop() {
            let damaged = |why: String| Error::new(Kind::Damaged, format!("manifest {digest}: {why}: run dvcr check"));
            let stored = self.store.read_manifest(self.name, &digest).map_err(|error| damaged(error.to_string()))?;
            match stored {
                Some(stored) => {
                    let manifest = Manifest::parse(&stored.bytes, Some(&stored.media_type))
                        .map_err(|error| damaged(error.to_string()))?;
                    for (descriptor, part) in parts(&manifest) {
                        if self.seen.insert(descriptor.digest) && part == Part::Manifest {
                            open.push((descriptor.digest, true));
                        }
                    }
                }
                // Its tag may have gone just now; but if the content is what is missing, nobody knows what it needs.
                None if must && self.store.layout().manifest_link(self.name, &digest).exists() => {
                    return Err(damaged("its content is missing".into()));
                }
                None => {}
            }
            for referrer in self.store.referrer_digests(self.name, &digest)? {
                if self.seen.insert(referrer) {
                    open.push((referrer, false));
                }
            }
        }
        Ok(true)
    }
}
