//! Manifests and tags.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;

use bytes::Bytes;
use dvcr_oci::{Algorithm, Descriptor, Digest, MAX_DOCUMENT, Manifest, Name, Tag, media};

use super::Store;
use super::blob::remove;
use super::durable::Draft;
use super::link::{Link, absent, touch};
use crate::error::{Error, Kind, Result};

/// A manifest of a repository.
#[derive(Clone, Debug)]
pub struct Stored {
    /// What its bytes are known by.
    pub digest: Digest,
    /// Of what kind it is.
    pub media_type: String,
    /// The bytes, as they were pushed.
    pub bytes: Bytes,
}

impl Store {
    /// Keeps a manifest under its digest, and under `tag` if there is one. The tag comes last, and only if `may` says so
    /// of what it stood for.
    ///
    /// # Errors
    /// `Changed` when the tag may not be set;
    /// `ManifestInvalid` when it is none, `ManifestBlobUnknown` when it names what the repository does not have,
    /// `SizeInvalid` when that has another length, `DigestInvalid` when it is not what `wanted` says.
    pub fn put_manifest(
        &self,
        name: &Name,
        bytes: &[u8],
        content_type: Option<&str>,
        wanted: Option<&Digest>,
        tag: Option<&Tag>,
        may: &dyn Fn(Option<&Digest>) -> bool,
    ) -> Result<(Digest, Manifest)> {
        let digest = Digest::by(wanted.map_or(Algorithm::default(), Digest::algorithm), bytes);
        if let Some(wanted) = wanted.filter(|wanted| **wanted != digest) {
            return Err(Error::new(Kind::DigestInvalid, format!("the manifest is {digest}, not {wanted}")));
        }
        let manifest = read(bytes, content_type)?;
        let layout = self.layout();
        self.inner.space.require(bytes.len() as u64)?;
        // Written before the gate is entered, so that the syncs keep nobody.
        let content = Draft::new(&layout.tmp(), bytes)?;
        let link = Draft::new(&layout.tmp(), manifest.media_type().as_bytes())?;
        let tagged = tag.map(|_| Draft::new(&layout.tmp(), digest.to_string().as_bytes())).transpose()?;

        let _inside = self.adding()?;
        // Nobody else sets a tag between the look and the change.
        let _turn = tag.map(|_| self.inner.tags.lock());
        let before = tag.map(|tag| self.tagged(name, tag)).transpose()?.flatten();
        if tag.is_some() && !may(before.as_ref()) {
            let message = format!("{name} has another manifest under this tag than the request wants");
            return Err(Error::new(Kind::Changed, message));
        }
        let failed = |error: io::Error| Error::io(format_args!("manifest {digest}"), &error);
        let path = layout.manifest_link(name, &digest);
        let known = Link::read(&path).map_err(failed)?;
        let mut closure = Closure { store: self, name, blobs: Vec::new(), manifests: Vec::new(), seen: HashSet::new() };
        closure.claim(&manifest, 0)?;
        fs::set_permissions(content.path(), fs::Permissions::from_mode(0o444)).map_err(failed)?;
        content.place(&layout.content(&digest))?;
        if let Some(subject) = manifest.subject() {
            let path = layout.referrers(name, &subject.digest).join(digest.to_string());
            Link::push(&path).map_err(failed)?;
        }
        let pending = known.is_none_or(|link| link.pending);
        Link::mark(link.path(), pending || tag.is_some(), false).map_err(failed)?;
        link.place(&path)?;
        closure.claim_referrers(&digest, 0)?;
        if let (Some(tag), Some(tagged)) = (tag, tagged) {
            tagged.place(&layout.tag(name, tag))?;
            // One that somebody has tagged or named waits for nothing more.
            Link::mark(&path, false, false).map_err(failed)?;
            self.release(name, before.filter(|before| *before != digest).as_ref())?;
        }
        closure.settle(known.is_none())?;
        Ok((digest, manifest))
    }

