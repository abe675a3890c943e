//! Options for secure connections.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args as Group;
use importer_flow::Result;
use uploader::tls::{Files, Profile, Rules, Tls, Version};

/// How connections to this server are made secure.
#[derive(Debug, Group)]
pub struct Secure {
    /// A PEM file with the certificate and those above it; read again when it changes
    #[arg(long, value_name = "FILE", requires = "tls_key", env = "TLS_CERT_FILE")]
    pub tls_cert: Option<PathBuf>,
    /// A PEM file with its key
    #[arg(long, value_name = "FILE", requires = "tls_cert", env = "TLS_KEY_FILE")]
    pub tls_key: Option<PathBuf>,
    /// Which versions and ciphers of TLS are taken: modern (1.3), intermediate, old (as intermediate: older ones are not
    /// spoken), or custom [default: intermediate, or custom with one of the next two]
    #[arg(long, value_name = "PROFILE", requires = "tls_cert")]
    pub tls_profile: Option<Profile>,
    /// The oldest version of TLS that is taken: VersionTLS12 or VersionTLS13
    #[arg(long, value_name = "VERSION", env = "TLS_MIN_VERSION")]
    pub tls_min_version: Option<String>,
    /// The ciphers that are taken, by their names in OpenSSL or IANA; those of TLS 1.3 are, unless some are named
    #[arg(long, value_name = "NAMES", value_delimiter = ',', env = "TLS_CIPHERS")]
    pub tls_ciphers: Vec<String>,
}

/// Who may connect.
#[derive(Debug, Group)]
pub struct Clients {
    /// A PEM file with who signs the certificates that clients must have; read again when it changes
    #[arg(long, value_name = "FILE", requires = "tls_cert", env = "CLIENT_CERT_FILE")]
    pub client_ca: Option<PathBuf>,
    /// The name that must stand in them
    #[arg(long, value_name = "NAME", requires = "client_ca", env = "CLIENT_NAME")]
    pub client_name: Option<String>,
}

impl Secure {
    /// What the options say; `None` without a certificate.
    pub fn tls(&self, clients: Option<&Clients>) -> Result<Option<Arc<Tls>>> {
        let (Some(certificate), Some(key)) = (&self.tls_cert, &self.tls_key) else { return Ok(None) };
        let rules = self.rules()?;
        for notice in rules.notices() {
            tracing::warn!("{notice}");
        }
        let files = Files {
            certificate: certificate.clone(),
            key: key.clone(),
            client_ca: clients.and_then(|clients| clients.client_ca.clone()),
        };
        Tls::new(files, rules, clients.and_then(|clients| clients.client_name.clone())).map(Some)
    }

    fn rules(&self) -> Result<Rules> {
        // The environment may have them without a value.
        let min = self.tls_min_version.as_deref().map(str::trim).filter(|text| !text.is_empty());
        let usage = |why| importer_flow::Error::new(importer_flow::Kind::Usage, format!("--tls-min-version: {why}"));
        let min = min.map(str::parse::<Version>).transpose().map_err(usage)?;
        let ciphers = self.tls_ciphers.iter().map(|name| name.trim()).filter(|name| !name.is_empty());
        let ciphers: Vec<String> = ciphers.map(str::to_owned).collect();
        let said = if min.is_none() && ciphers.is_empty() { Profile::Intermediate } else { Profile::Custom };
        Rules::new(self.tls_profile.unwrap_or(said), min, &ciphers)
    }
}
