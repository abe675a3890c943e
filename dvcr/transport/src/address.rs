//! A URL that goes out as it came in.

use std::fmt;
use std::sync::Arc;

use hyper::header::HeaderValue;
use url::Host;

use crate::base64;
use crate::error::{Error, Kind, Result};

/// An `http` or `https` URL.
///
/// Scheme, host and port are understood; path and query are kept byte for byte, because a signature may cover them. What
/// no request line can carry (`<`, `>`, `` ` ``) is percent-encoded; a fragment is dropped. Displays without credentials
/// and without the query.
#[derive(Clone, PartialEq, Eq)]
pub struct Address {
    origin: Origin,
    /// Path and query, beginning with a slash.
    target: String,
    /// From `user:password@`.
    login: Option<HeaderValue>,
    /// What is shown in its place.
    name: Option<Arc<str>>,
}

/// Scheme, host and port: what credentials belong to and connections are kept for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Origin {
    pub(crate) scheme: Scheme,
    pub(crate) host: Host<String>,
    pub(crate) port: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Scheme {
    Http,
    Https,
}

impl Address {
    /// Understands `text`.
    ///
    /// # Errors
    ///
    /// `Kind::Usage` for any other scheme, white space and control characters, and an unusable host or port.
    pub fn parse(text: &str) -> Result<Self> {
        let usage = |message: String| Error::new(Kind::Usage, format!("the address is not usable: {message}"));
        if let Some((at, bad)) = text.char_indices().find(|(_, char)| char.is_whitespace() || char.is_control()) {
            let name = if bad == ' ' { "a space".into() } else { format!("the character U+{:04X}", u32::from(bad)) };
            return Err(usage(format!("it has {name} at byte {at}: remove it, or write it percent-encoded")));
        }
        let (scheme, rest) = text.split_once("://").unwrap_or(("", text));
        let scheme = match scheme.to_ascii_lowercase().as_str() {
            "http" => Scheme::Http,
            "https" => Scheme::Https,
            _ => return Err(usage("it does not begin with http:// or https://".into())),
        };
        let (authority, target) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        let Authority { login, host, port } = Authority::parse(authority, scheme.port()).map_err(usage)?;
        let login = login.map(|(user, password)| base64::basic(&user, &password));
        if target.len() > MAX_TARGET {
            return Err(usage(format!("path and query are longer than {MAX_TARGET} bytes")));
        }
        Ok(Self { origin: Origin { scheme, host, port }, target: carried(target), login, name: None })
    }

    /// Where a `Location` or `Link` header leads from here (RFC 3986, 5.2.2).
    ///
    /// Absolute URLs, paths and queries are taken byte for byte; only a relative path is merged with ours. White space
    /// and bytes outside ASCII, which have no place in a header, are percent-encoded.
    ///
    /// # Errors
    ///
    /// `Kind::Redirect` for another scheme, and what is no address.
    pub fn join(&self, location: impl AsRef<[u8]>) -> Result<Self> {
        let location = location.as_ref();
        let redirect = |error: Error| Error::new(Kind::Redirect, format!("the redirect can't be followed: {error}"));
        let location = ascii(location.trim_ascii());
        let location = location.split('#').next().unwrap_or_default();
        if let Some(scheme) = scheme_of(location) {
            let lower = scheme.to_ascii_lowercase();
            if lower != "http" && lower != "https" {
                let message = format!("redirected to a {scheme}: address: only http and https are followed");
                return Err(Error::new(Kind::Redirect, message));
            }
            return Self::parse(location).map_err(redirect);
        }
        if location.starts_with("//") {
            return Self::parse(&format!("{}:{location}", self.origin.scheme.name())).map_err(redirect);
        }
        let path = self.target.split('?').next().unwrap_or_default();
        let target = match location.bytes().next() {
            None => self.target.clone(),
            Some(b'/') => location.to_owned(),
            Some(b'?') => format!("{path}{location}"),
            Some(_) => merge(path, location),
        };
        Ok(Self { origin: self.origin.clone(), target: carried(&target), login: self.login.clone(), name: None })
    }

    /// The same with `more` at the end of its query, as it is.
    #[must_use]
    pub fn with_query(mut self, more: &str) -> Self {
        self.target.push(if self.target.contains('?') { '&' } else { '?' });
        self.target.push_str(carried(more).trim_start_matches('/'));
        self
    }

    /// Whether it is reached over TLS.
    #[must_use]
    pub fn is_secure(&self) -> bool {
        self.origin.scheme == Scheme::Https
    }