    /// The manifest under a digest. It counts as being pulled from now on, so its blobs stay for a while.
    ///
    /// # Errors
    /// `ManifestUnknown` when the repository does not have it; `Damaged` when it is not what was pushed.
    pub fn manifest(&self, name: &Name, digest: &Digest) -> Result<Stored> {
        let path = self.layout().manifest_link(name, digest);
        let stored = || -> io::Result<Option<Stored>> {
            if !self.use_link(&path, false)? {
                return Ok(None);
            }
            self.read_manifest(name, digest)
        };
        let stored = match stored() {
            Ok(Some(stored)) => stored,
            Ok(None) => return Err(unknown(name, digest)),
            Err(error) => return Err(Error::io(format_args!("manifest {digest}"), &error)),
        };
        if !digest.proves(&stored.bytes) {
            let message =
                format!("the store is damaged: {name} has a manifest {digest} with other bytes; push it again");
            return Err(Error::new(Kind::Damaged, message));
        }
        Ok(stored)
    }

    /// The manifest under a digest, without any other effect.
    ///
    /// # Errors
    /// `ManifestUnknown` when the repository does not have it.
    pub fn peek(&self, name: &Name, digest: &Digest) -> Result<Stored> {
        let stored = self.read_manifest(name, digest);
        let stored = stored.map_err(|error| Error::io(format_args!("manifest {digest}"), &error))?;
        stored.ok_or_else(|| unknown(name, digest))
    }

