//! Serving a store.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use hyper::body::Incoming;
use hyper::header::{CONNECTION, HeaderValue, USER_AGENT};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio_rustls::TlsAcceptor;

use crate::api::{Answer, Api, Why, blocking};
use crate::auth::{Access, Auth};
use crate::body::Budget;
use crate::direct::Direct;
use crate::error::{Error, Kind, Result};
use crate::intake::Intake;
use crate::metrics::{Metrics, Request};
use crate::push::Pushes;
use crate::store::Store;
use crate::store::gc::{Options, Outcome};
use crate::stream::Stream;
use crate::tls;

/// How a store is served.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where connections are taken; port 0 is any that is free.
    pub listen: SocketAddr,
    /// The files of the certificate and its key, for HTTPS. Read again when they change.
    pub tls: Option<(PathBuf, PathBuf)>,
    /// Who may come in.
    pub access: Access,
    /// Where metrics and health are told without TLS and credentials. None: with the rest.
    pub metrics: Option<SocketAddr>,
    /// How often garbage is collected, and how. None: only by `dvcr gc`.
    pub gc: Option<(Duration, Options)>,
    /// How many connections there may be. Others wait until one of them ends.
    pub connections: usize,
    /// The memory that all pulls share, in bytes.
    pub memory: u64,
    /// How long a client may take for the head of a request, and do nothing between two.
    pub head_timeout: Duration,
    /// How long a client may send nothing of a body, or take nothing of an answer.
    pub stall_timeout: Duration,
    /// How long requests may go on after the end was asked for.
    pub drain: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 5000)),
            tls: None,
            access: Access::default(),
            metrics: None,
            gc: None,
            connections: 4096,
            memory: 64 << 20,
            head_timeout: Duration::from_secs(60),
            stall_timeout: Duration::from_secs(60),
            drain: Duration::from_secs(25),
        }
    }
}

/// A registry that has its address and waits to be run.
pub struct Server {
    api: Arc<Api>,
    config: Config,
    listener: TcpListener,
    address: SocketAddr,
    tls: Option<TlsAcceptor>,
    metrics: Option<(TcpListener, SocketAddr)>,
}

impl Server {
    /// Takes the addresses and reads the files of certificates and credentials.
    ///
    /// # Errors
    /// `Usage` that says which address can't be taken or which file makes no sense.
    pub async fn bind(store: Store, config: Config) -> Result<Self> {
        let metrics = Arc::new(Metrics::default());
        let api = Api {
            store,
            auth: Auth::new(config.access.clone())?,
            budget: Budget::new(config.memory),
            pushes: Pushes::new(Arc::clone(&metrics), config.stall_timeout),
            metrics,
            shows_metrics: config.metrics.is_none(),
        };
        let tls = config.tls.clone().map(|(certificate, key)| tls::acceptor(certificate, key)).transpose()?;
        let (listener, address) = listen(config.listen).await?;
        let metrics = match config.metrics {
            Some(address) => Some(listen(address).await?),
            None => None,
        };
        Ok(Self { api: Arc::new(api), config, listener, address, tls, metrics })
    }

