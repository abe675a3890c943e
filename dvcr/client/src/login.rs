//! Who we are to a registry.

use std::fmt;

use dvcr_transport::basic_authorization;

/// Who we are to a registry. `Debug` shows no secret.
#[derive(Clone, PartialEq, Eq)]
pub enum Login {
    /// A name and a password, or a password that is a token.
    Basic {
        /// The name.
        user: String,
        /// The password.
        password: String,
    },
    /// A token that is exchanged for others (OAuth 2.0's refresh token; Docker's `identitytoken`).
    Identity(String),
    /// A token that is sent as it is (Docker's `registrytoken`).
    Bearer(String),
}

impl Login {
    /// The `Authorization` header with name and password, if these are what there is.
    pub(crate) fn basic(&self) -> Option<String> {
        match self {
            Self::Basic { user, password } => Some(basic_authorization(user, password)),
            Self::Identity(_) | Self::Bearer(_) => None,
        }
    }
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Basic { .. } => "Basic",
            Self::Identity(_) => "Identity",
            Self::Bearer(_) => "Bearer",
        })
    }
}
