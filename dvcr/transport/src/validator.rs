//! What proves that two answers are parts of the same object.

use std::fmt;

use hyper::HeaderMap;
use hyper::header::{DATE, ETAG, HeaderName, LAST_MODIFIED};

/// Proof that an object is still the same: a strong `ETag`, or `Last-Modified` together with the length.
///
/// A weak `ETag` proves nothing about bytes, and neither does a `Last-Modified` of the very second in which the answer was
/// made: the object may change again within it (RFC 9110, 8.8.2.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Validator {
    proof: Proof,
    len: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Proof {
    Etag(String),
    Modified(String),
    /// The digest in its address.
    Content(String),
}

impl Validator {
    /// The proof in these headers of an object of `len` bytes.
    pub(crate) fn find(headers: &HeaderMap, len: Option<u64>) -> Option<Self> {
        let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
        if let Some(etag) = text(ETAG).filter(|etag| is_strong(etag)) {
            return Some(Self { proof: Proof::Etag(etag.into()), len });
        }
        let modified = text(LAST_MODIFIED).filter(|date| is_date(date) && Some(*date) != text(DATE))?;
        Some(Self { proof: Proof::Modified(modified.into()), len: Some(len?) })
    }

    /// Of what is known by its digest.
    pub(crate) fn content(digest: &str, len: u64) -> Self {
        Self { proof: Proof::Content(digest.into()), len: Some(len) }
    }

    /// Whether it is of what is known by its digest.
    pub(crate) fn is_content(&self) -> bool {
        matches!(self.proof, Proof::Content(_))
    }

    /// The length that is proved with it.
    pub(crate) fn len(&self) -> Option<u64> {
        self.len
    }

    /// The `If-Range` header. The address of what is known by its digest can't mean anything else.
    pub(crate) fn if_range(&self) -> Option<&str> {
        match &self.proof {
            Proof::Etag(text) | Proof::Modified(text) => Some(text),
            Proof::Content(_) => None,
        }
    }

    /// Whether both are of the same object. A length that one does not know is not compared.
    #[must_use]
    pub fn proves(&self, other: &Self) -> bool {
        let lengths = self.len.zip(other.len);
        self.proof == other.proof && lengths.is_none_or(|(ours, theirs)| ours == theirs)
    }
}

/// As a text that is equal only for the proof of the same object: to be kept for a later process.
impl fmt::Display for Validator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.proof {
            Proof::Etag(etag) => write!(f, "ETag {etag}")?,
            Proof::Modified(date) => write!(f, "Last-Modified {date}")?,
            Proof::Content(digest) => write!(f, "{digest}")?,
        }
        match self.len {
            Some(len) => write!(f, ", {len} bytes"),
            None => Ok(()),
        }
    }
}

/// RFC 9110, 8.8.3: `entity-tag = [ weak ] opaque-tag`, and the tag is quoted.
fn is_strong(etag: &str) -> bool {
    etag.strip_prefix('"').and_then(|etag| etag.strip_suffix('"')).is_some_and(|etag| !etag.contains('"'))
}

/// The shape of an IMF-fixdate, the only one that servers generate: `Sun, 06 Nov 1994 08:49:37 GMT`.
fn is_date(text: &str) -> bool {
    text.len() == 29 && text.ends_with(" GMT")
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    const NEXT: &str = "Mon, 07 Nov 1994 08:49:37 GMT";

    fn find(lines: &[(&'static str, &str)], len: Option<u64>) -> Option<Validator> {
        let lines = lines.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap()));
        Validator::find(&lines.collect(), len)
    }

    #[test]
    fn a_strong_etag_is_a_proof() {
        let found = find(&[("etag", "\"a\""), ("last-modified", DAY)], None).unwrap();
        assert_eq!(found.if_range(), Some("\"a\""));
        assert!(found.proves(&find(&[("etag", "\"a\"")], Some(7)).unwrap()));
        assert!(!found.proves(&find(&[("etag", "\"b\"")], None).unwrap()));
        assert!(!found.proves(&find(&[("last-modified", DAY)], Some(7)).unwrap()));
    }

    #[test]
    fn a_date_is_a_proof_only_with_the_length() {
        assert_eq!(find(&[("last-modified", DAY)], None), None);
        let found = find(&[("last-modified", DAY), ("date", NEXT)], Some(7)).unwrap();
        assert_eq!(found.if_range(), Some(DAY));
        assert!(found.proves(&find(&[("last-modified", DAY)], Some(7)).unwrap()));
        assert!(!found.proves(&find(&[("last-modified", DAY)], Some(8)).unwrap()));
        assert!(!found.proves(&find(&[("last-modified", NEXT)], Some(7)).unwrap()));
    }

    #[test]
    fn its_text_tells_objects_apart() {
        let text = |lines: &[_], len| find(lines, len).unwrap().to_string();
        assert_eq!(text(&[("etag", "\"a\"")], Some(7)), "ETag \"a\", 7 bytes");
        assert_eq!(text(&[("last-modified", DAY)], Some(7)), format!("Last-Modified {DAY}, 7 bytes"));
        assert_ne!(text(&[("etag", "\"a\"")], None), text(&[("etag", "\"a\"")], Some(7)));
    }

    #[test]
    fn nothing_else_is() {
        for etag in ["W/\"a\"", "a", "\"", "\"a", "\"a\"b\""] {
            assert_eq!(find(&[("etag", etag)], Some(7)), None, "{etag}");
            let dated = find(&[("etag", etag), ("last-modified", DAY)], Some(7)).unwrap();
            assert_eq!(dated.if_range(), Some(DAY));
        }
        assert_eq!(find(&[("last-modified", DAY), ("date", DAY)], Some(7)), None);
        assert_eq!(find(&[("last-modified", "yesterday")], Some(7)), None);
        assert_eq!(find(&[], Some(7)), None);
    }
}
