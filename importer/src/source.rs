//! The source a person names.

use std::env;
use std::path::Path;

use importer_flow::registry::Platform;
use importer_flow::source::container::Reading;
use importer_flow::source::{FileSource, HttpConfig, HttpSource, Proxies, Retry, StdinSource, same_origin};
use importer_flow::{Error, Kind, Result, Settings, Source};

use crate::args::From;
use crate::container::{self, Place};
use crate::credentials::Credentials;
use crate::{object_store, registry};

/// Opens the source that `name` means. A name with `://` is a URL, `oci:` and `oci-archive:` stand
/// in front of the path of an OCI layout, `-` is standard input, anything else a path.
pub fn open(name: &str, from: &From, reading: Reading) -> Result<Box<dyn Source>> {
    check(name, from)?;
    if let Some(place) = container::place(name) {
        return container::open(place, from, reading);
    }
    opened(name, from)
}

/// Refuses options that are for other sources than `name`.
pub fn check(name: &str, from: &From) -> Result<()> {
    let store = name.get(..5).is_some_and(|start| ["s3://", "gs://"].iter().any(|it| start.eq_ignore_ascii_case(it)));
    if let Some(option) = from.store.given().filter(|_| !store) {
        return Err(Error::new(Kind::Usage, format!("{option} is for s3:// and gs://, and the source is neither")));
    }
    let registry = matches!(container::place(name), Some(Place::Registry(_)));
    if from.auth_file.is_some() && !store && !registry {
        return Err(Error::new(Kind::Usage, "--auth-file is for docker:// and gs://, and the source is neither"));
    }
    if from.registries_conf.is_some() && !registry {
        return Err(Error::new(Kind::Usage, "--registries-conf is for docker://, and the source is none"));
    }
    if from.user.is_some() || from.password_file.is_some() {
        // An option that makes no sense is told even if nobody needs it.
        credentials(from)?;
    }
    Ok(())
}

/// Refuses a platform where nothing has one: neither the source `name`, nor the target if that is `in_registry`.
pub fn check_platform(name: &str, from: &From, in_registry: bool) -> Result<()> {
    if from.platform.is_some() && !in_registry && container::place(name).is_none() {
        let message = "--platform is for images of layers (docker://, oci:, oci-archive:), and there is none";
        return Err(Error::new(Kind::Usage, message));
    }
    Ok(())
}

fn opened(name: &str, from: &From) -> Result<Box<dyn Source>> {
    if name == "-" {
        return Ok(Box::new(StdinSource::open()?));
    }
    let Some(scheme) = scheme(name) else {
        // `http:/host` is a slip, unless it is there.
        let (kind, rest) = name.split_once(":/").unwrap_or_default();
        if is_scheme(kind) && !Path::new(name).exists() {
            let message = format!("{name}: is no file, and no address: that is written {kind}://{rest}");
            return Err(Error::new(Kind::Usage, message));
        }
        registry::check_slip(name)?;
        return Ok(Box::new(FileSource::open(Path::new(name))?));
    };
    match scheme.as_str() {
        "http" | "https" => Ok(Box::new(HttpSource::open(name, config(from)?)?)),
        "s3" | "gs" => stored(name, from, config(from)?),
        _ => Err(Error::new(
            Kind::Usage,
            format!(
                "sources of the kind {scheme}:// can't be read; http://, https://, docker://, s3://, gs://, a path and - can"
            ),
        )),
    }
}

/// An object in a store.
fn stored(name: &str, from: &From, config: HttpConfig) -> Result<Box<dyn Source>> {
    let object = object_store::object(name, from, |name| env::var_os(name))?;
    // Its credentials sign the address, and go nowhere else.
    let config = HttpConfig { user: None, password: None, ..config };
    Ok(Box::new(HttpSource::located(object, config)?))
}

/// Opens a list of checksums for the image `image`. What identifies us there is not for other servers.
pub fn open_list(name: &str, image: &str, from: &From) -> Result<Box<dyn Source>> {
    match scheme(name).as_deref() {
        Some("http" | "https") if !same_origin(name, image) => {
            Ok(Box::new(HttpSource::open(name, config(from)?.without_credentials())?))
        }
        list @ Some("s3" | "gs") if scheme(image).as_deref() != list => {
            // A signature tells less than a password, but it is one more thing to guess it by.
            if from.user.is_some() {
                let message =
                    format!("--checksum-url {name}: --user is for the image, which is elsewhere: fetch the list first");
                return Err(Error::new(Kind::Usage, message));
            }
            stored(name, from, config(from)?.without_credentials())
        }
        _ => opened(name, from),
    }
}

/// The scheme of a URL, in lower case; `None` for what is no URL.
pub fn scheme(name: &str) -> Option<String> {
    let (scheme, _) = name.split_once("://").filter(|(scheme, _)| is_scheme(scheme))?;
    Some(scheme.to_ascii_lowercase())
}

/// What the options say about memory and archives. In an image of layers `--disk` is not about what is inside the disk.
pub fn settings(name: &str, from: &From) -> Result<Settings> {
    let memory = from.memory.0;
    if memory < LEAST_MEMORY {
        let message = format!("--memory {memory} is too little: give at least {} Mi", LEAST_MEMORY >> 20);
        return Err(Error::new(Kind::Usage, message));
    }
    let disk = from.disk.clone().filter(|_| container::place(name).is_none());
    Ok(Settings { memory, disk, ..Settings::default() })
}

/// The platform that was asked for.
pub fn platform(from: &From) -> Result<Option<Platform>> {
    let parse =
        |text: &String| Platform::parse(text).map_err(|error| Error::new(Kind::Usage, format!("--platform: {error}")));
    from.platform.as_ref().map(parse).transpose()
}

/// What the options say about the web.
pub fn config(from: &From) -> Result<HttpConfig> {
    let Credentials { headers, user, password } = credentials(from)?;
    from.ca.iter().try_for_each(|file| check_file("--ca", Some(file)))?;
    let proxy = from.proxy.as_ref().map(|proxy| proxy.0.as_str());
    let proxies =
        Proxies::choose(proxy, from.no_proxy.as_deref()).map_err(|error| Error::new(Kind::Usage, error.to_string()))?;
    let (ca_files, insecure) = (from.ca.clone(), from.insecure);
    let (connections, retry) = (from.connections.into(), retry(from)?);
    Ok(HttpConfig { ca_files, insecure, headers, user, password, proxies, connections, retry, ..HttpConfig::default() })
}

/// Refuses an option that names a file or a folder that is not there.
pub fn check_file(option: &str, file: Option<&Path>) -> Result<()> {
    match file.filter(|file| !file.exists()) {
        Some(file) => Err(Error::new(Kind::Usage, format!("{option} {}: there is no such file", file.display()))),
        None => Ok(()),
    }
}

fn retry(from: &From) -> Result<Retry> {
    let attempts = match (from.attempts, env::var("MILLRACE_ATTEMPTS")) {
        (Some(attempts), _) => attempts,
        (None, Err(_)) => return Ok(Retry::default()),
        (None, Ok(text)) => text.parse().ok().filter(|attempts| *attempts > 0).ok_or_else(|| {
            Error::new(Kind::Usage, format!("MILLRACE_ATTEMPTS={text:?} is no number of attempts: give 1 or more"))
        })?,
    };
    Ok(Retry { attempts, ..Retry::default() })
}

fn credentials(from: &From) -> Result<Credentials> {
    Credentials::gather(from, |name| env::var(name).ok())
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
}

const LEAST_MEMORY: u64 = 16 << 20;
