//! Registries, by the names in references.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use dvcr_oci::{Host, Name, Platform, Reference};
use dvcr_transport as transport;

use crate::config::{Config, Mirror};
use crate::error::{Error, Kind, Result};
use crate::image::Image;
use crate::repository::{Repository, Target};
use crate::server::{Manner, Server};

/// Registries, by the names in references. Cheap to clone; clones share connections and tokens.
///
/// Runs on the tokio runtime of the caller.
#[derive(Clone)]
pub struct Client {
    inner: Arc<Inner>,
}

struct Inner {
    config: Config,
    transport: transport::Client,
    servers: Mutex<HashMap<Host, Arc<Server>>>,
    mirrors: Vec<Place>,
}

/// A mirror, ready to be asked.
struct Place {
    /// Of which registry, and the beginning of the names of which repositories.
    host: Host,
    prefix: Option<Name>,
    server: Arc<Server>,
    /// What stands in place of the prefix.
    path: Option<Name>,
    by_digest_only: bool,
}

impl Client {
    /// A client with this configuration. Reads the files of certificates; connects to nothing.
    ///
    /// # Errors
    ///
    /// `Kind::Usage` that names the setting at fault.
    pub fn new(config: Config) -> Result<Self> {
        let insecure_for = config.insecure.iter().map(|host| format!("{}:{}", host.name(), host.port().unwrap_or(443)));
        let transport = transport::Client::new(transport::Config {
            insecure_for: config.transport.insecure_for.iter().cloned().chain(insecure_for).collect(),
            ..config.transport.clone()
        })?;
        let mirrors = config.mirrors.iter().map(|mirror| Place::new(mirror, &config)).collect::<Result<_>>()?;
        Ok(Self { inner: Arc::new(Inner { config, transport, servers: Mutex::default(), mirrors }) })
    }

    /// A repository of a registry itself, mirrors aside: to push to, for one.
    #[must_use]
    pub fn repository(&self, host: &Host, name: &Name) -> Repository {
        Repository::new(self.server(host), name.clone(), self.inner.config.chunk)
    }

    /// The repository that a reference names.
    #[must_use]
    pub fn repository_of(&self, reference: &Reference) -> Repository {
        self.repository(reference.host(), reference.name())
    }

    /// The image that a reference means: from the first mirror that has it, or from the registry.
    ///
    /// With a platform, only an image for it is given, from an index of any kind or by its own configuration. Without one,
    /// an image is taken as it is, and of an index the one for Linux on a machine like this one.
    ///
    /// # Errors
    ///
    /// See [`Kind`]. `NoPlatform` lists what there is. What mirrors said comes behind what the registry said.
    pub async fn resolve(&self, reference: &Reference, platform: Option<&Platform>) -> Result<Image> {
        let target = Target::of(reference);
        let mut places: Vec<_> = self.mirrors(reference).collect();
        places.push(self.repository_of(reference));
        let mut failures = Vec::new();
        while !places.is_empty() {
            let first = places.remove(0);
            match first.resolve(&target, platform).await {
                // Blobs that are missing there may be had from those behind it.
                Ok(image) => return Ok(image.or_from(places)),
                Err(error) if matches!(error.kind(), Kind::NoPlatform | Kind::Unsupported | Kind::Usage) => {
                    return Err(error);
                }
                Err(error) => {
                    tracing::info!(%error, "not to be had there");
                    failures.push(error);
                }
            }
        }
        let last = failures.pop().unwrap_or_else(|| Error::new(Kind::Usage, "there is no registry to ask"));
        Err(failures.into_iter().fold(last, |error, mirror| error.and(format_args!("and before it {mirror}"))))
    }

    fn mirrors(&self, reference: &Reference) -> impl Iterator<Item = Repository> {
        let by_digest = reference.digest().is_some();
        let fitting = self.inner.mirrors.iter().filter(move |place| by_digest || !place.by_digest_only);
        fitting.filter_map(move |place| {
            let name = place.name_of(reference)?;
            Some(Repository::new(Arc::clone(&place.server), name, self.inner.config.chunk))
        })
    }

