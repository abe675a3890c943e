//! `dvcr gc`, `check`, `ls` and `rm`: what works on the store itself, also while the registry serves it.

use std::collections::BTreeSet;

use dvcr::{Error, Kind, Options, Result, Store};
use dvcr_oci::{Digest, Manifest, Name, Tag};
use serde::Serialize;

use crate::args::{Check, Gc, Ls, Rm};
use crate::{say, serve, shown};

pub(crate) fn gc(gc: &Gc) -> Result<()> {
    let store = Store::open(&gc.root)?;
    let options = Options { dry_run: gc.dry_run, ..serve::options(&gc.garbage)? };
    let outcome = store.collect(&options)?;
    let did = if gc.dry_run { "would remove" } else { "removed" };
    say(format_args!(
        "{did} {} tags, {} manifests, {} blobs and {} expired uploads of {} repositories: {} contents, {}",
        outcome.tags,
        outcome.manifests,
        outcome.blobs,
        outcome.uploads,
        outcome.repositories,
        outcome.contents,
        shown::bytes(outcome.bytes)
    ))?;
    if outcome.young > 0 {
        say(format_args!(
            "{} manifests and blobs that nobody needs stay for now: a push was about to use them, or they are younger than \
             --grace; collect again in {}",
            outcome.young,
            shown::time(outcome.wait)
        ))?;
    }
    if outcome.read > 0 {
        say(format_args!("{} repositories are being pulled from and were left alone", outcome.read))?;
    }
    if outcome.skipped > 0 {
        say(format_args!("{} repositories are damaged and were left alone: run dvcr check", outcome.skipped))?;
    }
    Ok(())
}

pub(crate) fn check(check: &Check) -> Result<()> {
    let report = Store::open(&check.root)?.check(check.threads)?;
    for finding in &report.findings {
        say(finding)?;
    }
    say(format_args!(
        "{} contents ({}), {} repositories, {} manifests, {} tags: {}",
        report.contents,
        shown::bytes(report.bytes),
        report.repositories,
        report.manifests,
        report.tags,
        if report.findings.is_empty() { "all sound" } else { "damaged" }
    ))?;
    match report.findings.len() {
        0 => Ok(()),
        1 => Err(Error::new(Kind::Damaged, "the store is damaged in one place")),
        many => Err(Error::new(Kind::Damaged, format!("the store is damaged in {many} places"))),
    }
}

/// One line of a list.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    tag: Option<String>,
    digest: String,
    media_type: String,
    /// Of the manifest and what it names; blobs that images share count for each.
    size: u64,
}

pub(crate) fn ls(ls: &Ls) -> Result<()> {
    let store = Store::open(&ls.root)?;
    let names = match &ls.name {
        Some(text) => {
            let name = Name::parse(text).map_err(usage)?;
            if !store.exists(&name) {
                return Err(Error::new(Kind::NameUnknown, format!("there is no repository {name}")));
            }
            vec![name]
        }
        None => store.repositories(None, usize::MAX)?.0,
    };
    for name in names {
        let mut tagged = BTreeSet::new();
        for tag in store.tags(&name, None, usize::MAX).map(|(tags, _)| tags).unwrap_or_default() {
            // One that was removed just now.
            let Ok(digest) = store.resolve(&name, &tag) else { continue };
            tagged.insert(digest);
            print(ls, &line(&store, &name, Some(&tag), digest))?;
        }
        if ls.untagged {
            for digest in store.manifests(&name)? {
                if !tagged.contains(&digest) {
                    print(ls, &line(&store, &name, None, digest))?;
                }
            }
        }
    }
    Ok(())
}

fn line(store: &Store, name: &Name, tag: Option<&Tag>, digest: Digest) -> Line {
    let stored = store.peek(name, &digest).ok();
    let manifest = stored.as_ref().and_then(|stored| Manifest::parse(&stored.bytes, Some(&stored.media_type)).ok());
    let parts: u64 = match &manifest {
        Some(Manifest::Image(image)) => {
            image.layers.iter().map(|layer| layer.size).fold(image.config.size, u64::saturating_add)
        }
        Some(Manifest::Index(index)) => index.manifests.iter().map(|one| one.size).fold(0, u64::saturating_add),
        None => 0,
    };
    let own = stored.as_ref().map_or(0, |stored| stored.bytes.len() as u64);
    Line {
        name: name.to_string(),
        tag: tag.map(Tag::to_string),
        digest: digest.to_string(),
        media_type: stored.map_or_else(|| "damaged".to_owned(), |stored| stored.media_type),
        size: parts.saturating_add(own),
    }
}

fn print(ls: &Ls, line: &Line) -> Result<()> {
    if ls.json {
        return say(serde_json::to_string(line).unwrap_or_default());
    }
    let reference = match &line.tag {
        Some(tag) => format!("{}:{tag}", line.name),
        None => line.name.clone(),
    };
    say(format_args!("{reference}\t{}\t{}", line.digest, shown::bytes(line.size)))
}

pub(crate) fn rm(rm: &Rm) -> Result<()> {
    let store = Store::open(&rm.root)?;
    for reference in &rm.references {
        let (name, digest) = match reference.split_once('@') {
            Some((name, digest)) => (name, Some(Digest::parse(digest).map_err(usage)?)),
            None => (reference.as_str(), None),
        };
        let (name, tag) = match name.split_once(':') {
            Some((name, tag)) => (name, Some(Tag::parse(tag).map_err(usage)?)),
            None => (name, None),
        };
        let name = Name::parse(name).map_err(usage)?;
        match (tag, digest) {
            (_, Some(digest)) => store.delete_manifest(&name, &digest)?,
            (Some(tag), None) => remove_tag(&store, &name, &tag)?,
            (None, None) if rm.all => store.delete_repository(&name)?,
            (None, None) => {
                let message = format!("{name} names a whole repository: add a :tag or an @digest, or --all");
                return Err(Error::new(Kind::Usage, message));
            }
        }
        say(format_args!("removed {reference}"))?;
    }
    Ok(())
}

/// Removes a tag, and its manifest with it if nothing else leads there: that is what people mean.
fn remove_tag(store: &Store, name: &Name, tag: &Tag) -> Result<()> {
    let digest = store.resolve(name, tag)?;
    store.delete_tag(name, tag)?;
    if !store.is_wanted(name, &digest)? {
        store.delete_manifest(name, &digest)?;
    }
    Ok(())
}

fn usage(error: dvcr_oci::Error) -> Error {
    Error::new(Kind::Usage, error.to_string())
}
