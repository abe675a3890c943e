//! A tunnel through an HTTP proxy.

use bytes::Bytes;
use http_body_util::Empty;
use hyper::client::conn::http1;
use hyper::header::{HOST, HeaderValue, PROXY_AUTHORIZATION};
use hyper::{Method, Request, Uri};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};

use super::Proxy;
use crate::address::Origin;
use crate::error::{Error, Kind, Result};

/// Asks `proxy`, at the other end of `stream`, for a connection to `origin` (RFC 9110, 9.3.6), and gives it.
///
/// The proxy gets host, port and its own credentials, and nothing else.
pub(crate) async fn open<S>(stream: S, proxy: &Proxy, origin: &Origin) -> Result<S>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let broken = |error: &hyper::Error| Error::broken(error, &format!("before the proxy {proxy} opened a tunnel"));
    let (mut sender, connection) =
        http1::handshake::<_, Empty<Bytes>>(TokioIo::new(stream)).await.map_err(|error| broken(&error))?;
    // It ends with the tunnel's beginning, or with `sender`.
    tokio::spawn(async move { drop(connection.with_upgrades().await) });
    let response = sender.send_request(request(proxy, origin)?).await.map_err(|error| broken(&error))?;
    if !response.status().is_success() {
        return Err(proxy.refusal(response.status()));
    }
    let upgraded = hyper::upgrade::on(response).await.map_err(|error| broken(&error))?;
    let protocol = |why: &str| Error::new(Kind::Protocol, format!("the proxy {proxy} {why}"));
    let parts = upgraded.downcast::<TokioIo<S>>().map_err(|_| protocol("opened no tunnel"))?;
    // Whoever accepts a TLS connection waits for its client to begin.
    if !parts.read_buf.is_empty() {
        return Err(protocol("sent bytes that nobody has asked for into the tunnel"));
    }
    Ok(parts.io.into_inner())
}

fn request(proxy: &Proxy, origin: &Origin) -> Result<Request<Empty<Bytes>>> {
    let unfit = || Error::new(Kind::Usage, "the host can't be put into a request to a proxy");
    let place = format!("{}:{}", origin.host, origin.port);
    let mut request = Request::new(Empty::new());
    *request.method_mut() = Method::CONNECT;
    *request.uri_mut() = Uri::builder().authority(place.as_str()).build().map_err(|_| unfit())?;
    request.headers_mut().insert(HOST, HeaderValue::from_str(&place).map_err(|_| unfit())?);
    if let Some(login) = proxy.authorization() {
        request.headers_mut().insert(PROXY_AUTHORIZATION, login);
    }
    Ok(request)
}
