//! The command line.

mod proxy;
mod secure;

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args as Group, Parser, Subcommand};
use importer_flow::{Checksum, Size};
use uploader::cors::Origin;

use crate::to::To;

pub use proxy::Proxy;
pub use secure::{Clients, Secure};

/// Takes disk images that people send, and imports them while they come
///
///   uploader serve --root ./disks
///   uploader serve --target disk.raw
///   uploader serve --target docker://registry/images/jammy:v1 --token-file token
///
///   curl -T jammy.img http://127.0.0.1:8444/upload
#[derive(Debug, Parser)]
#[command(name = "uploader", version, verbatim_doc_comment, max_term_width = 100)]
pub struct Args {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Takes uploads, and imports each in one pass into a file, a block device or a registry
    Serve(Box<Serve>),
    /// Lets those in who have a token of the API server, and passes on what they send to the server for their volume
    Proxy(Box<Proxy>),
}

/// Takes uploads.
#[derive(Debug, Group)]
pub struct Serve {
    #[command(flatten)]
    pub place: Place,
    /// Where to take connections; port 0 is any that is free, and said on standard output
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:8444", value_parser = address)]
    pub listen: SocketAddr,
    /// Where /healthz and /metrics are, over plain HTTP; else both are at --listen
    #[arg(long, value_name = "HOST:PORT", value_parser = address)]
    pub health_listen: Option<SocketAddr>,
    /// A file with the secret of the upload's address, /upload/SECRET (with --root: what new uploads need as bearer token);
    /// without it whoever reaches the server may send
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    #[command(flatten)]
    pub secure: Secure,
    #[command(flatten)]
    pub clients: Clients,
    /// What the image, as sent, must hash to; all that are given must match
    #[arg(long, value_name = "ALG:HEX", conflicts_with = "root")]
    pub checksum: Vec<Checksum>,
    /// Grow the disk to this size (a file only; never shrinks): 10Gi, 20G, bytes
    #[arg(long, value_name = "SIZE", conflicts_with = "root")]
    pub size: Option<Size>,
    /// Reserve the space for the whole disk
    #[arg(long)]
    pub preallocate: bool,
    /// A folder for what an upload needs to go on after this program was started again [default: beside a file or in the
    /// folder; none for devices]
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,
    /// Memory for all imports together
    #[arg(long, value_name = "SIZE", default_value = "128Mi")]
    pub memory: Size,
    /// How many images may come at a time
    #[arg(long, value_name = "N", default_value_t = 64)]
    pub uploads: usize,
    /// How long an upload may do nothing, also before its first byte
    #[arg(long, value_name = "SECONDS", default_value = "600", value_parser = seconds)]
    pub expiry: Duration,
    /// How long a client may send nothing within a request
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = seconds)]
    pub timeout: Duration,
    /// Pages of this origin may send, as https://cloud.example; * for all; may be repeated
    #[arg(long, value_name = "ORIGIN")]
    pub cors_origin: Vec<Origin>,
    /// With --target: end also when an import fails, with the exit code that the importer has for that; else another image
    /// may be sent in its place until --expiry. A connection that is cut is no failure
    #[arg(long, conflicts_with = "root")]
    pub once: bool,
    /// With --target: how long to answer after the disk is complete, before the program ends
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = seconds)]
    pub exit_after: Duration,
    /// With --target: write what was done, or why it failed, as JSON; each time that an import ends
    #[arg(long, value_name = "FILE", conflicts_with = "root")]
    pub report: Option<PathBuf>,
    #[command(flatten)]
    pub to: To,
}

/// What uploads are for.
#[derive(Debug, Group)]
#[group(required = true, multiple = false)]
pub struct Place {
    /// One image: a file, a block device, or docker://HOST/REPOSITORY:TAG. The program ends when its disk is complete
    #[arg(long, value_name = "TARGET")]
    pub target: Option<String>,
    /// A folder, which gets a raw disk for each upload
    #[arg(long, value_name = "DIR")]
    pub root: Option<PathBuf>,
}

fn address(text: &str) -> Result<SocketAddr, String> {
    // `:8444` is every address, as in other programs.
    let full = if text.starts_with(':') { format!("[::]{text}") } else { text.to_owned() };
    let mut addresses = full.to_socket_addrs().map_err(|error| format!("{error}: write it as host:port"))?;
    addresses.next().ok_or_else(|| "this name has no address".to_owned())
}

fn seconds(text: &str) -> Result<Duration, String> {
    let digits = text.strip_suffix('s').unwrap_or(text);
    digits.parse().map(Duration::from_secs).map_err(|_| "write it as a number of seconds".to_owned())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn is_a_sound_command_line() {
        Args::command().debug_assert();
    }
}
