//! How far an upload is.

use std::fmt;

use importer_flow::report::Report;
use importer_flow::size::human;
use serde::Serialize;

use super::run::{End, Run};
use crate::target::Target;

/// Where an upload is between its first byte and its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Phase {
    /// Nothing has come yet.
    Waiting,
    /// Bytes come, or are waited for.
    Receiving,
    /// All bytes are there, and are verified and stored.
    Finishing,
    /// The disk is complete.
    Succeeded,
    /// There is no disk; the report says why. The upload may begin anew.
    Failed,
    /// Somebody has given it up.
    Cancelled,
}

impl Phase {
    /// All there are.
    pub const ALL: [Self; 6] =
        [Self::Waiting, Self::Receiving, Self::Finishing, Self::Succeeded, Self::Failed, Self::Cancelled];
}

/// How far an upload is, as its address tells it in JSON.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// Where it is.
    pub phase: Phase,
    /// Where the next byte goes; all before it need not be sent again.
    pub offset: u64,
    /// How many bytes there will be, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub length: Option<u64>,
    /// How many of them the import has read.
    pub imported: u64,
    /// Where the disk goes.
    pub target: String,
    /// What was done, or why it failed, once it is over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub report: Option<Report>,
}

impl Phase {
    pub(super) fn of(run: Option<&Run>, end: Option<&End>, cancelled: bool) -> Self {
        match (run, end) {
            (_, Some(end)) if end.refusal.is_none() => Self::Succeeded,
            _ if cancelled => Self::Cancelled,
            (_, Some(_)) => Self::Failed,
            (None, None) => Self::Waiting,
            (Some(run), None) if run.is_finishing() => Self::Finishing,
            (Some(_), None) => Self::Receiving,
        }
    }
}

impl Status {
    pub(super) fn of(target: &Target, len: Option<u64>, run: Option<&Run>, cancelled: bool) -> Self {
        let end = run.and_then(Run::ended);
        Self {
            phase: Phase::of(run, end.as_deref(), cancelled),
            offset: run.map_or(0, |run| run.feed().accepted()),
            length: run.and_then(|run| run.feed().len()).or(len),
            imported: run.map_or(0, |run| run.progress().received()),
            target: target.to_string(),
            report: end.map(|end| end.report.clone()),
        }
    }
}

/// As a line for people.
impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = |f: &mut fmt::Formatter<'_>| match self.length {
            Some(length) => write!(f, "{} of {}", human(self.offset), human(length)),
            None => write!(f, "{}", human(self.offset)),
        };
        match (self.phase, &self.report) {
            (Phase::Waiting, _) => write!(f, "ready for an upload"),
            (Phase::Receiving, _) => {
                of(f)?;
                write!(f, " received; go on at byte {}", self.offset)
            }
            (Phase::Finishing, _) => {
                of(f)?;
                write!(f, " received; the disk is verified and stored")
            }
            (Phase::Cancelled, _) => write!(f, "the upload was cancelled"),
            (_, Some(report)) => f.write_str(report.message()),
            (_, None) => Ok(()),
        }
    }
}
