//! The server as people and programs use it: through curl.
#![allow(clippy::unwrap_used, clippy::panic, reason = "in a test, that is the failure")]

mod cdi;
mod ending;
mod options;
mod plain;
mod program;
mod refusals;
mod targets;
