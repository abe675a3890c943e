//! One repository of one registry.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use dvcr_oci::{Descriptor, Digest, Host, Manifest, Name, Reference, Tag, media};
use dvcr_transport::{Address, Ask, Method, Payload};
use serde_json::Value;

use crate::auth::Auth;
use crate::blob::Blob;
use crate::error::{Error, Kind, Result};
use crate::server::{Failure, Purpose, Server, wait};
use crate::token::encoded;
use crate::uploads::Uploads;

/// One repository of one registry. Cheap to clone.
#[derive(Clone)]
pub struct Repository {
    pub(crate) server: Arc<Server>,
    pub(crate) name: Name,
    /// Bytes of an upload that are sent at a time.
    pub(crate) chunk: usize,
    /// What is being pushed by way of it and its clones.
    pub(crate) uploads: Arc<Uploads>,
}

/// What a manifest is asked for by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// By a name that may mean another one tomorrow.
    Tag(Tag),
    /// By what it is.
    Digest(Digest),
}

/// A manifest, with the bytes that it was made of.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Document {
    /// Type, digest and length.
    pub descriptor: Descriptor,
    /// The bytes.
    pub bytes: Bytes,
    /// What they say.
    pub manifest: Manifest,
}

impl Target {
    /// The digest of a reference, or its tag.
    #[must_use]
    pub fn of(reference: &Reference) -> Self {
        match (reference.digest(), reference.tag()) {
            (Some(digest), _) => Self::Digest(*digest),
            (None, Some(tag)) => Self::Tag(tag.clone()),
            (None, None) => Self::Tag(Tag::latest()),
        }
    }

    fn path(&self) -> String {
        match self {
            Self::Tag(tag) => format!("manifests/{tag}"),
            Self::Digest(digest) => format!("manifests/{digest}"),
        }
    }
}

/// As it stands behind the name in a reference.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tag(tag) => write!(f, ":{tag}"),
            Self::Digest(digest) => write!(f, "@{digest}"),
        }
    }
}

impl From<Tag> for Target {
    fn from(tag: Tag) -> Self {
        Self::Tag(tag)
    }
}

impl From<Digest> for Target {
    fn from(digest: Digest) -> Self {
        Self::Digest(digest)
    }
}

impl Repository {
    pub(crate) fn new(server: Arc<Server>, name: Name, chunk: usize) -> Self {
        Self { server, name, chunk, uploads: Arc::default() }
    }

