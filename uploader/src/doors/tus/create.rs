//! A new upload.

use std::error::Error;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use hyper::StatusCode;
use hyper::body::Body;
use hyper::header::HeaderMap;
use hyper::http::request::Parts;

use super::metadata::Metadata;
use super::{At, Dialect, Done, append, state};
use crate::api::{Api, Place};
use crate::refusal::Refusal;
use crate::session::{Announced, Claimed, Phase, Session, Wish, Writer};
use crate::token::Token;

/// Makes an upload, and takes what the request brings of it.
pub(super) async fn create<B>(
    api: &Arc<Api>,
    at: &At,
    dialect: &Dialect,
    head: &Parts,
    body: &mut B,
) -> Result<Done, Refusal>
where
    B: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + Unpin,
{
    let headers = &head.headers;
    if matches!(at, At::Folder) {
        api.authorize(headers)?;
    }
    if headers.contains_key("upload-concat") {
        return Err(Refusal::bad("uploads are not put together of others: send one, in order (parallelUploads: 1)"));
    }
    let len = length(dialect, headers)?;
    let empty = body.is_end_stream() || body.size_hint().exact() == Some(0);
    if !empty && !dialect.is_ietf() {
        dialect.check_type(headers)?;
    }
    dialect.complete(headers)?;
    let note = headers.get("upload-metadata").map(|value| value.to_str().map(str::to_owned));
    let note = note.transpose().map_err(|_| Refusal::bad("Upload-Metadata is no text"))?.unwrap_or_default();
    let metadata = Metadata::parse(&note)?;
    let announced = Announced { len, checksums: metadata.checksums.clone(), note };
    let made = match at {
        At::Folder => Made::in_folder(api, &metadata, announced).await?,
        At::Upload { session, .. } => Made::of(api, session, announced, head.uri.path()).await?,
    };
    let Made { session, writer, location, unknown } = made;
    if !empty || dialect.complete(headers)? == Some(true) {
        append::take(&session, writer, dialect, headers, body, api.patience).await?;
    }
    if let Some(unknown) = unknown {
        unknown.told();
    }
    Ok(Done::Created { session, location })
}

/// //# tus 1.0.0, Creation: "The request MUST include one of the following headers"
fn length(dialect: &Dialect, headers: &HeaderMap) -> Result<Option<u64>, Refusal> {
    let len = state::length(headers)?;
    let deferred = headers.get("upload-defer-length");
    match (len, deferred) {
        _ if deferred.is_some_and(|value| value != "1") => Err(Refusal::bad("Upload-Defer-Length can only be 1")),
        (Some(_), Some(_)) => Err(Refusal::bad("Upload-Length and Upload-Defer-Length exclude each other")),
        (None, None) if !dialect.is_ietf() => Err(Refusal::bad(
            "Upload-Length has to say how many bytes there will be, or Upload-Defer-Length: 1 that it comes",
        )),
        _ => Ok(len),
    }
}

/// An upload that was made.
struct Made {
    session: Arc<Session>,
    writer: Writer,
    location: String,
    unknown: Option<Unknown>,
}

impl Made {
    /// A new one, for a disk in the folder.
    async fn in_folder(api: &Arc<Api>, metadata: &Metadata, announced: Announced) -> Result<Self, Refusal> {
        let name = match &metadata.name {
            Some(name) => name.clone(),
            None => nameless()?,
        };
        // What a creator has promised holds for whoever sends.
        let wish = api.wish(&name, announced.len).map_err(never)?;
        let wish = Wish { checksums: announced.checksums, ..wish };
        let (secret, session) = api.sessions.create(wish, Instant::now())?;
        let location = format!("/files/{secret}");
        let unknown = Some(Unknown { api: Arc::clone(api), secret, session: Arc::clone(&session), told: false });
        let mut writer = session.writer(Claimed::Refuse).await?;
        writer.announce(Announced { note: announced.note, ..Announced::default() });
        Ok(Self { session, writer, location, unknown })
    }

    /// That of the one target, from its first byte on.
    async fn of(api: &Api, session: &Arc<Session>, announced: Announced, path: &str) -> Result<Self, Refusal> {
        if matches!(api.place, Place::Folder { .. }) {
            let message = "this is an upload already: send it by PATCH; new ones are made at /files";
            return Err(Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "InvalidRequest", message));
        }
        let mut writer = session.writer(Claimed::Refuse).await?;
        match session.phase() {
            Phase::Succeeded => return Err(append::completed()),
            Phase::Finishing => {
                let message = "all bytes of another upload are there, and the disk is verified and stored";
                return Err(Refusal::new(StatusCode::CONFLICT, "Busy", message));
            }
            _ => writer.forget().await?,
        }
        if session.wish().len.zip(announced.len).is_some_and(|(wished, given)| wished != given) {
            return Err(Refusal::bad("this upload is to have another length"));
        }
        writer.announce(announced);
        Ok(Self { session: Arc::clone(session), writer, location: path.to_owned(), unknown: None })
    }
}

/// An upload whose secret nobody knows yet. If its client goes away before it was told, nobody ever will: so it is given up,
/// unless all of it is there.
struct Unknown {
    api: Arc<Api>,
    secret: String,
    session: Arc<Session>,
    told: bool,
}

impl Unknown {
    fn told(mut self) {
        self.told = true;
    }
}

impl Drop for Unknown {
    fn drop(&mut self) {
        if !self.told && !matches!(self.session.phase(), Phase::Finishing | Phase::Succeeded) {
            self.api.sessions.remove(&self.secret);
        }
    }
}

/// Clients take 409 as a call to try again, which here can't help.
fn never(refusal: Refusal) -> Refusal {
    if refusal.status == StatusCode::CONFLICT { Refusal { status: StatusCode::FORBIDDEN, ..refusal } } else { refusal }
}

/// A name for what has none.
fn nameless() -> Result<String, Refusal> {
    let (secret, _) = Token::generate().map_err(|_| Refusal::later(5, "this server has no random numbers"))?;
    // Letters of another secret than that of the address.
    Ok(format!("upload-{}", secret.get(..8).unwrap_or_default()))
}
