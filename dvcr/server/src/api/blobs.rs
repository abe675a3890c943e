//! Pulling and deleting blobs.

use dvcr_oci::{Digest, Name};
use hyper::header::{ACCEPT_RANGES, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode};

use super::answer::{Answer, empty, identify, refusal, set};
use super::conditions::{Wanted, is_known, is_other, wanted};
use super::{Api, Call, blocking};
use crate::body::Body;
use crate::error::{Error, Kind, Result};

impl Api {
    pub(super) async fn blob(&self, name: Name, digest: Digest, call: &Call) -> Result<Answer> {
        let store = self.store.clone();
        let blob = blocking(move || store.blob(&name, &digest)).await?;
        let headers = call.request.headers();
        if let Some(answer) = unwanted(headers, &digest) {
            return Ok(answer);
        }
        let (at, len, status) = match wanted(headers, &digest, blob.size) {
            Wanted::Whole => (0, blob.size, StatusCode::OK),
            Wanted::Part(at, len) => (at, len, StatusCode::PARTIAL_CONTENT),
            Wanted::Nothing => {
                let message = format!("{digest} has {} bytes, and the range none of them", blob.size);
                let mut answer = refusal(&Error::new(Kind::RangeInvalid, message), false);
                set(&mut answer, CONTENT_RANGE, &format!("bytes */{}", blob.size));
                return Ok(answer);
            }
        };
        let mut answer = Response::new(Body::file(blob.file, at, len, &self.budget));
        *answer.status_mut() = status;
        describe(&mut answer, &digest, len);
        if status == StatusCode::PARTIAL_CONTENT {
            set(&mut answer, CONTENT_RANGE, &format!("bytes {at}-{}/{}", at + len - 1, blob.size));
        }
        Ok(answer)
    }

    pub(super) async fn head_blob(&self, name: Name, digest: Digest, call: &Call) -> Result<Answer> {
        let store = self.store.clone();
        let size = blocking(move || store.blob_size(&name, &digest)).await?;
        if let Some(answer) = unwanted(call.request.headers(), &digest) {
            return Ok(answer);
        }
        let mut answer = empty(StatusCode::OK);
        describe(&mut answer, &digest, size);
        Ok(answer)
    }

    pub(super) async fn delete_blob(&self, name: Name, digest: Digest) -> Result<Answer> {
        let store = self.store.clone();
        blocking(move || store.delete_blob(&name, &digest)).await?;
        Ok(empty(StatusCode::ACCEPTED))
    }
}

/// The answer to who has the content already, or wants another one.
pub(super) fn unwanted(headers: &hyper::HeaderMap, digest: &Digest) -> Option<Answer> {
    let status = match (is_other(headers, digest), is_known(headers, digest)) {
        (true, _) => StatusCode::PRECONDITION_FAILED,
        (false, true) => StatusCode::NOT_MODIFIED,
        (false, false) => return None,
    };
    let mut answer = empty(status);
    identify(&mut answer, digest);
    Some(answer)
}

fn describe(answer: &mut Answer, digest: &Digest, len: u64) {
    identify(answer, digest);
    let headers = answer.headers_mut();
    headers.insert(CONTENT_LENGTH, HeaderValue::from(len));
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
}