    /// The registry it is in.
    #[must_use]
    pub fn host(&self) -> &Host {
        &self.server.host
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &Name {
        &self.name
    }

    pub(crate) fn error(&self, error: impl Into<Error>) -> Error {
        self.server.error(error)
    }

    /// The same of the first and the last request of a push. Registries that are read-only answer so.
    pub(crate) fn push_error(&self, failure: Failure) -> Error {
        let is_read_only = failure.status() == Some(405);
        let error = self.error(failure);
        if is_read_only { Error::new(Kind::NotWritable, error.to_string()) } else { error }
    }

    pub(crate) async fn auth(&self, push: bool) -> Result<Arc<Auth>> {
        self.server.auth(&Purpose { name: self.name.clone(), push, from: None }).await
    }

    /// A manifest. Its digest is computed, and compared where it is known; what the registry says of it is not believed.
    ///
    /// # Errors
    ///
    /// See [`Kind`]: `NotFound`, `Denied`, `Mismatch`, `Malformed`, `Unsupported` among them.
    pub async fn manifest(&self, target: &Target) -> Result<Document> {
        let auth = self.auth(false).await?;
        self.manifest_with(&auth, target).await
    }

    async fn manifest_with(&self, auth: &Auth, target: &Target) -> Result<Document> {
        let address = self.server.address(&self.name, &target.path()).await?;
        let make = || Ask::new(Method::Get).header("accept", media::MANIFESTS.join(", "));
        let page = self.server.read(auth, &address, &make, dvcr_oci::MAX_DOCUMENT).await;
        let page = page.map_err(|failure| {
            let missing = match failure.code() {
                "NAME_UNKNOWN" => Some(format!("there is no repository {}", self.name)),
                "MANIFEST_UNKNOWN" => Some(match target {
                    Target::Tag(tag) => format!("the repository {} has no tag {tag}", self.name),
                    Target::Digest(_) => format!("the repository {} has no such manifest", self.name),
                }),
                _ => None,
            };
            let error = self.error(failure);
            missing.map_or(error.clone(), |missing| error.and(missing))
        })?;
        let digest = match target {
            Target::Digest(digest) if digest.proves(&page.bytes) => *digest,
            Target::Digest(_) => {
                let message = format!("{address}: what came has the digest {}", Digest::of(&page.bytes));
                return Err(self.error(Error::new(Kind::Mismatch, message)));
            }
            Target::Tag(_) => Digest::of(&page.bytes),
        };
        if page.digest.as_deref().is_some_and(|said| !said.is_empty() && said != digest.to_string()) {
            tracing::warn!(%address, said = page.digest, %digest, "the registry says another digest than what it sent has");
        }
        let manifest = Manifest::parse(&page.bytes, page.content_type.as_deref());
        let manifest = manifest.map_err(|error| self.error(Error::from(error).at(&address)))?;
        let descriptor = Descriptor::new(manifest.media_type(), digest, page.bytes.len() as u64);
        Ok(Document { descriptor, bytes: page.bytes, manifest })
    }

    /// What a tag means now. Costs a HEAD; a GET where the registry does not say it then.
    ///
    /// # Errors
    ///
    /// As [`manifest`](Self::manifest).
    pub async fn digest(&self, tag: &Tag) -> Result<Digest> {
        let target = Target::Tag(tag.clone());
        let auth = self.auth(false).await?;
        let address = self.server.address(&self.name, &target.path()).await?;
        let make = || Ask::new(Method::Head).header("accept", media::MANIFESTS.join(", "));
        let said = match self.server.ask(&auth, &address, &make, &[200]).await {
            Ok(reply) => reply.header("docker-content-digest").and_then(|said| Digest::parse(said).ok()),
            Err(failure) if matches!(failure.status(), Some(400 | 405 | 501)) => None,
            Err(failure) => return Err(self.error(failure)),
        };
        match said {
            Some(digest) => Ok(digest),
            None => Ok(self.manifest(&target).await?.descriptor.digest),
        }
    }

    /// A blob. Connects to nothing.
    #[must_use]
    pub fn blob(&self, descriptor: &Descriptor) -> Blob {
        Blob::new(vec![self.clone()], descriptor.clone())
    }

    /// Whether this blob is there, with the length it has to have.
    ///
    /// # Errors
    ///
    /// See [`Kind`].
    pub async fn exists(&self, blob: &Descriptor) -> Result<bool> {
        let (auth, address) = self.way_to(blob).await?;
        let mut budget = self.server.budget();
        loop {
            match self.is_there(&auth, &address, blob).await {
                Ok(there) => return Ok(there),
                Err(failure) => wait(&mut budget, failure).await.map_err(|failure| self.error(failure))?,
            }
        }
    }

    /// How a blob that is pushed is asked about; one token does for both.
    pub(crate) async fn way_to(&self, blob: &Descriptor) -> Result<(Arc<Auth>, Address)> {
        let address = self.server.address(&self.name, &format!("blobs/{}", blob.digest)).await?;
        Ok((self.auth(true).await?, address))
    }

    /// Whether it is there, asked once.
    pub(crate) async fn is_there(&self, auth: &Auth, address: &Address, blob: &Descriptor) -> Result<bool, Failure> {
        match self.server.once(auth, address, &|| Ask::new(Method::Head), &[200]).await {
            Ok(reply) => {
                let len = reply.header("content-length").and_then(|len| len.parse().ok());
                Ok(len.is_none_or(|len: u64| len == blob.size))
            }
            Err(failure) if matches!(failure.status(), Some(404 | 405)) => Ok(false),
            Err(failure) => Err(failure),
        }
    }

    /// Looks whether the registry gives a blob that was pushed the length it has. One that has a damaged blob of this
    /// digest may take the push and keep what it had.
    ///
    /// # Errors
    ///
    /// `Kind::Mismatch` if it gives it another.
    pub async fn check_length(&self, blob: &Descriptor) -> Result<()> {
        let Ok((auth, address)) = self.way_to(blob).await else { return Ok(()) };
        // Nothing is said by a registry that can't be asked now: the manifest will be.
        let Ok(reply) = self.server.once(&auth, &address, &|| Ask::new(Method::Head), &[200]).await else {
            return Ok(());
        };
        let len = reply.header("content-length").and_then(|len| len.parse::<u64>().ok());
        match len.filter(|len| *len != blob.size) {
            None => Ok(()),
            Some(len) => {
                let message = format!(
                    "{self}@{}: {} bytes were pushed, and the registry has {len} there: its store is damaged; \
                     remove this blob from it",
                    blob.digest, blob.size
                );
                Err(self.error(Error::new(Kind::Mismatch, message)))
            }
        }
    }

    /// Whether a blob is there already. No is also said where it can't be told now.
    pub(crate) async fn is_known(&self, digest: &Digest, len: u64) -> bool {
        let blob = Descriptor::new("application/octet-stream", *digest, len);
        let Ok((auth, address)) = self.way_to(&blob).await else { return false };
        self.is_there(&auth, &address, &blob).await.unwrap_or(false)
    }

    /// Takes a blob over from another repository of the same registry, if that is possible.
    ///
    /// # Errors
    ///
    /// See [`Kind`]. A registry that does not do it is no error.
    pub async fn mount(&self, digest: &Digest, from: &Name) -> Result<bool> {
        let purpose = Purpose { name: self.name.clone(), push: true, from: Some(from.clone()) };
        let auth = self.server.auth(&purpose).await?;
        let query = format!("blobs/uploads/?mount={}&from={}", encoded(&digest.to_string()), encoded(from.as_str()));
        let address = self.server.address(&self.name, &query).await?;
        match self.server.ask(&auth, &address, &|| Ask::new(Method::Post), &[201, 202]).await {
            Ok(reply) if reply.status == 201 => Ok(true),
            Ok(reply) => {
                // It began an upload instead, which nobody will end.
                if let Ok(Some(upload)) = reply.location() {
                    self.forget(&auth, upload).await;
                }
                Ok(false)
            }
            // It may not be told from one that does not exist.
            Err(failure) if matches!(failure.status(), Some(400 | 403..=405)) => Ok(false),
            Err(failure) => Err(self.error(failure)),
        }
    }

    /// Stores a manifest under a tag or its digest, and reads it back. Everything it refers to has to be there.
    ///
    /// # Errors
    ///
    /// See [`Kind`]. `Usage` for a digest that is not that of the bytes; `Mismatch` if something else is there afterwards,
    /// or nothing.
    pub async fn put_manifest(&self, target: &Target, media_type: &str, bytes: impl Into<Bytes>) -> Result<Digest> {
        let bytes = bytes.into();
        let digest = match target {
            Target::Digest(digest) if !digest.proves(&bytes) => {
                return Err(Error::new(
                    Kind::Usage,
                    format!("the manifest to be stored as {digest} has another digest"),
                ));
            }
            Target::Digest(digest) => *digest,
            Target::Tag(_) => Digest::of(&bytes),
        };
        let auth = self.auth(true).await?;
        let address = self.server.address(&self.name, &target.path()).await?;
        let make = || {
            let ask = Ask::new(Method::Put).header("content-type", media_type);
            ask.payload(Payload::pieces([bytes.clone()]))
        };
        let stored = self.uploads.unless_given_up(self.server.ask(&auth, &address, &make, &[200, 201, 202])).await;
        stored.map_err(|failure| self.push_error(failure))?;
        self.read_back(&auth, target, &digest).await?;
        Ok(digest)
    }

    /// Looks what is there, whatever the registry said of it. A tag may take a moment to be seen everywhere.
    async fn read_back(&self, auth: &Auth, target: &Target, digest: &Digest) -> Result<()> {
        let mut waits = LATE.iter();
        let stored = loop {
            match self.manifest_with(auth, target).await {
                Ok(document) if document.descriptor.digest == *digest => return Ok(()),
                Ok(document) => break document.descriptor.digest.to_string(),
                Err(error) if error.kind() == Kind::NotFound => match waits.next() {
                    Some(wait) => tokio::time::sleep(*wait).await,
                    None => break "nothing".into(),
                },
                Err(error) if matches!(error.kind(), Kind::Malformed | Kind::Unsupported | Kind::Mismatch) => {
                    break format!("something else ({error})");
                }
                // Who may push may not always pull.
                Err(error) if error.kind() == Kind::Denied => {
                    tracing::warn!(%error, "what was pushed can't be read back");
                    return Ok(());
                }
                Err(error) => return Err(error),
            }
        };
        let message = format!("{self}{target}: the registry said that it has stored {digest}, and has {stored} there");
        Err(self.error(Error::new(Kind::Mismatch, message)))
    }

    /// All tags, in the order of the registry.
    ///
    /// # Errors
    ///
    /// See [`Kind`]. `Malformed` for more than a million of them, and for a list that does not end.
    pub async fn tags(&self) -> Result<Vec<Tag>> {
        let auth = self.auth(false).await?;
        let mut address = self.server.address(&self.name, &format!("tags/list?n={TAGS_AT_A_TIME}")).await?;
        let mut tags = Vec::new();
        for _ in 0..MAX_PAGES {
            let page = self.server.read(&auth, &address, &|| Ask::new(Method::Get), MAX_LIST).await;
            let page = page.map_err(|failure| self.error(failure))?;
            let malformed = |why: &str| self.error(Error::new(Kind::Malformed, format!("{address}: {why}")));
            let value: Value =
                serde_json::from_slice(&page.bytes).map_err(|_| malformed("the list of tags is not JSON"))?;
            match value.get("tags") {
                None | Some(Value::Null) => {}
                Some(Value::Array(list)) => {
                    for tag in list {
                        let text = tag.as_str().ok_or_else(|| malformed("a tag is not a text"))?;
                        tags.push(Tag::parse(text).map_err(|error| malformed(&error.to_string()))?);
                    }
                }
                Some(_) => return Err(malformed("\"tags\" is not a list")),
            }
            if tags.len() > MAX_TAGS {
                break;
            }
            let Some(next) = page.link.as_deref().and_then(next_page) else { return Ok(tags) };
            let next = page.address.join(next).map_err(|error| self.error(error))?;
            if !next.same_origin(&address) || next == address {
                return Err(malformed("the list of tags goes on elsewhere"));
            }
            address = next;
        }
        Err(self.error(Error::new(Kind::Malformed, format!("{address}: the list of tags does not end"))))
    }
}

/// The address in `<…>; rel="next"` (RFC 8288).
pub(crate) fn next_page(link: &str) -> Option<&str> {
    link.split(',').find_map(|link| {
        let (address, parameters) = link.trim().strip_prefix('<')?.split_once('>')?;
        let next = parameters.split(';').any(|part| {
            part.trim().split_once('=').is_some_and(|(name, value)| {
                name.trim().eq_ignore_ascii_case("rel") && value.trim().trim_matches('"').eq_ignore_ascii_case("next")
            })
        });
        next.then_some(address)
    })
}

/// Without a tag: `registry.example/team/app`.
impl fmt::Display for Repository {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.server.host, self.name)
    }
}

impl fmt::Debug for Repository {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Repository({self})")
    }
}

/// How long a manifest may take to be seen.
const LATE: [Duration; 3] = [Duration::from_millis(100), Duration::from_millis(400), Duration::from_millis(1500)];
const TAGS_AT_A_TIME: usize = 1000;
const MAX_TAGS: usize = 1_000_000;
const MAX_PAGES: usize = 10_000;
const MAX_LIST: usize = 16 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_page_is_found() {
        assert_eq!(next_page("</v2/x/tags/list?last=b&n=2>; rel=\"next\""), Some("/v2/x/tags/list?last=b&n=2"));
        assert_eq!(next_page("<a>; rel=prev, <b>; title=x; REL=next"), Some("b"));
        for none in ["", "x", "<a", "<a>", "<a>; rel=\"prev\""] {
            assert_eq!(next_page(none), None, "{none}");
        }
    }
}
