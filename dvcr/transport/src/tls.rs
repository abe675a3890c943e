//! Who is trusted, and what to say when nobody is.

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_name;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, OtherError, RootCertStore, SignatureScheme};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use url::Host;

use crate::certificate::{authority, describe, first_day, last_day};
use crate::error::{Error, Kind, Result, reason};
use crate::side::Side;

/// The certificates that are trusted.
pub(crate) struct Trust {
    given: Vec<CertificateDer<'static>>,
    insecure: bool,
    side: Side,
    /// Made at the first use: reading the system's roots takes some milliseconds, and `http` needs none.
    config: OnceLock<Result<Configs>>,
}

/// The same trust, and what is offered to speak.
#[derive(Clone)]
struct Configs {
    any: Arc<ClientConfig>,
    http1: Arc<ClientConfig>,
}

impl Trust {
    /// Reads the files now, so that a wrong one is named before anything is transferred.
    pub(crate) fn new(files: &[PathBuf], insecure: bool, side: Side) -> Result<Self> {
        let mut given = Vec::new();
        for file in files {
            match file.is_dir() {
                true => given.extend(folder(file)?),
                false => given.extend(certificates(&read(file)?).map_err(|why| unusable(file, &why))?),
            }
        }
        Ok(Self { given, insecure, side, config: OnceLock::new() })
    }

    /// A secure connection over `stream` with a server that proves to be `host`. HTTP/2 is offered unless `http1_only`.
    pub(crate) async fn secure<S>(&self, stream: S, host: &Host<String>, http1_only: bool) -> Result<TlsStream<S>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let name = match host {
            Host::Ipv4(address) => ServerName::from(std::net::IpAddr::from(*address)),
            Host::Ipv6(address) => ServerName::from(std::net::IpAddr::from(*address)),
            // The dot at the end of a full name is no part of a certificate's.
            Host::Domain(name) => ServerName::try_from(name.strip_suffix('.').unwrap_or(name).to_owned())
                .map_err(|_| Error::new(Kind::Tls, "no certificate can be for such a host name: use http://"))?,
        };
        let Configs { any, http1 } = self.configs()?;
        let connector = TlsConnector::from(if http1_only { http1 } else { any });
        connector.connect(name, stream).await.map_err(|error| {
            match error.get_ref().and_then(|error| error.downcast_ref::<rustls::Error>()) {
                Some(error) => Error::new(Kind::Tls, words(error)),
                None => Error::new(Kind::Cut, format!("the connection broke in the TLS handshake: {}", reason(&error))),
            }
        })
    }

    fn configs(&self) -> Result<Configs> {
        self.config.get_or_init(|| self.make()).clone()
    }

    fn make(&self) -> Result<Configs> {
        let provider = Arc::new(ring::default_provider());
        let verifier = Verifier::new(&self.given, self.insecure, self.side, &provider)?;
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| Error::new(Kind::Tls, error.to_string()))?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_no_client_auth();
        config.alpn_protocols = vec![HTTP1.to_vec()];
        let http1 = Arc::new(config.clone());
        config.alpn_protocols = vec![H2.to_vec(), HTTP1.to_vec()];
        Ok(Configs { any: Arc::new(config), http1 })
    }
}

/// The name of HTTP/2 in the handshake.
pub(crate) const H2: &[u8] = b"h2";
const HTTP1: &[u8] = b"http/1.1";

fn read(file: &Path) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = File::open(file).and_then(|file| file.take(MAX_BUNDLE).read_to_end(&mut bytes));
    read.map_err(|error| unusable(file, &reason(&error)))?;
    Ok(bytes)
}

/// All certificates in the files of a folder, as a mounted ConfigMap or Secret is one: under any name, beside other files,
/// and with what begins with a dot left out.
fn folder(folder: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let mut found = Vec::new();
    let entries = folder.read_dir().map_err(|error| unusable(folder, &reason(&error)))?;
    let mut files: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    files.sort();
    files.retain(|file| file.file_name().is_some_and(|name| !name.as_encoded_bytes().starts_with(b".")));
    for file in files.iter().filter(|file| file.is_file()) {
        let bytes = read(file)?;
        if bytes.windows(PEM.len()).any(|text| text == PEM) {
            found.extend(certificates(&bytes).map_err(|why| unusable(file, &why))?);
        }
    }
    match found.is_empty() {
        true => Err(unusable(folder, "has no file with a PEM certificate in it")),
        false => Ok(found),
    }
}

