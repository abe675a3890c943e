//! Names, digests, manifests and platform choice of OCI registries: what the documents of a registry say, read strictly.
//!
//! ```
//! use dvcr_oci::{Digest, Platform, Reference};
//!
//! let reference = Reference::parse("docker://registry.example:5000/team/jammy:v1")?;
//! assert_eq!(reference.host().to_string(), "registry.example:5000");
//! assert_eq!(reference.name().as_str(), "team/jammy");
//! assert_eq!(Reference::parse("ubuntu")?.to_string(), "docker.io/library/ubuntu:latest");
//! assert!(Platform::parse("linux/arm64")?.accepts(&Platform::parse("linux/aarch64/v8")?));
//! assert_eq!(Digest::of(b"").to_string().len(), 7 + 64);
//! # Ok::<(), dvcr_oci::Error>(())
//! ```
//!
//! Pure: no IO, no async, no clock. A document costs at most a few times [`MAX_DOCUMENT`] while it is read; everything in
//! it is bounded before it is kept.

#![forbid(unsafe_code)]

mod config;
mod descriptor;
mod digest;
mod error;
mod host;
mod index;
mod json;
mod manifest;
pub mod media;
mod name;
mod platform;
mod reference;
mod search;

pub use config::{ImageConfig, RootFs};
pub use descriptor::Descriptor;
pub use digest::{Algorithm, Digest, Hasher};
pub use error::{Error, Kind, Result};
pub use host::Host;
pub use index::Index;
pub use json::MAX_DOCUMENT;
pub use manifest::{ImageManifest, MAX_DESCRIPTORS, Manifest};
pub use name::{Name, Tag};
pub use platform::Platform;
pub use reference::Reference;
pub use search::{Candidate, Entry, Found, Search, Step};
