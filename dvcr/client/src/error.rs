//! Why something did not work with a registry.

use std::fmt;

use dvcr_transport as transport;

/// The result of a request.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What kind of failure it was.
///
/// | kind | exit code of the importer |
/// |---|---|
/// | `Usage` | 2 |
/// | `Transient` | 3 |
/// | `Denied`, `NotFound`, `Refused`, `NoPlatform`, `Unsupported` | 4 |
/// | `Malformed` | 5 |
/// | `Mismatch` | 7 |
/// | `Full`, `NotWritable` | 8 |
/// | `Content` | that of whatever could not be read |
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// The reference or the configuration makes no sense.
    Usage,
    /// It failed for the moment, after all attempts.
    Transient,
    /// The credentials are missing or wrong, or allow something else.
    Denied,
    /// There is no such image, or no such blob.
    NotFound,
    /// The registry can't or must not be talked to, or does not do what is asked.
    Refused,
    /// There is no image for the platform.
    NoPlatform,
    /// A kind of manifest that is known and not supported.
    Unsupported,
    /// A document is not what it should be.
    Malformed,
    /// Digest or length are not those that were asked for.
    Mismatch,
    /// The registry has no room.
    Full,
    /// The registry takes no pushes at all.
    NotWritable,
    /// What was to be pushed could not be read.
    Content,
}

/// Why something did not work. Displays as one line that names the registry, what was asked for and what happened, and
/// never a credential.
#[derive(Clone, Debug)]
pub struct Error {
    kind: Kind,
    message: String,
}

impl Error {
    pub(crate) fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    /// The same with where it happened in front.
    pub(crate) fn at(self, place: impl fmt::Display) -> Self {
        Self { message: format!("{place}: {}", self.message), ..self }
    }

    /// The same with what happened before in front.
    pub(crate) fn behind(self, before: &str) -> Self {
        Self { message: format!("{before}{}", self.message), ..self }
    }

    /// The same with something behind.
    pub(crate) fn and(self, more: impl fmt::Display) -> Self {
        Self { message: format!("{} ({more})", self.message), ..self }
    }

    /// What kind of failure it was.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Whether the same may work later.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        self.kind == Kind::Transient
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

impl From<transport::Error> for Error {
    fn from(error: transport::Error) -> Self {
        let kind = match error.kind() {
            transport::Kind::Status(507) => Kind::Full,
            _ if error.is_transient() => Kind::Transient,
            transport::Kind::Usage => Kind::Usage,
            transport::Kind::Mismatch => Kind::Mismatch,
            transport::Kind::Status(401 | 403) => Kind::Denied,
            transport::Kind::Status(404 | 410) => Kind::NotFound,
            _ => Kind::Refused,
        };
        Self::new(kind, error.to_string())
    }
}

impl From<dvcr_oci::Error> for Error {
    fn from(error: dvcr_oci::Error) -> Self {
        let kind = match error.kind() {
            dvcr_oci::Kind::Reference | dvcr_oci::Kind::Name | dvcr_oci::Kind::Tag => Kind::Usage,
            dvcr_oci::Kind::NoPlatform => Kind::NoPlatform,
            dvcr_oci::Kind::Unsupported => Kind::Unsupported,
            _ => Kind::Malformed,
        };
        Self::new(kind, error.to_string())
    }
}