fn unusable(file: &Path, why: &str) -> Error {
    Error::new(Kind::Usage, format!("{}: {why}", file.display()))
}

/// Every readable certificate in a PEM file, whatever else is in it; or the one in a DER file.
fn certificates(bytes: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(bytes).collect();
    let mut found = found.map_err(|error| format!("is not sound PEM: {error}"))?;
    // A DER certificate of any real size begins with a SEQUENCE whose length takes two bytes.
    if found.is_empty() && bytes.starts_with(&[0x30, 0x82]) {
        found.push(CertificateDer::from(bytes.to_vec()));
    }
    // One odd certificate in a bundle must not disable all others.
    let all = found.len();
    found.retain(|certificate| RootCertStore::empty().add(certificate.clone()).is_ok());
    match found.is_empty() {
        true if all == 0 => Err("has no certificate in it: give a PEM file".into()),
        true => Err(format!("none of the {all} certificates in it can be read")),
        false => Ok(found),
    }
}

const PEM: &[u8] = b"-----BEGIN CERTIFICATE-----";

/// A bundle of all public roots has 250 KB.
const MAX_BUNDLE: u64 = 16 << 20;

/// Judges a server's certificate.
#[derive(Debug)]
struct Verifier {
    /// `None` trusts anyone.
    roots: Option<Arc<WebPkiServerVerifier>>,
    given: Vec<CertificateDer<'static>>,
    provider: Arc<CryptoProvider>,
    side: Side,
}

