//! Resumable uploads over the wire, by the protocols' tables and by clients that others wrote.
#![allow(clippy::unwrap_used, clippy::panic, reason = "in a test, that is the failure")]

mod clients;
mod cors;
mod hostile;
mod ietf;
mod protocol;
mod relay;
mod world;
