//! One registry: how it is reached, and how it is asked.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use dvcr_oci::{Host, Name};
use dvcr_transport::{self as transport, Address, Ask, Budget, Credentials, Method, Reply};
use tokio::sync::OnceCell;

use crate::auth::Auth;
use crate::error::{Error, Kind, Result};
use crate::keyring::Keyring;
use crate::refusal::Refusal;

/// One registry.
pub(crate) struct Server {
    pub(crate) host: Host,
    pub(crate) transport: transport::Client,
    /// What it is called in errors.
    pub(crate) role: String,
    keyring: Keyring,
    manner: Manner,
    base: OnceCell<Address>,
    /// Whether it has answered anything yet, and how often it is tried until then.
    met: AtomicBool,
    first_attempts: u32,
    auths: Mutex<HashMap<Purpose, Arc<Auth>>>,
}

/// What is allowed in reaching it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    /// TLS, and proof; http on this machine.
    Strict,
    /// Without proof, or without TLS.
    Insecure,
    /// http.
    Plain,
}

/// What is done there: credentials are had for it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Purpose {
    pub(crate) name: Name,
    pub(crate) push: bool,
    /// Where a blob is taken over from.
    pub(crate) from: Option<Name>,
}

/// Why a request failed.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) error: transport::Error,
    /// What the registry said, if it was asked and has refused.
    pub(crate) refusal: Option<Box<Refusal>>,
}

/// An answer that was read whole.
pub(crate) struct Page {
    pub(crate) content_type: Option<String>,
    /// `Docker-Content-Digest`.
    pub(crate) digest: Option<String>,
    /// `Link`.
    pub(crate) link: Option<String>,
    pub(crate) address: Address,
    pub(crate) bytes: Bytes,
}

impl From<transport::Error> for Failure {
    fn from(error: transport::Error) -> Self {
        Self { error, refusal: None }
    }
}

impl Failure {
    pub(crate) fn status(&self) -> Option<u16> {
        self.refusal.as_ref().map(|refusal| refusal.status)
    }

    pub(crate) fn code(&self) -> &str {
        self.refusal.as_ref().map_or("", |refusal| &refusal.code)
    }
}

impl Server {
    pub(crate) fn new(host: Host, transport: transport::Client, keyring: Keyring, manner: Manner, role: &str) -> Self {
        let (base, auths) = (OnceCell::new(), Mutex::default());
        let (met, first_attempts) = (AtomicBool::new(false), u32::MAX);
        Self { host, transport, role: role.into(), keyring, manner, base, met, first_attempts, auths }
    }

    /// The same, tried at most so often until it has answered once.
    pub(crate) fn tried_first(self, first_attempts: u32) -> Self {
        Self { first_attempts, ..self }
    }

    /// How often something is tried.
    pub(crate) fn budget(&self) -> Budget {
        let retry = self.transport.retry();
        let most = if self.met.load(Ordering::Relaxed) { u32::MAX } else { self.first_attempts };
        Budget::new(transport::Retry { attempts: retry.attempts.min(most), ..retry })
    }

    /// One request, once.
    async fn sent(&self, address: &Address, ask: Ask) -> transport::Result<Reply> {
        let reply = self.transport.ask(address, ask).await?;
        self.met.store(true, Ordering::Relaxed);
        Ok(reply)
    }

    /// Whether it need not be secure.
    pub(crate) fn is_lenient(&self) -> bool {
        self.manner != Manner::Strict
    }

    /// An error that names who it is about.
    pub(crate) fn error(&self, error: impl Into<Error>) -> Error {
        let error = error.into().at(&self.role);
        let (text, mirror) = (error.to_string(), self.role == MIRROR);
        let no_tls = text.contains("does not speak TLS");
        if mirror && (no_tls || text.contains("the server is not trusted")) {
            return error.and("a mirror need not prove who it is with insecure = true in its entry in registries.conf");
        }
        if no_tls {
            return error.and(format_args!("a registry that has none is allowed by {}", self.option("insecure")));
        }
        error
    }

    /// What an option is called that is about it.
    fn option(&self, name: &str) -> String {
        self.transport.side().option(name)
    }

    /// What to do about credentials.
    fn credentials(&self) -> String {
        if self.role == MIRROR { "--auth-file".into() } else { self.transport.side().credentials() }
    }

    fn denied(&self, auth: &Auth) -> String {
        let credentials = self.credentials();
        if let Some(given) = auth.given() {
            return format!(
                "{given} were refused (status 401): check them ({credentials}), and whether they are for this repository"
            );
        }
        format!(
            "the server wants credentials (status 401): give valid ones for this repository with {credentials}, or check \
             its name"
        )
    }

