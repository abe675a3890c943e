//! Why a request is not done.

use std::fmt;

use hyper::StatusCode;
use importer_flow::{Error, Kind};

/// Why a request is not done: what HTTP calls it, and one line that a person understands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The status of the answer.
    pub status: StatusCode,
    /// The reason for programs, in CamelCase, as a report has it.
    pub reason: &'static str,
    /// What, where, what to do; one line without a period.
    pub message: String,
    /// How many seconds to wait before another try, where that helps.
    pub retry_after: Option<u64>,
}

impl Refusal {
    /// A refusal with this status.
    pub fn new(status: StatusCode, reason: &'static str, message: impl Into<String>) -> Self {
        Self { status, reason, message: message.into(), retry_after: None }
    }

    /// The request makes no sense.
    pub fn bad(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "InvalidRequest", message)
    }

    /// There is nothing, or nothing that this caller may know of.
    #[must_use]
    pub fn not_found() -> Self {
        Self::new(
            StatusCode::NOT_FOUND,
            "NotFound",
            "there is no such upload: it may have expired, or its address is wrong",
        )
    }

    /// Nobody has said who asks, or nobody who may.
    #[must_use]
    pub fn unauthorized() -> Self {
        let message = "this needs the upload's secret, as Authorization: Bearer SECRET";
        Self::new(StatusCode::UNAUTHORIZED, "Unauthorized", message)
    }

    /// It was given up.
    #[must_use]
    pub fn gone() -> Self {
        Self::new(StatusCode::GONE, "Cancelled", "this upload was cancelled: begin a new one")
    }

    /// Somebody else is at it.
    #[must_use]
    pub fn busy() -> Self {
        let message = "another request sends to this upload: wait for it to end, or cancel it";
        Self::new(StatusCode::CONFLICT, "Busy", message)
    }

    /// More came than there should be.
    #[must_use]
    pub fn too_long() -> Self {
        let message = "there are more bytes than were announced, or than this request may bring";
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "TooLong", message)
    }

    /// It may be possible in so many seconds.
    pub fn later(seconds: u64, message: impl Into<String>) -> Self {
        let refusal = Self::new(StatusCode::SERVICE_UNAVAILABLE, "TryAgain", message);
        Self { retry_after: Some(seconds), ..refusal }
    }

    /// What an import that failed is to whoever sent the image. Nobody's fault but ours is 5xx: a client that gets 4xx need
    /// not send the same again.
    #[must_use]
    pub fn of(error: &Error) -> Self {
        let status = match error.kind() {
            Kind::Usage | Kind::NotUsable | Kind::Unsafe | Kind::Mismatch => StatusCode::BAD_REQUEST,
            // The same image may go elsewhere, or in another form here.
            Kind::OutOfOrder => StatusCode::UNPROCESSABLE_ENTITY,
            Kind::TooSmall => StatusCode::PAYLOAD_TOO_LARGE,
            Kind::Target => StatusCode::INSUFFICIENT_STORAGE,
            Kind::Transient | Kind::Changed => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self::new(status, error.kind().reason(), importer_flow::report::line(&error.to_string()))
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Refusal {}
