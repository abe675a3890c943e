//! Registries on both sides: who we are to them, and what is trusted.

use std::env;
use std::path::PathBuf;

use importer_flow::credentials::read;
use importer_flow::layer::LayerKind;
use importer_flow::registry::{Config, Identity, Platform, Reference, Registry};
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

/// Registries as a source.
pub fn source(from: &From) -> Result<Registry> {
    let config = source::config(from)?;
    let (user, password, auth_file) = (config.user.clone(), config.password.clone(), from.auth_file.clone());
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
    Registry::new(Config { role: "source registry".into(), routes, keyring, transport, ..Config::default() })
}

/// An image to be pushed, and how.
pub struct Push {
    pub destination: Destination,
    pub platform: Platform,
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
    let platform = source::platform(&args.from)?.unwrap_or_else(Platform::of_this_machine);
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
