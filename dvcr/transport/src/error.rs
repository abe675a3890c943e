//! Why a request failed, and whether trying again can help.

use std::error::Error as StdError;
use std::time::Duration;
use std::{fmt, io};

/// The result of a request.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What kind of failure it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// The address or the configuration makes no sense.
    Usage,
    /// The host name does not resolve.
    Dns,
    /// No address of the host accepted a connection.
    Connect,
    /// The host resolves only to addresses that must not be connected to.
    Forbidden,
    /// No secure connection: the server is not trusted, or does not speak TLS as we do.
    Tls,
    /// No progress for too long.
    Stalled,
    /// The connection broke before the end.
    Cut,
    /// The server answered with this status.
    Status(u16),
    /// The proxy wants credentials, does not allow the connection, or can't make it.
    Proxy,
    /// A redirect that must not or can't be followed.
    Redirect,
    /// The answer is not HTTP, or contradicts itself or the request.
    Protocol,
    /// It is not the object that was read before.
    Changed,
    /// It is not the content that was asked for: it has another length.
    Mismatch,
    /// It gives the whole instead of a range, though it gave ranges before.
    NoRanges,
}

/// Why a request failed. Displays as one line: which URL, what happened, what to do. Never contains a credential or the
/// query of a URL.
#[derive(Clone)]
pub struct Error {
    kind: Kind,
    transient: bool,
    /// When the server wants to be asked again.
    retry_after: Option<Duration>,
    message: String,
    region: Option<Box<str>>,
}

impl Error {
    /// What happened, as one line. Whether it is transient follows from its kind.
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        let transient = match kind {
            Kind::Connect | Kind::Stalled | Kind::Cut | Kind::Changed => true,
            // 501 and 505 say what the server can't do, not how it is.
            Kind::Status(status) => matches!(status, 408 | 425 | 429 | 500 | 502..=504 | 506..),
            Kind::Usage
            | Kind::Dns
            | Kind::Forbidden
            | Kind::Tls
            | Kind::Proxy
            | Kind::Redirect
            | Kind::Protocol
            | Kind::Mismatch
            | Kind::NoRanges => false,
        };
        Self { kind, transient, retry_after: None, message: message.into(), region: None }
    }

    /// The same, but trying again may help.
    #[must_use]
    pub fn transient(self) -> Self {
        Self { transient: true, ..self }
    }

    /// The same, of an object store that says in which region the object is.
    pub(crate) fn in_region(self, region: String) -> Self {
        Self { region: Some(region.into()), ..self }
    }

    /// The region that an object store says the object is in.
    pub(crate) fn region(&self) -> Option<&str> {
        self.region.as_deref()
    }

    /// The same with where it happened in front.
    #[must_use]
    pub fn at(self, place: impl fmt::Display) -> Self {
        Self { message: format!("{place}: {}", self.message), ..self }
    }

    /// The same, with when to come back.
    #[must_use]
    pub fn when(self, retry_after: Option<Duration>) -> Self {
        Self { retry_after, ..self }
    }

    /// The same, with how often it was tried.
    pub(crate) fn after(self, attempts: u32) -> Self {
        Self { message: format!("{} (after {attempts} attempts)", self.message), ..self }
    }

    /// How long the server asks to wait (`Retry-After`; RFC 9110, 10.2.3).
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }

    /// What kind of failure it was.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Whether the same request may succeed later. False for what needs a person: a wrong address, a missing credential,
    /// an untrusted certificate.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        self.transient
    }

    /// A connection that hyper gave up; `when` says what was being done.
    pub(crate) fn broken(error: &hyper::Error, when: &str) -> Self {
        let cause = root_cause(error);
        if error.is_parse() {
            return Self::new(Kind::Protocol, format!("the answer is not HTTP ({cause}): check the address"));
        }
        Self::new(Kind::Cut, format!("the connection broke {when}: {cause}"))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error")
            .field("kind", &self.kind)
            .field("transient", &self.transient)
            .field("message", &self.message)
            .finish()
    }
}

impl StdError for Error {}

/// The words of the innermost cause, which say more than those around it.
fn root_cause(error: &hyper::Error) -> String {
    let mut cause: &(dyn StdError + 'static) = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    match cause.downcast_ref::<io::Error>() {
        Some(error) => reason(error),
        None => cause.to_string(),
    }
}

/// An I/O error as a person says it: without "(os error N)".
pub(crate) fn reason(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "connection refused".into(),
        io::ErrorKind::ConnectionReset => "connection reset by the server".into(),
        io::ErrorKind::TimedOut => "timed out".into(),
        io::ErrorKind::HostUnreachable => "no route to the host".into(),
        io::ErrorKind::NetworkUnreachable => "the network is unreachable".into(),
        io::ErrorKind::UnexpectedEof => "closed by the server without notice".into(),
        _ => error.to_string(),
    }
}
