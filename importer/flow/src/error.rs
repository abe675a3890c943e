//! Why an import failed, and who is to blame.

use std::error::Error as StdError;
use std::fmt;

use importer_disk as disk;

/// The result of a step of the pipeline.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What kind of failure it was. It decides the exit code and whether trying again can help.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// A mistake of ours.
    Ours,
    /// The command or the configuration makes no sense.
    Usage,
    /// The source failed and may work later.
    Transient,
    /// The source is another than when the import began. It may be imported from the start.
    Changed,
    /// The source refused for good: not there, not allowed, not trusted.
    Refused,
    /// The target takes a disk from its first byte to its last, and the image would have to be read in another order for that,
    /// or twice, which the source can't.
    OutOfOrder,
    /// Not a usable disk image.
    NotUsable,
    /// Refused as unsafe: it refers to other files, or would unfold without bound.
    Unsafe,
    /// A checksum, a digest or a length is not what it should be.
    Mismatch,
    /// The target is full, or can't be written.
    Target,
    /// The target is too small for the disk, and will be tomorrow.
    TooSmall,
}

impl Kind {
    /// The exit code of the contract (DESIGN §3).
    #[must_use]
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Ours => 1,
            Self::Usage => 2,
            Self::Transient | Self::Changed => 3,
            Self::Refused | Self::OutOfOrder => 4,
            Self::NotUsable => 5,
            Self::Unsafe => 6,
            Self::Mismatch => 7,
            Self::Target | Self::TooSmall => 8,
        }
    }

    /// The reason in a report, in CamelCase.
    #[must_use]
    pub fn reason(self) -> &'static str {
        match self {
            Self::Ours => "InternalError",
            Self::Usage => "InvalidRequest",
            Self::Transient | Self::Changed => "SourceFailed",
            Self::Refused => "SourceRefused",
            Self::OutOfOrder => "OutOfOrder",
            Self::NotUsable => "NotADiskImage",
            Self::Unsafe => "UnsafeImage",
            Self::Mismatch => "VerificationFailed",
            Self::Target => "TargetFailed",
            Self::TooSmall => "TargetTooSmall",
        }
    }
}

/// Why an import failed. Displays as one line: what, where, what to do.
#[derive(Debug)]
pub struct Error {
    kind: Kind,
    message: String,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

impl Error {
    /// An error of this kind: lower-case, no trailing period, names the place and what to do.
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), source: None }
    }

    /// The same with its cause. The message does not repeat the cause.
    #[must_use]
    pub fn because(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// The same with `context: ` in front of the message.
    #[must_use]
    pub fn within(mut self, context: impl fmt::Display) -> Self {
        self.message = format!("{context}: {}", self.message);
        self
    }

    /// What kind of failure it was.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        let mut cause = self.source.as_deref().map(|cause| cause as &(dyn StdError + 'static));
        while let Some(error) = cause {
            write!(f, ": {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_deref().map(|cause| cause as _)
    }
}

impl From<disk::Error> for Error {
    fn from(error: disk::Error) -> Self {
        let kind = match error.kind() {
            disk::Kind::External | disk::Kind::Oversized | disk::Kind::Bomb => Kind::Unsafe,
            disk::Kind::Spool => Kind::Target,
            disk::Kind::Ours => Kind::Ours,
            _ => Kind::NotUsable,
        };
        Self::new(kind, error.to_string())
    }
}
