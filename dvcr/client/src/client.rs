//! Registries, by the names in references.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use dvcr_oci::{Host, Name, Platform, Reference, Tag};
use dvcr_transport as transport;

use crate::config::Config;
use crate::error::{Error, Kind, Result};
use crate::image::Image;
use crate::repository::{Repository, Target};
use crate::route::{Way, with_port};
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
    ways: Vec<Way>,
}

impl Client {
    /// A client with this configuration. Reads the files of certificates; connects to nothing.
    ///
    /// # Errors
    ///
    /// `Kind::Usage` that names the setting at fault.
    pub fn new(config: Config) -> Result<Self> {
        let insecure_for = config.insecure.iter().map(with_port);
        let transport = transport::Client::new(transport::Config {
            insecure_for: config.transport.insecure_for.iter().cloned().chain(insecure_for).collect(),
            ..config.transport.clone()
        })?;
        let ways = config.routes.iter().map(|route| Way::new(route, &config)).collect::<Result<_>>()?;
        Ok(Self { inner: Arc::new(Inner { config, transport, servers: Mutex::default(), ways }) })
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
    /// See [`Kind`]. `NoPlatform` lists what there is. What mirrors said stands before what the registry said.
    pub async fn resolve(&self, reference: &Reference, platform: Option<&Platform>) -> Result<Image> {
        let target = Target::of(reference);
        let mut places = self.places(reference)?;
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
        let last = if last.kind() == Kind::NotFound && target == Target::Tag(Tag::latest()) {
            last.and("where no tag is given, :latest is meant")
        } else {
            last
        };
        // In the order in which they were asked.
        let before: String = failures.iter().map(|mirror| format!("{mirror}; then ")).collect();
        Err(last.behind(&before))
    }

    /// Where the image may be, in the order in which it is looked for there.
    fn places(&self, reference: &Reference) -> Result<Vec<Repository>> {
        let Inner { config, ways, .. } = &*self.inner;
        let fitting = ways.iter().filter_map(|way| Some((way, way.fits(reference)?)));
        let Some((way, rest)) = fitting.max_by_key(|(way, _)| way.weight()) else {
            return Ok(vec![self.repository_of(reference)]);
        };
        way.check(reference)?;
        let mut places = Vec::new();
        for (server, name) in way.mirrors(reference, rest) {
            places.push(Repository::new(server, name, config.chunk));
        }
        let (host, name) = way.origin(reference, rest)?;
        let server = if way.is_insecure() { way.insecure(&host, config)? } else { self.server(&host) };
        places.push(Repository::new(server, name, config.chunk));
        Ok(places)
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
            let server = Server::new(host.clone(), transport.clone(), config.keyring.clone(), manner, &config.role);
            Arc::new(server.tried_first(config.first_attempts))
        });
        Arc::clone(server)
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Client")
    }
}
