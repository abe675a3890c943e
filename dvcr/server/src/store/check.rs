//! Looking whether everything is as it was pushed.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::sync::Mutex;

use dvcr_oci::{Digest, Hasher, Manifest, Name, Tag};

use super::Store;
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
        let mut report = Report::default();
        self.check_contents(threads, &mut report)?;
        for name in self.repositories(None, usize::MAX)?.0 {
            report.repositories += 1;
            self.check_repository(&name, &mut report)?;
        }
        report.findings.sort();
        report.findings.dedup();
        Ok(report)
    }

    fn check_contents(&self, threads: usize, report: &mut Report) -> Result<()> {
        let mut digests = Vec::new();
        self.each_content(|digest, _| {
            digests.push(digest);
            Ok(())
        })?;
        let shared = Mutex::new((digests.into_iter(), report));
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
                            Ok((bytes, true)) => {
                                report.contents += 1;
                                report.bytes += bytes;
                            }
                            Ok((bytes, false)) => {
                                report.contents += 1;
                                report.bytes += bytes;
                                report.find(digest, "its bytes are others than were pushed: push it again");
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
        Ok(())
    }

    /// How many bytes a content has, and whether they are the right ones.
    fn check_content(&self, digest: &Digest) -> io::Result<(u64, bool)> {
        let mut file = File::open(self.layout().content(digest))?;
        let mut hasher = Hasher::new(digest.algorithm());
        let mut buffer = vec![0; 1 << 18];
        let mut len = 0;
        loop {
            match file.read(&mut buffer) {
                Ok(0) => return Ok((len, hasher.finish() == *digest)),
                Ok(read) => {
                    hasher.update(buffer.get(..read).unwrap_or_default());
                    len += read as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn check_repository(&self, name: &Name, report: &mut Report) -> Result<()> {
        let layout = self.layout();
        let failed = |error: io::Error| Error::io(name, &error);
        for digest in names::<Digest>(&layout.blob_links(name)).map_err(failed)? {
            if !layout.content(&digest).exists() && layout.blob_link(name, &digest).exists() {
                report.find(format_args!("{name}@{digest}"), "the content of this blob is missing: push it again");
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
            let mut found = Report::default();
            self.check_manifest(name, &digest, &mut found);
            // What a manifest lacks that was deleted meanwhile is nothing.
            if layout.manifest_link(name, &digest).exists() {
                report.findings.append(&mut found.findings);
            }
        }
        Ok(())
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

impl Report {
    fn find(&mut self, at: impl fmt::Display, what: impl fmt::Display) {
        self.findings.push(Finding { at: at.to_string(), what: what.to_string() });
    }
}
