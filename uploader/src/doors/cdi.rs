//! The doors of KubeVirt's CDI: `virtctl image-upload` and whatever else was written for it.
//!
//! | path, below `/v1beta1` and `/v1alpha1` | what it takes | when it answers |
//! |---|---|---|
//! | `/upload` | the image | when the disk is complete |
//! | `/upload-async` | the image | when all of it is there, and known to be an image that fits |
//! | `/upload-form` | a form with the image as its part `file` | as `/upload` |
//! | `/upload-form-async` | the same | as `/upload-async` |
//!
//! Statuses are those of CDI: 503 while another upload is under way, 409 when there has been one, 400 for what is no image
//! or is too large. `HEAD` of a path with `async` is how clients find out that there is one. Where CDI itself goes on with
//! a form it can't read, or refuses `PUT`, this does not. An image is always sent from its start: clients of CDI know of
//! nothing else.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderMap};
use hyper::{Method, Request, StatusCode};
use importer_flow::Kind;

use crate::answer::{self, Answer, Wants};
use crate::form::{FilePart, Form};
use crate::receive::{Stop, end_early, receive};
use crate::refusal::Refusal;
use crate::session::Session;

/// One of CDI's paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Door {
    form: bool,
    /// Answers before the disk is complete.
    early: bool,
    archive: bool,
}

impl Door {
    /// The door at this path, if it is one of CDI's.
    #[must_use]
    pub fn at(path: &str) -> Option<Self> {
        let name = path.strip_prefix("/v1beta1/").or_else(|| path.strip_prefix("/v1alpha1/"))?;
        let (form, early, archive) = match name {
            "upload" => (false, false, false),
            "upload-async" => (false, true, false),
            "upload-form" => (true, false, false),
            "upload-form-async" => (true, true, false),
            "upload-archive" => (false, false, true),
            _ => return None,
        };
        Some(Self { form, early, archive })
    }

    /// Whether this request only asks whether there is such a door.
    #[must_use]
    pub fn is_probed_by(self, method: &Method) -> bool {
        self.early && method == Method::HEAD
    }
}

/// Takes the image that comes through this door.
pub async fn answer(session: &Arc<Session>, request: Request<Incoming>, door: Door, patience: Duration) -> Answer {
    let (head, body) = request.into_parts();
    let wants = Wants::of(&head.headers);
    let (taken, body) = match check(door, &head.method, &head.headers) {
        Err(refusal) => (Err(Stop::Refused(refusal)), body),
        Ok(None) => {
            let mut body = body;
            let len = body.size_hint().exact();
            (take(session, &mut body, len, door, patience).await, body)
        }
        Ok(Some(form)) => {
            let mut part = FilePart::new(body, form);
            let taken = take(session, &mut part, None, door, patience).await;
            let taken = match (taken, part.malformed()) {
                (Err(Stop::Cut), Some(why)) => Err(Stop::Refused(Refusal::bad(why.to_string()))),
                (taken, _) => taken,
            };
            (taken, part.into_inner())
        }
    };
    let refusal = match taken {
        Ok(()) => return answer::status(StatusCode::OK, &session.status(), wants),
        Err(Stop::Cut) => {
            let message = "the image ended before its end, or nothing came for too long: send it again";
            Refusal::new(StatusCode::REQUEST_TIMEOUT, "Stalled", message)
        }
        Err(Stop::Refused(refusal)) => as_cdi(refusal),
    };
    end_early(answer::refused(&refusal, wants), head.version, body)
}

/// Whether the request makes sense, and its form if it is one.
fn check(door: Door, method: &Method, headers: &HeaderMap) -> Result<Option<Form>, Refusal> {
    if !matches!(*method, Method::POST | Method::PUT) {
        let message = "an image is sent by POST";
        return Err(Refusal::new(StatusCode::NOT_FOUND, "NotFound", message));
    }
    let unsupported = |message: &str| Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "Unsupported", message);
    if door.archive {
        return Err(unsupported(
            "archive content isn't supported yet: send a disk image, for an archive of files is none",
        ));
    }
    let kind = headers.get(CDI_CONTENT).map(|kind| kind.to_str().unwrap_or_default());
    match kind {
        None | Some("" | "kubevirt") => {}
        Some(kind @ ("blockdevice-clone" | "filesystem-clone")) => {
            let message = format!("{CDI_CONTENT} {kind}: clones of volumes aren't supported: send a disk image");
            return Err(unsupported(&message));
        }
        Some("archive") => return Err(unsupported("archive content isn't supported yet: send a disk image")),
        Some(_) => return Err(unsupported("this x-cdi-content-type is not known: leave it out for a disk image")),
    }
    if !door.form {
        return Ok(None);
    }
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    Form::new(kind).map(Some).map_err(|why| Refusal::bad(why.to_string()))
}

