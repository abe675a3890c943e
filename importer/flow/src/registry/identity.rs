//! Who we are to registries.

use std::env;
use std::path::{Path, PathBuf};

use super::{Keyring, Login, Registry};
use crate::{Error, Kind, Result};

/// Who we are to registries: what a program was told, and what `docker login` has left. `Debug` is not there on purpose.
#[derive(Clone, Default)]
pub struct Identity {
    /// For the registry that is asked, before all else.
    pub user: Option<String>,
    /// The password to it. The newline that `echo` leaves at its end is dropped.
    pub password: Option<String>,
    /// A file as `docker login` leaves it, in place of those in the usual places.
    pub auth_file: Option<PathBuf>,
}

impl Identity {
    /// What is shown to which registry. Reads the file.
    ///
    /// # Errors
    ///
    /// `Kind::Usage` for a user without a password, a password without a user, and a file that makes no sense.
    pub fn keyring(self) -> Result<Keyring> {
        let known = match self.auth_file.or_else(usual) {
            Some(file) => Registry::keyring(&file)?,
            None => Keyring::default(),
        };
        match (self.user, self.password) {
            (None, None) => Ok(known),
            (Some(user), Some(password)) => {
                let line = password.strip_suffix('\n').map(|line| line.strip_suffix('\r').unwrap_or(line));
                let password = line.unwrap_or(&password).to_owned();
                Ok(Keyring::only(Login::Basic { user, password }).or(known))
            }
            _ => Err(Error::new(Kind::Usage, "user and password of a registry belong together, and one is missing")),
        }
    }
}

/// Where docker, podman and skopeo leave what `login` was told.
fn usual() -> Option<PathBuf> {
    let set = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let named = |name, file: &str| Some(set(name)?.join(Path::new(file)));
    let places = [
        set("REGISTRY_AUTH_FILE"),
        named("XDG_RUNTIME_DIR", "containers/auth.json"),
        named("DOCKER_CONFIG", "config.json"),
        named("HOME", ".docker/config.json"),
    ];
    places.into_iter().flatten().find(|file| file.is_file())
}
