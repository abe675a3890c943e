//! Why wrapped bytes are not accepted.
//!
//! An [`Error`] is a small matchable [`Kind`] with the format and the offset it is about, in the manner of
//! `importer_disk::Error`. Offsets count the bytes of the layer that is decoded: compressed bytes for a compressor,
//! archive bytes for a tar.

use std::borrow::Cow;
use std::fmt;

/// The result of decoding.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// It contradicts itself, its checksum or its specification.
    Corrupt,
    /// It ends before it is complete.
    Truncated,
    /// Something else than padding follows its end.
    Trailing,
    /// It uses a feature we name but don't read.
    Unsupported,
    /// It needs more memory than is allowed.
    Memory,
    /// Its headers or tables are larger than any honest file needs.
    Oversized,
    /// It refers to something outside itself: an address, another file.
    External,
    /// There is more than one disk, and none was chosen.
    Ambiguous,
    /// There is no disk, or not the one that was asked for.
    NotFound,
    /// A mistake of ours.
    Ours,
}

/// Why wrapped bytes are not accepted, and where.
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

    /// The same with the offset it is about, in bytes of the layer that is decoded, if it has none yet.
    #[must_use]
    pub fn at(mut self, offset: u64) -> Self {
        self.at.get_or_insert(offset);
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

    /// The offset it is about, in bytes of the layer that is decoded, where there is one.
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