    /// Where it is, found out the first time where it may be several things.
    pub(crate) async fn base(&self) -> Result<&Address> {
        self.base.get_or_try_init(|| self.find()).await.map_err(|error| self.error(error))
    }

    async fn find(&self) -> transport::Result<Address> {
        let host = if self.host.is_docker_hub() { "registry-1.docker.io".into() } else { self.host.to_string() };
        let secure = Address::parse(&format!("https://{host}/v2/"))?;
        let plain = Address::parse(&format!("http://{host}/v2/"))?;
        let here = secure.is_loopback() && self.host.port() != Some(443);
        let (first, second) = match self.manner {
            Manner::Plain => return Ok(plain),
            Manner::Strict if !secure.is_loopback() => return Ok(secure),
            Manner::Strict | Manner::Insecure if here => (plain, secure),
            Manner::Strict | Manner::Insecure => (secure, plain),
        };
        let mut budget = self.budget();
        loop {
            let error = match self.speaks(&first).await {
                Ok(true) => return Ok(first),
                Ok(false) => return Ok(second),
                Err(error) => error,
            };
            if self.speaks(&second).await.unwrap_or(false) {
                return Ok(second);
            }
            // Whatever it was: it may be that nobody is there yet. But a name that does not exist does not in either way.
            let error = match error.kind() {
                transport::Kind::Dns | transport::Kind::Forbidden | transport::Kind::Usage => error,
                _ => error.transient(),
            };
            tokio::time::sleep(budget.failed(error)?).await;
        }
    }

    /// Whether there is somebody to talk to in this way. No credentials are sent to find out.
    async fn speaks(&self, address: &Address) -> transport::Result<bool> {
        match self.sent(address, Ask::new(Method::Get)).await {
            // What a server says to plain words where it expects TLS.
            Ok(reply) => Ok(address.is_secure() || reply.status != 400),
            // It has said enough to be known for one.
            Err(error) if address.is_secure() && error.kind() == transport::Kind::Tls => {
                Ok(!error.to_string().contains("does not speak TLS"))
            }
            Err(error) => Err(error),
        }
    }

    /// The address of something in a repository.
    pub(crate) async fn address(&self, name: &Name, rest: &str) -> Result<Address> {
        let base = self.base().await?;
        let address = Address::parse(&format!("{base}{name}/{rest}"));
        address.map_err(|error| self.error(error))
    }

    /// Credentials for this purpose. The same ones each time, so that a token is asked for once.
    pub(crate) async fn auth(&self, purpose: &Purpose) -> Result<Arc<Auth>> {
        if let Some(auth) = self.auths().get(purpose) {
            return Ok(Arc::clone(auth));
        }
        let base = self.base().await?.clone();
        let login = self.keyring.find(&self.host, &purpose.name).map_err(|error| self.error(error))?;
        let actions = if purpose.push { "pull,push" } else { "pull" };
        let mut scopes = vec![format!("repository:{}:{actions}", purpose.name)];
        scopes.extend(purpose.from.iter().map(|from| format!("repository:{from}:pull")));
        let insecure = self.manner != Manner::Strict;
        let auth = Arc::new(Auth::new(self.transport.clone(), base, insecure, login.cloned(), scopes));
        let mut auths = self.auths();
        if auths.len() >= MAX_REMEMBERED {
            auths.clear();
        }
        Ok(Arc::clone(auths.entry(purpose.clone()).or_insert(auth)))
    }

    fn auths(&self) -> std::sync::MutexGuard<'_, HashMap<Purpose, Arc<Auth>>> {
        self.auths.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks once, and again where the credentials had to be renewed. Any status but those in `good` is a failure.
    pub(crate) async fn once(
        &self,
        auth: &Auth,
        address: &Address,
        make: &(dyn Fn() -> Ask + Send + Sync),
        good: &[u16],
    ) -> Result<Reply, Failure> {
        // On the heap: it is large, and a part of nearly everything.
        Box::pin(self.attempt(auth, address, make, good, MAX_RENEWALS)).await
    }

