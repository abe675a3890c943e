//! Who we are to registries.

use std::env;
use std::path::{Path, PathBuf};

use super::{Config, Keyring, Login, Registry};
use crate::source::{HttpConfig, Side};
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

impl Registry {
    /// Registries as a target: reached as `transport` says, and known by their own part of a command line. Reads the files
    /// of certificates and credentials; connects to nothing.
    ///
    /// # Errors
    ///
    /// `Kind::Usage` that names the setting at fault.
    pub fn target(transport: HttpConfig, identity: Identity) -> Result<Self> {
        if identity.user.is_some() != identity.password.is_some() {
            let message =
                "the target's user and password belong together: give --target-user and --target-password-file";
            return Err(Error::new(Kind::Usage, message));
        }
        let transport = HttpConfig { user: None, password: None, side: Side::Target, ..transport };
        let (role, keyring) = ("target registry".into(), identity.keyring()?);
        // One that is not there is known before the source is read.
        let first_attempts = FIRST_ATTEMPTS;
        Self::new(Config { role, keyring, first_attempts, transport, ..Config::default() })
    }
}

/// How often a registry is tried that has not answered yet: with the waits between them about four seconds.
pub const FIRST_ATTEMPTS: u32 = 5;

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

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(identity: Identity) -> String {
        let error = identity.keyring().err().unwrap();
        assert_eq!(error.kind(), Kind::Usage, "{error}");
        assert!(!error.to_string().contains("s3cret"), "{error}");
        error.to_string()
    }

    #[test]
    fn halves_and_files_that_make_no_sense_are_refused() {
        let secret = || Some("s3cret".to_owned());
        let only = Identity { password: secret(), ..Identity::default() };
        assert!(refusal(only).contains("belong together"));
        let only = Identity { user: secret(), ..Identity::default() };
        assert!(refusal(only).contains("belong together"));
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("auth.json");
        let both = || Identity { user: secret(), password: secret(), auth_file: Some(file.clone()) };
        assert!(refusal(both()).contains("auth.json"));
        std::fs::write(&file, "s3cret").unwrap();
        assert!(refusal(both()).contains("auth.json"));
        std::fs::write(&file, "{\"auths\":{}}").unwrap();
        both().keyring().unwrap();
    }
}
