//! The one HTTP client stack: what may be connected to, who is trusted, where redirects lead, and whether an answer is
//! the object that was asked for.
//!
//! A [`Client`] holds the configuration and the idle connections; a [`Resource`] is one URL. [`Resource::get`] is a single
//! attempt: it connects, follows redirects and judges the answer. A [`Transfer`] is made of as many as it takes: it tries
//! again, goes on at its offset if a [`Validator`] or the bytes themselves prove that it is the same object, and reads
//! ahead on several connections where the object has ranges.
//!
//! ```no_run
//! # async fn example() -> dvcr_transport::Result<()> {
//! use dvcr_transport::{Client, Config, Request};
//!
//! let client = Client::new(Config { idle_timeout: std::time::Duration::from_secs(30), ..Config::default() })?;
//! let image = client.resource("https://cloud.example/jammy.img")?;
//! let mut response = image.get(&Request::from(0..)).await?;
//! while let Some(bytes) = response.body.next().await? {
//!     println!("{} bytes", bytes.len());
//! }
//! # Ok(())
//! # }
//! ```
//!
//! Costs: a connection carries one response at a time, also in HTTP/2, so that a slow reader stops nobody else. Data goes
//! from the socket (or the TLS record) to the caller without a copy of ours. Memory per response is hyper's read buffer
//! (at most 408 KiB) in HTTP/1, and the window of 1.5 MiB in HTTP/2 when the reader is slower than the network.

mod address;
mod ahead;
mod answer;
mod base64;
mod body;
mod certificate;
mod client;
mod config;
mod connect;
mod connection;
mod credentials;
mod error;
mod exchange;
mod interim;
mod locator;
mod object;
mod pace;
mod payload;
mod proxy;
mod range;
mod reach;
mod resource;
mod retry;
mod side;
mod store;
mod tail;
mod tls;
mod transfer;
mod validator;

pub use address::Address;
pub use answer::Coding;
pub use base64::basic_authorization;
pub use body::Body;
pub use client::Client;
pub use config::Config;
pub use credentials::{Credentials, Renewal};
pub use error::{Error, Kind, Result};
pub use exchange::{Ask, Method, Reply};
pub use locator::Locator;
pub use object::Object;
pub use payload::{Feeder, Payload};
pub use proxy::Proxies;
pub use range::{ByteRange, ContentRange};
pub use reach::Reach;
pub use resource::{Request, Resource, Response};
pub use retry::{Budget, PATIENCE, Retry, WAITING};
pub use side::Side;
pub use transfer::Transfer;
pub use validator::Validator;

/// The readers of headers, for the fuzz targets.
#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzzed {
    use crate::range::ContentRange;

    /// Reads `Content-Range`.
    pub fn content_range(text: &str) -> (Option<ContentRange>, Option<u64>) {
        (ContentRange::parse(text), ContentRange::unsatisfied(text))
    }
}