    fn server(&self, host: &Host) -> Arc<Server> {
        let Inner { config, transport, .. } = &*self.inner;
        let mut servers = self.inner.servers.lock().unwrap_or_else(PoisonError::into_inner);
        let server = servers.entry(host.clone()).or_insert_with(|| {
            let manner = if config.plain_http.contains(host) {
                Manner::Plain
            } else if config.transport.insecure || config.insecure.contains(host) {
                Manner::Insecure
            } else {
                Manner::Strict
            };
            Arc::new(Server::new(host.clone(), transport.clone(), config.keyring.clone(), manner, &config.role))
        });
        Arc::clone(server)
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Client")
    }
}

impl Place {
    fn new(mirror: &Mirror, config: &Config) -> Result<Self> {
        let wrong = |error: Error| error.at(format_args!("the mirror {} of {}", mirror.at, mirror.of));
        let split = |text: &str| -> Result<(Host, Option<Name>)> {
            let (host, path) =
                text.trim_end_matches('/').split_once('/').map_or((text, None), |(host, path)| (host, Some(path)));
            Ok((Host::parse(host.trim_end_matches('/'))?, path.map(Name::parse).transpose()?))
        };
        let (host, prefix) = split(&mirror.of).map_err(wrong)?;
        let (at, path) = split(&mirror.at).map_err(wrong)?;
        // Somebody else is behind it, so a mirror that does not answer is not waited for as long.
        let retry = transport::Retry {
            attempts: config.transport.retry.attempts.min(MIRROR_ATTEMPTS),
            ..config.transport.retry
        };
        let transport = transport::Client::new(transport::Config {
            ca_files: mirror.ca_files.clone(),
            insecure: mirror.insecure,
            insecure_for: Vec::new(),
            retry,
            ..config.transport.clone().without_credentials()
        })
        .map_err(|error| wrong(error.into()))?;
        let manner = if config.plain_http.contains(&at) {
            Manner::Plain
        } else if mirror.insecure {
            Manner::Insecure
        } else {
            Manner::Strict
        };
        let server = Arc::new(Server::new(at, transport, mirror.keyring.clone(), manner, "mirror"));
        Ok(Self { host, prefix, server, path, by_digest_only: mirror.by_digest_only })
    }

    /// The repository there that has what `reference` means.
    fn name_of(&self, reference: &Reference) -> Option<Name> {
        if self.host != *reference.host() {
            return None;
        }
        let name = reference.name().as_str();
        let rest = match &self.prefix {
            None => name,
            Some(prefix) => {
                name.strip_prefix(prefix.as_str()).filter(|rest| rest.is_empty() || rest.starts_with('/'))?
            }
        };
        let path = self.path.as_ref().map_or("", Name::as_str);
        let name = [path, rest.trim_start_matches('/')]
            .into_iter()
            .filter(|part| !part.is_empty())
            .collect::<Vec<_>>()
            .join("/");
        Name::parse(&name).ok()
    }
}

const MIRROR_ATTEMPTS: u32 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mirrors_take_the_place_of_a_prefix() {
        let place = |of: &str, at: &str| {
            Place::new(&Mirror { of: of.into(), at: at.into(), ..Mirror::default() }, &Config::default()).unwrap()
        };
        let name = |of, at, reference| {
            let reference = Reference::parse(reference).unwrap();
            place(of, at).name_of(&reference).map(|name| name.to_string())
        };
        assert_eq!(name("docker.io", "m.example", "ubuntu").as_deref(), Some("library/ubuntu"));
        assert_eq!(name("docker.io", "m.example/hub", "ubuntu").as_deref(), Some("hub/library/ubuntu"));
        assert_eq!(name("docker.io/library", "m.example/hub", "ubuntu").as_deref(), Some("hub/ubuntu"));
        assert_eq!(name("docker.io/library", "m.example", "team/x"), None);
        assert_eq!(name("r.example/a", "m.example", "r.example/ab"), None);
        assert_eq!(name("r.example/a", "m.example", "r.example/a"), None);
        assert_eq!(name("r.example/a", "m.example/b", "r.example/a").as_deref(), Some("b"));
        assert_eq!(name("r.example", "m.example", "r.example:5000/x"), None);
        assert_eq!(place("docker.io", "m.example:5000/").server.host.to_string(), "m.example:5000");
        let wrong = Mirror { of: "docker.io".into(), at: "m.example/UP".into(), ..Mirror::default() };
        let error = Client::new(Config { mirrors: vec![wrong], ..Config::default() }).unwrap_err();
        assert_eq!(error.kind(), Kind::Usage);
        assert!(error.to_string().starts_with("the mirror m.example/UP of docker.io: "), "{error}");
    }
}
