//! Which proxy leads to an origin, if any does.

mod exempt;
mod socks;
mod tunnel;

use std::fmt;
use std::sync::Arc;

use hyper::StatusCode;
use hyper::header::HeaderValue;
use url::Host;

use crate::address::{Authority, Origin, Scheme};
use crate::base64;
use crate::error::{Error, Kind, Result};

use exempt::Exempt;
pub(crate) use socks::{Target, ask};
pub(crate) use tunnel::open;

/// The proxies to use. The default is none.
///
/// An `http` origin is asked through an `http` or `https` proxy in absolute form, an `https` origin by CONNECT, so that the
/// proxy sees nothing but host and port; a SOCKS5 proxy moves bytes for both. Credentials in the address of a proxy are
/// sent to that proxy alone, and shown by nothing.
#[derive(Clone, Debug, Default)]
pub struct Proxies {
    http: Option<Arc<Proxy>>,
    https: Option<Arc<Proxy>>,
    exempt: Exempt,
}

impl Proxies {
    /// As these two say, and as the environment says where one is `None`.
    ///
    /// `proxy` is `[http://|https://|socks5://|socks5h://][user:password@]host[:port]`, for every origin, or empty for none.
    /// With `socks5` names are resolved here, with all others by the proxy. The environment has `http_proxy`, `https_proxy`
    /// and for both `all_proxy`, each also in upper case; `HTTP_PROXY` in upper case is passed over where `REQUEST_METHOD`
    /// is set, because a web server's client sets it there by a header.
    ///
    /// `exempt` (`no_proxy`, `NO_PROXY`) lists, by commas or blanks, what is connected to directly: `*` for all, host names
    /// and domains (with everything below them, a leading dot or not), IP addresses, networks as `10.0.0.0/8`; each with
    /// `:port` for that port only. A host name is not resolved to be compared with a network. Nothing is exempt of itself,
    /// not even localhost.
    ///
    /// # Errors
    ///
    /// `Kind::Usage` that names the variable or option at fault.
    pub fn choose(proxy: Option<&str>, exempt: Option<&str>) -> Result<Self> {
        Self::choose_from(proxy, exempt, |name| std::env::var(name).ok())
    }

    fn choose_from(proxy: Option<&str>, exempt: Option<&str>, env: impl Fn(&str) -> Option<String>) -> Result<Self> {
        let env = |name: &str| env(name).filter(|value| !value.trim().is_empty());
        let either = |lower: &str| {
            let upper = lower.to_ascii_uppercase();
            let forged = upper == "HTTP_PROXY" && env("REQUEST_METHOD").is_some();
            let found = env(lower).map(|value| (lower.to_owned(), value));
            found.or_else(|| env(&upper).filter(|_| !forged).map(|value| (upper, value)))
        };
        let (http, https) = match proxy.map(str::trim) {
            Some("") => (None, None),
            Some(url) => {
                let proxy = Some(Arc::new(Proxy::parse(url, "--proxy")?));
                (proxy.clone(), proxy)
            }
            None => {
                let of = |name: &str| match either(name).or_else(|| either("all_proxy")) {
                    Some((name, url)) => Proxy::parse(url.trim(), &name).map(|proxy| Some(Arc::new(proxy))),
                    None => Ok(None),
                };
                (of("http_proxy")?, of("https_proxy")?)
            }
        };
        let exempt = exempt.map(ToOwned::to_owned).or_else(|| either("no_proxy").map(|(_, list)| list));
        Ok(Self { http, https, exempt: Exempt::parse(&exempt.unwrap_or_default()) })
    }

    /// The proxy that leads to this origin.
    pub(crate) fn find(&self, origin: &Origin) -> Option<&Arc<Proxy>> {
        let proxy = match origin.scheme {
            Scheme::Http => &self.http,
            Scheme::Https => &self.https,
        };
        proxy.as_ref().filter(|_| !self.exempt.has(&origin.host, origin.port))
    }
}

