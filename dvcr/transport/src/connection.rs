//! One connection, and those that wait for more work.

use std::collections::HashSet;
use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper::header::{HOST, HeaderValue, PROXY_AUTHORIZATION};
use hyper::http::uri::{Authority, PathAndQuery};
use hyper::{HeaderMap, Method, Response, Uri};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinHandle;

use crate::address::{Address, Origin};
use crate::error::{Error, Kind, Result};
use crate::interim::Interim;
use crate::payload::Outgoing;
use crate::proxy::Proxy;

/// A connection that carries one response at a time. Dropping it closes it, whatever still comes in.
pub(crate) struct Connection {
    sender: Sender,
    peer: Peer,
    /// A proxy that reads the requests, and so is told the whole address.
    reader: Option<Arc<Proxy>>,
    driver: JoinHandle<()>,
}

enum Sender {
    Http1(http1::SendRequest<Outgoing>),
    Http2(http2::SendRequest<Outgoing>),
}

/// What a connection is for: connections for equal routes are interchangeable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Route {
    pub(crate) origin: Origin,
    pub(crate) proxy: Option<Arc<Proxy>>,
}

/// Who is at the other end of the socket: a server, or the proxy that leads to it.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    pub(crate) address: SocketAddr,
    pub(crate) proxy: Option<Arc<Proxy>>,
}

impl From<SocketAddr> for Peer {
    fn from(address: SocketAddr) -> Self {
        Self { address, proxy: None }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.proxy {
            Some(proxy) => write!(f, "the server behind the proxy {proxy}"),
            None => write!(f, "{}", self.address),
        }
    }
}

impl Connection {
    pub(crate) async fn http1<S>(stream: S, peer: Peer) -> Result<Self>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let (sender, connection) = http1::Builder::new()
            // What every browser takes. A connection is for one reader, so that nobody can be smuggled an answer.
            .allow_spaces_after_header_name_in_responses(true)
            .allow_obsolete_multiline_headers_in_responses(true)
            .ignore_invalid_headers_in_responses(true)
            .max_headers(MAX_HEADERS)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(|error| Error::broken(&error, "at its beginning"))?;
        // An error of the connection also ends the response that waits for it.
        let driver = tokio::spawn(async move { drop(connection.await) });
        Ok(Self { sender: Sender::Http1(sender), peer, reader: None, driver })
    }

    pub(crate) async fn http2<S>(stream: S, peer: Peer) -> Result<Self>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let (sender, connection) = http2::Builder::new(TokioExecutor::new())
            .initial_stream_window_size(H2_WINDOW)
            .initial_connection_window_size(H2_WINDOW)
            .max_frame_size(H2_FRAME)
            .max_header_list_size(H2_HEADERS)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(|error| Error::broken(&error, "at its beginning"))?;
        let driver = tokio::spawn(async move { drop(connection.await) });
        Ok(Self { sender: Sender::Http2(sender), peer, reader: None, driver })
    }

    /// The same, to a proxy that reads the requests.
    pub(crate) fn read_by(self, proxy: Arc<Proxy>) -> Self {
        let mut this = self;
        this.reader = Some(proxy);
        this
    }

    /// Who is at the other end.
    pub(crate) fn peer(&self) -> &Peer {
        &self.peer
    }

    /// Sends a GET and waits for the head of the response; see [`send`](Self::send).
    pub(crate) async fn get(
        &mut self,
        address: &Address,
        headers: HeaderMap,
    ) -> Result<hyper::Result<Response<Incoming>>> {
        self.send(Method::GET, address, headers, Outgoing::empty()).await
    }

    /// Sends a request and waits for the head of the response.
    ///
    /// The outer error is a request that can't be sent at all, or a server that has no answer to it; the inner one a
    /// connection that broke.
    pub(crate) async fn send(
        &mut self,
        method: Method,
        address: &Address,
        mut headers: HeaderMap,
        outgoing: Outgoing,
    ) -> Result<hyper::Result<Response<Incoming>>> {
        let unfit = || Error::new(Kind::Usage, "the address or the Host header can't be put into a request");
        let target: PathAndQuery = address.target().parse().map_err(|_| unfit())?;
        let mut request = hyper::Request::new(outgoing);
        *request.method_mut() = method;
        let authority = address.origin().authority();
        let response = match &mut self.sender {
            Sender::Http1(sender) => {
                *request.uri_mut() = match &self.reader {
                    None => Uri::from(target),
                    Some(proxy) => {
                        if let Some(login) = proxy.authorization() {
                            headers.insert(PROXY_AUTHORIZATION, login);
                        }
                        absolute(address.origin(), &authority, target).ok_or_else(unfit)?
                    }
                };
                if !headers.contains_key(HOST) {
                    headers.insert(HOST, HeaderValue::from_str(&authority).map_err(|_| unfit())?);
                }
                *request.headers_mut() = headers;
                let interim = Interim::of(&mut request);
                match sender.ready().await {
                    Ok(()) => tokio::select! {
                        biased;
                        error = interim.too_many() => return Err(error),
                        response = sender.send_request(request) => response,
                    },
                    Err(error) => Err(error),
                }
            }
            Sender::Http2(sender) => {
                let host = headers.remove(HOST);
                let host = host.as_ref().and_then(|host| host.to_str().ok()).unwrap_or(&authority);
                *request.uri_mut() = absolute(address.origin(), host, target).ok_or_else(unfit)?;
                *request.headers_mut() = headers;
                match sender.ready().await {
                    Ok(()) => sender.send_request(request).await,
                    Err(error) => Err(error),
                }
            }
        };
        Ok(response)
    }

    fn is_http2(&self) -> bool {
        matches!(self.sender, Sender::Http2(_))
    }

    fn is_closed(&self) -> bool {
        match &self.sender {
            Sender::Http1(sender) => sender.is_closed(),
            Sender::Http2(sender) => sender.is_closed(),
        }
    }
}

