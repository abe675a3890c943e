//! What the head of a response means. A server's words about itself are hints; only what the answer does counts.

use std::time::Duration;

use hyper::header::{
    CONTENT_ENCODING, CONTENT_RANGE, CONTENT_TYPE, DATE, HeaderName, LOCATION, RETRY_AFTER, TRANSFER_ENCODING,
    WWW_AUTHENTICATE,
};
use hyper::{HeaderMap, StatusCode};

use crate::error::{Error, Kind, Result};
use crate::range::{ByteRange, ContentRange};
use crate::validator::Validator;

/// A transport encoding that the server applied although none was accepted. To be undone once, before anything else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Coding {
    /// RFC 1952.
    Gzip,
    /// RFC 1950 (zlib); some servers send RFC 1951 without it.
    Deflate,
    /// RFC 8878.
    Zstd,
    /// RFC 7932.
    Brotli,
}

/// What the head of a response means.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The object from its first byte.
    Whole(Meta),
    /// A part of it.
    Part(Meta, ContentRange),
    /// An object of no bytes, which has no ranges.
    Empty,
    /// The server will not give a range from the first byte; it may give the whole.
    NoRanges,
    /// It is elsewhere.
    Elsewhere(Vec<u8>),
    /// None of these; the body may say why.
    Refused,
}

/// What is said about an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Meta {
    /// Length of the whole object as it is transferred.
    pub(crate) len: Option<u64>,
    pub(crate) validator: Option<Validator>,
    pub(crate) content_type: Option<String>,
    /// In the order in which they were applied.
    pub(crate) codings: Vec<Coding>,
}

impl Answer {
    /// Judges an answer with a body of `body` bytes to a request for `range` of the object that `same` is a proof of.
    pub(crate) fn judge(
        status: StatusCode,
        headers: &HeaderMap,
        body: Option<u64>,
        range: Option<&ByteRange>,
        same: Option<&Validator>,
    ) -> Result<Self> {
        match status.as_u16() {
            200 | 203 => Ok(Self::Whole(Meta::read(headers, body)?)),
            206 => {
                let range = range.ok_or_else(|| protocol("the server sent a part of the object unasked"))?;
                let (meta, part) = part(headers, body, range)?;
                prove(same, &meta)?;
                Ok(Self::Part(meta, part))
            }
            416 if text(headers, CONTENT_RANGE).and_then(ContentRange::unsatisfied) == Some(0) => Ok(Self::Empty),
            416 if range.is_some_and(|range| range.start == 0) => Ok(Self::NoRanges),
            416 if same.is_some() => Err(unsatisfied(headers, range)),
            300 | 301 | 302 | 303 | 307 | 308 => match headers.get(LOCATION) {
                Some(location) => Ok(Self::Elsewhere(location.as_bytes().to_vec())),
                // S3 says in which region the bucket is, and not where that is.
                None if status == StatusCode::MULTIPLE_CHOICES || headers.contains_key("x-amz-bucket-region") => {
                    Ok(Self::Refused)
                }
                None => {
                    let message = format!("the server redirects ({status}) without saying where to");
                    Err(Error::new(Kind::Redirect, message))
                }
            },
            _ => Ok(Self::Refused),
        }
    }
}

impl Meta {
    fn read(headers: &HeaderMap, len: Option<u64>) -> Result<Self> {
        for value in headers.get_all(TRANSFER_ENCODING) {
            if !value.as_bytes().eq_ignore_ascii_case(b"chunked") {
                return Err(protocol(format!(
                    "the server uses the transfer encoding {value:?}, which was not accepted"
                )));
            }
        }
        Ok(Self {
            len,
            validator: Validator::find(headers, len),
            content_type: text(headers, CONTENT_TYPE).map(Into::into),
            codings: codings(headers)?,
        })
    }
}

/// A `206`: it must be a single range, the one that was asked for, as long as it says.
fn part(headers: &HeaderMap, body: Option<u64>, range: &ByteRange) -> Result<(Meta, ContentRange)> {
    let lines = headers.get_all(CONTENT_RANGE).iter().count();
    let part = text(headers, CONTENT_RANGE).and_then(ContentRange::parse).filter(|_| lines == 1);
    let Some(part) = part else {
        let multipart = text(headers, CONTENT_TYPE).is_some_and(|kind| kind.starts_with("multipart/"));
        let what = if multipart { "several ranges in one answer" } else { "a part without a sound Content-Range" };
        return Err(protocol(format!("asked for {range}, the server sent {what}")));
    };
    if !range.accepts(&part) {
        return Err(protocol(format!("asked for {range}, the server sent {part}")));
    }
    if let Some(body) = body.filter(|body| *body != part.len()) {
        return Err(protocol(format!("the server announced {part}, but a body of {body} bytes")));
    }
    Ok((Meta::read(headers, part.total)?, part))
}

/// A `416` to a request for a part of an object that is known: it is another, or the server contradicts itself.
fn unsatisfied(headers: &HeaderMap, range: Option<&ByteRange>) -> Error {
    let start = range.map_or(0, |range| range.start);
    let refused = range.map_or_else(|| "a range".to_owned(), ToString::to_string);
    match text(headers, CONTENT_RANGE).and_then(ContentRange::unsatisfied) {
        Some(total) if total <= start => {
            Error::new(Kind::Changed, format!("the object is shorter than it was, {total} bytes: start again"))
        }
        Some(total) => protocol(format!("the server refuses {refused} of an object that has {total} (status 416)")),
        None => protocol(format!("the server refuses {refused} of an object that has them (status 416)")),
    }
}