/// One proxy. Displays without credentials.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Proxy {
    pub(crate) kind: ProxyKind,
    pub(crate) host: Host<String>,
    pub(crate) port: u16,
    login: Option<(Vec<u8>, Vec<u8>)>,
}

/// How a proxy is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProxyKind {
    Http,
    Https,
    /// Whether it resolves the names.
    Socks5 {
        resolves: bool,
    },
}

impl Proxy {
    /// Understands the address that stands in `place`, which may hold a password: it is never repeated.
    fn parse(url: &str, place: &str) -> Result<Self> {
        let usage = |why: String| Error::new(Kind::Usage, format!("{place} is not the address of a proxy: {why}"));
        let (scheme, rest) = url.split_once("://").unwrap_or(("http", url));
        let (kind, port) = match scheme.to_ascii_lowercase().as_str() {
            "http" => (ProxyKind::Http, 80),
            "https" => (ProxyKind::Https, 443),
            "socks5" => (ProxyKind::Socks5 { resolves: false }, 1080),
            "socks5h" => (ProxyKind::Socks5 { resolves: true }, 1080),
            _ => return Err(usage("it begins with none of http://, https://, socks5:// and socks5h://".into())),
        };
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let Authority { login, host, port } = Authority::parse(authority, port).map_err(usage)?;
        let long = |text: &Vec<u8>| text.len() > 255;
        if login.as_ref().is_some_and(|(user, password)| long(user) || long(password)) {
            return Err(usage("its user or password is longer than 255 bytes".into()));
        }
        Ok(Self { kind, host, port, login })
    }

    /// The `Proxy-Authorization` header.
    pub(crate) fn authorization(&self) -> Option<HeaderValue> {
        self.login.as_ref().map(|(user, password)| base64::basic(user, password))
    }

    /// What must not be repeated.
    pub(crate) fn secrets(&self) -> impl Iterator<Item = String> {
        let header = self.authorization();
        let encoded = header.and_then(|header| Some(header.to_str().ok()?.split_once(' ')?.1.to_owned()));
        let password = self.login.as_ref().map(|(_, password)| String::from_utf8_lossy(password).into_owned());
        encoded.into_iter().chain(password)
    }

    /// The proxy itself answered with this status in place of the server.
    pub(crate) fn refusal(&self, status: StatusCode) -> Error {
        let reason = status.canonical_reason().unwrap_or_default();
        let answered = format!("the proxy {self} answered {} {reason}", status.as_u16());
        match status.as_u16() {
            407 => self.unknown(answered.trim_end()),
            403 => {
                let hint = "it does not allow this connection: ask who runs it, or exempt the host (--no-proxy)";
                Error::new(Kind::Proxy, format!("{answered}: {hint}"))
            }
            500.. | 408 | 429 => {
                Error::new(Kind::Proxy, format!("{answered}: can it reach the server? Try again later")).transient()
            }
            _ => Error::new(Kind::Proxy, format!("{}: is this the address of a proxy?", answered.trim_end())),
        }
    }

    /// It said by `answered` that it does not know who we are.
    fn unknown(&self, answered: &str) -> Error {
        let hint = match self.login {
            Some(_) => "it does not accept the user and password in its address",
            None => "it wants user and password: put them into its address, as http://USER:PASSWORD@HOST:PORT",
        };
        Error::new(Kind::Proxy, format!("{answered}: {hint}"))
    }
}

impl fmt::Display for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match self.kind {
            ProxyKind::Http => "http",
            ProxyKind::Https => "https",
            ProxyKind::Socks5 { resolves: false } => "socks5",
            ProxyKind::Socks5 { resolves: true } => "socks5h",
        };
        write!(f, "{scheme}://{}:{}", self.host, self.port)
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Proxy({self})")
    }
}

#[cfg(test)]
mod tests;
