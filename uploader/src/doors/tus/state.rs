//! What the headers of an answer say of an upload.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use hyper::header::{HeaderMap, HeaderValue};

use super::Dialect;
use crate::answer::{Answer, UPLOAD_LENGTH, UPLOAD_OFFSET};
use crate::refusal::Refusal;
use crate::session::{Phase, Session, Status};

/// Where it is, and until when.
pub(super) fn say(session: &Arc<Session>, expiry: Duration, dialect: &Dialect, answer: &mut Answer) {
    let status = session.status();
    let headers = answer.headers_mut();
    headers.insert(UPLOAD_OFFSET, offset(&status).into());
    let complete = status.phase == Phase::Succeeded;
    dialect.say_complete(complete, headers);
    if complete {
        return;
    }
    let left = expiry.saturating_sub(session.idle(Instant::now()));
    if dialect.is_ietf() {
        if let Ok(limit) = HeaderValue::try_from(format!("min-size=1, max-age={}", left.as_secs())) {
            headers.insert("upload-limit", limit);
        }
    } else if let Ok(expires) = HeaderValue::try_from(httpdate::fmt_http_date(SystemTime::now() + left)) {
        headers.insert("upload-expires", expires);
    }
}

/// What else is known of it.
pub(super) fn say_all(session: &Arc<Session>, answer: &mut Answer) {
    let headers = answer.headers_mut();
    match session.status().length {
        Some(length) => headers.insert(UPLOAD_LENGTH, length.into()),
        None => headers.insert("upload-defer-length", HeaderValue::from_static("1")),
    };
    let note = session.announced().note;
    if let Ok(note) = HeaderValue::try_from(note)
        && !note.is_empty()
    {
        headers.insert("upload-metadata", note);
    }
}

/// Where an upload goes on, as clients are told: all bytes are there when the disk is complete, and not before.
pub(super) fn offset(status: &Status) -> u64 {
    match status.length {
        Some(length) if status.phase != Phase::Succeeded => status.offset.min(length.saturating_sub(1)),
        _ => status.offset,
    }
}

/// A number in a header.
pub(super) fn number(headers: &HeaderMap, name: &str) -> Result<Option<u64>, Refusal> {
    let Some(value) = headers.get(name) else { return Ok(None) };
    let digits = value.to_str().ok().filter(|text| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()));
    match digits.and_then(|digits| digits.parse().ok()) {
        Some(number) => Ok(Some(number)),
        None => Err(Refusal::bad(format!("{name} is no number of bytes"))),
    }
}

/// `Upload-Length`.
pub(super) fn length(headers: &HeaderMap) -> Result<Option<u64>, Refusal> {
    match number(headers, "upload-length")? {
        Some(0) => Err(Refusal::bad("an image has at least one byte")),
        // What files and devices can have.
        Some(length) if i64::try_from(length).is_err() => Err(Refusal::too_long()),
        length => Ok(length),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_byte_is_acknowledged_with_the_disk() {
        let status = |phase, offset, length| Status {
            phase,
            offset,
            length,
            imported: 0,
            target: "disk.raw".into(),
            report: None,
        };
        for (phase, at, length, said) in [
            (Phase::Waiting, 0, Some(10), 0),
            (Phase::Waiting, 0, None, 0),
            (Phase::Receiving, 4, Some(10), 4),
            (Phase::Receiving, 4, None, 4),
            // Between the last byte and what follows.
            (Phase::Receiving, 10, Some(10), 9),
            (Phase::Finishing, 10, Some(10), 9),
            (Phase::Succeeded, 10, Some(10), 10),
            (Phase::Succeeded, 10, None, 10),
        ] {
            assert_eq!(offset(&status(phase, at, length)), said, "{phase:?} {at} {length:?}");
        }
    }

    #[test]
    fn numbers_are_digits() {
        let given = |text| HeaderMap::from_iter([(UPLOAD_LENGTH, HeaderValue::from_static(text))]);
        assert_eq!(length(&given("9223372036854775807")), Ok(Some(i64::MAX.unsigned_abs())));
        assert_eq!(length(&HeaderMap::new()), Ok(None));
        for (wrong, status) in
            [("0", 400), ("", 400), ("-1", 400), ("+1", 400), ("1.5", 400), ("0x10", 400), ("1, 1", 400)]
        {
            assert_eq!(length(&given(wrong)).unwrap_err().status, status, "{wrong}");
        }
        assert_eq!(length(&given("9223372036854775808")).unwrap_err().status, 413);
        assert_eq!(length(&given("18446744073709551616")).unwrap_err().status, 400);
    }
}
