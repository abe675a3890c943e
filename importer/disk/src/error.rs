//! Why an image is not accepted.
//!
//! An [`Error`] is a small matchable [`Kind`] with the format and the offset it is about. The kind decides the exit
//! code; the text is for people: what is wrong, and what they can do about it.

use std::borrow::Cow;
use std::fmt;

/// The result of reading an image.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What is wrong with an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// It is no disk image, or none that we know.
    NotADisk,
    /// It contradicts itself or its specification.
    Corrupt,
    /// It ends before something it refers to.
    Truncated,
    /// It uses a feature we name but don't read.
    Unsupported,
    /// It is encrypted.
    Encrypted,
    /// It is one part of a set, and the others are not here.
    Incomplete,
    /// It refers to another file: a backing file, a data file, a parent, a foreign extent.
    External,
    /// Its tables or its virtual size are larger than any honest image needs or memory allows.
    Oversized,
    /// It unfolds to far more than it holds.
    Bomb,
    /// The place for held bytes failed, or has no room for more; the image is not to blame.
    Spool,
    /// A mistake of ours, not of the image.
    Ours,
}

/// Why an image is not accepted, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    kind: Kind,
    format: Option<&'static str>,
    at: Option<u64>,
    message: Cow<'static, str>,
}

impl Error {
    /// An error of this kind. The message is lower-case, without a trailing period, and says what to do where that
    /// helps.
    pub fn new(kind: Kind, message: impl Into<Cow<'static, str>>) -> Self {
        Self { kind, format: None, at: None, message: message.into() }
    }

    /// The same with the byte offset in the image file it is about.
    #[must_use]
    pub fn at(mut self, offset: u64) -> Self {
        self.at = Some(offset);
        self
    }

    /// The same with the name of the format, if it has none yet.
    #[must_use]
    pub fn of(mut self, format: &'static str) -> Self {
        self.format.get_or_insert(format);
        self
    }

    /// What is wrong.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The byte offset in the image file it is about, where there is one.
    #[must_use]
    pub fn offset(&self) -> Option<u64> {
        self.at
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(format) = self.format {
            write!(f, "{format}: ")?;
        }
        f.write_str(&self.message)?;
        if let Some(at) = self.at {
            write!(f, " (at offset {at:#x})")?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {}
