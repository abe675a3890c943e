//! The ways from a reference to where its image is.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use dvcr_oci::{Host, Name, Reference};
use dvcr_transport as transport;

use crate::config::{Config, Mirror, Pulls, Route};
use crate::error::{Error, Kind, Result};
use crate::server::{MIRROR, Manner, Server};

/// A route, ready to be gone.
pub(crate) struct Way {
    of: Pattern,
    location: Option<Place>,
    insecure: bool,
    blocked: bool,
    mirrors: Vec<(Pulls, Arc<Server>, Option<Name>)>,
    /// The registries that need not prove who they are because of this route.
    servers: Mutex<HashMap<Host, Arc<Server>>>,
}

/// What a route is for.
enum Pattern {
    Place(Place),
    /// The registries below a domain, which begins with a dot.
    Below(String),
}

/// A registry, and the beginning of the names of repositories.
struct Place {
    host: Host,
    path: Option<Name>,
}

impl Way {
    pub(crate) fn new(route: &Route, config: &Config) -> Result<Self> {
        let of = match route.of.strip_prefix('*') {
            Some(domain) if domain.len() > 1 && domain.starts_with('.') && !domain.contains(['/', ':', '@', '*']) => {
                Pattern::Below(domain.to_ascii_lowercase())
            }
            Some(_) => {
                let why = "a * stands for what is before a domain: *.example.com";
                return Err(Error::new(Kind::Usage, format!("the registry {}: {why}", route.of)));
            }
            None => {
                let place = Place::parse(&route.of);
                Pattern::Place(place.map_err(|error| error.at(format_args!("the registry {}", route.of)))?)
            }
        };
        let location = route.location.as_deref().map(Place::parse).transpose();
        let location = location.map_err(|error| error.at(format_args!("the location of {}", route.of)))?;
        let mirrors = route.mirrors.iter().map(|mirror| {
            let made = mirror_of(mirror, config);
            made.map_err(|error| error.at(format_args!("the mirror {} of {}", mirror.at, route.of)))
        });
        let mirrors = mirrors.collect::<Result<_>>()?;
        let Route { insecure, blocked, .. } = *route;
        Ok(Self { of, location, insecure, blocked, mirrors, servers: Mutex::default() })
    }

    /// What is left of the name in `reference` behind what the route is for, if it is for that.
    pub(crate) fn fits<'a>(&self, reference: &'a Reference) -> Option<&'a str> {
        let name = reference.name().as_str();
        match &self.of {
            Pattern::Below(domain) => reference.host().name().ends_with(domain.as_str()).then_some(name),
            Pattern::Place(Place { host, .. }) if host != reference.host() => None,
            Pattern::Place(Place { path: None, .. }) => Some(name),
            Pattern::Place(Place { path: Some(path), .. }) => {
                let rest = name.strip_prefix(path.as_str())?;
                if rest.is_empty() { Some(rest) } else { rest.strip_prefix('/') }
            }
        }
    }

    /// How much it says: of two that fit, the one that says more counts.
    pub(crate) fn weight(&self) -> usize {
        match &self.of {
            Pattern::Below(domain) => domain.len(),
            Pattern::Place(Place { host, path }) => {
                host.to_string().len() + 1 + path.as_ref().map_or(0, |path| path.as_str().len() + 1)
            }
        }
    }

    /// Refuses what is blocked.
    pub(crate) fn check(&self, reference: &Reference) -> Result<()> {
        if self.blocked {
            let message = format!("{reference}: it is blocked, as the configuration of registries has it");
            return Err(Error::new(Kind::Refused, message));
        }
        Ok(())
    }

    /// The mirrors that are asked for `reference`, in order, each with the name of the repository there.
    pub(crate) fn mirrors(&self, reference: &Reference, rest: &str) -> impl Iterator<Item = (Arc<Server>, Name)> {
        let by_digest = reference.digest().is_some();
        let asked = self.mirrors.iter().filter(move |(pulls, ..)| match pulls {
            Pulls::All => true,
            Pulls::ByDigest => by_digest,
            Pulls::ByTag => !by_digest,
        });
        asked.filter_map(move |(_, server, path)| Some((Arc::clone(server), joined(path.as_ref(), rest).ok()?)))
    }

    /// The registry itself, and the name of the repository there.
    pub(crate) fn origin(&self, reference: &Reference, rest: &str) -> Result<(Host, Name)> {
        match &self.location {
            None => Ok((reference.host().clone(), reference.name().clone())),
            Some(Place { host, path }) => Ok((host.clone(), joined(path.as_ref(), rest)?)),
        }
    }

    /// Whether the registry itself need not prove who it is.
    pub(crate) fn is_insecure(&self) -> bool {
        self.insecure
    }

    /// The registry at `host`, which need not prove who it is.
    pub(crate) fn insecure(&self, host: &Host, config: &Config) -> Result<Arc<Server>> {
        let mut servers = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(server) = servers.get(host) {
            return Ok(Arc::clone(server));
        }
        let transport = transport::Config { insecure_for: vec![with_port(host)], ..config.transport.clone() };
        let transport = transport::Client::new(transport)?;
        let manner = if config.plain_http.contains(host) { Manner::Plain } else { Manner::Insecure };
        let server = Server::new(host.clone(), transport, config.keyring.clone(), manner, &config.role);
        let server = Arc::new(server.tried_first(config.first_attempts));
        servers.insert(host.clone(), Arc::clone(&server));
        Ok(server)
    }
}

