//! Which protocol a client speaks.

use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, StatusCode};

use crate::answer::Answer;
use crate::refusal::Refusal;

/// Which protocol a client speaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// tus 1.0.0.
    Tus,
    /// draft-ietf-httpbis-resumable-upload.
    Ietf(Draft),
}

/// What differs between its versions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draft {
    /// `Upload-Draft-Interop-Version`, which goes when it is a standard.
    version: Option<HeaderValue>,
    /// Up to draft 01 (what iOS 17 sends) the header is `Upload-Incomplete`, and means the opposite.
    incomplete: bool,
}

impl Dialect {
    /// What a request is in; `None` for a plain one.
    #[must_use]
    pub fn of(method: &Method, headers: &HeaderMap) -> Option<Self> {
        if *method == Method::GET {
            return None;
        }
        let version = headers.get(INTEROP).cloned();
        let incomplete = headers.contains_key(UPLOAD_INCOMPLETE) || version.as_ref().is_some_and(|text| text == "3");
        if headers.contains_key(TUS_RESUMABLE) {
            Some(Self::Tus)
        } else if version.is_some() || incomplete || headers.contains_key(UPLOAD_COMPLETE) {
            Some(Self::Ietf(Draft { version, incomplete }))
        } else {
            (*method == Method::PATCH || *method == Method::OPTIONS).then_some(Self::Tus)
        }
    }

    /// Whether it is that of the IETF.
    #[must_use]
    pub fn is_ietf(&self) -> bool {
        matches!(self, Self::Ietf(_))
    }

    /// //# tus 1.0.0: "The actual method of the request MUST be ignored" where `X-HTTP-Method-Override` is there.
    pub(super) fn method(&self, method: &Method, headers: &HeaderMap) -> Result<Method, Refusal> {
        match headers.get("x-http-method-override") {
            Some(name) if *self == Self::Tus => {
                Method::from_bytes(name.as_bytes()).map_err(|_| Refusal::bad("X-HTTP-Method-Override is no method"))
            }
            _ => Ok(method.clone()),
        }
    }

    /// Refuses a version that is not spoken here.
    ///
    /// //# tus 1.0.0: "the Server MUST respond with the `412 Precondition Failed` status"
    pub(super) fn check(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        match headers.get(TUS_RESUMABLE) {
            Some(version) if *version == VERSION => Ok(()),
            None if self.is_ietf() => Ok(()),
            _ => {
                let message = "this server speaks tus 1.0.0: say so with Tus-Resumable: 1.0.0";
                Err(Refusal::new(StatusCode::PRECONDITION_FAILED, "WrongVersion", message))
            }
        }
    }

    /// Whether a request by this method makes an upload.
    pub(super) fn creates(&self, method: &Method) -> bool {
        *method == Method::POST || (self.is_ietf() && *method == Method::PUT)
    }

    /// Refuses a body that is not said to be the next bytes.
    pub(super) fn check_type(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        let given = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes);
        let wanted = match self {
            Self::Tus => TUS_PART,
            // Drafts up to 04 have none.
            Self::Ietf(draft) if draft.version.is_some() => return Ok(()),
            Self::Ietf(_) => IETF_PART,
        };
        if given.is_some_and(|given| given.eq_ignore_ascii_case(wanted.as_bytes())) {
            return Ok(());
        }
        let message = format!("the next bytes of an upload have Content-Type: {wanted}");
        Err(Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "InvalidRequest", message))
    }

    /// Whether this request brings the last bytes, where the protocol says so.
    pub(super) fn complete(&self, headers: &HeaderMap) -> Result<Option<bool>, Refusal> {
        let Self::Ietf(draft) = self else { return Ok(None) };
        let (name, yes, no) =
            if draft.incomplete { (UPLOAD_INCOMPLETE, "?0", "?1") } else { (UPLOAD_COMPLETE, "?1", "?0") };
        match headers.get(&name) {
            Some(value) if value == yes => Ok(Some(true)),
            Some(value) if value == no => Ok(Some(false)),
            _ => Err(Refusal::bad(format!("{name} has to be ?1 or ?0"))),
        }
    }

    /// Says whether the upload is complete, where the protocol does.
    pub(super) fn say_complete(&self, complete: bool, headers: &mut HeaderMap) {
        let Self::Ietf(draft) = self else { return };
        let (name, yes) = if draft.incomplete { (UPLOAD_INCOMPLETE, !complete) } else { (UPLOAD_COMPLETE, complete) };
        headers.insert(name, HeaderValue::from_static(if yes { "?1" } else { "?0" }));
    }

    /// Says which protocol an answer is in.
    pub(super) fn sign(&self, answer: &mut Answer) {
        let refused = answer.status() == StatusCode::PRECONDITION_FAILED;
        let headers = answer.headers_mut();
        match self {
            Self::Tus => {
                headers.insert(TUS_RESUMABLE, VERSION);
                if refused {
                    headers.insert("tus-version", VERSION);
                }
            }
            Self::Ietf(Draft { version: Some(version), .. }) => {
                headers.insert(INTEROP, version.clone());
            }
            Self::Ietf(_) => {}
        }
    }
}