    /// Where it takes connections, as a URL.
    #[must_use]
    pub fn address(&self) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.address)
    }

    /// Where it tells metrics, if that is elsewhere.
    #[must_use]
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.metrics.as_ref().map(|(_, address)| *address)
    }

    /// Serves until `end` is there; then takes no more connections, and waits for the requests that are under way.
    ///
    /// # Errors
    /// None so far: what fails is one connection's.
    pub async fn run(self, end: impl Future<Output = ()>) -> Result<()> {
        let (stop, stopped) = watch::channel(false);
        let doors = Arc::new(Semaphore::new(self.config.connections.min(Semaphore::MAX_PERMITS)));
        let shared = Arc::new(Shared {
            api: Arc::clone(&self.api),
            tls: self.tls,
            head_timeout: self.config.head_timeout,
            stall_timeout: self.config.stall_timeout,
            stopped: stopped.clone(),
        });
        let mut tasks = Vec::new();
        if let Some((listener, _)) = self.metrics {
            tasks.push(tokio::spawn(tell_metrics(listener, Arc::clone(&shared))));
        }
        if let Some((interval, options)) = self.config.gc {
            tasks.push(tokio::spawn(collect_each(interval, options, Arc::clone(&self.api))));
        }
        tokio::pin!(end);
        loop {
            let door = tokio::select! {
                () = &mut end => break,
                door = Arc::clone(&doors).acquire_owned() => door,
            };
            let accepted = tokio::select! {
                () = &mut end => break,
                accepted = self.listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, peer)) => {
                    let shared = Arc::clone(&shared);
                    tokio::spawn(async move {
                        shared.connection(stream, peer).await;
                        drop(door);
                    });
                }
                Err(error) => {
                    // Too many open files, mostly: others have to end first.
                    tracing::warn!("a connection was not accepted: {error}");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        }
        drop(self.listener);
        // Without a receiver there is no connection to tell.
        let _ = stop.send(true);
        let all = u32::try_from(self.config.connections).unwrap_or(u32::MAX);
        if tokio::time::timeout(self.config.drain, doors.acquire_many(all)).await.is_err() {
            tracing::warn!("some requests did not end in time: uploads can be resumed");
        }
        for task in tasks {
            task.abort();
        }
        Ok(())
    }
}

/// What all connections share.
struct Shared {
    api: Arc<Api>,
    tls: Option<TlsAcceptor>,
    head_timeout: Duration,
    stall_timeout: Duration,
    stopped: watch::Receiver<bool>,
}

impl Shared {
    async fn connection(self: Arc<Self>, stream: TcpStream, peer: SocketAddr) {
        // Small answers go at once. A socket that refuses is closed already.
        let _ = stream.set_nodelay(true);
        let stream = match &self.tls {
            None => Stream::plain(stream, self.stall_timeout),
            Some(tls) => match tokio::time::timeout(HANDSHAKE, tls.accept(stream)).await {
                Ok(Ok(stream)) => Stream::tls(stream, self.stall_timeout),
                Ok(Err(error)) => return tracing::debug!(%peer, "no secure connection: {error}"),
                Err(_) => return tracing::debug!(%peer, "no secure connection in time"),
            },
        };
        self.api.metrics.connections.fetch_add(1, Ordering::Relaxed);
        self.talk(stream, peer).await;
        self.api.metrics.connections.fetch_sub(1, Ordering::Relaxed);
    }

    async fn talk(&self, stream: Stream, peer: SocketAddr) {
        let (api, direct) = (Arc::clone(&self.api), stream.direct());
        let is_direct = direct.is_some();
        let service = service_fn(move |request| {
            let (api, direct) = (Arc::clone(&api), direct.clone());
            async move { Ok::<_, Infallible>(answer(api, request, peer, direct).await) }
        });
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new())
            .header_read_timeout(self.head_timeout)
            .max_headers(MAX_HEADERS)
            .max_header_size(MAX_HEAD)
            .max_buf_size(MAX_BUFFER)
            .half_close(false);
        if is_direct {
            // Never copied into one buffer: see `direct`.
            http.writev(true);
        }
        let connection = http.serve_connection(TokioIo::new(stream), service);
        tokio::pin!(connection);
        let mut stopped = self.stopped.clone();
        let stop = async move { stopped.wait_for(|stopped| *stopped).await.map(drop) };
        let ended = tokio::select! {
            ended = connection.as_mut() => Some(ended),
            _ = stop => None,
        };
        let ended = match ended {
            Some(ended) => ended,
            None => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = ended {
            tracing::debug!(%peer, "the connection ended early: {error}");
        }
    }
}

