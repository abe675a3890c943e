//! Which pages of other origins may send (the CORS protocol of the Fetch standard).
//!
//! A page of an origin that is not allowed can still send, as any program can; its browser only keeps the answer from it, and
//! does not send what needs to be asked for first. Who may send is decided by the secret in the address or by a token, which no
//! browser adds on its own: so there are no credentials here, and `*` is safe.

use std::fmt;
use std::str::FromStr;

use hyper::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    ACCESS_CONTROL_REQUEST_METHOD, HeaderMap, HeaderName, HeaderValue, ORIGIN, VARY,
};
use hyper::{Method, StatusCode};

use crate::answer::{self, Answer};

/// Which pages of other origins may send; by default none.
#[derive(Clone, Debug, Default)]
pub struct Cors(Vec<Origin>);

/// An origin that may send: `https://cloud.example`, or `*` for all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin(String);

impl Cors {
    /// Pages of these origins may send.
    #[must_use]
    pub fn new(origins: Vec<Origin>) -> Self {
        Self(origins)
    }

    /// The answer to a browser that asks whether a page may send a request; `None` for any other request. No secret is needed
    /// for it, because browsers send none along.
    #[must_use]
    pub fn preflight(&self, method: &Method, headers: &HeaderMap) -> Option<Answer> {
        let asked = *method == Method::OPTIONS && headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD);
        let origin = headers.get(ORIGIN).filter(|_| asked)?;
        if self.allowed(origin).is_none() {
            let message = "pages of this origin may not send here: the server has to be told of it (--cors-origin)";
            let mut answer = answer::text(StatusCode::FORBIDDEN, message);
            answer.headers_mut().insert(VARY, HeaderValue::from_static("Origin"));
            return Some(answer);
        }
        let mut answer = answer::text(StatusCode::NO_CONTENT, "");
        let said = answer.headers_mut();
        self.expose(Some(origin), said);
        said.remove(ACCESS_CONTROL_EXPOSE_HEADERS);
        said.insert(ACCESS_CONTROL_ALLOW_METHODS, METHODS);
        if let Some(names) = headers.get(ACCESS_CONTROL_REQUEST_HEADERS).filter(|names| are_names(names)) {
            said.insert(ACCESS_CONTROL_ALLOW_HEADERS, names.clone());
        }
        said.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("7200"));
        said.append(VARY, HeaderValue::from_static("Access-Control-Request-Headers"));
        Some(answer)
    }

    /// Lets the page read an answer, whatever its status is. `origin` is what its browser said in the request.
    pub fn expose(&self, origin: Option<&HeaderValue>, headers: &mut HeaderMap) {
        if self.0.is_empty() {
            return;
        }
        headers.append(VARY, HeaderValue::from_static("Origin"));
        if let Some(allowed) = origin.and_then(|origin| self.allowed(origin)) {
            headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, allowed);
            headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
        }
    }

    fn allowed(&self, origin: &HeaderValue) -> Option<HeaderValue> {
        if self.0.iter().any(|allowed| allowed.0 == "*") {
            return Some(HeaderValue::from_static("*"));
        }
        self.0.iter().any(|allowed| allowed.0.as_bytes() == origin.as_bytes()).then(|| origin.clone())
    }
}

impl FromStr for Origin {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "*" {
            return Ok(Self(text.to_owned()));
        }
        let wrong = || format!("{text}: write an origin as https://host or https://host:port, or * for all");
        let (scheme, host) = text.split_once("://").ok_or_else(wrong)?;
        let sound = |byte: u8| byte.is_ascii_graphic() && !b"/?#@,\"'<>\\*".contains(&byte);
        if !matches!(scheme, "http" | "https") || host.is_empty() || !host.bytes().all(sound) {
            return Err(wrong());
        }
        // Browsers write origins so, and compare them letter by letter.
        let host = host.to_ascii_lowercase();
        let port = if scheme == "https" { ":443" } else { ":80" };
        Ok(Self(format!("{scheme}://{}", host.strip_suffix(port).unwrap_or(&host))))
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Whether this is a short list of names of headers: what is asked for is granted, because no header gives rights that
/// another would not.
fn are_names(list: &HeaderValue) -> bool {
    list.len() <= MAX_NAMES
        && list
            .to_str()
            .is_ok_and(|list| list.split(',').all(|name| HeaderName::from_bytes(name.trim().as_bytes()).is_ok()))
}

const METHODS: HeaderValue = HeaderValue::from_static("GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS");
/// What pages may read beside the few headers that they always may.
const EXPOSED: HeaderValue = HeaderValue::from_static(
    "Location, Retry-After, Content-Range, Upload-Offset, Upload-Length, Upload-Defer-Length, Upload-Metadata, \
     Upload-Expires, Upload-Complete, Upload-Incomplete, Upload-Limit, Upload-Draft-Interop-Version, Tus-Resumable, \
     Tus-Version, Tus-Extension, Tus-Max-Size, Tus-Checksum-Algorithm",
);
const MAX_NAMES: usize = 2048;

#[cfg(test)]
mod tests;
