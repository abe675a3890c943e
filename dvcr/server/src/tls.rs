//! The certificate of the server, read again when it changes.

use std::path::PathBuf;
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio_rustls::TlsAcceptor;

use crate::error::{Error, Kind, Result};
use crate::watched::Watched;

/// Makes connections secure with the certificate that is in the files at that time.
pub(crate) fn acceptor(certificate: PathBuf, key: PathBuf) -> Result<TlsAcceptor> {
    let certified = Certified(Watched::new(vec![certificate, key], |files| {
        let of = |at: usize| files.get(at).map(Vec::as_slice).unwrap_or_default();
        certified(of(0), of(1))
    })?);
    let mut config = rustls::ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::new(Kind::Internal, error.to_string()))?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(certified));
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

struct Certified(Watched<CertifiedKey>);

impl ResolvesServerCert for Certified {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.0.now().ok()
    }
}

impl std::fmt::Debug for Certified {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Certified")
    }
}

/// A certificate and its key that fit each other.
fn certified(certificate: &[u8], key: &[u8]) -> Result<CertifiedKey, String> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(certificate).collect();
    let chain = chain.map_err(|error| format!("the certificate can't be read as PEM: {error}"))?;
    if chain.is_empty() {
        return Err("there is no certificate in it (-----BEGIN CERTIFICATE-----)".to_owned());
    }
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| format!("the key can't be read as PEM: {error}"))?;
    CertifiedKey::from_der(chain, key, &ring::default_provider())
        .map_err(|error| format!("the certificate and the key don't go together: {error}"))
}