async fn answer(
    api: Arc<Api>,
    request: hyper::Request<Incoming>,
    peer: SocketAddr,
    direct: Option<Arc<Direct>>,
) -> Answer {
    let agent = request.headers().get(USER_AGENT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let path = request.uri().path();
    let mut log = Request {
        metrics: Arc::clone(&api.metrics),
        method: request.method().clone(),
        path: path.to_owned(),
        peer: peer.to_string(),
        user: String::from("anonymous"),
        agent: agent.chars().take(MAX_AGENT).collect(),
        // What it is if nobody is there to take the answer, as proxies write it.
        status: 499,
        error: None,
        begun: Instant::now(),
        sent: 0,
        length: 0,
        quiet: matches!(path, "/healthz" | "/livez" | "/metrics"),
    };
    let mut user = std::mem::take(&mut log.user);
    let (request, end) = Intake::of(request);
    let answer = api.answer(request, &mut user).await;
    log.user = user;
    log.status = answer.status().as_u16();
    let (mut head, body) = answer.into_parts();
    log.error = head.extensions.remove::<Why>().map(|why| why.0);
    if !end.is_reached() {
        // The client learns that the rest of what it sends is for nothing.
        head.headers.insert(CONNECTION, HeaderValue::from_static("close"));
    }
    log.length = hyper::body::Body::size_hint(&body).exact().unwrap_or_default();
    let body = match direct {
        Some(direct) => body.over(&direct),
        None => body,
    };
    Answer::from_parts(head, body.of(log))
}

async fn listen(address: SocketAddr) -> Result<(TcpListener, SocketAddr)> {
    let bound = async {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        io::Result::Ok((listener, address))
    };
    bound.await.map_err(|error| {
        Error::new(Kind::Usage, format!("{address} can't be listened on: {}", crate::error::words(&error)))
    })
}

/// Metrics and health on an address of their own: few connections, without TLS.
async fn tell_metrics(listener: TcpListener, shared: Arc<Shared>) {
    let doors = Arc::new(Semaphore::new(MONITORS));
    loop {
        let Ok(door) = Arc::clone(&doors).acquire_owned().await else { return };
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let shared = Arc::clone(&shared);
        tokio::spawn(async move {
            let api = Arc::clone(&shared.api);
            let service = service_fn(move |request: hyper::Request<Incoming>| {
                let api = Arc::clone(&api);
                async move { Ok::<_, Infallible>(api.monitor(request.uri().path()).await) }
            });
            let mut http = http1::Builder::new();
            http.timer(TokioTimer::new()).header_read_timeout(shared.head_timeout).max_header_size(MAX_HEAD);
            let stream = Stream::plain(stream, shared.stall_timeout);
            // A monitor that goes away asks again.
            let _ = http.serve_connection(TokioIo::new(stream), service).await;
            drop(door);
        });
    }
}

/// Collects garbage again and again.
async fn collect_each(interval: Duration, options: Options, api: Arc<Api>) {
    loop {
        tokio::time::sleep(interval).await;
        let (store, options) = (api.store.clone(), options.clone());
        let begun = Instant::now();
        let collected = blocking(move || store.collect(&options)).await;
        api.metrics.collected(collected.as_ref().ok(), begun.elapsed());
        match collected {
            Ok(outcome) if outcome == Outcome::default() => tracing::debug!("no garbage"),
            Ok(outcome) => tracing::info!(?outcome, "collected garbage"),
            Err(error) => tracing::warn!("garbage was not collected: {error}"),
        }
    }
}

/// A client that needs longer for a handshake is none.
const HANDSHAKE: Duration = Duration::from_secs(15);
const MAX_HEADERS: usize = 64;
const MAX_HEAD: usize = 32 << 10;
/// The most that hyper reads at once. It grows so far only while a body comes in fast.
const MAX_BUFFER: usize = 256 << 10;
const MAX_AGENT: usize = 100;
const MONITORS: usize = 16;