    /// Whether it is this machine itself: `localhost`, 127.0.0.0/8 or ::1.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        match &self.origin.host {
            Host::Ipv4(address) => address.is_loopback(),
            Host::Ipv6(address) => address.is_loopback(),
            Host::Domain(name) => name == "localhost" || name.ends_with(".localhost"),
        }
    }

    /// The same without query and credentials, shown under this name.
    pub(crate) fn named(mut self, name: &str) -> Self {
        self.target.truncate(self.target.find('?').unwrap_or(self.target.len()));
        Self { login: None, name: Some(name.into()), ..self }
    }

    /// Host, and port where it is not the scheme's own, as they go into the `Host` header.
    #[must_use]
    pub fn authority(&self) -> String {
        self.origin.authority()
    }

    /// Whether scheme, host and port are the same: what credentials for one may be sent to the other.
    #[must_use]
    pub fn same_origin(&self, other: &Self) -> bool {
        self.origin == other.origin
    }

    /// The last part of the path, percent-decoded; `None` for a path that ends in a slash.
    #[must_use]
    pub fn file_name(&self) -> Option<Vec<u8>> {
        let path = self.target.split('?').next().unwrap_or_default();
        let name = path.rsplit('/').next().map(percent_decoded);
        name.filter(|name| !name.is_empty())
    }

    pub(crate) fn origin(&self) -> &Origin {
        &self.origin
    }

    /// Path and query as they go into the request.
    #[must_use]
    pub fn target(&self) -> &str {
        &self.target
    }

    /// The credentials in the URL, as an `Authorization` header.
    pub(crate) fn login(&self) -> Option<&HeaderValue> {
        self.login.as_ref()
    }

    /// The values in the query, which may be secret, as they are and decoded.
    pub(crate) fn query_values(&self) -> impl Iterator<Item = String> {
        let query = self.target.split_once('?').map(|(_, query)| query);
        let pairs = query.into_iter().flat_map(|query| query.split('&'));
        let values = pairs.map(|pair| pair.split_once('=').map_or(pair, |(_, value)| value));
        values.flat_map(|value| [value.to_owned(), String::from_utf8_lossy(&percent_decoded(value)).into_owned()])
    }

    /// The credentials in the URL as they are sent, without the word in front.
    pub(crate) fn login_secrets(&self) -> impl Iterator<Item = String> {
        let login = self.login.as_ref().and_then(|login| login.to_str().ok()?.split_once(' '));
        login.into_iter().map(|(_, encoded)| encoded.to_owned())
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(name) = &self.name {
            return f.write_str(name);
        }
        let (path, query) = self.target.split_once('?').map_or((self.target.as_str(), ""), |(path, _)| (path, "?…"));
        write!(f, "{}{path}{query}", self.origin)
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Address({self})")
    }
}

impl Origin {
    /// Host, and port where it is not the scheme's own: the `Host` header.
    pub(crate) fn authority(&self) -> String {
        if self.port == self.scheme.port() { self.host.to_string() } else { format!("{}:{}", self.host, self.port) }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.scheme.name(), self.authority())
    }
}

impl Scheme {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }

    fn port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}

/// What stands between `://` and the path.
pub(crate) struct Authority {
    /// User and password, percent-decoded.
    pub(crate) login: Option<(Vec<u8>, Vec<u8>)>,
    pub(crate) host: Host<String>,
    pub(crate) port: u16,
}

impl Authority {
    /// Understands `user:password@host:port`, of which only the host is needed. What is wrong is told without repeating it:
    /// it may be a part of a password.
    pub(crate) fn parse(text: &str, default_port: u16) -> Result<Self, String> {
        let (login, place) = match text.rsplit_once('@') {
            Some((login, place)) => (Some(login), place),
            None => (None, text),
        };
        let (host, port) = match place.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, port),
            _ => (place, ""),
        };
        let port = match port {
            "" => default_port,
            _ if port.bytes().all(|byte| byte.is_ascii_digit()) => port.parse().unwrap_or(0),
            _ => 0,
        };
        if port == 0 {
            let hint = "in a password, write / ? # as %2F %3F %23";
            return Err(format!("its port is not a number from 1 to 65535 ({hint})"));
        }
        let host = Host::parse(host).map_err(|error| format!("its host: {error}"))?;
        let login = login.map(|login| {
            let (user, password) = login.split_once(':').unwrap_or((login, ""));
            (percent_decoded(user), percent_decoded(password))
        });
        Ok(Self { login, host, port })
    }
}

fn percent_decoded(text: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        let code = tail.split_at_checked(2).filter(|_| byte == b'%').and_then(|(code, tail)| Some((hex(code)?, tail)));
        let (byte, tail) = code.unwrap_or((byte, tail));
        out.push(byte);
        rest = tail;
    }
    out
}

fn hex(digits: &[u8]) -> Option<u8> {
    digits.iter().try_fold(0_u32, |value, &digit| Some(value * 16 + char::from(digit).to_digit(16)?))?.try_into().ok()
}

/// The path and query of a request: without fragment, with a slash in front, and without the three characters that
/// [`hyper::Uri`] refuses.
fn carried(target: &str) -> String {
    let target = target.split('#').next().unwrap_or_default();
    let slash = if target.starts_with('/') { "" } else { "/" };
    let mut out = String::with_capacity(slash.len() + target.len());
    out.push_str(slash);
    for char in target.chars() {
        match char {
            '<' => out.push_str("%3C"),
            '>' => out.push_str("%3E"),
            '`' => out.push_str("%60"),
            _ => out.push(char),
        }
    }
    out
}

/// A header value as text; what isn't printable ASCII is percent-encoded.
fn ascii(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for &byte in bytes {
        if byte.is_ascii_graphic() {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

/// The scheme in front, if there is one (RFC 3986, 3.1).
fn scheme_of(location: &str) -> Option<&str> {
    let (scheme, _) = location.split_once(':')?;
    let valid = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
    (scheme.starts_with(|char: char| char.is_ascii_alphabetic()) && scheme.bytes().all(valid)).then_some(scheme)
}

/// A relative path in the folder of `base`, without dot segments (RFC 3986, 5.2.3 and 5.2.4).
fn merge(base: &str, relative: &str) -> String {
    let (path, query) = relative.split_at(relative.find('?').unwrap_or(relative.len()));
    let folder = base.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut kept: Vec<&str> = Vec::new();
    let mut segments = folder.split('/').skip(1).chain(path.split('/')).peekable();
    while let Some(segment) = segments.next() {
        let last = segments.peek().is_none();
        match segment {
            "." => {}
            ".." => drop(kept.pop()),
            _ => kept.push(segment),
        }
        if last && matches!(segment, "." | "..") {
            kept.push("");
        }
    }
    format!("/{}{query}", kept.join("/"))
}

/// What [`hyper::Uri`] can hold is 65534 bytes; a part of it is the host.
const MAX_TARGET: usize = 60_000;

#[cfg(test)]
mod tests;
