//! Registries on both sides: who we are to them, and what is trusted.

use std::env;
use std::path::{Path, PathBuf};

use importer_flow::credentials::read;
use importer_flow::layer::LayerKind;
use importer_flow::registry::{Config, FIRST_ATTEMPTS, Identity, Platform, Reference, Registry};
use importer_flow::sink::{Keep, Storing};
use importer_flow::source::HttpConfig;
use importer_flow::{Destination, Error, Kind, Result};

use crate::args::{As, Copy, From, Stored, To};
use crate::credentials::Credentials;
use crate::source;

/// The reference in `name`, if it is one of a registry.
pub fn reference(name: &str) -> Option<Result<Reference>> {
    (source::scheme(name)? == "docker").then(|| Registry::reference(name))
}

/// Refuses a name that is no file and reads like an image in a registry whose `docker://` was forgotten.
pub fn check_slip(name: &str) -> Result<()> {
    let path = Path::new(name);
    if name.starts_with(['/', '.', '~']) || path.exists() {
        return Ok(());
    }
    let word = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c));
    let slip = match name.split_once('/') {
        Some((host, _)) => {
            (host == "localhost" || host.contains(['.', ':']))
                && !path.parent().is_some_and(Path::is_dir)
                && Registry::reference(&format!("docker://{name}")).is_ok()
        }
        None => name.split_once(':').is_some_and(|(host, tag)| host.contains('.') && word(host) && word(tag)),
    };
    if !slip {
        return Ok(());
    }
    let message = format!(
        "{name}: there is no such file, and it reads like an image in a registry: that is written \
         docker://HOST/REPOSITORY:TAG; for a file write ./{name}"
    );
    Err(Error::new(Kind::Usage, message))
}

/// Registries as a source.
pub fn source(from: &From) -> Result<Registry> {
    let config = source::config(from)?;
    let (user, password, auth_file) = (config.user.clone(), config.password.clone(), from.auth_file.clone());
    source::check_file("--auth-file", auth_file.as_deref())?;
    source::check_file("--registries-conf", from.registries_conf.as_deref())?;
    let conf = from.registries_conf.clone().or_else(registries_conf);
    let routes = match conf {
        Some(file) => {
            let known = Identity { auth_file: auth_file.clone(), ..Identity::default() };
            Registry::registries(&file)?.routes(&known.keyring()?, &from.ca)
        }
        None => Vec::new(),
    };
    let keyring = Identity { user, password, auth_file }.keyring()?;
    // Who we are to them is in their keyring.
    let transport = HttpConfig { user: None, password: None, ..config };
    let (role, first_attempts) = ("source registry".into(), FIRST_ATTEMPTS);
    Registry::new(Config { role, routes, keyring, first_attempts, transport, ..Config::default() })
}

/// An image to be pushed, and how.
pub struct Push {
    pub destination: Destination,
    /// The one that was asked for; else it is that of the source, or of this machine.
    pub platform: Option<Platform>,
    pub storing: Storing,
}

/// What is to be pushed to the target, if that is in a registry. Connects to nothing.
pub fn push(args: &Copy) -> Result<Option<Push>> {
    let Some(reference) = reference(&args.target).transpose()? else { return Ok(None) };
    let option = [("--size", args.size.is_some()), ("--preallocate", args.preallocate), ("--resume", args.resume)];
    if let Some((option, _)) = option.iter().find(|(_, given)| *given) {
        return Err(Error::new(
            Kind::Usage,
            format!("{option} is for files and devices, and the target is in a registry"),
        ));
    }
    let From { ca, insecure, header, user, password_file, .. } = &args.from;
    let mistaken = [
        ("ca", !ca.is_empty()),
        ("insecure", *insecure),
        ("header", !header.is_empty()),
        ("user", user.is_some()),
        ("password-file", password_file.is_some()),
    ];
    let served = source::scheme(&args.source).is_some() || !args.checksum_url.is_empty();
    if let Some((option, _)) = mistaken.iter().find(|(_, given)| *given && !served) {
        let message =
            format!("--{option} is for the source, which is no server: for the target that is --target-{option}");
        return Err(Error::new(Kind::Usage, message));
    }
    let platform = source::platform(&args.from)?;
    let storing = Storing {
        keep: match args.to.stored_as {
            None => Keep::Usual,
            Some(As::Keep) => Keep::All,
            Some(As::Raw) => Keep::Nothing,
        },
        layer: args.to.layer.map(|layer| match layer {
            Stored::Zstd => LayerKind::Zstd,
            Stored::Plain => LayerKind::Plain,
        }),
        threads: std::thread::available_parallelism().map_or(2, usize::from),
    };
    let destination = Destination::new(&target(&args.from, &args.to)?, &reference)?;
    Ok(Some(Push { destination, platform, storing }))
}

/// Registries as a target: proxies and patience are those of the source, all else is their own.
fn target(from: &From, to: &To) -> Result<Registry> {
    source::check_file("--target-auth-file", to.target_auth_file.as_deref())?;
    to.target_ca.iter().try_for_each(|file| source::check_file("--target-ca", Some(file)))?;
    let Credentials { headers, .. } = Credentials::of_headers(&to.target_header)?;
    let identity = Identity {
        user: to.target_user.clone().or_else(|| env::var(USER).ok()),
        password: match &to.target_password_file {
            Some(path) => Some(read(path)?),
            None => env::var(PASSWORD).ok(),
        },
        auth_file: to.target_auth_file.clone(),
    };
    let (ca_files, insecure) = (to.target_ca.clone(), to.target_insecure);
    let transport = HttpConfig { ca_files, insecure, headers, ..source::config(from)?.without_credentials() };
    Registry::target(transport, identity)
}

/// The file that the environment names.
fn registries_conf() -> Option<PathBuf> {
    env::var_os("CONTAINERS_REGISTRIES_CONF").filter(|value| !value.is_empty()).map(PathBuf::from)
}

const USER: &str = "MILLRACE_TARGET_USER";
const PASSWORD: &str = "MILLRACE_TARGET_PASSWORD";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forgotten_scheme_is_told_from_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let there = dir.path().join("quay.io:v1");
        std::fs::write(&there, "").unwrap();
        for slip in ["quay.io:v1", "127.0.0.1:5000/cvi/a:v1", "quay.io/containerdisks/fedora:41", "localhost/a:v1"] {
            let error = check_slip(slip).unwrap_err();
            assert_eq!(error.kind(), Kind::Usage);
            assert!(error.to_string().contains("docker://HOST/REPOSITORY:TAG"), "{error}");
        }
        let there = there.to_str().unwrap();
        for file in [there, "disk.raw", "disk:v1", "./quay.io:v1", "/x.y:1/z", "../a.b/c", "images/disk.raw", "a.b:"] {
            check_slip(file).unwrap();
        }
    }
}
