//! Where an image is, as people write it.

use std::fmt;
use std::str::FromStr;

use crate::digest::Digest;
use crate::error::{Error, Kind, Result, shown};
use crate::host::Host;
use crate::name::{Name, Tag};

/// An image in a registry: `[host[:port]/]repository[:tag][@digest]`, with `docker://` in front or not.
///
/// As Docker reads it: the part before the first slash is a host if it has a dot or a colon or is `localhost`; otherwise the host is `docker.io`, where a name of one part is in `library/`. Without tag and digest the
/// tag is `latest`. Where both are given the digest says which image it is, and the tag is only shown.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reference {
    host: Host,
    name: Name,
    tag: Option<Tag>,
    digest: Option<Digest>,
}

impl Reference {
    /// The image with this tag.
    #[must_use]
    pub fn new(host: Host, name: Name, tag: Tag) -> Self {
        Self { host, name, tag: Some(tag), digest: None }
    }

    /// Understands a reference.
    ///
    /// # Errors
    ///
    /// `Kind::Reference`, `Name`, `Tag` or `Digest`; each shows the reference.
    pub fn parse(text: &str) -> Result<Self> {
        Self::read(text).map_err(|error| error.at(format_args!("the reference {}", shown(&without_login(text)))))
    }

    fn read(text: &str) -> Result<Self> {
        let wrong = |why: &str| Error::new(Kind::Reference, why);
        let rest = text.strip_prefix("docker://").unwrap_or(text);
        if rest.contains("://") {
            return Err(wrong("write it as docker://host/repository:tag"));
        }
        if rest.is_empty() {
            return Err(wrong("it is empty"));
        }
        if rest.contains(['?', '#']) {
            return Err(wrong("it is no URL: leave out what begins with ? or #"));
        }
        let (rest, digest) = match rest.split_once('@') {
            // `user@host/…`: what is behind is no digest and looks like a path.
            Some((_, behind)) if behind.contains('/') => {
                return Err(wrong("give user and password separately, not in the reference"));
            }
            Some((rest, digest)) => (rest, Some(Digest::parse(digest)?)),
            None => (rest, None),
        };
        let (host, path) = match rest.split_once('/') {
            Some((front, path)) if is_host(front) => (Host::parse(front)?, path),
            _ => (Host::docker_hub(), rest),
        };
        let (name, tag) = match path.split_once(':') {
            Some((name, tag)) => (name, Some(Tag::parse(tag)?)),
            None => (path, None),
        };
        if name.len() == 64 && rest == path && name.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) {
            return Err(wrong("64 hexadecimal digits are the id of an image, not its name"));
        }
        let name = if host.is_docker_hub() && !name.contains('/') {
            // The error is about what was written.
            Name::parse(name)?;
            Name::parse(&format!("library/{name}"))?
        } else {
            Name::parse(name)?
        };
        let tag = if digest.is_none() { tag.or_else(|| Some(Tag::latest())) } else { tag };
        Ok(Self { host, name, tag, digest })
    }

    /// The registry.
    #[must_use]
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// The repository.
    #[must_use]
    pub fn name(&self) -> &Name {
        &self.name
    }

    /// The tag. With a digest it is only for people.
    #[must_use]
    pub fn tag(&self) -> Option<&Tag> {
        self.tag.as_ref()
    }

    /// The digest.
    #[must_use]
    pub fn digest(&self) -> Option<&Digest> {
        self.digest.as_ref()
    }

    /// The same image by this digest, in place of any other digest. The tag stays, for people.
    #[must_use]
    pub fn with_digest(&self, digest: Digest) -> Self {
        Self { digest: Some(digest), ..self.clone() }
    }

    /// The image with this tag in the same repository.
    #[must_use]
    pub fn with_tag(&self, tag: Tag) -> Self {
        Self { tag: Some(tag), digest: None, ..self.clone() }
    }
}

/// Docker's rule for the part before the first slash, but for one case: an upper-case letter makes no host, because it is
/// more likely a mistake in the name.
fn is_host(front: &str) -> bool {
    front == "localhost" || front.contains(['.', ':'])
}

/// The same without what stands where a user and a password stand in a URL.
fn without_login(text: &str) -> String {
    match text.rsplit_once('@') {
        Some((_, behind)) if behind.contains('/') => format!("…@{behind}"),
        _ => text.to_owned(),
    }
}

impl FromStr for Reference {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::parse(text)
    }
}

/// In full, without `docker://`.
impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.host, self.name)?;
        if let Some(tag) = &self.tag {
            write!(f, ":{tag}")?;
        }
        if let Some(digest) = &self.digest {
            write!(f, "@{digest}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Reference({self})")
    }
}

#[cfg(test)]
mod tests;
