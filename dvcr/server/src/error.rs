//! Why a request or a command failed: one line, and a kind that decides status, code and exit code.

use std::{fmt, io};

/// The result of what the registry does.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What kind of failure it was. Most are codes of the distribution specification.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// The repository has no such blob.
    BlobUnknown,
    /// The upload contradicts itself.
    UploadInvalid,
    /// There is no such upload, or no longer.
    UploadUnknown,
    /// A digest that is none, or not that of the content.
    DigestInvalid,
    /// A manifest names what its repository does not have.
    ManifestBlobUnknown,
    /// A manifest that is none, or none that this registry keeps.
    ManifestInvalid,
    /// The repository has no such manifest or tag.
    ManifestUnknown,
    /// No name of a repository, or no tag.
    NameInvalid,
    /// There is no such repository.
    NameUnknown,
    /// The length is not that of the content.
    SizeInvalid,
    /// The credentials are missing or wrong.
    Unauthorized,
    /// The credentials do not allow it.
    Denied,
    /// The registry can't do this.
    Unsupported,
    /// Too much of something at once.
    TooManyRequests,
    /// A chunk that does not begin where the upload ends, or a range outside the blob.
    RangeInvalid,
    /// The request makes no sense.
    BadRequest,
    /// There is nothing at this address.
    NotFound,
    /// It is not what the request takes it for.
    Changed,
    /// More bytes than allowed.
    TooLarge,
    /// The client sent nothing for too long.
    Stalled,
    /// No room: the file system or the quota is used up.
    Full,
    /// The store is damaged.
    Damaged,
    /// The command or the configuration makes no sense.
    Usage,
    /// The store can be read, but not written: a read-only file system, or one that belongs to somebody else.
    NotWritable,
    /// The store can't be read or written.
    Io,
    /// A mistake of ours.
    Internal,
}

impl Kind {
    /// The status of the answer.
    #[must_use]
    pub fn status(self) -> u16 {
        match self {
            Self::UploadInvalid
            | Self::DigestInvalid
            | Self::ManifestInvalid
            | Self::NameInvalid
            | Self::SizeInvalid
            | Self::BadRequest => 400,
            Self::Unauthorized => 401,
            Self::Denied => 403,
            Self::BlobUnknown
            | Self::UploadUnknown
            | Self::ManifestBlobUnknown
            | Self::ManifestUnknown
            | Self::NameUnknown
            | Self::NotFound => 404,
            Self::Unsupported | Self::NotWritable => 405,
            Self::Stalled => 408,
            Self::Changed => 412,
            Self::TooLarge => 413,
            Self::RangeInvalid => 416,
            Self::TooManyRequests => 429,
            Self::Full => 507,
            Self::Damaged | Self::Usage | Self::Io | Self::Internal => 500,
        }
    }

    /// The code in the body of the answer. Of a 4xx it is one of the specification's, the nearest where none fits. It has
    /// none for a 5xx: there it is that of the distribution project, and the name of the status.
    ///
    /// //# spec.md, Error Codes: "A `4XX` response code from the registry MAY return a body in any format. If the response
    /// body is in JSON format, it MUST have the following format … The `code` field MUST be one of the following"
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            Self::BlobUnknown => "BLOB_UNKNOWN",
            Self::UploadInvalid | Self::RangeInvalid | Self::Stalled => "BLOB_UPLOAD_INVALID",
            Self::UploadUnknown => "BLOB_UPLOAD_UNKNOWN",
            Self::DigestInvalid => "DIGEST_INVALID",
            Self::ManifestBlobUnknown => "MANIFEST_BLOB_UNKNOWN",
            Self::ManifestInvalid => "MANIFEST_INVALID",
            Self::ManifestUnknown => "MANIFEST_UNKNOWN",
            Self::NameInvalid => "NAME_INVALID",
            Self::NameUnknown => "NAME_UNKNOWN",
            Self::SizeInvalid | Self::TooLarge => "SIZE_INVALID",
            Self::Unauthorized => "UNAUTHORIZED",
            Self::Denied => "DENIED",
            // What registries say that are told to be read-only.
            Self::NotWritable | Self::Unsupported | Self::Changed | Self::BadRequest | Self::NotFound => "UNSUPPORTED",
            Self::TooManyRequests => "TOOMANYREQUESTS",
            Self::Full => "INSUFFICIENT_STORAGE",
            Self::Damaged | Self::Usage | Self::Io | Self::Internal => "UNKNOWN",
        }
    }

    /// How the program ends.
    #[must_use]
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Usage | Self::BadRequest | Self::NameInvalid | Self::Unsupported => 2,
            Self::BlobUnknown | Self::ManifestUnknown | Self::NameUnknown | Self::UploadUnknown | Self::NotFound => 4,
            Self::Damaged | Self::DigestInvalid | Self::SizeInvalid | Self::ManifestInvalid => 7,
            Self::Full | Self::NotWritable | Self::Io => 8,
            _ => 1,
        }
    }
}

/// Why a request or a command failed. Displays as one line: what, where, what to do.
#[derive(Clone, Debug)]
pub struct Error {
    kind: Kind,
    message: String,
}

impl Error {
    /// An error of this kind.
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    /// What the file system said about `what`.
    pub(crate) fn io(what: impl fmt::Display, error: &io::Error) -> Self {
        if is_full(error) {
            return Self::new(Kind::Full, format!("the registry is full ({what}: {}): free some space", words(error)));
        }
        match error.kind() {
            io::ErrorKind::ReadOnlyFilesystem => {
                let message = format!("the registry can't be written, only read ({what}: {})", words(error));
                Self::new(Kind::NotWritable, message)
            }
            io::ErrorKind::PermissionDenied => {
                let message =
                    format!("the registry may not do this ({what}: {}): see who owns its folder", words(error));
                Self::new(Kind::NotWritable, message)
            }
            _ => Self::new(Kind::Io, format!("{what}: {}", words(error))),
        }
    }

    /// The same to who only wanted to read: that is no matter of what the registry lets people do.
    pub(crate) fn while_reading(self) -> Self {
        match self.kind {
            Kind::NotWritable => Self { kind: Kind::Io, ..self },
            _ => self,
        }
    }

    /// What kind of failure it was.
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

/// Whether it says that there is no room.
fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge)
}

/// An I/O error as a person says it: without "(os error N)".
pub(crate) fn words(error: &io::Error) -> String {
    let text = error.to_string();
    match text.find(" (os error") {
        Some(at) => text[..at].to_lowercase(),
        None => text,
    }
}
