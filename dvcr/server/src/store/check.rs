//! Looking whether everything is as it was pushed.
//!
//! A content that is damaged stands in the way of its own repair: clients that push are told that it is there, and leave
//! it out. So it can be discarded. The links to it stay; whoever asks is told that it is not there, and with the next push
//! to any repository all that have a link have it again.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Mutex;

use dvcr_oci::{Digest, Hasher, Manifest, Name, Tag};

use super::Store;
use super::durable;
use super::link::absent;
use super::list::names;
use super::manifest::{Part, parts};
use crate::error::{Error, Result};

/// What was looked at, and what is wrong.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Contents that were read and hashed.
    pub contents: usize,
    /// Their bytes.
    pub bytes: u64,
    /// Repositories that were looked through.
    pub repositories: usize,
    /// Manifests that were read.
    pub manifests: usize,
    /// Tags that were followed.
    pub tags: usize,
    /// What is wrong.
    pub findings: Vec<Finding>,
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// Where: a digest, or a name with a tag or a digest.
    pub at: String,
    /// What.
    pub what: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.at, self.what)
    }
}

impl Store {
    /// Reads everything: hashes all contents on `threads` threads, and follows all links. Changes nothing, and may run
    /// while the registry does: what is added or removed meanwhile is no finding.
    ///
    /// # Errors
    /// When the store can't be read at all; what can't be read in it is a finding.
    pub fn check(&self, threads: usize) -> Result<Report> {
        self.checked(threads, false)
    }

    /// The same, and removes contents whose bytes are others than were pushed, so that they can be pushed again. It may run
    /// while the registry does, too.
    ///
    /// # Errors
    /// As those of [`Store::check`].
    pub fn check_and_discard(&self, threads: usize) -> Result<Report> {
        self.checked(threads, true)
    }

    fn checked(&self, threads: usize, discard: bool) -> Result<Report> {
        let mut report = Report::default();
        let mut damaged = BTreeMap::new();
        for Damaged { digest, file } in self.check_contents(threads, &mut report)? {
            if !discard || self.discard(&digest, &file)? {
                damaged.insert(digest, Vec::new());
            }
        }
        for name in self.repositories(None, usize::MAX)?.0 {
            report.repositories += 1;
            self.check_repository(&name, &mut damaged, &mut report)?;
        }
        for (digest, users) in damaged {
            let what = match (users.is_empty(), discard) {
                (true, false) => "no image needs it: run dvcr gc".to_owned(),
                (true, true) => "it was removed; no image needs it".to_owned(),
                (false, false) => {
                    format!("run dvcr check --discard, then push {} again", list(&users))
                }
                (false, true) if users.len() == 1 => format!("it was removed: push {} again", list(&users)),
                (false, true) => {
                    format!("it was removed: push one of these again, and all have it: {}", list(&users))
                }
            };
            report.find(digest, format_args!("its bytes are others than were pushed: {what}"));
        }
        report.findings.sort();
        report.findings.dedup();
        Ok(report)
    }

    /// Removes a damaged content, unless a push has brought it again since `file` was opened: whether it did. Nobody is
    /// told meanwhile that it is there.
    pub(super) fn discard(&self, digest: &Digest, file: &File) -> Result<bool> {
        let path = self.layout().content(digest);
        let aside = self.tmp_file();
        let moved = || -> io::Result<bool> {
            let (read, named) = (file.metadata()?, fs::metadata(&path)?);
            // As long as it is open, no other file has its number.
            if (read.dev(), read.ino()) != (named.dev(), named.ino()) {
                return Ok(false);
            }
            fs::rename(&path, &aside)?;
            durable::sync(path.parent().unwrap_or(Path::new(".")))?;
            Ok(true)
        };
        let moved = {
            let _inside = self.removing()?;
            moved()
        };
        match moved {
            Ok(moved) => {
                if moved {
                    // A large file takes long to remove, and what stays goes with the next garbage collection.
                    let _ = fs::remove_file(&aside);
                }
                Ok(moved)
            }
            Err(error) if absent(&error) => Ok(false),
            Err(error) => Err(Error::io(digest, &error)),
        }
    }