    /// Whether a tag or an index of a repository leads to a manifest. Reads all of them.
    ///
    /// # Errors
    /// When the store can't be read.
    pub fn is_wanted(&self, name: &Name, digest: &Digest) -> Result<bool> {
        for tag in self.tags(name, None, usize::MAX)?.0 {
            if matches!(self.tagged(name, &tag), Ok(Some(other)) if other == *digest) {
                return Ok(true);
            }
        }
        for other in self.manifests(name)? {
            let Ok(stored) = self.peek(name, &other) else { continue };
            let Ok(manifest) = Manifest::parse(&stored.bytes, Some(&stored.media_type)) else { continue };
            if parts(&manifest).iter().any(|(part, _)| part.digest == *digest) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Removes all tags and manifests of a repository. Its blobs go with the next garbage collection.
    ///
    /// # Errors
    /// `NameUnknown` when there is no such repository.
    pub fn delete_repository(&self, name: &Name) -> Result<()> {
        for tag in self.tags(name, None, usize::MAX)?.0 {
            self.delete_tag(name, &tag)?;
        }
        for digest in self.manifests(name)? {
            self.delete_manifest(name, &digest)?;
        }
        Ok(())
    }

    /// Reads a manifest without any other effect; `None` when it is not there.
    pub(super) fn read_manifest(&self, name: &Name, digest: &Digest) -> io::Result<Option<Stored>> {
        let layout = self.layout();
        let read = || -> io::Result<Stored> {
            let media_type = read_small(&layout.manifest_link(name, digest))?;
            let mut bytes = Vec::new();
            File::open(layout.content(digest))?.take(MAX_DOCUMENT as u64 + 1).read_to_end(&mut bytes)?;
            Ok(Stored { digest: *digest, media_type, bytes: bytes.into() })
        };
        match read() {
            Ok(stored) => Ok(Some(stored)),
            Err(error) if absent(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The digest that a tag stands for.
    ///
    /// # Errors
    /// `ManifestUnknown` when the repository has no such tag.
    pub fn resolve(&self, name: &Name, tag: &Tag) -> Result<Digest> {
        self.tagged(name, tag)?.ok_or_else(|| unknown(name, tag))
    }

    /// The same; `None` when there is no such tag.
    pub(super) fn tagged(&self, name: &Name, tag: &Tag) -> Result<Option<Digest>> {
        match read_small(&self.layout().tag(name, tag)) {
            Ok(text) => text.parse().map(Some).map_err(|_| {
                let message = format!("the store is damaged: the tag {name}:{tag} holds no digest; push it again");
                Error::new(Kind::Damaged, message)
            }),
            Err(error) if absent(&error) => Ok(None),
            Err(error) => Err(Error::io(format_args!("tag {name}:{tag}"), &error)),
        }
    }

    /// Removes a tag. Its manifest stays until garbage collection finds that nobody wants it.
    ///
    /// # Errors
    /// `ManifestUnknown` when the repository has no such tag.
    pub fn delete_tag(&self, name: &Name, tag: &Tag) -> Result<()> {
        let _inside = self.adding()?;
        let before = self.tagged(name, tag)?;
        match remove(&self.layout().tag(name, tag)) {
            Ok(true) => self.release(name, before.as_ref()),
            Ok(false) => Err(unknown(name, tag)),
            Err(error) => Err(Error::io(format_args!("tag {name}:{tag}"), &error)),
        }
    }

    /// Removes a manifest, and before it all tags that stand for it.
    ///
    /// # Errors
    /// `ManifestUnknown` when the repository does not have it.
    pub fn delete_manifest(&self, name: &Name, digest: &Digest) -> Result<()> {
        let _inside = self.adding()?;
        let failed = |error: io::Error| Error::io(format_args!("manifest {digest}"), &error);
        let link = self.layout().manifest_link(name, digest);
        if Link::read(&link).map_err(failed)?.is_none() {
            return Err(unknown(name, digest));
        }
        for tag in self.tags(name, None, usize::MAX)?.0 {
            // A damaged tag stands for nothing.
            if matches!(self.tagged(name, &tag), Ok(Some(other)) if other == *digest) {
                remove(&self.layout().tag(name, &tag)).map_err(failed)?;
            }
        }
        self.forget_manifest(name, digest).map_err(failed)
    }

    /// Removes the link of a manifest and what says whom it refers to. The caller has seen to its tags.
    pub(super) fn forget_manifest(&self, name: &Name, digest: &Digest) -> io::Result<()> {
        let subject = self.read_manifest(name, digest)?.and_then(|stored| {
            Manifest::parse(&stored.bytes, Some(&stored.media_type)).ok()?.subject().map(|subject| subject.digest)
        });
        remove(&self.layout().manifest_link(name, digest))?;
        if let Some(subject) = subject {
            let folder = self.layout().referrers(name, &subject);
            remove(&folder.join(digest.to_string()))?;
            // It goes with the last one in it.
            let _ = fs::remove_dir(folder);
        }
        Ok(())
    }

    /// A tag has let go of a manifest: from now on it is counted how long nobody wants it.
    fn release(&self, name: &Name, digest: Option<&Digest>) -> Result<()> {
        let Some(digest) = digest else { return Ok(()) };
        match touch(&self.layout().manifest_link(name, digest)) {
            Err(error) if !absent(&error) => Err(Error::io(format_args!("manifest {digest}"), &error)),
            _ => Ok(()),
        }
    }
}

/// Everything a manifest leads to, as it is claimed: a garbage collection that looked before must see that it is wanted. What
/// a push has brought waits for its manifest until that is in its place: if this ends before, it can be pushed again.
struct Closure<'a> {
    store: &'a Store,
    name: &'a Name,
    /// Blobs that the manifest itself names.
    blobs: Vec<Digest>,
    /// Manifests that it leads to.
    manifests: Vec<Digest>,
    seen: HashSet<Digest>,
}

impl Closure<'_> {
    fn claim(&mut self, manifest: &Manifest, depth: usize) -> Result<()> {
        for (descriptor, kind) in parts(manifest) {
            if !self.seen.insert(descriptor.digest) {
                continue;
            }
            match kind {
                Part::Blob => {
                    self.claim_blob(descriptor)?;
                    if depth == 0 {
                        self.blobs.push(descriptor.digest);
                    }
                }
                Part::Manifest => self.claim_manifest(descriptor, depth + 1)?,
            }
        }
        Ok(())
    }

    fn claim_blob(&self, descriptor: &Descriptor) -> Result<()> {
        let layout = self.store.layout();
        let digest = &descriptor.digest;
        let found = || -> io::Result<u64> {
            touch(&layout.blob_link(self.name, digest))?;
            Ok(fs::metadata(layout.content(digest))?.len())
        };
        match found() {
            Ok(size) => check_size(descriptor, size),
            // What may be had elsewhere need not be here.
            Err(error) if absent(&error) && !descriptor.urls.is_empty() => Ok(()),
            Err(error) if absent(&error) => Err(lacking(self.name, descriptor)),
            Err(error) => Err(Error::io(digest, &error)),
        }
    }

    fn claim_manifest(&mut self, descriptor: &Descriptor, depth: usize) -> Result<()> {
        if depth > MAX_DEPTH {
            let message = format!("the manifest is an index of indexes, more than {MAX_DEPTH} deep");
            return Err(Error::new(Kind::ManifestInvalid, message));
        }
        let digest = &descriptor.digest;
        let failed = |error: io::Error| Error::io(format_args!("manifest {digest}"), &error);
        let stored = self.store.read_manifest(self.name, digest).map_err(failed)?;
        let Some(stored) = stored else { return Err(lacking(self.name, descriptor)) };
        check_size(descriptor, stored.bytes.len() as u64)?;
        let link = self.store.layout().manifest_link(self.name, digest);
        touch(&link).map_err(failed)?;
        self.manifests.push(*digest);
        self.claim(&read(&stored.bytes, Some(&stored.media_type))?, depth)?;
        self.claim_referrers(digest, depth)
    }

    /// The manifest is in its place, and holds what it leads to. `is_new` says that the repository did not have it before, so
    /// that it may be what a push of these blobs has waited for.
    fn settle(self, is_new: bool) -> Result<()> {
        let layout = self.store.layout();
        let blobs =
            self.blobs.iter().filter(|_| is_new).map(|digest| Link::claim(&layout.blob_link(self.name, digest)));
        let manifests =
            self.manifests.iter().map(|digest| Link::mark(&layout.manifest_link(self.name, digest), false, false));
        for settled in blobs.chain(manifests) {
            match settled {
                // A blob that may be had elsewhere.
                Err(error) if absent(&error) => {}
                settled => settled.map_err(|error| Error::io(self.name, &error))?,
            }
        }
        Ok(())
    }

    /// What refers to a manifest stays as long as that does.
    fn claim_referrers(&mut self, digest: &Digest, depth: usize) -> Result<()> {
        for referrer in self.store.referrer_digests(self.name, digest)? {
            if depth >= MAX_DEPTH || !self.seen.insert(referrer) {
                continue;
            }
            let failed = |error: io::Error| Error::io(format_args!("manifest {referrer}"), &error);
            let Some(stored) = self.store.read_manifest(self.name, &referrer).map_err(failed)? else { continue };
            touch(&self.store.layout().manifest_link(self.name, &referrer)).map_err(failed)?;
            // One that has lost a blob is no reason to refuse this manifest.
            match self.claim(&read(&stored.bytes, Some(&stored.media_type))?, depth + 1) {
                Err(error) if error.kind() != Kind::ManifestBlobUnknown => return Err(error),
                _ => self.claim_referrers(&referrer, depth + 1)?,
            }
        }
        Ok(())
    }
}

/// What a part of a manifest is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Blob,
    Manifest,
}

/// Everything that must be there with a manifest. Its subject need not.
pub(super) fn parts(manifest: &Manifest) -> Vec<(&Descriptor, Part)> {
    match manifest {
        Manifest::Image(image) => {
            std::iter::once(&image.config).chain(&image.layers).map(|part| (part, Part::Blob)).collect()
        }
        Manifest::Index(index) => index
            .manifests
            .iter()
            .map(|part| {
                let is_manifest = media::is_manifest(&part.media_type) || media::is_index(&part.media_type);
                (part, if is_manifest { Part::Manifest } else { Part::Blob })
            })
            .collect(),
    }
}

fn read(bytes: &[u8], content_type: Option<&str>) -> Result<Manifest> {
    let manifest =
        Manifest::parse(bytes, content_type).map_err(|error| Error::new(Kind::ManifestInvalid, error.to_string()))?;
    if let Some(claimed) = content_type.map(media::essence)
        && (media::is_manifest(&claimed) || media::is_index(&claimed))
        && claimed != manifest.media_type()
    {
        let message = format!("the manifest is {}, but was sent as {claimed}", manifest.media_type());
        return Err(Error::new(Kind::ManifestInvalid, message));
    }
    Ok(manifest)
}

fn check_size(descriptor: &Descriptor, size: u64) -> Result<()> {
    if descriptor.size == size {
        return Ok(());
    }
    let Descriptor { digest, size: said, .. } = descriptor;
    Err(Error::new(Kind::SizeInvalid, format!("the manifest says that {digest} has {said} bytes, but it has {size}")))
}

fn lacking(name: &Name, descriptor: &Descriptor) -> Error {
    let message = format!("{name} does not have {}, which the manifest names: push it first", descriptor.digest);
    Error::new(Kind::ManifestBlobUnknown, message)
}

fn unknown(name: &Name, what: impl std::fmt::Display) -> Error {
    Error::new(Kind::ManifestUnknown, format!("{name} has no manifest {what}"))
}

/// Reads a file of ours that holds a few words.
fn read_small(path: &std::path::Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(1024).read_to_string(&mut text)?;
    Ok(text.trim_end().to_owned())
}

/// Indexes of indexes are followed so far. Nobody makes more than two.
pub(super) const MAX_DEPTH: usize = 8;