impl Verifier {
    fn new(
        given: &[CertificateDer<'static>],
        insecure: bool,
        side: Side,
        provider: &Arc<CryptoProvider>,
    ) -> Result<Self> {
        let (provider, given) = (Arc::clone(provider), given.to_vec());
        if insecure {
            return Ok(Self { roots: None, given, provider, side });
        }
        let system = rustls_native_certs::load_native_certs();
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(system.certs);
        roots.add_parsable_certificates(given.clone());
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
        let verifier = verifier.build().map_err(|_| {
            let why = system.errors.first().map(|error| format!(" ({error})")).unwrap_or_default();
            let message = format!(
                "this machine has no trusted certificates{why}: install ca-certificates, or give {} FILE",
                side.option("ca")
            );
            Error::new(Kind::Tls, message)
        })?;
        Ok(Self { roots: Some(verifier), given, provider, side })
    }

    fn judge(
        &self,
        roots: &WebPkiServerVerifier,
        server: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        now: UnixTime,
    ) -> Result<(), rustls::Error> {
        match roots.verify_server_cert(server, between, name, &[], now) {
            Ok(_) => Ok(()),
            // The very certificate that was given: it may be marked as an authority (`Other`), or be signed by an
            // authority that was not given. That it is of this time was checked before either is found.
            Err(rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer | CertificateError::Other(_)))
                if self.given.contains(server) =>
            {
                verify_server_name(&ParsedCertificate::try_from(server)?, name)
            }
            Err(error) => Err(error),
        }
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        server: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        _ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let verdict = match &self.roots {
            Some(roots) => self.judge(roots, server, between, name, now),
            None => Ok(()),
        };
        match verdict {
            Ok(()) => Ok(ServerCertVerified::assertion()),
            Err(rustls::Error::InvalidCertificate(why)) => {
                let distrust = Distrust::new(why, name, server, between, self.side);
                Err(rustls::Error::InvalidCertificate(CertificateError::Other(OtherError(Arc::new(distrust)))))
            }
            Err(error) => Err(error),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        match &self.roots {
            Some(roots) => roots.verify_tls12_signature(message, certificate, signature),
            None => Ok(HandshakeSignatureValid::assertion()),
        }
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        match &self.roots {
            Some(roots) => roots.verify_tls13_signature(message, certificate, signature),
            None => Ok(HandshakeSignatureValid::assertion()),
        }
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// Why a certificate is not trusted, with the certificate.
#[derive(Debug)]
struct Distrust {
    why: CertificateError,
    /// The host that was asked for.
    name: String,
    certificate: String,
    /// Who would have to be trusted; `None` for a certificate that is signed by itself.
    authority: Option<String>,
    /// The day on which validity ended or begins.
    day: String,
    side: Side,
}

impl Distrust {
    fn new(
        why: CertificateError,
        name: &ServerName<'_>,
        server: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        side: Side,
    ) -> Self {
        let mut certificate = describe(server);
        // It may be another one of the chain that is not of this time.
        let find = |seconds: u64, day_of: fn(&[u8]) -> Option<(u64, String)>| {
            std::iter::once(server)
                .chain(between)
                .find_map(|one| Some((one, day_of(one).filter(|day| day.0 == seconds)?.1)))
        };
        let found = match &why {
            CertificateError::ExpiredContext { not_after, .. } => find(not_after.as_secs(), last_day),
            CertificateError::NotValidYetContext { not_before, .. } => find(not_before.as_secs(), first_day),
            _ => None,
        };
        if let Some((culprit, _)) = found.as_ref().filter(|(culprit, _)| *culprit != server) {
            certificate = format!("{certificate}), by way of ({}", describe(culprit));
        }
        let day = found.map_or_else(|| "some day".into(), |(_, day)| day);
        let authority = authority(server, between.iter().map(|one| &**one));
        Self { why, name: name.to_str().into_owned(), certificate, authority, day, side }
    }
}

impl std::error::Error for Distrust {}

impl fmt::Display for Distrust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { why, name, certificate, authority, day, side } = self;
        let ca = side.option("ca");
        write!(f, "the certificate of {name} ({certificate}) ")?;
        let days = |from: &UnixTime, to: &UnixTime| to.as_secs().saturating_sub(from.as_secs()) / 86400;
        match why {
            CertificateError::UnknownIssuer => match authority {
                Some(authority) => write!(
                    f,
                    "is not signed by a trusted authority: if it is right, give the certificate of \"{authority}\" with {ca} \
                     FILE"
                ),
                None => {
                    write!(f, "is trusted by nobody: if it is right, give this very certificate with {ca} FILE")
                }
            },
            CertificateError::NotValidForNameContext { presented, .. } if presented.is_empty() => {
                f.write_str("is for no host name at all (it has no subjectAltName): the server needs another one")
            }
            CertificateError::NotValidForNameContext { presented, .. }
                if presented.iter().any(|given| plain(given) == *name) =>
            {
                f.write_str("has this address as a host name, not as an IP address: the server needs another one")
            }
            CertificateError::NotValidForNameContext { presented, .. } => {
                let names: Vec<_> = presented.iter().take(5).map(|name| plain(name)).collect();
                let more = if presented.len() > names.len() { " …" } else { "" };
                write!(f, "is for {}{more} only: use such a name in the address", names.join(", "))
            }
            CertificateError::ExpiredContext { time, not_after } => {
                write!(
                    f,
                    "expired on {day}, {} days ago: the server needs a new one (or this machine's clock is wrong)",
                    days(not_after, time)
                )
            }
            CertificateError::NotValidYetContext { time, not_before } => {
                write!(
                    f,
                    "is not valid before {day}, {} days from now: is this machine's clock right?",
                    days(time, not_before)
                )
            }
            CertificateError::InvalidPurposeContext { .. } | CertificateError::InvalidPurpose => {
                f.write_str("is not meant for servers (extended key usage): the server needs another one")
            }
            CertificateError::Other(OtherError(why)) if why.to_string() == "CaUsedAsEndEntity" => write!(
                f,
                "is marked as an authority: give this very certificate with {ca} FILE, or give the server another one"
            ),
            why => write!(f, "can't be trusted: {why}"),
        }
    }
}

/// `DnsName("a.example")` and `IpAddress(10.0.0.1)` without what is around.
fn plain(name: &str) -> String {
    let inner = name.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')')).unwrap_or(name);
    inner.trim_matches('"').chars().filter(|char| !char.is_control()).take(100).collect()
}

fn words(error: &rustls::Error) -> String {
    match error {
        rustls::Error::InvalidCertificate(CertificateError::Other(OtherError(why))) if why.is::<Distrust>() => {
            format!("the server is not trusted: {why}")
        }
        rustls::Error::InvalidCertificate(why) => format!("the server is not trusted: {why}"),
        rustls::Error::InvalidMessage(_) => "the server does not speak TLS on this port: is it http://?".to_owned(),
        rustls::Error::AlertReceived(alert) => {
            format!("the server refused a secure connection with the alert {alert:?}: check host name and port")
        }
        rustls::Error::PeerIncompatible(why) => {
            format!("the server has no TLS 1.2 or 1.3 in common with us ({why:?}): it needs an update")
        }
        error => format!("no secure connection: {error}"),
    }
}

#[cfg(test)]
mod tests;
