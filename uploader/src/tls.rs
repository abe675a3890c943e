//! Secure connections: the certificate of this server, and who its callers are.
//!
//! Certificates are read again when their files change: connections that come later get the new ones, and those that are
//! under way go on.

mod caller;
mod rules;

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use importer_flow::Result;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::watched::Watched;
pub use caller::Caller;
pub use rules::{Profile, Rules, Version};

/// The files that make connections secure, in PEM.
#[derive(Clone, Debug)]
pub struct Files {
    /// The certificate, and those above it.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
    /// Who signs the certificates of clients; without it nobody is asked for one.
    pub client_ca: Option<PathBuf>,
}

/// Makes connections secure.
pub struct Tls {
    config: Watched<ServerConfig>,
    asks: bool,
    name: Option<String>,
}

impl Tls {
    /// Reads the files. Where clients have to show certificates, one of their names has to be `name`, if there is one.
    ///
    /// # Errors
    ///
    /// `Kind::Usage` for files that can't be read or don't fit each other.
    pub fn new(files: Files, rules: Rules, name: Option<String>) -> Result<Arc<Self>> {
        let asks = files.client_ca.is_some();
        let paths = [Some(files.certificate), Some(files.key), files.client_ca];
        let config = Watched::new(paths.into_iter().flatten().collect(), move |contents| {
            let of = |at: usize| contents.get(at).map(Vec::as_slice);
            config(of(0).unwrap_or_default(), of(1).unwrap_or_default(), of(2), &rules)
        })?;
        Ok(Arc::new(Self { config, asks, name }))
    }

    /// Makes a connection secure. Whoever shows no certificate is let in, so that it can be told why it may do nothing.
    ///
    /// # Errors
    ///
    /// Those of the handshake: also a certificate that nobody who is trusted has signed.
    pub async fn accept(&self, stream: TcpStream) -> io::Result<(TlsStream<TcpStream>, Caller)> {
        let stream = TlsAcceptor::from(self.config.now()).accept(stream).await?;
        let shown = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
        let caller = if self.asks { Caller::of(shown, self.name.as_deref()) } else { Caller::Anybody };
        Ok((stream, caller))
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("config", &self.config).field("name", &self.name).finish_non_exhaustive()
    }
}

fn config(certificate: &[u8], key: &[u8], client_ca: Option<&[u8]>, rules: &Rules) -> Result<ServerConfig, String> {
    let (chain, key) = (certificates(certificate)?, private_key(key)?);
    let provider = Arc::new(rules.provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(rules.versions())
        .map_err(|error| error.to_string())?;
    let builder = match client_ca {
        None => builder.with_no_client_auth(),
        Some(pem) => {
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots(pem)?), provider)
                .allow_unauthenticated()
                .build()
                .map_err(|error| error.to_string())?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let mut config = builder
        .with_single_cert(chain, key)
        .map_err(|error| format!("the certificate and the key don't go together: {error}"))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

/// The certificates in a PEM file: at least one.
pub(crate) fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let chain = chain.map_err(|error| format!("the certificate can't be read as PEM: {error}"))?;
    if chain.is_empty() {
        return Err("there is no certificate in it (-----BEGIN CERTIFICATE-----)".to_owned());
    }
    Ok(chain)
}

/// The private key in a PEM file.
pub(crate) fn private_key(pem: &[u8]) -> Result<PrivateKeyDer<'static>, String> {
    PrivateKeyDer::from_pem_slice(pem).map_err(|error| format!("the key can't be read as PEM: {error}"))
}

/// The authorities in a PEM file.
pub(crate) fn roots(pem: &[u8]) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(pem)? {
        roots.add(certificate).map_err(|error| format!("a certificate in it can't be an authority: {error}"))?;
    }
    Ok(roots)
}
