//! One connection, and those that wait for more work.

use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use http_body_util::Empty;
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper::header::{HOST, HeaderValue};
use hyper::http::uri::{Authority, PathAndQuery};
use hyper::{HeaderMap, Method, Response, Uri};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinHandle;

use crate::address::{Address, Origin};
use crate::error::{Error, Kind, Result};

/// A connection that carries one response at a time. Dropping it closes it, whatever still comes in.
pub(crate) struct Connection {
    sender: Sender,
    peer: SocketAddr,
    driver: JoinHandle<()>,
}

enum Sender {
    Http1(http1::SendRequest<Empty<Bytes>>),
    Http2(http2::SendRequest<Empty<Bytes>>),
}

impl Connection {
    pub(crate) async fn http1<S>(stream: S, peer: SocketAddr) -> Result<Self>
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
        Ok(Self { sender: Sender::Http1(sender), peer, driver })
    }

    pub(crate) async fn http2<S>(stream: S, peer: SocketAddr) -> Result<Self>
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
        Ok(Self { sender: Sender::Http2(sender), peer, driver })
    }

    /// Who is at the other end.
    pub(crate) fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// Sends a GET and waits for the head of the response.
    ///
    /// The outer error is a request that can't be sent at all, the inner one a connection that broke.
    pub(crate) async fn get(
        &mut self,
        address: &Address,
        mut headers: HeaderMap,
    ) -> Result<hyper::Result<Response<Incoming>>> {
        let unfit = || Error::new(Kind::Usage, "the address or the Host header can't be put into a request");
        let target: PathAndQuery = address.target().parse().map_err(|_| unfit())?;
        let mut request = hyper::Request::new(Empty::new());
        *request.method_mut() = Method::GET;
        let authority = address.origin().authority();
        let response = match &mut self.sender {
            Sender::Http1(sender) => {
                *request.uri_mut() = Uri::from(target);
                if !headers.contains_key(HOST) {
                    headers.insert(HOST, HeaderValue::from_str(&authority).map_err(|_| unfit())?);
                }
                *request.headers_mut() = headers;
                match sender.ready().await {
                    Ok(()) => sender.send_request(request).await,
                    Err(error) => Err(error),
                }
            }
            Sender::Http2(sender) => {
                let host = headers.remove(HOST);
                let host = host.as_ref().and_then(|host| host.to_str().ok()).unwrap_or(&authority);
                let host: Authority = host.parse().map_err(|_| unfit())?;
                let uri = Uri::builder().scheme(address.origin().scheme.name()).authority(host).path_and_query(target);
                *request.uri_mut() = uri.build().map_err(|_| unfit())?;
                *request.headers_mut() = headers;
                match sender.ready().await {
                    Ok(()) => sender.send_request(request).await,
                    Err(error) => Err(error),
                }
            }
        };
        Ok(response)
    }

    fn is_closed(&self) -> bool {
        match &self.sender {
            Sender::Http1(sender) => sender.is_closed(),
            Sender::Http2(sender) => sender.is_closed(),
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

/// Connections that wait for the next request to their origin.
#[derive(Default)]
pub(crate) struct Idle {
    waiting: Mutex<Vec<(Origin, Connection)>>,
}

impl Idle {
    /// A connection to this origin, the last used first. It may close at any moment.
    pub(crate) fn take(&self, origin: &Origin) -> Option<Connection> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.retain(|(_, connection)| !connection.is_closed());
        let at = waiting.iter().rposition(|(theirs, _)| theirs == origin)?;
        Some(waiting.remove(at).1)
    }

    /// Keeps a connection whose response was read to its end.
    pub(crate) fn put(&self, origin: Origin, connection: Connection) {
        if connection.is_closed() {
            return;
        }
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.len() >= MAX_IDLE {
            waiting.remove(0);
        }
        waiting.push((origin, connection));
    }
}

/// Bytes in flight in HTTP/2: what a link of 1 Gbit/s holds in 64 ms. This much is buffered when the reader is slower
/// than the network.
const H2_WINDOW: u32 = 8 << 20;
/// Larger frames cost less to take apart.
const H2_FRAME: u32 = 64 << 10;
/// hyper's own limit is 100, and 16 KiB in HTTP/2; some servers want to say more.
const MAX_HEADERS: usize = 500;
const H2_HEADERS: u32 = 64 << 10;
/// More than are used in parallel.
const MAX_IDLE: usize = 32;