/// The version of tus.
pub(super) const VERSION: HeaderValue = HeaderValue::from_static("1.0.0");
const TUS_RESUMABLE: HeaderName = HeaderName::from_static("tus-resumable");
const INTEROP: HeaderName = HeaderName::from_static("upload-draft-interop-version");
const UPLOAD_COMPLETE: HeaderName = HeaderName::from_static("upload-complete");
const UPLOAD_INCOMPLETE: HeaderName = HeaderName::from_static("upload-incomplete");
const TUS_PART: &str = "application/offset+octet-stream";
const IETF_PART: &str = "application/partial-upload";

#[cfg(test)]
mod tests {
    use super::*;

    fn of(method: &Method, headers: &[(&'static str, &'static str)]) -> Option<Dialect> {
        Dialect::of(method, &map(headers))
    }

    fn map(headers: &[(&'static str, &'static str)]) -> HeaderMap {
        headers.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value))).collect()
    }

    #[test]
    fn plain_requests_are_left_to_others() {
        for method in [Method::GET, Method::HEAD, Method::PUT, Method::POST, Method::DELETE] {
            assert_eq!(of(&method, &[("content-type", "application/octet-stream")]), None, "{method}");
        }
        assert_eq!(of(&Method::GET, &[("tus-resumable", "1.0.0")]), None);
        for method in [Method::PATCH, Method::OPTIONS] {
            assert_eq!(of(&method, &[]), Some(Dialect::Tus));
        }
        for method in [Method::HEAD, Method::POST, Method::DELETE, Method::PATCH] {
            assert_eq!(of(&method, &[("tus-resumable", "0.2.2")]), Some(Dialect::Tus));
            assert!(of(&method, &[("upload-draft-interop-version", "6")]).unwrap().is_ietf());
            assert!(of(&method, &[("upload-complete", "?1")]).unwrap().is_ietf());
        }
    }

    #[test]
    fn only_version_1_of_tus_is_spoken() {
        assert!(Dialect::Tus.check(&map(&[("tus-resumable", "1.0.0")])).is_ok());
        for wrong in [&[][..], &[("tus-resumable", "0.2.2")], &[("tus-resumable", "1.0.0, 1.0.0")]] {
            assert_eq!(Dialect::Tus.check(&map(wrong)).unwrap_err().status, 412, "{wrong:?}");
        }
    }

    #[test]
    fn the_drafts_say_in_two_ways_what_is_complete() {
        for (headers, complete) in [
            (&[("upload-complete", "?1")][..], Ok(Some(true))),
            (&[("upload-complete", "?0"), ("upload-draft-interop-version", "6")], Ok(Some(false))),
            (&[("upload-incomplete", "?0")], Ok(Some(true))),
            (&[("upload-incomplete", "?1"), ("upload-draft-interop-version", "3")], Ok(Some(false))),
            (&[("upload-complete", "yes")], Err(400)),
            (&[("upload-draft-interop-version", "6")], Err(400)),
        ] {
            let dialect = of(&Method::PATCH, headers).unwrap();
            let said = dialect.complete(&map(headers)).map_err(|refusal| refusal.status.as_u16());
            assert_eq!(said, complete, "{headers:?}");
        }
        assert_eq!(Dialect::Tus.complete(&HeaderMap::new()), Ok(None));
        let mut said = HeaderMap::new();
        of(&Method::HEAD, &[("upload-draft-interop-version", "3")]).unwrap().say_complete(true, &mut said);
        assert_eq!(said, map(&[("upload-incomplete", "?0")]));
    }

    #[test]
    fn another_method_may_be_meant() {
        let headers = map(&[("x-http-method-override", "PATCH")]);
        assert_eq!(Dialect::Tus.method(&Method::POST, &headers), Ok(Method::PATCH));
        assert_eq!(Dialect::Tus.method(&Method::POST, &HeaderMap::new()), Ok(Method::POST));
        let wrong = map(&[("x-http-method-override", "PA TCH")]);
        assert_eq!(Dialect::Tus.method(&Method::POST, &wrong).unwrap_err().status, 400);
    }
}
