//! Pulling, pushing and deleting manifests and tags.

use dvcr_oci::{Digest, MAX_DOCUMENT, Name};
use http_body_util::BodyExt;
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderName};
use hyper::{Method, StatusCode};

use super::answer::{Answer, document, empty, identify, locate, set};
use super::blobs::unwanted;
use super::conditions::may_set;
use super::route::Reference;
use super::{Api, Call, blocking};
use crate::error::{Error, Kind, Result};

impl Api {
    pub(super) async fn manifest(&self, name: Name, reference: Reference, call: &Call) -> Result<Answer> {
        let store = self.store.clone();
        let stored = blocking(move || {
            let digest = match &reference {
                Reference::Digest(digest) => *digest,
                Reference::Tag(tag) => store.resolve(&name, tag)?,
            };
            store.manifest(&name, &digest)
        })
        .await?;
        if let Some(answer) = unwanted(call.request.headers(), &stored.digest) {
            return Ok(answer);
        }
        let length = stored.bytes.len();
        let mut answer = document(StatusCode::OK, &stored.media_type, stored.bytes);
        if call.request.method() == Method::HEAD {
            answer = empty(StatusCode::OK);
            set(&mut answer, CONTENT_LENGTH, &length.to_string());
            set(&mut answer, CONTENT_TYPE, &stored.media_type);
        }
        identify(&mut answer, &stored.digest);
        Ok(answer)
    }

    pub(super) async fn put_manifest(&self, name: Name, reference: Reference, call: Call) -> Result<Answer> {
        let (head, mut body) = call.request.into_parts();
        let content_type = head.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let mut bytes = Vec::new();
        while let Some(frame) = self.pushes.next(body.frame()).await? {
            if bytes.len() + frame.len() > MAX_DOCUMENT {
                let message = format!("the manifest has more than {MAX_DOCUMENT} bytes");
                return Err(Error::new(Kind::TooLarge, message));
            }
            bytes.extend_from_slice(&frame);
        }
        self.metrics.received.fetch_add(bytes.len() as u64, std::sync::atomic::Ordering::Relaxed);
        let store = self.store.clone();
        let (place, repository) = (reference.clone(), name.clone());
        let (digest, manifest) = blocking(move || {
            let (tag, wanted) = match &reference {
                Reference::Tag(tag) => (Some(tag), None),
                Reference::Digest(digest) => (None, Some(digest)),
            };
            let may = |before: Option<&Digest>| may_set(&head.headers, before);
            store.put_manifest(&repository, &bytes, content_type.as_deref(), wanted, tag, &may)
        })
        .await?;
        let mut answer = empty(StatusCode::CREATED);
        let place = match place {
            Reference::Tag(tag) => tag.to_string(),
            Reference::Digest(digest) => digest.to_string(),
        };
        locate(&mut answer, &format!("/v2/{name}/manifests/{place}"), Some(&digest));
        if let Some(subject) = manifest.subject() {
            set(&mut answer, SUBJECT, &subject.digest.to_string());
        }
        Ok(answer)
    }

    pub(super) async fn delete_manifest(&self, name: Name, reference: Reference) -> Result<Answer> {
        let store = self.store.clone();
        blocking(move || match &reference {
            Reference::Digest(digest) => store.delete_manifest(&name, digest),
            Reference::Tag(tag) => store.delete_tag(&name, tag),
        })
        .await?;
        Ok(empty(StatusCode::ACCEPTED))
    }
}

const SUBJECT: HeaderName = HeaderName::from_static("oci-subject");
