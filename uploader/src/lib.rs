//! Takes uploads of disk images and imports them while they come: into a file, onto a block device or into a registry, in
//! one pass.
//!
//! ```text
//! doors (raw, tus, cdi, …) ──► session ──► feed ──► importer_flow::import
//! ```
//!
//! A session is one upload. Requests come and go; the import behind the session stays, and takes the bytes in order from
//! whichever request has the right to send.

pub mod answer;
pub mod api;
pub mod budget;
pub mod cors;
mod der;
pub mod doors;
pub mod form;
pub mod health;
pub mod metrics;
pub mod page;
pub mod proxy;
pub mod receive;
pub mod refusal;
pub mod server;
pub mod session;
pub mod sessions;
pub mod state;
pub mod target;
pub mod tls;
pub mod token;
pub mod watched;
