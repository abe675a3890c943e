//! The next bytes of an upload.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Limited};
use hyper::StatusCode;
use hyper::body::Body;
use hyper::header::HeaderMap;

use super::{Dialect, checksum, state};
use crate::receive::{Stop, receive};
use crate::refusal::Refusal;
use crate::session::{Claimed, Phase, Session, Writer};

/// Answers a `PATCH`.
pub(super) async fn append<B>(
    session: &Arc<Session>,
    dialect: &Dialect,
    headers: &HeaderMap,
    body: &mut B,
    patience: Duration,
) -> Result<(), Refusal>
where
    B: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + Unpin,
{
    dialect.check_type(headers)?;
    dialect.complete(headers)?;
    let offset = state::number(headers, "upload-offset")?;
    let offset = offset.ok_or_else(|| Refusal::bad("Upload-Offset has to say where these bytes go"))?;
    // A client that goes on after a cut is often faster than the news of the cut.
    let writer = session.writer(Claimed::TakeOver).await?;
    if let Some(refusal) = failure(session) {
        return Err(refusal);
    }
    let status = session.status();
    if matches!(status.phase, Phase::Finishing | Phase::Succeeded) {
        drop(writer);
        let len = status.offset;
        let last = offset <= len && len - offset <= 1;
        if !last || body.size_hint().exact().is_some_and(|bytes| bytes > len - offset) {
            return Err(if status.phase == Phase::Succeeded { completed() } else { elsewhere(len - 1, offset) });
        }
        // The last byte again: it is there already, and counts when the disk is complete.
        drain(body, patience).await;
        return end(session).await;
    }
    let at = writer.offset().await;
    if offset != at {
        return Err(elsewhere(at, offset));
    }
    take(session, writer, dialect, headers, body, patience).await
}

/// Takes what a request brings, behind what is there; waits for the import if that is all.
pub(super) async fn take<B>(
    session: &Arc<Session>,
    mut writer: Writer,
    dialect: &Dialect,
    headers: &HeaderMap,
    body: &mut B,
    patience: Duration,
) -> Result<(), Refusal>
where
    B: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + Unpin,
{
    let complete = dialect.complete(headers)?.unwrap_or_default();
    let expected = headers.get("upload-checksum").map(|value| value.to_str().unwrap_or_default());
    let expected = expected.map(checksum::parse).transpose()?;
    let offset = writer.offset().await;
    let brings = body.size_hint().exact();
    let ends = brings.filter(|_| complete).map(|bytes| offset.saturating_add(bytes));
    for len in [state::length(headers)?, ends].into_iter().flatten() {
        if len == 0 {
            return Err(Refusal::bad("an image has at least one byte"));
        }
        writer.announce_len(len)?;
    }
    let room = session.status().length.map_or(u64::MAX, |len| len.saturating_sub(offset));
    if brings.is_some_and(|bytes| bytes > room) {
        return Err(Refusal::too_long());
    }
    if brings != Some(0) {
        writer.begin(None)?;
        let mut body = Limited::new(body, usize::try_from(room).unwrap_or(usize::MAX));
        let received = match &expected {
            None => receive(&mut writer, &mut body, patience).await,
            Some(expected) => checksum::receive(session, &mut writer, &mut body, expected, patience).await,
        };
        received.map_err(|stop| stopped(session, stop))?;
    }
    if complete {
        let len = writer.offset().await;
        writer.announce_len(len)?;
    }
    if session.status().length != Some(writer.offset().await) {
        return Ok(());
    }
    writer.finish()?;
    end(session).await
}

/// Waits for the import, for a while. If it takes longer, the client asks again.
async fn end(session: &Session) -> Result<(), Refusal> {
    let ended = tokio::time::timeout(WAIT, session.ended()).await;
    let refusal = ended.ok().flatten().and_then(|end| end.refusal.clone());
    refusal.map(failed).map_or(Ok(()), Err)
}

/// Why the upload can't go on, if it can't.
pub(super) fn failure(session: &Session) -> Option<Refusal> {
    match session.phase() {
        Phase::Cancelled => Some(Refusal::gone()),
        _ => session.failure().map(failed),
    }
}

/// The disk is there.
pub(super) fn completed() -> Refusal {
    Refusal::new(StatusCode::FORBIDDEN, "Completed", "the disk is complete: there is nothing more to upload")
}

/// What an import that has failed is to clients of this protocol: nothing that trying again could help.
fn failed(refusal: Refusal) -> Refusal {
    let tried_again = matches!(refusal.status, StatusCode::CONFLICT | StatusCode::LOCKED);
    let status = if refusal.status.is_client_error() && !tried_again { refusal.status } else { StatusCode::GONE };
    Refusal { status, retry_after: None, ..refusal }
}

fn stopped(session: &Session, stop: Stop) -> Refusal {
    match (failure(session), stop) {
        (Some(refusal), _) | (None, Stop::Refused(refusal)) => refusal,
        // 408 would be the word for it, but then clients give up.
        (None, Stop::Cut) => Refusal::later(1, "nothing came for too long: go on where the upload is"),
    }
}

/// //# tus 1.0.0: "If the offsets do not match, the Server MUST respond with the `409 Conflict` status"
fn elsewhere(at: u64, given: u64) -> Refusal {
    let message = format!("the upload is at byte {at}, and this begins at {given}");
    Refusal::new(StatusCode::CONFLICT, "WrongOffset", message)
}

/// Reads a byte, and what comes with it.
async fn drain<B: Body<Data = Bytes> + Unpin>(body: &mut B, patience: Duration) {
    let rest = async {
        // Who sends more gets an answer, and is not listened to.
        for _ in 0..FRAMES {
            match body.frame().await {
                Some(Ok(_)) => {}
                _ => return,
            }
        }
    };
    // Whether it comes is all the same.
    let _ = tokio::time::timeout(patience, rest).await;
}

/// Less than the 30 seconds after which the first of the usual proxies gives up.
const WAIT: Duration = Duration::from_secs(25);
/// A byte and trailers, and an empty frame between them.
const FRAMES: usize = 4;
