//! Taking connections.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::{Body, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};

use crate::api::Api;
use crate::tls::{Caller, Tls};

/// Who answers the requests of a server.
pub trait Service: Send + Sync + 'static {
    /// What answers bring.
    type Body: Body<Data = Bytes, Error: Into<Box<dyn std::error::Error + Send + Sync>>> + Send + 'static;

    /// Answers a request, which has the [`Caller`] among its extensions if the connection is secure.
    fn answer(self: Arc<Self>, request: Request<Incoming>) -> impl Future<Output = Response<Self::Body>> + Send;

    /// Forgets what has waited for too long, and says when to be called again.
    fn sweep(&self, now: Instant) -> Duration;
}

impl Service for Api {
    type Body = Full<Bytes>;

    async fn answer(self: Arc<Self>, request: Request<Incoming>) -> Response<Self::Body> {
        Self::answer(self, request).await
    }

    fn sweep(&self, now: Instant) -> Duration {
        self.sessions.sweep(now);
        SWEEP.min(self.sessions.expiry())
    }
}

/// A server that has its address and waits to be run.
pub struct Server<S = Api> {
    service: Arc<S>,
    listener: TcpListener,
    tls: Option<Arc<Tls>>,
    drain: Duration,
}

impl<S: Service> Server<S> {
    /// Takes the address. Requests that are under way at the end have `drain` to come to theirs.
    ///
    /// # Errors
    ///
    /// The address can't be listened on.
    pub async fn bind(service: S, listen: SocketAddr, tls: Option<Arc<Tls>>, drain: Duration) -> io::Result<Self> {
        Ok(Self { service: Arc::new(service), listener: TcpListener::bind(listen).await?, tls, drain })
    }

    /// Where it takes connections.
    ///
    /// # Errors
    ///
    /// That of the system.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// What it serves.
    #[must_use]
    pub fn api(&self) -> Arc<S> {
        Arc::clone(&self.service)
    }

    /// Serves until `end` is there; then takes no more connections, and waits for the requests that are under way.
    pub async fn run(self, end: impl Future<Output = ()>) {
        let (stop, stopped) = watch::channel(false);
        let doors = Arc::new(Semaphore::new(CONNECTIONS));
        let sweeper = tokio::spawn(sweep(Arc::clone(&self.service)));
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
                    let connection =
                        connection(Arc::clone(&self.service), stream, peer, self.tls.clone(), stopped.clone());
                    tokio::spawn(async move {
                        connection.await;
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
        let all = u32::try_from(CONNECTIONS).unwrap_or(u32::MAX);
        if tokio::time::timeout(self.drain, doors.acquire_many(all)).await.is_err() {
            tracing::warn!("some requests did not end in time");
        }
        sweeper.abort();
    }
}

async fn connection<S: Service>(
    service: Arc<S>,
    stream: TcpStream,
    peer: SocketAddr,
    tls: Option<Arc<Tls>>,
    stopped: watch::Receiver<bool>,
) {
    // Small answers go at once. A socket that refuses is closed already.
    let _ = stream.set_nodelay(true);
    match tls {
        None => talk(service, stream, Caller::Anybody, peer, stopped).await,
        Some(tls) => match tokio::time::timeout(HANDSHAKE, tls.accept(stream)).await {
            Ok(Ok((stream, caller))) => talk(service, stream, caller, peer, stopped).await,
            Ok(Err(error)) => tracing::debug!(%peer, "no secure connection: {error}"),
            Err(_) => tracing::debug!(%peer, "no secure connection in time"),
        },
    }
}

async fn talk<S, C>(service: Arc<S>, stream: C, caller: Caller, peer: SocketAddr, mut stopped: watch::Receiver<bool>)
where
    S: Service,
    C: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = service_fn(move |mut request: Request<Incoming>| {
        let service = Arc::clone(&service);
        request.extensions_mut().insert(caller);
        async move { Ok::<_, Infallible>(service.answer(request).await) }
    });
    let mut http = auto::Builder::new(TokioExecutor::new());
    http.http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .max_headers(MAX_HEADERS)
        .max_buf_size(MAX_BUFFER)
        // A client that has sent all may close its side and still read.
        .half_close(true);
    http.http2()
        .timer(TokioTimer::new())
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(WINDOW)
        .max_concurrent_streams(STREAMS)
        .max_header_list_size(MAX_HEAD)
        .keep_alive_interval(Some(HEAD))
        .keep_alive_timeout(HEAD);
    let connection = http.serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
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

async fn sweep(service: Arc<impl Service>) {
    loop {
        let pause = service.sweep(Instant::now());
        tokio::time::sleep(pause.max(Duration::from_secs(1))).await;
    }
}

/// Each costs some 20 KiB, and up to [`MAX_BUFFER`] while it brings bytes.
const CONNECTIONS: usize = 4096;
/// A client that needs longer for a handshake is none.
const HANDSHAKE: Duration = Duration::from_secs(15);
/// How long a client may take for the head of a request.
const HEAD: Duration = Duration::from_secs(60);
const MAX_HEADERS: usize = 64;
const MAX_HEAD: u32 = 32 << 10;
/// The most that hyper reads at once. It grows so far only while a body comes in fast.
const MAX_BUFFER: usize = 256 << 10;
/// What a stream of HTTP/2 may send before it is read: what a slow disk makes us hold.
const WINDOW: u32 = 1 << 20;
const STREAMS: u32 = 64;
const SWEEP: Duration = Duration::from_secs(5);
