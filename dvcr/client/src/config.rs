//! What a client is told.

use std::path::PathBuf;

use dvcr_oci::Host;
use dvcr_transport as transport;

use crate::keyring::Keyring;

/// What a client is told.
///
/// A registry is reached over TLS and has to prove who it is. Three things change that:
///
/// - a registry on this machine (`localhost`, 127.0.0.0/8, `[::1]`) is asked over http first, and over TLS if it wants that;
/// - one that is named in [`insecure`](Self::insecure), or any if [`transport::Config::insecure`] is set, is asked over TLS
///   without proof, and over http if it has no TLS;
/// - one that is named in [`plain_http`](Self::plain_http) is asked over http.
///
/// Names count with their port and exactly: `r.example` is not `r.example:5000`.
#[derive(Clone, Debug)]
pub struct Config {
    /// Trust, timeouts, proxies, and how patiently something is tried again. Headers and a user in it are for every
    /// registry and are better left out.
    pub transport: transport::Config,
    /// Who we are to whom.
    pub keyring: Keyring,
    /// Registries that need not prove who they are.
    pub insecure: Vec<Host>,
    /// Registries without TLS.
    pub plain_http: Vec<Host>,
    /// Where else images are had from. Of those that fit a reference the one with the longest name counts, alone.
    pub routes: Vec<Route>,
    /// How often a registry is tried until it has answered once, if that is less often than all else. One that is not there
    /// is then known before much was done for it.
    pub first_attempts: u32,
    /// How many bytes of an upload are sent at a time where it can't be sent whole. Twice as many are in memory.
    pub chunk: usize,
    /// What a registry is called in errors: `source registry`, for one.
    pub role: String,
}

/// Where the images of a registry, or of some of its repositories, are had from.
#[derive(Clone, Debug, Default)]
pub struct Route {
    /// Of which: `docker.io`, `docker.io/library`, or `*.example.com` for all registries below a domain.
    pub of: String,
    /// Where they are if not there: a registry, and what stands in place of the above.
    pub location: Option<String>,
    /// Whether the registry there need not prove who it is.
    pub insecure: bool,
    /// Whether they are not had at all, from mirrors neither.
    pub blocked: bool,
    /// Which places are asked before, in this order.
    pub mirrors: Vec<Mirror>,
}

/// Another place for images.
#[derive(Clone, Debug, Default)]
pub struct Mirror {
    /// A registry, and what stands in place of the name it is the mirror of: `mirror.example:5000`, or
    /// `mirror.example/hub`.
    pub at: String,
    /// Trusted there besides the system's certificates; nothing else is.
    pub ca_files: Vec<PathBuf>,
    /// Whether it need not prove who it is.
    pub insecure: bool,
    /// Who we are there. The credentials for the registry itself are not sent to a mirror.
    pub keyring: Keyring,
    /// For what it is asked.
    pub pulls: Pulls,
}

/// For what a mirror is asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pulls {
    /// For everything.
    #[default]
    All,
    /// For images by digest: it may have old tags.
    ByDigest,
    /// For images by tag.
    ByTag,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            transport: transport::Config::default(),
            keyring: Keyring::default(),
            insecure: Vec::new(),
            plain_http: Vec::new(),
            routes: Vec::new(),
            first_attempts: u32::MAX,
            chunk: 8 << 20,
            role: "registry".into(),
        }
    }
}