    /// Hashes all contents. Returns those that are damaged.
    fn check_contents(&self, threads: usize, report: &mut Report) -> Result<Vec<Damaged>> {
        let mut digests = Vec::new();
        self.each_content(|digest, _| {
            digests.push(digest);
            Ok(())
        })?;
        let mut damaged = Vec::new();
        let shared = Mutex::new((digests.into_iter(), report, &mut damaged));
        std::thread::scope(|scope| {
            for _ in 0..threads.max(1) {
                scope.spawn(|| {
                    loop {
                        // A thread that panicked took one digest with it; the panic comes out of the scope.
                        let Ok(Some(digest)) = shared.lock().map(|mut shared| shared.0.next()) else { break };
                        let checked = self.check_content(&digest);
                        let Ok(mut shared) = shared.lock() else { break };
                        let report = &mut *shared.1;
                        match checked {
                            Ok((bytes, wrong)) => {
                                report.contents += 1;
                                report.bytes += bytes;
                                shared.2.extend(wrong.map(|file| Damaged { digest, file }));
                            }
                            Err(error) if absent(&error) => {}
                            Err(error) => {
                                report.find(digest, format!("it can't be read: {}", crate::error::words(&error)));
                            }
                        }
                    }
                });
            }
        });
        Ok(damaged)
    }