impl Place {
    fn parse(text: &str) -> Result<Self> {
        let text = text.trim_end_matches('/');
        let (host, path) = text.split_once('/').map_or((text, None), |(host, path)| (host, Some(path)));
        Ok(Self { host: Host::parse(host)?, path: path.map(Name::parse).transpose()? })
    }
}

fn mirror_of(mirror: &Mirror, config: &Config) -> Result<(Pulls, Arc<Server>, Option<Name>)> {
    let Place { host, path } = Place::parse(&mirror.at)?;
    // Somebody else is behind it, so a mirror that does not answer is not waited for as long.
    let retry =
        transport::Retry { attempts: config.transport.retry.attempts.min(MIRROR_ATTEMPTS), ..config.transport.retry };
    let transport = transport::Client::new(transport::Config {
        ca_files: mirror.ca_files.clone(),
        insecure: false,
        insecure_for: if mirror.insecure { vec![with_port(&host)] } else { Vec::new() },
        retry,
        ..config.transport.clone().without_credentials()
    })?;
    let manner = if config.plain_http.contains(&host) {
        Manner::Plain
    } else if mirror.insecure {
        Manner::Insecure
    } else {
        Manner::Strict
    };
    let server = Arc::new(Server::new(host, transport, mirror.keyring.clone(), manner, MIRROR));
    Ok((mirror.pulls, server, path))
}

/// As the transport wants to know whom it need not trust.
pub(crate) fn with_port(host: &Host) -> String {
    format!("{}:{}", host.name(), host.port().unwrap_or(443))
}

fn joined(path: Option<&Name>, rest: &str) -> Result<Name> {
    let name = match path {
        Some(path) if rest.is_empty() => path.to_string(),
        Some(path) => format!("{path}/{rest}"),
        None => rest.to_owned(),
    };
    Ok(Name::parse(&name)?)
}

const MIRROR_ATTEMPTS: u32 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    fn way(of: &str, location: Option<&str>) -> Way {
        let route = Route { of: of.into(), location: location.map(Into::into), ..Route::default() };
        Way::new(&route, &Config::default()).unwrap()
    }

    #[test]
    fn a_location_takes_the_place_of_a_prefix() {
        let there = |of, location, reference| {
            let reference = Reference::parse(reference).unwrap();
            let way = way(of, Some(location));
            let (host, name) = way.origin(&reference, way.fits(&reference)?).ok()?;
            Some(format!("{host}/{name}"))
        };
        for (of, location, reference, found) in [
            ("docker.io", "m.example", "ubuntu", Some("m.example/library/ubuntu")),
            ("docker.io", "m.example:5000/hub/", "ubuntu", Some("m.example:5000/hub/library/ubuntu")),
            ("docker.io/library", "m.example/hub", "ubuntu", Some("m.example/hub/ubuntu")),
            ("docker.io/library", "m.example", "team/x", None),
            ("r.example/a", "m.example", "r.example/ab", None),
            ("r.example/a", "m.example", "r.example/a", None),
            ("r.example/a", "m.example/b", "r.example/a", Some("m.example/b")),
            ("r.example", "m.example", "r.example:5000/x", None),
            ("*.example", "m.lan/x", "a.b.example:5000/y/z", Some("m.lan/x/y/z")),
            ("*.example", "m.lan", "example/y", None),
            ("*.Example", "m.lan", "notexample.org/y", None),
        ] {
            assert_eq!(there(of, location, reference).as_deref(), found, "{of} {reference}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        for (of, location, mirror, says) in [
            ("*", None, "m.example", "the registry *: "),
            ("*example.com", None, "m.example", "the registry *example.com: "),
            ("r.example/UP", None, "m.example", "the registry r.example/UP: "),
            ("docker.io", Some("m.example/UP"), "m.example", "the location of docker.io: "),
            ("docker.io", None, "m.example/UP", "the mirror m.example/UP of docker.io: "),
        ] {
            let mirrors = vec![Mirror { at: mirror.into(), ..Mirror::default() }];
            let route = Route { of: of.into(), location: location.map(Into::into), mirrors, ..Route::default() };
            let error = crate::Client::new(Config { routes: vec![route], ..Config::default() }).unwrap_err();
            assert_eq!(error.kind(), Kind::Usage);
            assert!(error.to_string().starts_with(says), "{error}");
        }
    }
}
