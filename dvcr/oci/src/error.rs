//! Why a name or a document is not usable.

use std::fmt;

use crate::platform::Platform;

/// The result of reading a name or a document.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What kind of thing is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// Not a digest, or one of an algorithm that is not known.
    Digest,
    /// Not a reference, a host or a platform as people write them.
    Reference,
    /// Not the name of a repository.
    Name,
    /// Not a tag.
    Tag,
    /// Not the document it should be.
    Malformed,
    /// Larger, deeper or of more parts than a document may be.
    TooLarge,
    /// A document of a kind that is known and not supported.
    Unsupported,
    /// There is no image for the platform.
    NoPlatform,
}

/// Why a name or a document is not usable. Displays as one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    kind: Kind,
    message: String,
}

impl Error {
    pub(crate) fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    /// There is no image for `asked`, but for `there`.
    #[must_use]
    pub fn no_platform(asked: &Platform, there: &[Platform]) -> Self {
        let mut names: Vec<_> = there.iter().take(LISTED).map(Platform::to_string).collect();
        if there.len() > LISTED {
            names.push(format!("{} more", there.len() - LISTED));
        }
        let there =
            if names.is_empty() { "there is none for any".into() } else { format!("there is {}", names.join(", ")) };
        Self::new(Kind::NoPlatform, format!("there is no image for {asked}: {there}"))
    }

    /// The same with what it is about in front.
    pub(crate) fn at(self, place: impl fmt::Display) -> Self {
        Self { message: format!("{place}: {}", self.message), ..self }
    }

    /// What kind of thing is wrong.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

/// A text from outside as a message shows it: in one line, and no longer than is of use.
pub(crate) fn shown(text: &str) -> String {
    let mut short: String = text.chars().take(SHOWN).flat_map(char::escape_debug).collect();
    if text.chars().nth(SHOWN).is_some() {
        short.push('…');
    }
    short
}

const SHOWN: usize = 120;
/// As many platforms as a person reads.
const LISTED: usize = 20;
