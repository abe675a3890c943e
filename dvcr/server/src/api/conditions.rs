//! Ranges and conditions of a request (RFC 9110, 13 and 14).

use dvcr_oci::Digest;
use hyper::HeaderMap;
use hyper::header::{HeaderName, IF_MATCH, IF_NONE_MATCH, IF_RANGE, RANGE};

/// Which part of a content is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    Whole,
    /// From, and how many; not nothing.
    Part(u64, u64),
    /// A range, but of nothing that is there.
    Nothing,
}

/// Whether the client has this content already.
pub(super) fn is_known(headers: &HeaderMap, digest: &Digest) -> bool {
    headers.contains_key(IF_NONE_MATCH) && names(headers, &IF_NONE_MATCH, digest)
}

/// Whether the client wants another content than this.
pub(super) fn is_other(headers: &HeaderMap, digest: &Digest) -> bool {
    headers.contains_key(IF_MATCH) && !names(headers, &IF_MATCH, digest)
}

/// Whether a tag that stands for `before` may be set: `If-None-Match: *` is for those who make it, `If-Match` for those
/// who know what it was.
pub(super) fn may_set(headers: &HeaderMap, before: Option<&Digest>) -> bool {
    match before {
        Some(before) => !is_known(headers, before) && !is_other(headers, before),
        None => !headers.contains_key(IF_MATCH),
    }
}

/// Whether a list of validators has this one.
fn names(headers: &HeaderMap, name: &HeaderName, digest: &Digest) -> bool {
    let tag = digest.to_string();
    headers.get_all(name).iter().filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(',')).any(|one| {
        let one = one.trim();
        one == "*" || one.strip_prefix("W/").unwrap_or(one).trim_matches('"') == tag
    })
}

/// Which part is wanted. What can't be understood, and more than one range, is no range: the whole is always right.
pub(super) fn wanted(headers: &HeaderMap, digest: &Digest, size: u64) -> Wanted {
    let Some(range) = headers.get(RANGE).and_then(|value| value.to_str().ok()) else { return Wanted::Whole };
    if let Some(condition) = headers.get(IF_RANGE) {
        // A date never fits: no Last-Modified is sent.
        if condition.to_str().ok() != Some(&format!("\"{digest}\"")) {
            return Wanted::Whole;
        }
    }
    let Some((from, to)) = range.trim().strip_prefix("bytes=").and_then(|range| range.split_once('-')) else {
        return Wanted::Whole;
    };
    match (number(from), number(to)) {
        (Number::Of(from), to) if from < size => {
            let last = match to {
                Number::None => size - 1,
                Number::Of(to) if to >= from => to.min(size - 1),
                _ => return Wanted::Whole,
            };
            Wanted::Part(from, last - from + 1)
        }
        (Number::Of(from), Number::Of(to)) if to < from => Wanted::Whole,
        (Number::Of(_), Number::None | Number::Of(_)) => Wanted::Nothing,
        (Number::None, Number::Of(0)) => Wanted::Nothing,
        (Number::None, Number::Of(_)) if size == 0 => Wanted::Nothing,
        (Number::None, Number::Of(last)) => {
            let len = last.min(size);
            Wanted::Part(size - len, len)
        }
        _ => Wanted::Whole,
    }
}

enum Number {
    None,
    Of(u64),
    Wrong,
}

fn number(text: &str) -> Number {
    match text.trim() {
        "" => Number::None,
        digits if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
            // What does not fit is behind every end.
            Number::Of(digits.parse().unwrap_or(u64::MAX))
        }
        _ => Number::Wrong,
    }
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    fn headers(pairs: &[(HeaderName, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.clone(), HeaderValue::from_str(value).unwrap())).collect()
    }

    #[test]
    fn ranges() {
        let digest = Digest::of(b"x");
        let cases = [
            ("bytes=0-0", Wanted::Part(0, 1)),
            ("bytes=0-", Wanted::Part(0, 10)),
            ("bytes=3-5", Wanted::Part(3, 3)),
            ("bytes=3-500", Wanted::Part(3, 7)),
            ("bytes=9-9", Wanted::Part(9, 1)),
            ("bytes=-4", Wanted::Part(6, 4)),
            ("bytes=-40", Wanted::Part(0, 10)),
            ("bytes=-0", Wanted::Nothing),
            ("bytes=10-", Wanted::Nothing),
            ("bytes=10-12", Wanted::Nothing),
            ("bytes=99999999999999999999999-", Wanted::Nothing),
            ("bytes=5-3", Wanted::Whole),
            ("bytes=12-11", Wanted::Whole),
            ("bytes=0-1,4-5", Wanted::Whole),
            ("bytes=-", Wanted::Whole),
            ("bytes=a-b", Wanted::Whole),
            ("bytes=+1-2", Wanted::Whole),
            ("items=0-1", Wanted::Whole),
            ("0-1", Wanted::Whole),
        ];
        for (range, part) in cases {
            assert_eq!(wanted(&headers(&[(RANGE, range)]), &digest, 10), part, "{range}");
        }
        assert_eq!(wanted(&HeaderMap::new(), &digest, 10), Wanted::Whole);
        for range in ["bytes=0-", "bytes=0-0", "bytes=-1"] {
            assert_eq!(wanted(&headers(&[(RANGE, range)]), &digest, 0), Wanted::Nothing, "{range} of nothing");
        }
    }

    #[test]
    fn conditions() {
        let digest = Digest::of(b"x");
        let tag = format!("\"{digest}\"");
        let part = |condition: &str| wanted(&headers(&[(RANGE, "bytes=1-2"), (IF_RANGE, condition)]), &digest, 10);
        assert_eq!(part(&tag), Wanted::Part(1, 2));
        assert_eq!(part(&format!("W/{tag}")), Wanted::Whole, "a weak validator proves nothing about bytes");
        assert_eq!(part("\"other\""), Wanted::Whole);
        assert_eq!(part("Mon, 30 Nov 2026 00:00:00 GMT"), Wanted::Whole);
        for list in [tag.clone(), format!("\"a\", {tag}"), format!("W/{tag}"), "*".to_owned(), digest.to_string()] {
            assert!(is_known(&headers(&[(IF_NONE_MATCH, &list)]), &digest), "{list}");
            assert!(!is_other(&headers(&[(IF_MATCH, &list)]), &digest), "{list}");
        }
        assert!(!is_known(&headers(&[(IF_NONE_MATCH, "\"a\"")]), &digest));
        assert!(is_other(&headers(&[(IF_MATCH, "\"a\"")]), &digest));
        assert!(!is_known(&HeaderMap::new(), &digest) && !is_other(&HeaderMap::new(), &digest));
    }
}
