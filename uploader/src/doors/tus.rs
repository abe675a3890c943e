//! The door for clients that go on after a cut: tus 1.0.0, and the resumable uploads of the IETF that grow out of it.
//!
//! | request | what it does |
//! |---|---|
//! | `POST` (IETF: any with `Upload-Complete`) | makes an upload: a new one in a folder; where there is one target, forgets what came so far |
//! | `HEAD` | where it goes on; why it can't, if it has failed |
//! | `PATCH` | the next bytes |
//! | `DELETE` | gives it up |
//! | `OPTIONS` | what this server can |
//!
//! The answer to the last bytes waits for the import, because it is what people see: it says that the disk is complete, or why
//! there is none. It waits for 25 seconds at most, less than proxies do. The last byte is acknowledged when the disk is complete
//! and not before: until then `Upload-Offset` is one less than `Upload-Length`. So a client that has waited long enough sends
//! that byte again, and waits again. Nothing depends on it: the import goes on by itself.
//!
//! An upload that has failed answers with 4xx, whoever is to blame, because clients take 5xx, 409 and 423 as a call to try
//! again, and this upload can't go on. A new one may be made at once.

mod append;
pub mod checksum;
mod create;
mod dialect;
pub mod metadata;
mod state;

use std::error::Error;
use std::sync::Arc;

use bytes::Bytes;
use hyper::body::Body;
use hyper::header::{ALLOW, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Request, StatusCode};

use crate::answer::{self, Answer, Wants};
use crate::api::{Api, Place};
use crate::receive::{end_early, end_soon};
use crate::refusal::Refusal;
use crate::session::{Phase, Session};
pub use dialect::Dialect;

/// What a request is for.
#[derive(Clone, Debug)]
pub enum At {
    /// Where uploads are made.
    Folder,
    /// An upload.
    Upload {
        /// It.
        session: Arc<Session>,
        /// What it was found by.
        secret: String,
    },
}

/// What was done.
enum Done {
    Options,
    Created { session: Arc<Session>, location: String },
    Asked(Arc<Session>),
    Appended(Arc<Session>),
    Removed,
}

/// Answers a request.
pub async fn answer<B>(api: &Arc<Api>, at: At, dialect: Dialect, request: Request<B>) -> Answer
where
    B: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + Unpin + Send + 'static,
{
    let (head, mut body) = request.into_parts();
    let wants = Wants::of(&head.headers);
    let done = act(api, &at, &dialect, &head, &mut body).await;
    let expiry = api.sessions.expiry();
    let mut answer = match done {
        Ok(Done::Options) => options(),
        Ok(Done::Created { session, location }) => {
            let status = session.status();
            let whole = status.phase == Phase::Succeeded && dialect.is_ietf();
            let code = if whole { StatusCode::OK } else { StatusCode::CREATED };
            let mut answer =
                if whole { answer::status(code, &status, wants) } else { answer::text(StatusCode::CREATED, "") };
            state::say(&session, expiry, &dialect, &mut answer);
            if let Ok(location) = HeaderValue::try_from(location) {
                answer.headers_mut().insert(hyper::header::LOCATION, location);
            }
            answer
        }
        Ok(Done::Asked(session)) => {
            let code = if dialect.is_ietf() { StatusCode::NO_CONTENT } else { StatusCode::OK };
            let mut answer = answer::text(code, "");
            state::say(&session, expiry, &dialect, &mut answer);
            state::say_all(&session, &mut answer);
            answer
        }
        Ok(Done::Appended(session)) => {
            let status = session.status();
            let whole = status.phase == Phase::Succeeded && dialect.is_ietf();
            let mut answer = if whole {
                answer::status(StatusCode::OK, &status, wants)
            } else {
                answer::text(StatusCode::NO_CONTENT, "")
            };
            state::say(&session, expiry, &dialect, &mut answer);
            answer
        }
        Ok(Done::Removed) => answer::text(StatusCode::NO_CONTENT, ""),
        Err(refusal) => {
            let mut answer = answer::refused(&refusal, wants);
            // Whoever has sent from the wrong place learns the right one.
            if let (At::Upload { session, .. }, StatusCode::CONFLICT) = (&at, refusal.status) {
                state::say(session, expiry, &dialect, &mut answer);
            }
            answer
        }
    };
    dialect.sign(&mut answer);
    let is_elsewhere = answer.status() == StatusCode::CONFLICT;
    if is_elsewhere { end_soon(answer, head.version, body) } else { end_early(answer, head.version, body) }
}

async fn act<B>(api: &Arc<Api>, at: &At, dialect: &Dialect, head: &Parts, body: &mut B) -> Result<Done, Refusal>
where
    B: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + Unpin,
{
    let method = dialect.method(&head.method, &head.headers)?;
    if method == Method::OPTIONS {
        return Ok(Done::Options);
    }
    dialect.check(&head.headers)?;
    match (at, &method) {
        (_, &Method::POST | &Method::PUT) if dialect.creates(&method) => {
            create::create(api, at, dialect, head, body).await
        }
        (At::Upload { session, .. }, &Method::HEAD) => {
            // After a restart of the server the import says first where it begins.
            session.offset().await;
            append::failure(session).map_or_else(|| Ok(Done::Asked(Arc::clone(session))), Err)
        }
        (At::Upload { session, .. }, &Method::PATCH) => {
            append::append(session, dialect, &head.headers, body, api.patience).await?;
            Ok(Done::Appended(Arc::clone(session)))
        }
        (At::Upload { session, secret }, &Method::DELETE) => {
            match &api.place {
                Place::Folder { .. } => api.sessions.remove(secret),
                Place::One { .. } if session.phase() == Phase::Succeeded => return Err(append::completed()),
                Place::One { .. } => session.reset().await?,
            }
            Ok(Done::Removed)
        }
        _ => {
            let message = match at {
                At::Folder => "uploads are made here, by POST",
                At::Upload { .. } => "an upload is asked for by HEAD or GET, sent by PATCH, and given up by DELETE",
            };
            Err(Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "InvalidRequest", message))
        }
    }
}

/// //# tus 1.0.0: "An OPTIONS request MAY be used to gather information about the Server's current configuration."
fn options() -> Answer {
    let mut answer = answer::text(StatusCode::NO_CONTENT, "");
    let headers = answer.headers_mut();
    headers.insert(ALLOW, HeaderValue::from_static("OPTIONS, POST, HEAD, GET, PATCH, DELETE"));
    headers.insert("tus-resumable", dialect::VERSION);
    headers.insert("tus-version", dialect::VERSION);
    headers.insert("tus-extension", EXTENSIONS);
    headers.insert("tus-checksum-algorithm", HeaderValue::from_static(checksum::ALGORITHMS));
    headers.insert(
        "accept-patch",
        HeaderValue::from_static("application/offset+octet-stream, application/partial-upload"),
    );
    headers.insert("upload-limit", HeaderValue::from_static("min-size=1"));
    answer
}

const EXTENSIONS: HeaderValue =
    HeaderValue::from_static("creation,creation-with-upload,creation-defer-length,checksum,expiration,termination");

#[cfg(test)]
mod tests;