fn absolute(origin: &Origin, authority: &str, target: PathAndQuery) -> Option<Uri> {
    let authority: Authority = authority.parse().ok()?;
    Uri::builder().scheme(origin.scheme.name()).authority(authority).path_and_query(target).build().ok()
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

/// What is kept between requests: connections that wait for the next one, and whose HTTP/2 has failed.
#[derive(Default)]
pub(crate) struct Idle {
    waiting: Mutex<Vec<(Route, Connection)>>,
    http1_only: Mutex<HashSet<Origin>>,
}

impl Idle {
    /// A connection for this route, the last used first. It may close at any moment.
    pub(crate) fn take(&self, route: &Route) -> Option<Connection> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.retain(|(_, connection)| !connection.is_closed());
        let at = waiting.iter().rposition(|(theirs, _)| theirs == route)?;
        Some(waiting.remove(at).1)
    }

    /// Keeps a connection whose response was read to its end.
    pub(crate) fn put(&self, route: Route, connection: Connection) {
        if connection.is_closed() || (connection.is_http2() && self.is_http1_only(&route.origin)) {
            return;
        }
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.len() >= MAX_IDLE {
            waiting.remove(0);
        }
        waiting.push((route, connection));
    }

    /// Learns that a connection to `origin` stalled or broke. Whatever the reason, if it was HTTP/2 then HTTP/1.1 is
    /// spoken from now on: it is as fast, and has one layer less in which windows, resets and middle boxes may fail.
    pub(crate) fn failed(&self, origin: &Origin, connection: &Connection) {
        if !connection.is_http2() {
            return;
        }
        let mut http1_only = self.http1_only.lock().unwrap_or_else(PoisonError::into_inner);
        if http1_only.len() < MAX_REMEMBERED && http1_only.insert(origin.clone()) {
            let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            waiting.retain(|(route, connection)| route.origin != *origin || !connection.is_http2());
        }
    }

    /// Whether this origin is to be asked in HTTP/1.1 only.
    pub(crate) fn is_http1_only(&self, origin: &Origin) -> bool {
        self.http1_only.lock().unwrap_or_else(PoisonError::into_inner).contains(origin)
    }
}

/// Bytes in flight in HTTP/2, and what is buffered when the reader is slower than the network: with the frame that is
/// taken apart and the TLS record it stays under the 2 MiB that a connection may cost. The price: one connection moves at
/// most a window per round trip, 31 MB/s at 50 ms. Ranges on several connections make up for it; where there are no
/// ranges, HTTP/1.1 would have the window of the kernel (some 3 to 6 MiB).
const H2_WINDOW: u32 = 3 << 19;
/// Larger frames cost less to take apart.
const H2_FRAME: u32 = 64 << 10;
/// hyper's own limit is 100, and 16 KiB in HTTP/2; some servers want to say more.
const MAX_HEADERS: usize = 500;
const H2_HEADERS: u32 = 64 << 10;
/// More than are used in parallel.
const MAX_IDLE: usize = 32;
/// Redirects must not let the memory of origins grow without end.
const MAX_REMEMBERED: usize = 1000;
