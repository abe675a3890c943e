//! One request to one server.

use std::sync::Arc;
use std::time::Duration;

use http_body_util::BodyExt;
use hyper::body::{Body as _, Incoming};
use hyper::header::{ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, HeaderMap, HeaderName, HeaderValue, USER_AGENT};
use hyper::{Response, StatusCode};
use tokio::time::timeout;

use crate::address::Address;
use crate::answer;
use crate::config::{Config, Identity};
use crate::connect::Connector;
use crate::connection::{Connection, Idle, Route};
use crate::credentials::Credentials;
use crate::error::{Error, Kind, Result};
use crate::locator::Locator;
use crate::proxy::Proxies;
use crate::resource::Resource;
use crate::retry::Retry;
use crate::side::Side;
use crate::store;
use crate::tls::Trust;
use crate::validator::Validator;

/// Configuration, trust and idle connections. Cheap to clone; clones share everything.
///
/// All of it runs on the tokio runtime of the caller. A blocked resolver keeps a thread of the runtime's pool, so shut a
/// runtime down with `shutdown_background`.
#[derive(Clone)]
pub struct Client {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) idle_timeout: Duration,
    pub(crate) insecure: bool,
    pub(crate) retry: Retry,
    side: Side,
    pub(crate) connections: usize,
    pub(crate) pool: Arc<Idle>,
    identity: Identity,
    connector: Connector,
    proxies: Proxies,
}

impl Client {
    /// A client with this configuration. Reads the certificate files; connects to nothing.
    ///
    /// # Errors
    ///
    /// `Kind::Usage` that names the file, header or setting at fault.
    pub fn new(config: Config) -> Result<Self> {
        let identity = Identity::new(&config)?;
        let trust = Trust::new(&config.ca_files, config.insecure, config.side)?;
        let unproved = Trust::new(&[], true, config.side)?;
        let Config {
            insecure,
            insecure_for,
            connect_timeout,
            idle_timeout,
            reach,
            proxies,
            retry,
            connections,
            side,
            ..
        } = config;
        let connector = Connector { trust, unproved, unproved_for: insecure_for, reach, timeout: connect_timeout };
        let pool = Arc::default();
        let inner = Inner { idle_timeout, insecure, retry, side, connections, pool, identity, connector, proxies };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// The object at this URL. Connects to nothing.
    ///
    /// # Errors
    ///
    /// As [`Address::parse`].
    pub fn resource(&self, url: &str) -> Result<Resource> {
        Ok(Resource::new(self.clone(), Address::parse(url)?))
    }

    /// The object at this URL that is known by `digest` and has `len` bytes, whatever headers say about it: what the
    /// server gives there is always the same, or wrong. `credentials` are asked for the `Authorization` header.
    ///
    /// Nothing here verifies the digest: whoever reads all of it can.
    ///
    /// # Errors
    ///
    /// As [`Address::parse`].
    pub fn content(
        &self,
        url: &str,
        digest: &str,
        len: u64,
        credentials: Option<Arc<dyn Credentials>>,
    ) -> Result<Resource> {
        let resource = Resource::new(self.clone(), Address::parse(url)?);
        Ok(resource.of_content(Validator::content(digest, len), credentials))
    }

    /// How often and how patiently something is tried again.
    #[must_use]
    pub fn retry(&self) -> Retry {
        self.inner.retry
    }

    /// Whose options errors name.
    #[must_use]
    pub fn side(&self) -> Side {
        self.inner.side
    }

    /// The object whose addresses `locator` makes: one now, to see whether it can, and one whenever the last stopped
    /// working. Connects to nothing.
    ///
    /// # Errors
    ///
    /// `Kind::Usage` for what `locator` says, and as [`Address::parse`].
    pub fn located(&self, locator: Arc<dyn Locator>) -> Result<Resource> {
        let name = locator.name();
        let url = locator.locate().map_err(|message| Error::new(Kind::Usage, message).at(&name))?;
        let address = Address::parse(&url).map_err(|error| error.at(&name))?.named(&name);
        Ok(Resource::new(self.clone(), address).found_by(locator))
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Client")
    }
}

impl Inner {
    /// Sends a GET to `here` and waits for the head of the answer. Credentials go along only where `owner`'s origin is.
    pub(crate) async fn exchange(
        &self,
        owner: &Address,
        here: &Address,
        about: &[(HeaderName, HeaderValue)],
    ) -> Result<(Response<Incoming>, Connection)> {
        let headers = self.headers(owner, here, about);
        // A waiting connection may have been closed by the server in the meantime, which says nothing about the request.
        let route = self.route(here);
        while let Some(mut connection) = self.pool.take(&route) {
            if let Ok(response) = self.send(&mut connection, here, headers.clone()).await? {
                return Ok((response, connection));
            }
        }
        let mut connection = self.connect(&route).await?;
        let response = self.send(&mut connection, here, headers).await?;
        let response = response.map_err(|error| {
            self.pool.failed(here.origin(), &connection);
            Error::broken(&error, &format!("before {} answered", connection.peer()))
        })?;
        Ok((response, connection))
    }

    /// A new connection.
    pub(crate) async fn connect(&self, route: &Route) -> Result<Connection> {
        self.connector.connect(route, self.pool.is_http1_only(&route.origin)).await
    }

