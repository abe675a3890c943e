//! Answers: one line for people, JSON for those who ask for it.

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{
    ACCEPT, CACHE_CONTROL, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE,
};
use hyper::{Response, StatusCode};
use serde::Serialize;

use crate::refusal::Refusal;
use crate::session::Status;

/// An answer: all of them are small.
pub type Answer = Response<Full<Bytes>>;

/// What a client wants to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wants {
    /// A line of text.
    Text,
    /// JSON.
    Json,
    /// A page: a browser.
    Page,
}

impl Wants {
    /// What `Accept` says; what comes first counts.
    #[must_use]
    pub fn of(headers: &HeaderMap) -> Self {
        let accept = headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let kinds = accept.split(',').map(|kind| kind.split(';').next().unwrap_or_default().trim());
        let known = |kind: &str| match kind {
            "application/json" => Some(Self::Json),
            "text/html" | "application/xhtml+xml" => Some(Self::Page),
            "text/plain" => Some(Self::Text),
            _ => None,
        };
        kinds.into_iter().find_map(known).unwrap_or(Self::Text)
    }
}

/// A line of text.
#[must_use]
pub fn text(status: StatusCode, line: &str) -> Answer {
    let body = if line.is_empty() { String::new() } else { format!("{line}\n") };
    with(status, HeaderValue::from_static("text/plain; charset=utf-8"), body)
}

/// A document.
#[must_use]
pub fn json(status: StatusCode, document: &impl Serialize) -> Answer {
    // Strings and numbers: this does not fail.
    let body = serde_json::to_string(document).unwrap_or_default();
    with(status, HeaderValue::from_static("application/json"), body)
}

/// Counters for Prometheus.
#[must_use]
pub fn metrics(text: String) -> Answer {
    with(StatusCode::OK, HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8"), text)
}

/// A page.
#[must_use]
pub fn page(html: String) -> Answer {
    with(StatusCode::OK, HeaderValue::from_static("text/html; charset=utf-8"), html)
}

/// How far an upload is.
#[must_use]
pub fn status(code: StatusCode, status: &Status, wants: Wants) -> Answer {
    let mut answer = match wants {
        Wants::Json => json(code, status),
        Wants::Text | Wants::Page => text(code, &status.to_string()),
    };
    offset(&mut answer, status);
    answer
}

/// Why it is not done.
#[must_use]
pub fn refused(refusal: &Refusal, wants: Wants) -> Answer {
    #[derive(Serialize)]
    struct Document<'a> {
        reason: &'a str,
        message: &'a str,
    }
    let mut answer = match wants {
        Wants::Json => json(refusal.status, &Document { reason: refusal.reason, message: &refusal.message }),
        Wants::Text | Wants::Page => text(refusal.status, &refusal.message),
    };
    if refusal.status == StatusCode::UNAUTHORIZED {
        answer.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    if let Some(seconds) = refusal.retry_after {
        answer.headers_mut().insert(RETRY_AFTER, seconds.into());
    }
    answer
}

/// Says in the headers where an upload goes on.
pub fn offset(answer: &mut Answer, status: &Status) {
    let headers = answer.headers_mut();
    headers.insert(UPLOAD_OFFSET, status.offset.into());
    if let Some(length) = status.length {
        headers.insert(UPLOAD_LENGTH, length.into());
    }
}

fn with(status: StatusCode, kind: HeaderValue, body: String) -> Answer {
    let mut answer = Answer::new(Full::new(Bytes::from(body)));
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, kind);
    // The state of an upload is what it is now.
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert("x-content-type-options", HeaderValue::from_static("nosniff"));
    answer
}

/// Where the next byte goes.
pub const UPLOAD_OFFSET: HeaderName = HeaderName::from_static("upload-offset");
/// How many bytes there will be.
pub const UPLOAD_LENGTH: HeaderName = HeaderName::from_static("upload-length");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_first_in_accept_counts() {
        for (accept, wants) in [
            ("", Wants::Text),
            ("*/*", Wants::Text),
            ("application/json", Wants::Json),
            ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", Wants::Page),
            ("image/avif, application/json;q=0.8, text/html", Wants::Json),
        ] {
            let headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static(accept))]);
            assert_eq!(Wants::of(&headers), wants, "{accept}");
        }
    }
}
