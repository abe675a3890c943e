//! Addresses.

use dvcr_oci::{Digest, Name, Tag};

use crate::error::{Error, Kind, Result};

/// What an address names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    Base,
    Catalog,
    Tags(Name),
    Referrers(Name, Digest),
    Blob(Name, Digest),
    Manifest(Name, Reference),
    Uploads(Name),
    Upload(Name, String),
}

/// How a manifest is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reference {
    Tag(Tag),
    Digest(Digest),
}

impl Route {
    /// Understands a path, as it stands in the request: what is escaped in it is no name.
    pub(crate) fn parse(path: &str) -> Result<Self> {
        let nothing = || Error::new(Kind::NotFound, "there is nothing at this address: it begins with /v2/");
        let rest = path.strip_prefix("/v2").ok_or_else(nothing)?;
        let rest = match rest.strip_prefix('/') {
            None if rest.is_empty() => return Ok(Self::Base),
            Some("") => return Ok(Self::Base),
            Some("_catalog") => return Ok(Self::Catalog),
            Some(rest) => rest,
            None => return Err(nothing()),
        };
        // From behind: a name may have any of these words in it.
        if let Some(name) = rest.strip_suffix("/tags/list") {
            return Ok(Self::Tags(parse_name(name)?));
        }
        if let Some(name) = rest.strip_suffix("/blobs/uploads/").or_else(|| rest.strip_suffix("/blobs/uploads")) {
            return Ok(Self::Uploads(parse_name(name)?));
        }
        let (front, last) = rest.rsplit_once('/').ok_or_else(nothing)?;
        if let Some(name) = front.strip_suffix("/blobs/uploads") {
            return Ok(Self::Upload(parse_name(name)?, last.to_owned()));
        }
        if let Some(name) = front.strip_suffix("/blobs") {
            return Ok(Self::Blob(parse_name(name)?, parse_digest(last)?));
        }
        if let Some(name) = front.strip_suffix("/referrers") {
            return Ok(Self::Referrers(parse_name(name)?, parse_digest(last)?));
        }
        if let Some(name) = front.strip_suffix("/manifests") {
            let name = parse_name(name)?;
            return Ok(Self::Manifest(name, Reference::parse(last)?));
        }
        Err(nothing())
    }
}

impl Reference {
    fn parse(text: &str) -> Result<Self> {
        if text.contains(':') || text.contains('%') {
            return parse_digest(text).map(Self::Digest);
        }
        // Nothing can have such a name; whoever wants to give it to something gets the other code.
        Tag::parse(text).map(Self::Tag).map_err(|error| Error::new(Kind::ManifestUnknown, error.to_string()))
    }
}

fn parse_name(text: &str) -> Result<Name> {
    Name::parse(text).map_err(|error| Error::new(Kind::NameInvalid, error.to_string()))
}

/// A digest; clients may write its colon as `%3A`.
pub(crate) fn parse_digest(text: &str) -> Result<Digest> {
    let plain = text.replace("%3A", ":").replace("%3a", ":");
    Digest::parse(&plain).map_err(|error| Error::new(Kind::DigestInvalid, error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_the_specification() {
        let digest = Digest::of(b"x");
        let name = |text: &str| Name::parse(text).unwrap();
        let cases = [
            ("/v2".to_owned(), Route::Base),
            ("/v2/".to_owned(), Route::Base),
            ("/v2/_catalog".to_owned(), Route::Catalog),
            ("/v2/a/b/tags/list".to_owned(), Route::Tags(name("a/b"))),
            (format!("/v2/a/blobs/{digest}"), Route::Blob(name("a"), digest)),
            (format!("/v2/blobs/blobs/{digest}").replace("sha256:", "sha256%3A"), Route::Blob(name("blobs"), digest)),
            (format!("/v2/a/referrers/{digest}"), Route::Referrers(name("a"), digest)),
            ("/v2/a/manifests/v1".to_owned(), Route::Manifest(name("a"), Reference::Tag(Tag::parse("v1").unwrap()))),
            (format!("/v2/a/manifests/{digest}"), Route::Manifest(name("a"), Reference::Digest(digest))),
            ("/v2/a/blobs/uploads/".to_owned(), Route::Uploads(name("a"))),
            ("/v2/a/blobs/uploads".to_owned(), Route::Uploads(name("a"))),
            ("/v2/a/blobs/uploads/u".to_owned(), Route::Upload(name("a"), "u".to_owned())),
            ("/v2/tags/list/tags/list".to_owned(), Route::Tags(name("tags/list"))),
        ];
        for (path, route) in cases {
            assert_eq!(Route::parse(&path).unwrap(), route, "{path}");
        }
    }

    #[test]
    fn other_addresses() {
        let digest = Digest::of(b"x");
        let cases = [
            ("/".to_owned(), Kind::NotFound),
            ("/v1/".to_owned(), Kind::NotFound),
            ("/v2x/".to_owned(), Kind::NotFound),
            ("/v2/a".to_owned(), Kind::NotFound),
            ("/v2/a/other/x".to_owned(), Kind::NotFound),
            (format!("/v2/../a/blobs/{digest}"), Kind::NameInvalid),
            (format!("/v2/a/../../b/blobs/{digest}"), Kind::NameInvalid),
            (format!("/v2/a%2f..%2fb/blobs/{digest}"), Kind::NameInvalid),
            (format!("/v2/A/blobs/{digest}"), Kind::NameInvalid),
            (format!("/v2//blobs/{digest}"), Kind::NameInvalid),
            (format!("/v2/_blobs/blobs/{digest}"), Kind::NameInvalid),
            ("/v2/a/blobs/sha256:00".to_owned(), Kind::DigestInvalid),
            ("/v2/a/blobs/latest".to_owned(), Kind::DigestInvalid),
            ("/v2/a/manifests/.hidden".to_owned(), Kind::ManifestUnknown),
            ("/v2/a/manifests/md5:00".to_owned(), Kind::DigestInvalid),
        ];
        for (path, kind) in cases {
            assert_eq!(Route::parse(&path).unwrap_err().kind(), kind, "{path}");
        }
    }
}
