//! Registries, from a program without a runtime of its own.

mod identity;

use std::path::Path;
use std::sync::Arc;

use dvcr_client::Client;
pub use dvcr_client::{Config, Keyring, Login, Mirror, Registries, Route};
pub use dvcr_oci::{Host, Platform, Reference};
pub use identity::{FIRST_ATTEMPTS, Identity};

use crate::network::Network;
use crate::{Error, Kind, Result};

/// Registries, and the thread that talks to them. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Registry {
    pub(crate) network: Arc<Network>,
    pub(crate) client: Client,
}

impl Registry {
    /// With this configuration. Reads the files of certificates; connects to nothing.
    ///
    /// # Errors
    ///
    /// `Kind::Usage` that names the setting at fault.
    pub fn new(config: Config) -> Result<Self> {
        Ok(Self { network: Network::start()?, client: Client::new(config).map_err(failed)? })
    }

    /// Reads a file of credentials, as `docker login` leaves it.
    ///
    /// # Errors
    ///
    /// `Kind::Usage` that names the file.
    pub fn keyring(file: &Path) -> Result<Keyring> {
        Keyring::read(file).map_err(failed)
    }

    /// Reads a `registries.conf`.
    ///
    /// # Errors
    ///
    /// `Kind::Usage` that names the file.
    pub fn registries(file: &Path) -> Result<Registries> {
        Registries::read(file).map_err(failed)
    }

    /// Understands `docker://host[:port]/repository[:tag][@digest]`.
    ///
    /// # Errors
    ///
    /// `Kind::Usage`.
    pub fn reference(text: &str) -> Result<Reference> {
        Reference::parse(text).map_err(|error| Error::new(Kind::Usage, error.to_string()))
    }
}

/// What the client says, as an error of the pipeline.
pub(crate) fn failed(error: dvcr_client::Error) -> Error {
    use dvcr_client::Kind as Client;
    let kind = match error.kind() {
        Client::Usage => Kind::Usage,
        Client::Transient => Kind::Transient,
        Client::Malformed => Kind::NotUsable,
        Client::Mismatch => Kind::Mismatch,
        Client::Full | Client::NotWritable => Kind::Target,
        Client::Content => Kind::Ours,
        _ => Kind::Refused,
    };
    Error::new(kind, error.to_string())
}
