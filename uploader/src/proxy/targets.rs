//! Where uploads go.

use std::fmt;

/// What a token is for: a PersistentVolumeClaim.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Object {
    /// Where it is.
    pub namespace: String,
    /// What it is called there. Signed by the issuer, but otherwise anything.
    pub name: String,
}

/// A server that is ready for an upload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Whether it speaks TLS.
    pub secure: bool,
    /// Its name, which has to stand in its certificate, or its address.
    pub host: String,
    /// Its port.
    pub port: u16,
}

/// Why there is no server that is ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotReady {
    /// Why, as a line for whoever sends.
    pub reason: String,
    /// Whether it may become ready by itself.
    pub may_change: bool,
}

/// Knows the servers of uploads.
pub trait Targets: Send + Sync + 'static {
    /// The server for this object, if it is ready now.
    fn find(&self, object: &Object) -> impl Future<Output = Result<Target, NotReady>> + Send;
}

impl NotReady {
    /// It may become ready by itself.
    pub fn yet(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), may_change: true }
    }

    /// It will not become ready.
    pub fn ever(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), may_change: false }
    }
}

/// As `Host` says it.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}