    /// How this address is reached.
    pub(crate) fn route(&self, here: &Address) -> Route {
        Route { origin: here.origin().clone(), proxy: self.proxies.find(here.origin()).cloned() }
    }

    async fn send(
        &self,
        connection: &mut Connection,
        here: &Address,
        headers: HeaderMap,
    ) -> Result<hyper::Result<Response<Incoming>>> {
        timeout(self.idle_timeout, connection.get(here, headers)).await.unwrap_or_else(|_| {
            self.pool.failed(here.origin(), connection);
            let peer = connection.peer();
            let message = format!("{peer} did not answer within {:?}", self.idle_timeout);
            Err(Error::new(Kind::Stalled, message))
        })
    }

    pub(crate) fn headers(&self, owner: &Address, here: &Address, about: &[(HeaderName, HeaderValue)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(USER_AGENT, self.identity.user_agent.clone());
        headers.insert(ACCEPT, HeaderValue::from_static("*/*"));
        // Ranges and lengths of an encoded body are those of the encoding.
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        if let Some(login) = here.login() {
            headers.insert(AUTHORIZATION, login.clone());
        }
        if here.origin() == owner.origin() {
            if let Some(login) = owner.login() {
                headers.insert(AUTHORIZATION, login.clone());
            }
            // A name that is given several times is sent several times, in place of ours.
            for name in self.identity.headers.keys() {
                headers.remove(name);
            }
            for (name, value) in &self.identity.headers {
                headers.append(name, value.clone());
            }
        }
        for (name, value) in about {
            headers.insert(name, value.clone());
        }
        headers
    }

    /// What the server says about its refusal, without repeating `authorization`.
    pub(crate) async fn refusal(
        &self,
        owner: &Address,
        here: &Address,
        authorization: Option<&str>,
        response: Response<Incoming>,
    ) -> Error {
        let (head, mut incoming) = response.into_parts();
        let proxy = self.proxies.find(here.origin());
        if let Some(proxy) = proxy.filter(|_| head.status == StatusCode::PROXY_AUTHENTICATION_REQUIRED) {
            return proxy.refusal(head.status);
        }
        let mut page = Vec::new();
        let read = async {
            while let Some(Ok(frame)) = incoming.frame().await {
                page.extend_from_slice(&frame.into_data().unwrap_or_default());
                if page.len() >= PAGE {
                    break;
                }
            }
        };
        // Whatever came is good enough.
        drop(timeout(self.idle_timeout, read).await);
        page.truncate(PAGE);
        let mut secrets = self.secrets(owner, here);
        secrets.extend(authorization.and_then(|value| value.split_once(' ')).map(|(_, token)| token.to_owned()));
        let shown = |page: &[u8]| answer::excerpt(page, secrets.iter().map(String::as_str));
        match store::Refusal::read(&head.headers, &page, shown) {
            Some(refusal) => refusal.error(head.status),
            None => {
                let error = answer::refusal(head.status, &head.headers, &shown(&page));
                // Registries say so under several statuses.
                if answer::is_too_many(&page) { error.transient() } else { error }
            }
        }
    }

    /// What an error page must not make us repeat, as the page may write it.
    fn secrets(&self, owner: &Address, here: &Address) -> Vec<String> {
        // Shorter ones appear by chance, and are no secrets.
        let values = [owner, here].into_iter().flat_map(Address::query_values).filter(|value| value.len() >= 4);
        let logins = [owner, here].into_iter().flat_map(Address::login_secrets);
        let proxy = self.proxies.find(here.origin()).into_iter().flat_map(|proxy| proxy.secrets());
        let secrets = self.identity.secrets.iter().cloned().chain(values).chain(logins).chain(proxy);
        let escaped = |text: &String| text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        secrets.flat_map(|secret| [escaped(&secret), secret]).collect()
    }

    /// Makes a connection free for the next request, if little is left of its response.
    pub(crate) async fn recycle(&self, here: &Address, response: Response<Incoming>, connection: Connection) {
        let mut incoming = response.into_body();
        if incoming.size_hint().exact().is_none_or(|len| len > DRAIN) {
            return;
        }
        let drain = async { while let Some(Ok(_)) = incoming.frame().await {} };
        if timeout(self.idle_timeout, drain).await.is_ok() && incoming.is_end_stream() {
            self.pool.put(self.route(here), connection);
        }
    }
}

/// How much of an error page is read.
const PAGE: usize = 4096;
/// Reading this much is quicker than a new connection.
const DRAIN: u64 = 16 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_server_that_does_not_answer_is_not_waited_for_longer_than_the_idle_timeout() {
        let (ours, _theirs) = tokio::io::duplex(1 << 16);
        let mut connection =
            Connection::http1(ours, std::net::SocketAddr::from(([127, 0, 0, 1], 80)).into()).await.unwrap();
        let client = Client::new(Config::default()).unwrap();
        let address = Address::parse("http://host/x").unwrap();
        let begin = tokio::time::Instant::now();
        let error = client.inner.send(&mut connection, &address, HeaderMap::new()).await.unwrap_err();
        assert_eq!(begin.elapsed(), Duration::from_secs(30));
        assert_eq!((error.kind(), error.is_transient()), (Kind::Stalled, true));
        assert_eq!(error.to_string(), "127.0.0.1:80 did not answer within 30s");
    }
}
