//! The door for plain clients: `curl -T disk.img URL`.
//!
//! | request | what it does |
//! |---|---|
//! | `PUT`, `POST` | the whole image; what an earlier request has left is forgotten |
//! | the same with `Content-Range: bytes A-B/N` | goes on at A, which is where the upload is (`curl -C A -T`) |
//! | `HEAD`, `GET` | how far it is: `Upload-Offset`, text or JSON |
//! | `DELETE` | forgets what came so far |

use std::sync::Arc;
use std::time::Duration;

use hyper::body::{Body, Incoming};
use hyper::header::{CONTENT_RANGE, HeaderMap, HeaderValue};
use hyper::{Method, Request, StatusCode};

use crate::answer::{self, Answer, Wants};
use crate::receive::{Stop, end_early, receive};
use crate::refusal::Refusal;
use crate::session::{Claimed, Session};

/// Answers a request for this upload.
pub async fn answer(session: &Arc<Session>, request: Request<Incoming>, patience: Duration) -> Answer {
    let wants = Wants::of(request.headers());
    let done = match *request.method() {
        Method::PUT | Method::POST => return send(session, request, patience).await,
        Method::GET | Method::HEAD => {
            session.offset().await;
            Ok(StatusCode::OK)
        }
        Method::DELETE => session.reset().await.map(|()| StatusCode::OK),
        _ => {
            let message = "an upload is sent by PUT or POST, asked for by GET or HEAD, and forgotten by DELETE";
            Err(Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "InvalidRequest", message))
        }
    };
    match done {
        Ok(code) => answer::status(code, &session.status(), wants),
        Err(refusal) => answer::refused(&refusal, wants),
    }
}

/// Takes the image, and answers when the disk is complete.
async fn send(session: &Arc<Session>, request: Request<Incoming>, patience: Duration) -> Answer {
    let (head, mut body) = request.into_parts();
    let wants = Wants::of(&head.headers);
    let taken = take(session, &head.headers, &mut body, patience).await;
    match taken {
        Ok(code) => answer::status(code, &session.status(), wants),
        Err(Stop::Cut) => {
            // Mostly nobody is there to read it.
            let message = "nothing came for too long: go on where the upload is";
            answer::refused(&Refusal::new(StatusCode::REQUEST_TIMEOUT, "Stalled", message), wants)
        }
        Err(Stop::Refused(refusal)) => {
            let mut answer = answer::refused(&refusal, wants);
            answer::offset(&mut answer, &session.status());
            end_early(answer, head.version, body)
        }
    }
}

async fn take(
    session: &Arc<Session>,
    headers: &HeaderMap,
    body: &mut Incoming,
    patience: Duration,
) -> Result<StatusCode, Stop> {
    let range = headers.get(CONTENT_RANGE).map(Range::parse).transpose().map_err(Stop::Refused)?;
    if let (Some(range), Some(len)) = (range, body.size_hint().exact())
        && len != range.len
    {
        let message = format!("Content-Range is about {} bytes, and the body has {len}", range.len);
        return Err(Stop::Refused(Refusal::bad(message)));
    }
    let claimed = if range.is_some() { Claimed::TakeOver } else { Claimed::Refuse };
    let mut writer = session.writer(claimed).await.map_err(Stop::Refused)?;
    session.wants_bytes().map_err(Stop::Refused)?;
    if body.is_end_stream() {
        let message = "there is nothing in the body: an empty file is no disk image";
        return Err(Stop::Refused(Refusal::bad(message)));
    }
    let len = match range {
        Some(range) => range.total,
        None => body.size_hint().exact(),
    };
    let at = writer.offset().await;
    match range {
        Some(range) if range.first != 0 && range.first != at => {
            let message = format!("the upload is at byte {at}, and this begins at {}", range.first);
            let refusal = Refusal::new(StatusCode::RANGE_NOT_SATISFIABLE, "WrongOffset", message);
            return Err(Stop::Refused(refusal));
        }
        Some(range) if range.first != 0 => {}
        _ => writer.forget().await.map_err(Stop::Refused)?,
    }
    writer.begin(len).map_err(Stop::Refused)?;
    receive(&mut writer, body, patience).await?;
    let at = writer.offset().await;
    if range.is_some_and(|range| range.total.is_none_or(|total| at < total)) {
        return Ok(StatusCode::ACCEPTED);
    }
    writer.finish().map_err(Stop::Refused)?;
    // If the client goes away here, the import goes on without it.
    match session.ended().await.and_then(|end| end.refusal.clone()) {
        Some(refusal) => Err(Stop::Refused(refusal)),
        None => Ok(StatusCode::OK),
    }
}

/// A part of an image, as `Content-Range` says it (RFC 9110, 14.4; in a request as in 14.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    first: u64,
    len: u64,
    /// Of how many bytes, where that is known.
    total: Option<u64>,
}

impl Range {
    fn parse(value: &HeaderValue) -> Result<Self, Refusal> {
        let wrong = || Refusal::bad("Content-Range makes no sense: write it as bytes FIRST-LAST/TOTAL");
        let text = value.to_str().map_err(|_| wrong())?;
        let (range, total) = text.strip_prefix("bytes ").and_then(|rest| rest.split_once('/')).ok_or_else(wrong)?;
        let (first, last) = range.split_once('-').ok_or_else(wrong)?;
        let number = |text: &str| text.trim().parse::<u64>().map_err(|_| wrong());
        let (first, last) = (number(first)?, number(last)?);
        let total = if total == "*" { None } else { Some(number(total)?) };
        if first > last || total.is_some_and(|total| last >= total) {
            return Err(wrong());
        }
        let len = (last - first).checked_add(1).ok_or_else(wrong)?;
        Ok(Self { first, len, total })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges() {
        let parse = |text| Range::parse(&HeaderValue::from_static(text));
        assert_eq!(parse("bytes 5-9/10"), Ok(Range { first: 5, len: 5, total: Some(10) }));
        assert_eq!(parse("bytes 0-0/*"), Ok(Range { first: 0, len: 1, total: None }));
        for wrong in [
            "",
            "bytes 0-18446744073709551615/*",
            "bytes",
            "bytes 5-9",
            "bytes 9-5/10",
            "bytes 5-10/10",
            "bytes */10",
            "items 0-1/2",
            "bytes a-b/c",
        ] {
            assert_eq!(parse(wrong).unwrap_err().status, StatusCode::BAD_REQUEST, "{wrong}");
        }
    }
}
