//! Registries on both sides: who we are to them, and what is trusted.

use std::env;
use std::path::{Path, PathBuf};

use importer_flow::layer::LayerKind;
use importer_flow::registry::{Config, Keyring, Login, Platform, Reference, Registry};
use importer_flow::sink::{Keep, Storing};
use importer_flow::source::{HttpConfig, Side};
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
    let login = config.user.clone().zip(config.password.clone());
    let known = known(from.auth_file.as_deref())?;
    let conf = from.registries_conf.clone().or_else(|| set(REGISTRIES));
    let routes = match conf {
        Some(file) => Registry::registries(&file)?.routes(&known, &from.ca),
        None => Vec::new(),
    };
    connect(Config { routes, role: "source registry".into(), ..with(config) }, login, known)
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
    let user = to.target_user.clone().or_else(|| env::var(USER).ok());
    let password = match &to.target_password_file {
        Some(path) => Some(importer_flow::credentials::read(path)?),
        None => env::var(PASSWORD).ok(),
    };
    let login = match (user, password) {
        (Some(user), Some(password)) => Some((user, password)),
        (None, None) => None,
        _ => {
            let message =
                "the target's user and password belong together: give --target-user and --target-password-file";
            return Err(Error::new(Kind::Usage, message));
        }
    };
    let config = HttpConfig {
        ca_files: to.target_ca.clone(),
        insecure: to.target_insecure,
        headers,
        side: Side::Target,
        ..source::config(from)?.without_credentials()
    };
    let known = known(to.target_auth_file.as_deref())?;
    // One that is not there is known before the source is read.
    let first_attempts = FIRST_ATTEMPTS;
    connect(Config { role: "target registry".into(), first_attempts, ..with(config) }, login, known)
}

/// What a file says about who we are: the one that is given, or that `login` has left.
fn known(file: Option<&Path>) -> Result<Keyring> {
    match file.map(Path::to_owned).or_else(usual) {
        Some(file) => Registry::keyring(&file),
        None => Ok(Keyring::default()),
    }
}

/// Registries that are reached in this way. Who we are to them is in their keyring.
fn with(transport: HttpConfig) -> Config {
    Config { transport: HttpConfig { user: None, password: None, ..transport }, ..Config::default() }
}

fn connect(config: Config, login: Option<(String, String)>, known: Keyring) -> Result<Registry> {
    let keyring = match login {
        Some((user, password)) => {
            // The newline that `echo` leaves.
            let password =
                password.strip_suffix('\n').map(|it| it.strip_suffix('\r').unwrap_or(it)).unwrap_or(&password);
            Keyring::only(Login::Basic { user, password: password.to_owned() }).or(known)
        }
        None => known,
    };
    Registry::new(Config { keyring, ..config })
}

/// The file that a variable of the environment names.
fn set(name: &str) -> Option<PathBuf> {
    env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// Where docker, podman and skopeo leave what `login` was told.
fn usual() -> Option<PathBuf> {
    let named = |name: &str, file: &str| Some(set(name)?.join(file));
    let places = [
        set("REGISTRY_AUTH_FILE"),
        named("XDG_RUNTIME_DIR", "containers/auth.json"),
        named("DOCKER_CONFIG", "config.json"),
        named("HOME", ".docker/config.json"),
    ];
    places.into_iter().flatten().find(|file| file.is_file())
}

/// With the waits between them about four seconds.
const FIRST_ATTEMPTS: u32 = 5;
const USER: &str = "MILLRACE_TARGET_USER";
const PASSWORD: &str = "MILLRACE_TARGET_PASSWORD";
const REGISTRIES: &str = "CONTAINERS_REGISTRIES_CONF";
