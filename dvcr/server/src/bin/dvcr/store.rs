//! `dvcr gc`, `check`, `ls` and `rm`: what works on the store itself, also while the registry serves it.

use std::collections::BTreeSet;

use dvcr::{Error, Kind, Options, Result, Store};
use dvcr_oci::{Digest, Manifest, Name, Tag};
use serde::Serialize;

use crate::args::{Check, Gc, Ls, Rm};
use crate::named::Named;
use crate::{complain, say, serve, shown};

pub(crate) fn gc(gc: &Gc) -> Result<()> {
    let store = Store::open(&gc.root)?;
    let options = Options { dry_run: gc.dry_run, ..serve::options(&gc.garbage)? };
    let outcome = store.collect(&options)?;
    let did = if gc.dry_run { "would remove" } else { "removed" };
    say(format_args!(
        "{did} {} tags, {} manifests and {} expired uploads of {} repositories; {} {} blobs, {}",
        outcome.tags,
        outcome.manifests,
        outcome.uploads,
        outcome.repositories,
        if gc.dry_run { "would free" } else { "freed" },
        outcome.contents,
        shown::bytes(outcome.bytes)
    ))?;
    if outcome.young > 0 {
        say(format_args!(
            "{} manifests that nobody needs stay for now, because they are younger than --grace: collect again in {}",
            outcome.young,
            shown::time(outcome.young_wait)
        ))?;
    }
    if outcome.held > 0 {
        say(format_args!(
            "{} manifests and blobs that nobody needs stay for now whatever --grace is, because a push that goes on may rely \
             on them: collect again in {}",
            outcome.held,
            shown::time(outcome.held_wait)
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
    let store = Store::open(&check.root)?;
    let report = if check.discard { store.check_and_discard(check.threads) } else { store.check(check.threads) }?;
    for finding in &report.findings {
        say(finding)?;
    }
    say(format_args!(
        "{} blobs ({}), {} repositories, {} manifests, {} tags: {}",
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
    let named = ls.name.as_deref().map(Named::parse).transpose()?;
    let names = match &named {
        Some(Named { name, .. }) if !store.exists(name) => {
            return Err(Error::new(Kind::NameUnknown, format!("there is no repository {name}")));
        }
        Some(Named { name, digest: Some(digest), tag }) => {
            store.peek(name, digest)?;
            return print(ls, &line(&store, name, tag.as_ref(), *digest));
        }
        Some(Named { name, tag: Some(tag), .. }) => {
            let digest = store.resolve(name, tag)?;
            return print(ls, &line(&store, name, Some(tag), digest));
        }
        Some(Named { name, .. }) => vec![name.clone()],
        None => store.repositories(None, usize::MAX)?.0,
    };
    let mut printed = 0;
    for name in &names {
        let mut tagged = BTreeSet::new();
        for tag in store.tags(name, None, usize::MAX).map(|(tags, _)| tags).unwrap_or_default() {
            // One that was removed just now.
            let Ok(digest) = store.resolve(name, &tag) else { continue };
            tagged.insert(digest);
            print(ls, &line(&store, name, Some(&tag), digest))?;
            printed += 1;
        }
        if ls.untagged {
            for digest in store.manifests(name)? {
                if !tagged.contains(&digest) {
                    print(ls, &line(&store, name, None, digest))?;
                    printed += 1;
                }
            }
        }
    }
    if printed == 0 {
        complain(&nothing(ls, &store, &names)?);
    }
    Ok(())
}

/// Why a list is empty.
fn nothing(ls: &Ls, store: &Store, names: &[Name]) -> Result<String> {
    let mut untagged = 0;
    for name in names {
        untagged += store.manifests(name)?.len();
    }
    let of = match (&ls.name, names) {
        (Some(_), [name]) => name.to_string(),
        (_, []) => return Ok("the store is empty: nothing was pushed to it yet, or everything was removed".to_owned()),
        _ => "the store".to_owned(),
    };
    Ok(match untagged {
        0 => format!("{of} has no images any more: dvcr gc frees what is left of them"),
        many => format!("{of} has no tags, and {many} manifests without one: --untagged lists them"),
    })
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
    // All of them are understood before one is removed.
    let named = rm.references.iter().map(|reference| removable(reference, rm.all)).collect::<Result<Vec<_>>>()?;
    for (Named { name, tag, digest }, reference) in named.iter().zip(&rm.references) {
        match (tag, digest) {
            (_, Some(digest)) => store.delete_manifest(name, digest)?,
            (Some(tag), None) => remove_tag(&store, name, tag)?,
            (None, None) => store.delete_repository(name)?,
        }
        say(format_args!("removed {reference}"))?;
    }
    Ok(())
}

/// What is to be removed, if it is meant so: an image, or with `all` a repository.
fn removable(reference: &str, all: bool) -> Result<Named> {
    let named = Named::parse(reference)?;
    let name = &named.name;
    let message = match (named.tag.is_some() || named.digest.is_some(), all) {
        (true, false) | (false, true) => return Ok(named),
        (true, true) => format!(
            "{reference} is one image, but --all removes everything in a repository: leave out --all, or write {name}"
        ),
        (false, false) => format!("{name} names a whole repository: add a :tag or an @digest, or --all"),
    };
    Err(Error::new(Kind::Usage, message))
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
