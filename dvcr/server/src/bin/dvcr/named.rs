//! What people name in a store.

use dvcr::{Error, Kind, Result};
use dvcr_oci::{Digest, Name, Tag};

/// A repository, one of its tags, or one of its manifests.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Named {
    pub(crate) name: Name,
    pub(crate) tag: Option<Tag>,
    pub(crate) digest: Option<Digest>,
}

impl Named {
    /// Reads `name`, `name:tag`, `name@digest` or `name:tag@digest`.
    ///
    /// # Errors
    /// `Usage`; of what is named as a client does, with its host, with how to write it here.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        if let Some(path) = without_host(text) {
            let message = format!("{text} is an address: the store is named by --root, so write it as {path}");
            return Err(Error::new(Kind::Usage, message));
        }
        let usage = |error: dvcr_oci::Error| Error::new(Kind::Usage, error.to_string());
        let (name, digest) = match text.split_once('@') {
            Some((name, digest)) => (name, Some(Digest::parse(digest).map_err(usage)?)),
            None => (text, None),
        };
        let (name, tag) = match name.split_once(':') {
            Some((name, tag)) => (name, Some(Tag::parse(tag).map_err(usage)?)),
            None => (name, None),
        };
        Ok(Self { name: Name::parse(name).map_err(usage)?, tag, digest })
    }
}

/// What follows the host, if there is one: after a scheme, or with a port.
fn without_host(text: &str) -> Option<&str> {
    let (has_scheme, rest) = match text.split_once("://") {
        Some((_, rest)) => (true, rest),
        None => (false, text),
    };
    let (host, path) = rest.split_once('/')?;
    (has_scheme || host.contains(':')).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn with_and_without_what_is_more() {
        let named = Named::parse("a/b:v1").unwrap();
        assert_eq!((named.name.as_str(), named.tag.unwrap().as_str(), named.digest), ("a/b", "v1", None));
        let digest = Digest::of(b"");
        for (text, tag) in [(format!("a.b/c@{digest}"), None), (format!("a.b/c:v1@{digest}"), Some("v1"))] {
            let named = Named::parse(&text).unwrap();
            assert_eq!((named.name.as_str(), named.digest), ("a.b/c", Some(digest)));
            assert_eq!(named.tag.as_ref().map(Tag::as_str), tag);
        }
    }

    #[test]
    fn an_address_is_told_how_it_is_written_here() {
        for text in
            ["docker://host/x/y:v1", "docker://127.0.0.1:5000/x/y:v1", "https://host/x/y:v1", "[::1]:5000/x/y:v1"]
        {
            let error = Named::parse(text).unwrap_err();
            assert_eq!(error.kind(), Kind::Usage);
            assert!(error.to_string().ends_with("write it as x/y:v1"), "{error}");
        }
        for text in ["", "docker://host", "A", "a:", "a@", "a@sha256:00", "a:b:c", "../a"] {
            assert_eq!(Named::parse(text).unwrap_err().kind(), Kind::Usage, "{text}");
        }
    }
}