    /// How many bytes a content has, and its file if they are not the right ones.
    fn check_content(&self, digest: &Digest) -> io::Result<(u64, Option<File>)> {
        let mut file = File::open(self.layout().content(digest))?;
        let mut hasher = Hasher::new(digest.algorithm());
        let mut buffer = vec![0; 1 << 18];
        let mut len = 0;
        loop {
            match file.read(&mut buffer) {
                Ok(0) => return Ok((len, (hasher.finish() != *digest).then_some(file))),
                Ok(read) => {
                    hasher.update(buffer.get(..read).unwrap_or_default());
                    len += read as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Looks through a repository, and notes what it needs of what is damaged.
    fn check_repository(
        &self,
        name: &Name,
        damaged: &mut BTreeMap<Digest, Vec<String>>,
        report: &mut Report,
    ) -> Result<()> {
        let layout = self.layout();
        let failed = |error: io::Error| Error::io(name, &error);
        let mut missing = BTreeSet::new();
        for digest in names::<Digest>(&layout.blob_links(name)).map_err(failed)? {
            let is_missing = !layout.content(&digest).exists() && layout.blob_link(name, &digest).exists();
            if is_missing && !damaged.contains_key(&digest) {
                missing.insert(digest);
            }
        }
        if !(damaged.is_empty() && missing.is_empty()) {
            let images = self.images(name)?;
            for digest in missing {
                let users = self.users(name, &images, &digest);
                let what = match users.is_empty() {
                    true => "no image needs it: run dvcr gc".to_owned(),
                    false => format!("push {} again", list(&users)),
                };
                report
                    .find(format_args!("{name}@{digest}"), format_args!("the content of this blob is missing: {what}"));
            }
            for (digest, needed_by) in damaged.iter_mut() {
                needed_by.extend(self.users(name, &images, digest));
            }
        }
        for tag in names::<Tag>(&layout.tags(name)).map_err(failed)? {
            report.tags += 1;
            let at = format!("{name}:{tag}");
            match self.tagged(name, &tag) {
                Ok(Some(digest)) => {
                    let is_there = layout.manifest_link(name, &digest).exists();
                    if !is_there && matches!(self.tagged(name, &tag), Ok(Some(again)) if again == digest) {
                        report.find(at, format!("it stands for {digest}, which {name} does not have: push it again"));
                    }
                }
                Ok(None) => {}
                Err(error) => report.find(at, error),
            }
        }
        for digest in names::<Digest>(&layout.manifest_links(name)).map_err(failed)? {
            report.manifests += 1;
            if damaged.contains_key(&digest) {
                continue;
            }
            let mut found = Report::default();
            self.check_manifest(name, &digest, &mut found);
            // What a manifest lacks that was deleted meanwhile is nothing.
            if layout.manifest_link(name, &digest).exists() {
                report.findings.append(&mut found.findings);
            }
        }
        Ok(())
    }

    /// What people call the images of a repository, tagged or not, and what each needs.
    fn images(&self, name: &Name) -> Result<Vec<Image>> {
        let layout = self.layout();
        let failed = |error: io::Error| Error::io(name, &error);
        let mut images = Vec::new();
        let mut seen: BTreeSet<Digest> = BTreeSet::new();
        for tag in names::<Tag>(&layout.tags(name)).map_err(failed)? {
            let Ok(Some(digest)) = self.tagged(name, &tag) else { continue };
            let image = self.image(name, format!("{name}:{tag}"), digest);
            seen.extend(&image.needs);
            images.push(image);
        }
        for digest in names::<Digest>(&layout.manifest_links(name)).map_err(failed)? {
            if !seen.contains(&digest) {
                images.push(self.image(name, format!("{name}@{digest}"), digest));
            }
        }
        images.sort_by(|one, other| one.called.cmp(&other.called));
        Ok(images)
    }

    /// What a manifest leads to, as far as it can be read.
    fn image(&self, name: &Name, called: String, digest: Digest) -> Image {
        let mut image = Image { called, needs: BTreeSet::from([digest]), is_known: true };
        let mut open = vec![digest];
        while let Some(digest) = open.pop() {
            let stored = self.read_manifest(name, &digest).ok().flatten();
            let manifest = stored.filter(|stored| digest.proves(&stored.bytes));
            let manifest = manifest.and_then(|stored| Manifest::parse(&stored.bytes, Some(&stored.media_type)).ok());
            let Some(manifest) = manifest else {
                image.is_known = false;
                continue;
            };
            for (part, kind) in parts(&manifest) {
                if image.needs.insert(part.digest) && kind == Part::Manifest {
                    open.push(part.digest);
                }
            }
        }
        image
    }

    /// The images of a repository that need a content; those of which that can't be told when none surely does.
    fn users(&self, name: &Name, images: &[Image], digest: &Digest) -> Vec<String> {
        let called = |which: &dyn Fn(&Image) -> bool| -> Vec<String> {
            images.iter().filter(|image| which(image)).map(|image| image.called.clone()).collect()
        };
        let sure = called(&|image| image.needs.contains(digest));
        if sure.is_empty() && self.layout().blob_link(name, digest).exists() {
            return called(&|image| !image.is_known);
        }
        sure
    }

    fn check_manifest(&self, name: &Name, digest: &Digest, report: &mut Report) {
        let layout = self.layout();
        let at = format!("{name}@{digest}");
        let stored = match self.read_manifest(name, digest) {
            Ok(Some(stored)) => stored,
            Ok(None) => return report.find(at, "the content of this manifest is missing: push it again"),
            Err(error) => return report.find(at, format!("it can't be read: {}", crate::error::words(&error))),
        };
        let manifest = match Manifest::parse(&stored.bytes, Some(&stored.media_type)) {
            Ok(manifest) if manifest.media_type() == stored.media_type => manifest,
            Ok(_) => return report.find(at, format!("it is not {}, as its link says", stored.media_type)),
            Err(error) => return report.find(at, error),
        };
        for (part, kind) in parts(&manifest) {
            let link = match kind {
                Part::Blob => layout.blob_link(name, &part.digest),
                Part::Manifest => layout.manifest_link(name, &part.digest),
            };
            if !link.exists() {
                if part.urls.is_empty() {
                    report.find(&at, format!("it names {}, which {name} does not have: push it again", part.digest));
                }
            } else if let Ok(meta) = layout.content(&part.digest).metadata()
                && meta.len() != part.size
            {
                report.find(
                    &at,
                    format!("it says that {} has {} bytes, but it has {}", part.digest, part.size, meta.len()),
                );
            }
        }
        if let Some(subject) = manifest.subject()
            && !layout.referrers(name, &subject.digest).join(digest.to_string()).exists()
        {
            report.find(at, format!("it is not listed among the referrers of {}: push it again", subject.digest));
        }
    }
}

/// A content with other bytes than were pushed.
struct Damaged {
    digest: Digest,
    /// What was read.
    file: File,
}

/// An image of a repository.
struct Image {
    /// `name:tag`, or `name@digest`.
    called: String,
    /// What it needs, itself included.
    needs: BTreeSet<Digest>,
    /// Whether that is all.
    is_known: bool,
}

/// So many of them as people read.
fn list(images: &[String]) -> String {
    let shown = images.get(..MAX_SHOWN).unwrap_or(images).join(", ");
    match images.len().saturating_sub(MAX_SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

const MAX_SHOWN: usize = 20;

impl Report {
    fn find(&mut self, at: impl fmt::Display, what: impl fmt::Display) {
        self.findings.push(Finding { at: at.to_string(), what: what.to_string() });
    }
}
