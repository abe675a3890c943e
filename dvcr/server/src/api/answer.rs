//! How an answer looks.

use bytes::Bytes;
use dvcr_oci::Digest;
use hyper::header::{ALLOW, CONTENT_LENGTH, CONTENT_TYPE, ETAG, HeaderName, HeaderValue, LOCATION, RETRY_AFTER};
use hyper::{Response, StatusCode};
use serde::Serialize;

use crate::body::Body;
use crate::error::{Error, Kind};

pub(crate) type Answer = Response<Body>;

/// An answer without a body.
pub(super) fn empty(status: StatusCode) -> Answer {
    let mut answer = Response::new(Body::bytes(Bytes::new()));
    *answer.status_mut() = status;
    // RFC 9110, 8.6: none in 204 and 304.
    if status != StatusCode::NO_CONTENT && status != StatusCode::NOT_MODIFIED {
        answer.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
    }
    answer
}

/// An answer with a document.
pub(super) fn document(status: StatusCode, media_type: &str, bytes: impl Into<Bytes>) -> Answer {
    let bytes = bytes.into();
    let length = bytes.len() as u64;
    let mut answer = Response::new(Body::bytes(bytes));
    *answer.status_mut() = status;
    set(&mut answer, CONTENT_TYPE, media_type);
    answer.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(length));
    answer
}

/// An answer with a document of ours.
pub(super) fn json(media_type: &str, value: &impl Serialize) -> Answer {
    // Texts, numbers and lists of them can be written.
    document(StatusCode::OK, media_type, serde_json::to_vec(value).unwrap_or_default())
}

/// Sets a header. Values are made of names, digests and numbers; any other would be left out.
pub(super) fn set(answer: &mut Answer, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        answer.headers_mut().insert(name, value);
    }
}

/// Says where something is and what its digest is.
pub(super) fn locate(answer: &mut Answer, location: &str, digest: Option<&Digest>) {
    set(answer, LOCATION, location);
    if let Some(digest) = digest {
        set(answer, DIGEST, &digest.to_string());
    }
}

/// Says what the digest of the content is, twice: the second way is that of HTTP.
pub(super) fn identify(answer: &mut Answer, digest: &Digest) {
    set(answer, DIGEST, &digest.to_string());
    set(answer, ETAG, &format!("\"{digest}\""));
}

/// Why a request was refused, for the log.
#[derive(Clone, Debug)]
pub(crate) struct Why(pub(crate) String);

/// An error as the specification wants it.
pub(crate) fn refusal(error: &Error, is_head: bool) -> Answer {
    #[derive(Serialize)]
    struct Errors<'a> {
        errors: [One<'a>; 1],
    }
    #[derive(Serialize)]
    struct One<'a> {
        code: &'a str,
        message: String,
    }
    let kind = error.kind();
    let errors = Errors { errors: [One { code: kind.code(), message: error.to_string() }] };
    let mut answer = json("application/json", &errors);
    if is_head {
        *answer.body_mut() = Body::bytes(Bytes::new());
    }
    *answer.status_mut() = StatusCode::from_u16(kind.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    answer.extensions_mut().insert(Why(error.to_string()));
    match kind {
        Kind::TooManyRequests => set(&mut answer, RETRY_AFTER, "1"),
        Kind::Unsupported => set(&mut answer, ALLOW, "GET, HEAD, POST, PUT, PATCH, DELETE"),
        Kind::NotWritable => set(&mut answer, ALLOW, "GET, HEAD"),
        _ => {}
    }
    answer
}

pub(super) const DIGEST: HeaderName = HeaderName::from_static("docker-content-digest");
