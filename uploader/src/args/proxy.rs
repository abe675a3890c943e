//! Options of `uploader proxy`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args as Group;
use uploader::cors::Origin;

use super::{Secure, address, seconds};

/// Lets those in who have a token, and passes on what they send.
#[derive(Debug, Group)]
pub struct Proxy {
    /// Where to take connections; port 0 is any that is free, and said on standard output
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:8443", value_parser = address)]
    pub listen: SocketAddr,
    /// Where /metrics and /healthz are, over plain HTTP
    #[arg(long, value_name = "HOST:PORT", value_parser = address)]
    pub health_listen: Option<SocketAddr>,
    #[command(flatten)]
    pub secure: Secure,
    /// A PEM file with the public keys (RSA) of who issues tokens; read again when it changes [default: the text in the
    /// environment's APISERVER_PUBLIC_KEY]
    #[arg(long, value_name = "FILE")]
    pub public_key: Option<PathBuf>,
    /// Where the server for a PersistentVolumeClaim is; {service} is cdi-upload-NAME as CDI shortens it, and there are
    /// {namespace} and {name}
    #[arg(long, value_name = "URL", default_value = "https://{service}.{namespace}.svc:8443")]
    pub upstream: String,
    /// A PEM file with who signs the certificates of servers; read again when it changes
    #[arg(long, value_name = "FILE")]
    pub server_ca: Option<PathBuf>,
    /// A PEM file with the certificate to show to servers; read again when it changes
    #[arg(long, value_name = "FILE", requires_all = ["client_key", "server_ca"])]
    pub client_cert: Option<PathBuf>,
    /// A PEM file with its key
    #[arg(long, value_name = "FILE", requires = "client_cert")]
    pub client_key: Option<PathBuf>,
    /// Pages of this origin may send, as https://cloud.example; * for all; may be repeated
    #[arg(long, value_name = "ORIGIN", default_value = "*")]
    pub cors_origin: Vec<Origin>,
    /// How long a server may take to become ready, before the client is told to try again
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = seconds)]
    pub wait: Duration,
    /// How long a client may send nothing within a request; there is no limit for a whole one
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = seconds)]
    pub timeout: Duration,
    /// How long uploads that are under way may go on after a signal to end
    #[arg(long, value_name = "SECONDS", default_value = "25", value_parser = seconds)]
    pub drain: Duration,
}
