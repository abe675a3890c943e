//! Connections to upload servers.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::body::Body;
use hyper::client::conn::http1::{Builder, SendRequest};
use hyper_util::rt::TokioIo;
use importer_flow::Result;
use rustls::ClientConfig;
use rustls::crypto::ring;
use rustls::pki_types::ServerName;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::targets::Target;
use crate::tls;
use crate::watched::Watched;

/// Connects to upload servers: one connection for each request, in HTTP/1.1, so that what one is slow with is nothing to
/// another.
#[derive(Debug)]
pub struct Upstream(Option<Watched<ClientConfig>>);

/// What this proxy shows to servers, in PEM.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The certificate, and those above it.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
}

impl Upstream {
    /// Servers without TLS.
    #[must_use]
    pub fn plain() -> Self {
        Self(None)
    }

    /// Servers whose certificates are signed by an authority in this file and are for their names. The files are read again
    /// when they change.
    ///
    /// # Errors
    ///
    /// `Kind::Usage` for files that can't be read or don't fit each other.
    pub fn secure(authority: PathBuf, identity: Option<Identity>) -> Result<Self> {
        let identity = identity.map(|identity| [identity.certificate, identity.key]);
        let files = std::iter::once(authority).chain(identity.into_iter().flatten()).collect();
        let config = Watched::new(files, |contents| {
            let of = |at: usize| contents.get(at).map(Vec::as_slice);
            config(of(0).unwrap_or_default(), of(1).zip(of(2)))
        });
        config.map(Some).map(Self)
    }

    pub(super) fn is_secure(&self) -> bool {
        self.0.is_some()
    }

    /// A connection; why there is none, otherwise.
    pub(super) async fn connect<B>(&self, target: &Target) -> Result<SendRequest<B>, String>
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let late = |_| "it is not reachable: no answer in time".to_owned();
        let failed = |error: io::Error| format!("it is not reachable: {error}");
        let stream = TcpStream::connect((target.host.as_str(), target.port));
        let stream = tokio::time::timeout(CONNECT, stream).await.map_err(late)?.map_err(failed)?;
        // What a socket refuses here is not needed for bytes to flow.
        let _ = stream.set_nodelay(true);
        // A server may need long to answer, and a node may vanish. (A limit for what is not acknowledged would end uploads
        // whose disk is slow: the system counts a window that stays closed.)
        let alive = TcpKeepalive::new().with_time(ALIVE).with_interval(ALIVE_AGAIN).with_retries(3);
        let _ = SockRef::from(&stream).set_tcp_keepalive(&alive);
        match &self.0 {
            Some(config) if target.secure => {
                let name = ServerName::try_from(target.host.clone()).map_err(|error| error.to_string())?;
                let stream = TlsConnector::from(config.now()).connect(name, stream);
                let untrusted = |error: io::Error| format!("no secure connection with it: {error}");
                let stream = tokio::time::timeout(CONNECT, stream).await.map_err(late)?.map_err(untrusted)?;
                talk(stream).await
            }
            None if target.secure => Err("it needs a secure connection, and nobody said who signs for it".to_owned()),
            _ => talk(stream).await,
        }
    }
}

async fn talk<S, B>(stream: S) -> Result<SendRequest<B>, String>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let (sender, connection) = Builder::new()
        .max_buf_size(MAX_BUFFER)
        .handshake(TokioIo::new(stream))
        .await
        .map_err(|error| error.to_string())?;
    tokio::spawn(async move {
        // Whoever sends over it learns of it too.
        if let Err(error) = connection.await {
            tracing::debug!("a connection to an upload server ended early: {error}");
        }
    });
    Ok(sender)
}

fn config(authority: &[u8], identity: Option<(&[u8], &[u8])>) -> Result<ClientConfig, String> {
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(tls::roots(authority)?);
    let mut config = match identity {
        None => builder.with_no_client_auth(),
        Some((certificate, key)) => builder
            .with_client_auth_cert(tls::certificates(certificate)?, tls::private_key(key)?)
            .map_err(|error| format!("the certificate and the key don't go together: {error}"))?,
    };
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

const CONNECT: Duration = Duration::from_secs(5);
const ALIVE: Duration = Duration::from_secs(30);
const ALIVE_AGAIN: Duration = Duration::from_secs(10);
/// What hyper holds of a body while the server does not take it.
const MAX_BUFFER: usize = 128 << 10;