fn prove(same: Option<&Validator>, meta: &Meta) -> Result<()> {
    let Some(same) = same.filter(|same| !same.is_content()) else { return Ok(()) };
    match &meta.validator {
        Some(validator) if same.proves(validator) => Ok(()),
        Some(_) => Err(Error::new(Kind::Changed, "the object changed while it was read: start again")),
        None => {
            // A 206 to If-Range need not repeat the validator (RFC 9110, 15.3.7), but a server that does not know
            // If-Range looks the same.
            Err(Error::new(Kind::NoRanges, "the server does not prove that a part is of the same object"))
        }
    }
}

fn codings(headers: &HeaderMap) -> Result<Vec<Coding>> {
    let mut codings = Vec::new();
    for line in headers.get_all(CONTENT_ENCODING) {
        for name in String::from_utf8_lossy(line.as_bytes()).split(',') {
            codings.push(match name.trim().to_ascii_lowercase().as_str() {
                "" | "identity" => continue,
                "gzip" | "x-gzip" => Coding::Gzip,
                "deflate" => Coding::Deflate,
                "zstd" => Coding::Zstd,
                "br" => Coding::Brotli,
                name => {
                    let message =
                        format!("the server uses the content encoding {name:?}, though asked for none: turn it off");
                    return Err(protocol(message));
                }
            });
        }
    }
    Ok(codings)
}

/// What to say about a refusal: the status, what the server says, and what to do.
pub(crate) fn refusal(status: StatusCode, headers: &HeaderMap, excerpt: &str) -> Error {
    let reason = status.canonical_reason().unwrap_or_default();
    let mut message = format!("the server answered {} {reason}", status.as_u16()).trim_end().to_owned();
    if !excerpt.is_empty() {
        message.push_str(&format!(" (\"{excerpt}\")"));
    }
    let challenge = text(headers, WWW_AUTHENTICATE).and_then(|challenge| challenge.split(' ').next());
    let hint = match (status.as_u16(), challenge) {
        (401, Some(scheme)) => {
            let scheme: String = scheme.chars().filter(char::is_ascii_alphanumeric).take(20).collect();
            format!("give valid credentials ({scheme})")
        }
        (401, None) => "give valid credentials".into(),
        (403, _) => "check the credentials, or whether a signed address has expired".into(),
        (404 | 410, _) => "check the address".into(),
        (407, _) => "the proxy wants credentials".into(),
        (416, _) => "the object ends before these bytes".into(),
        (501 | 505, _) => "the server can't do what it takes; use another address".into(),
        (408 | 425 | 429 | 500.., _) => "try again later".into(),
        _ => "check the address".into(),
    };
    Error::new(Kind::Status(status.as_u16()), format!("{message}: {hint}")).when(retry_after(headers))
}

/// `Retry-After` in seconds. As a date it is understood where the answer is dated too: our clock may be another.
pub(crate) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let value = text(headers, RETRY_AFTER)?.trim();
    if let Ok(seconds) = value.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let (then, now) = (httpdate::parse_http_date(value).ok()?, httpdate::parse_http_date(text(headers, DATE)?).ok()?);
    Some(then.duration_since(now).unwrap_or_default())
}

/// Whether an error page says that there were too many requests, as registries do under several statuses.
pub(crate) fn is_too_many(page: &[u8]) -> bool {
    const CODE: &[u8] = b"TOOMANYREQUESTS";
    page.windows(CODE.len()).any(|part| part.eq_ignore_ascii_case(CODE))
}

/// The first words of an error page, without markup, up to the first of the `secrets` that it repeats. Of JSON with a
/// message it is that.
pub(crate) fn excerpt<'a>(page: &[u8], secrets: impl Iterator<Item = &'a str>) -> String {
    let page = String::from_utf8_lossy(page);
    let shown = secrets.filter(|secret| !secret.is_empty()).filter_map(|secret| page.find(secret)).min();
    let page = page.get(..shown.unwrap_or(page.len())).unwrap_or_default();
    let page = message(page).unwrap_or_else(|| page.to_owned());
    let mut text = String::with_capacity(page.len());
    let mut inside = false;
    for char in page.chars() {
        match char {
            '<' => inside = true,
            '>' if inside => {
                inside = false;
                text.push(' ');
            }
            _ if inside => {}
            '"' => text.push('\''),
            char if char.is_control() || char == char::REPLACEMENT_CHARACTER => text.push(' '),
            char => text.push(char),
        }
    }
    let words: Vec<_> = text.split_whitespace().collect();
    words.join(" ").chars().take(EXCERPT).collect()
}

/// The first `message` in JSON that says something. Not the business of a parser: the page may have been cut.
fn message(page: &str) -> Option<String> {
    let (_, rest) = page.trim_start().strip_prefix('{')?.split_once("\"message\"")?;
    let rest = rest.trim_start().strip_prefix(':')?.trim_start().strip_prefix('"')?;
    let mut message = String::new();
    let mut chars = rest.chars();
    while let Some(char) = chars.next().filter(|char| *char != '"') {
        message.push(match char {
            '\\' => match chars.next()? {
                'n' | 'r' | 't' => ' ',
                other => other,
            },
            char => char,
        });
    }
    (!message.trim().is_empty()).then_some(message)
}

fn text(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

fn protocol(message: impl Into<String>) -> Error {
    Error::new(Kind::Protocol, message)
}

/// Characters of an error page that are shown.
const EXCERPT: usize = 100;

#[cfg(test)]
mod tests;
