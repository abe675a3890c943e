//! Registry client: what a reference means, the bytes behind it, and how they get there.
//!
//! A [`Client`] knows registries, their mirrors and who we are to them. [`Client::resolve`] gives the [`Image`] that a
//! reference means for a platform, [`Image::blob`] its layers: each is an ordinary [`Transfer`](dvcr_transport::Transfer),
//! resumed and read in parallel, with tokens that are renewed on the way. A [`Repository`] is also pushed to: with
//! [`push`](Repository::push) what can be read again, with [`upload`](Repository::upload) what can't.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use dvcr_client::{Client, Config};
//! use dvcr_oci::{Platform, Reference};
//!
//! let client = Client::new(Config::default())?;
//! let reference = Reference::parse("docker://quay.io/containerdisks/fedora:41")?;
//! let image = client.resolve(&reference, Some(&Platform::parse("linux/arm64")?)).await?;
//! for layer in &image.manifest.layers {
//!     let mut bytes = image.blob(layer).open().await?.verified();
//!     while let Some(piece) = bytes.next().await? {
//!         println!("{} bytes", piece.len());
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! Nothing a registry says about itself is believed: digests and lengths are computed and compared. Credentials go to the
//! scheme, host and port of the registry and to whoever it names for tokens, and nowhere else.

#![forbid(unsafe_code)]

mod auth;
mod base64;
mod blob;
mod challenge;
mod client;
mod config;
mod error;
mod image;
mod keyring;
mod login;
mod push;
mod refusal;
mod registries;
mod repository;
mod route;
mod server;
mod session;
mod token;
mod upload;
mod uploads;

pub use blob::{Blob, Opened, Verified};
pub use client::Client;
pub use config::{Config, Mirror, Pulls, Route};
pub use error::{Error, Kind, Result};
pub use image::Image;
pub use keyring::Keyring;
pub use login::Login;
pub use push::{Content, Pushed};
pub use registries::Registries;
pub use repository::{Document, Repository, Target};
pub use upload::Upload;

/// The readers of headers, for the fuzz targets.
#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzzed {
    use crate::challenge::Challenge;

    /// Reads the challenges in `WWW-Authenticate`; gives how many there are, and the longest value of a parameter.
    #[must_use]
    pub fn challenges(headers: &[String]) -> (usize, usize) {
        let found = Challenge::parse(headers);
        let names = ["realm", "service", "scope", "error"];
        let longest = found.iter().flat_map(|one| names.map(|name| one.value(name).map_or(0, str::len))).max();
        (found.len(), longest.unwrap_or(0))
    }

    /// Reads `Link`.
    #[must_use]
    pub fn next_page(link: &str) -> Option<&str> {
        crate::repository::next_page(link)
    }

    /// Reads `Range`, as the answer to an upload has it.
    #[must_use]
    pub fn taken(range: &str) -> Option<u64> {
        crate::session::taken(range)
    }
}