    /// The same, repeated for new credentials at most `most` times.
    pub(crate) async fn attempt(
        &self,
        auth: &Auth,
        address: &Address,
        make: &(dyn Fn() -> Ask + Send + Sync),
        good: &[u16],
        most: usize,
    ) -> Result<Reply, Failure> {
        let base = self.base.get();
        // Uploads may be sent to other hosts, which have no business with our credentials.
        let ours = base.is_some_and(|base| base.same_origin(address));
        let mut renewals = 0;
        loop {
            if ours {
                auth.prepare().await?;
            }
            let authorization = auth.authorization().filter(|_| ours);
            let ask = Ask { authorization: authorization.clone(), ..make() };
            let reply = self.sent(address, ask).await?;
            if good.contains(&reply.status) {
                return Ok(reply);
            }
            if reply.status == 401 && ours && renewals <= most && reply.final_url.same_origin(address) {
                let challenges = reply.headers("www-authenticate");
                // Read, so that the connection serves the next request too.
                drop(reply.bytes(MAX_PAGE).await);
                let renewed = auth.renew(authorization.as_deref(), &challenges).await?;
                if renewed && renewals < most {
                    renewals += 1;
                    continue;
                }
                let denied = transport::Error::new(transport::Kind::Status(401), self.denied(auth)).at(address);
                // The next attempt may do better, and only that.
                let error = if renewed && most == 0 { denied.transient() } else { denied };
                return Err(Failure { error, refusal: Some(Box::new(Refusal::of_status(401))) });
            }
            let at = reply.final_url.clone();
            let secrets = authorization.iter().filter_map(|header| Some(header.split_once(' ')?.1.to_owned()));
            let refusal = Refusal::read(reply, secrets.collect()).await;
            let credentials = self.credentials();
            let advice = match auth.given().filter(|_| ours) {
                Some(given) => format!("check what {given} allow ({credentials})"),
                None => format!("it wants credentials: give them with {credentials}"),
            };
            return Err(Failure { error: refusal.error(&advice).at(at), refusal: Some(Box::new(refusal)) });
        }
    }

    /// Asks until there is an answer, or no more budget.
    pub(crate) async fn ask(
        &self,
        auth: &Auth,
        address: &Address,
        make: &(dyn Fn() -> Ask + Send + Sync),
        good: &[u16],
    ) -> Result<Reply, Failure> {
        let mut budget = self.budget();
        loop {
            match self.once(auth, address, make, good).await {
                Ok(reply) => return Ok(reply),
                Err(failure) => wait(&mut budget, failure).await?,
            }
        }
    }

    /// The same, and reads what comes, at most `most` bytes.
    pub(crate) async fn read(
        &self,
        auth: &Auth,
        address: &Address,
        make: &(dyn Fn() -> Ask + Send + Sync),
        most: usize,
    ) -> Result<Page, Failure> {
        let mut budget = self.budget();
        loop {
            let failure = match self.once(auth, address, make, &[200]).await {
                Ok(reply) => {
                    let header = |name| reply.header(name).map(str::to_owned);
                    let (content_type, digest, link) =
                        (header("content-type"), header("docker-content-digest"), header("link"));
                    let address = reply.final_url.clone();
                    match reply.bytes(most).await {
                        Ok(bytes) => return Ok(Page { content_type, digest, link, address, bytes }),
                        Err(error) => error.into(),
                    }
                }
                Err(failure) => failure,
            };
            wait(&mut budget, failure).await?;
        }
    }
}

/// Waits before the next attempt; the failure back if there is none.
pub(crate) async fn wait(budget: &mut Budget, failure: Failure) -> Result<(), Failure> {
    let Failure { error, refusal } = failure;
    tracing::debug!(%error, "a request failed");
    // No room is not had by waiting.
    if refusal.as_ref().is_some_and(|refusal| refusal.status == 507) {
        return Err(Failure { error, refusal });
    }
    match budget.failed(error) {
        Ok(wait) => {
            tokio::time::sleep(wait).await;
            Ok(())
        }
        Err(error) => Err(Failure { error, refusal }),
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        match failure.code() {
            // Under which status ever.
            "NAME_UNKNOWN" | "MANIFEST_UNKNOWN" | "BLOB_UNKNOWN" => {
                Self::new(Kind::NotFound, failure.error.to_string())
            }
            "DIGEST_INVALID" | "SIZE_INVALID" => Self::new(Kind::Mismatch, failure.error.to_string()),
            _ => failure.error.into(),
        }
    }
}

/// A token may be found to be too old, and the one for it to lack something.
const MAX_RENEWALS: usize = 2;
/// What mirrors are called in errors.
pub(crate) const MIRROR: &str = "mirror";
const MAX_PAGE: usize = 64 << 10;
const MAX_REMEMBERED: usize = 1000;