/// Takes the image, and waits until it may be answered. What an earlier request has left is forgotten.
async fn take<B>(
    session: &Arc<Session>,
    body: &mut B,
    len: Option<u64>,
    door: Door,
    patience: Duration,
) -> Result<(), Stop>
where
    B: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + Unpin,
{
    let mut writer = session.anew().await.map_err(Stop::Refused)?;
    writer.begin(len).map_err(Stop::Refused)?;
    if let Err(stop) = receive(&mut writer, body, patience).await {
        if door.form && writer.ended().is_none() {
            // Nobody goes on in the middle of a form.
            writer.forget().await.map_err(Stop::Refused)?;
        }
        return Err(stop);
    }
    writer.finish().map_err(Stop::Refused)?;
    // If the client goes away here, the import goes on without it.
    let ended = if door.early { session.accepted().await } else { session.ended().await };
    match ended.and_then(|end| end.refusal.clone()) {
        Some(refusal) => Err(Stop::Refused(refusal)),
        None => Ok(()),
    }
}

/// With the status that CDI has for it.
fn as_cdi(refusal: Refusal) -> Refusal {
    if refusal.reason == "Busy" {
        return Refusal { status: StatusCode::SERVICE_UNAVAILABLE, retry_after: Some(5), ..refusal };
    }
    if refusal.reason == Kind::TooSmall.reason() {
        // What its clients know it by.
        let message = format!("effective image size larger than available storage: {}", refusal.message);
        return Refusal { status: StatusCode::BAD_REQUEST, message, ..refusal };
    }
    refusal
}

const CDI_CONTENT: &str = "x-cdi-content-type";

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    #[test]
    fn doors_are_where_cdi_has_them() {
        for version in ["v1beta1", "v1alpha1"] {
            for (name, form, early) in [
                ("upload", false, false),
                ("upload-async", false, true),
                ("upload-form", true, false),
                ("upload-form-async", true, true),
            ] {
                let door = Door::at(&format!("/{version}/{name}")).unwrap();
                assert_eq!(door, Door { form, early, archive: false });
                assert_eq!((door.is_probed_by(&Method::HEAD), door.is_probed_by(&Method::POST)), (early, false));
            }
        }
        for path in ["/upload", "/v1/upload", "/v1beta1", "/v1beta1/", "/v1beta1/uploads", "/v1beta1/upload/x"] {
            assert_eq!(Door::at(path), None, "{path}");
        }
    }

    #[test]
    fn what_is_no_disk_image_by_its_head_is_refused_before_its_body() {
        let check = |path: &str, method: Method, name: &'static str, value: &'static str| {
            let headers = HeaderMap::from_iter([(name.parse().unwrap(), HeaderValue::from_static(value))]);
            check(Door::at(path).unwrap(), &method, &headers).map(|form| form.is_some())
        };
        let post = Method::POST;
        assert_eq!(check("/v1beta1/upload", post.clone(), "x", "y"), Ok(false));
        let form = "multipart/form-data; boundary=x";
        assert_eq!(check("/v1beta1/upload-form", post.clone(), "content-type", form), Ok(true));
        for (path, method, name, value, status, why) in [
            ("/v1beta1/upload", Method::GET, "x", "y", 404, "POST"),
            ("/v1beta1/upload-form", post.clone(), "content-type", "text/plain", 400, "multipart"),
            ("/v1beta1/upload-archive", post.clone(), "x", "y", 415, "archive content isn't supported yet"),
            ("/v1beta1/upload", post.clone(), "x-cdi-content-type", "blockdevice-clone", 415, "clones"),
            ("/v1alpha1/upload-async", post, "x-cdi-content-type", "filesystem-clone", 415, "clones"),
        ] {
            let refusal = check(path, method, name, value).unwrap_err();
            assert_eq!(refusal.status, status, "{path}");
            assert!(refusal.message.contains(why), "{path}: {refusal}");
        }
    }
}
