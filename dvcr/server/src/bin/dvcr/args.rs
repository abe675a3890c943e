//! The command line.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, Subcommand, ValueEnum};

/// The registry where images of virtual machines live.
///
///   dvcr serve --root /data
///   dvcr serve --root /data --listen 0.0.0.0:5000 --tls-cert tls.crt --tls-key tls.key --htpasswd users
///   dvcr ls --root /data
///   dvcr rm --root /data cvi/jammy:v1
///   dvcr gc --root /data
///   dvcr check --root /data
#[derive(Parser)]
#[command(name = "dvcr", version, verbatim_doc_comment, max_term_width = 100, arg_required_else_help = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Serves a store as an OCI registry
    Serve(Box<Serve>),
    /// Removes what no tag leads to; also while the registry serves
    Gc(Gc),
    /// Verifies every blob, manifest and tag; also while the registry serves
    Check(Check),
    /// Lists repositories, tags and sizes
    Ls(Ls),
    /// Removes tags, manifests or a repository; `gc` then frees the space
    Rm(Rm),
}

#[derive(clap::Args)]
pub(crate) struct Serve {
    /// The folder of the store; made when it is not there
    #[arg(long, value_name = "DIR")]
    pub(crate) root: PathBuf,
    /// Where to take connections; port 0 is any that is free, and said on standard output
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:5000", value_parser = address)]
    pub(crate) listen: SocketAddr,
    /// Where to tell /metrics and /healthz without TLS; otherwise with the rest
    #[arg(long, value_name = "HOST:PORT", value_parser = address)]
    pub(crate) metrics_listen: Option<SocketAddr>,
    /// A PEM file with the certificate and those above it; read again when it changes
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// A PEM file with its key
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// A file of `htpasswd -B`: whoever is in it may do everything; read again when it changes
    #[arg(long, value_name = "FILE")]
    pub(crate) htpasswd: Option<PathBuf>,
    /// The same of those who may only pull and list
    #[arg(long, value_name = "FILE")]
    pub(crate) htpasswd_pull: Option<PathBuf>,
    /// A PEM file with the public keys (P-256) of tokens (ES256); read again when it changes
    #[arg(long, value_name = "FILE")]
    pub(crate) token_public_key: Option<PathBuf>,
    /// Where clients get tokens, for the challenge; without it they send one as password of the user dvcr-jwt
    #[arg(long, value_name = "URL", requires = "token_public_key")]
    pub(crate) token_realm: Option<String>,
    /// What this registry is called in tokens (aud)
    #[arg(long, value_name = "NAME", default_value = "dvcr")]
    pub(crate) token_service: String,
    /// Who issues tokens (iss); without it whoever has the key
    #[arg(long, value_name = "NAME", requires = "token_public_key")]
    pub(crate) token_issuer: Option<String>,
    /// Pulling needs no credentials
    #[arg(long)]
    pub(crate) anonymous_pull: bool,
    /// All content together may have so many bytes: 500Gi
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) quota: Option<u64>,
    /// So many bytes of the file system stay free [default: 2 %, at most 256Mi]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) reserve: Option<u64>,
    /// Memory for all pulls together
    #[arg(long, value_name = "SIZE", default_value = "64Mi", value_parser = size)]
    pub(crate) memory: u64,
    /// Connections at a time
    #[arg(long, value_name = "N", default_value_t = 4096)]
    pub(crate) connections: usize,
    /// How long a client may do nothing
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = time)]
    pub(crate) timeout: Duration,
    /// How long requests may go on after SIGTERM
    #[arg(long, value_name = "TIME", default_value = "25s", value_parser = time)]
    pub(crate) drain: Duration,
    /// Collect garbage this often: 1h; without it only expired uploads are removed, each hour
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) gc_interval: Option<Duration>,
    #[command(flatten)]
    pub(crate) garbage: Garbage,
    /// How to write what happens, on standard error
    #[arg(long, value_enum, default_value = "text")]
    pub(crate) log: Log,
}

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum Log {
    Text,
    Json,
}

#[derive(clap::Args)]
pub(crate) struct Gc {
    /// The folder of the store
    #[arg(long, value_name = "DIR")]
    pub(crate) root: PathBuf,
    #[command(flatten)]
    pub(crate) garbage: Garbage,
    /// Only say what would go
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// What garbage is.
#[derive(clap::Args)]
pub(crate) struct Garbage {
    /// How long a manifest stays after it lost its last tag or was pulled
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = time)]
    pub(crate) grace: Duration,
    /// Manifests without a tag stay
    #[arg(long)]
    pub(crate) keep_untagged: bool,
    /// A file with what stays besides: lines of name, name:tag or name@digest (repeatable)
    #[arg(long, value_name = "FILE")]
    pub(crate) keep: Vec<PathBuf>,
    /// Tags that no --keep names go, too
    #[arg(long, requires = "keep")]
    pub(crate) only_kept: bool,
    /// Uploads that had no new bytes for so long are removed
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = time)]
    pub(crate) upload_expiry: Duration,
}

#[derive(clap::Args)]
pub(crate) struct Check {
    /// The folder of the store
    #[arg(long, value_name = "DIR")]
    pub(crate) root: PathBuf,
    /// Hashing threads
    #[arg(long, value_name = "N", default_value_t = 2)]
    pub(crate) threads: usize,
    /// Remove blobs that are damaged, so that the next push brings them again
    #[arg(long)]
    pub(crate) discard: bool,
}

#[derive(clap::Args)]
pub(crate) struct Ls {
    /// The folder of the store
    #[arg(long, value_name = "DIR")]
    pub(crate) root: PathBuf,
    /// Only this: name, name:tag or name@digest
    pub(crate) name: Option<String>,
    /// Also manifests without a tag
    #[arg(long)]
    pub(crate) untagged: bool,
    /// One JSON object a line
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(clap::Args)]
pub(crate) struct Rm {
    /// The folder of the store
    #[arg(long, value_name = "DIR")]
    pub(crate) root: PathBuf,
    /// name:tag, name@digest, or with --all a whole repository
    #[arg(required = true)]
    pub(crate) references: Vec<String>,
    /// Everything in the repositories that are named
    #[arg(long)]
    pub(crate) all: bool,
}

fn address(text: &str) -> Result<SocketAddr, String> {
    // `:5000` is every address, as in other programs.
    let full = if text.starts_with(':') { format!("[::]{text}") } else { text.to_owned() };
    let mut addresses = full.to_socket_addrs().map_err(|error| format!("{error}: write it as host:port"))?;
    addresses.next().ok_or_else(|| "this name has no address".to_owned())
}

/// A number of bytes: `500Gi`, `64M`, `1000`.
fn size(text: &str) -> Result<u64, String> {
    let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(split);
    let factor: u64 = match unit {
        "" | "B" => 1,
        "k" | "K" => 1000,
        "M" => 1_000_000,
        "G" => 1_000_000_000,
        "T" => 1_000_000_000_000,
        "Ki" => 1 << 10,
        "Mi" => 1 << 20,
        "Gi" => 1 << 30,
        "Ti" => 1 << 40,
        _ => return Err("write it as 500Gi, 64Mi or 1000000".to_owned()),
    };
    let number: u64 = digits.parse().map_err(|_| "write it as 500Gi, 64Mi or 1000000".to_owned())?;
    number.checked_mul(factor).ok_or_else(|| "that is more than there is".to_owned())
}

/// A time: `90s`, `10m`, `1h`, `7d`, `1h30m`.
fn time(text: &str) -> Result<Duration, String> {
    let wrong = || "write it as 90s, 10m, 1h30m or 7d".to_owned();
    let mut seconds: u64 = 0;
    let mut digits = String::new();
    for c in text.chars() {
        if c.is_ascii_digit() {
            digits.push(c);
            continue;
        }
        let factor = match c {
            's' => 1,
            'm' => 60,
            'h' => 3600,
            'd' => 86400,
            _ => return Err(wrong()),
        };
        let number: u64 = std::mem::take(&mut digits).parse().map_err(|_| wrong())?;
        seconds = number.checked_mul(factor).and_then(|more| seconds.checked_add(more)).ok_or_else(wrong)?;
    }
    let is_bare_zero = text == "0";
    if text.is_empty() || !(digits.is_empty() || is_bare_zero) {
        return Err(wrong());
    }
    Ok(Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_a_sound_command_line() {
        use clap::CommandFactory;
        Args::command().debug_assert();
    }

    #[test]
    fn sizes_and_times() {
        assert_eq!(size("500Gi"), Ok(500 << 30));
        assert_eq!(size("1000"), Ok(1000));
        assert_eq!(size("2M"), Ok(2_000_000));
        for text in ["", "Gi", "1.5Gi", "-1", "1Xi", "99999999999Ti"] {
            assert!(size(text).is_err(), "{text}");
        }
        assert_eq!(time("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(time("1h30m"), Ok(Duration::from_secs(5400)));
        assert_eq!(time("0"), Ok(Duration::ZERO));
        assert_eq!(time("0s"), Ok(Duration::ZERO));
        for text in ["", "s", "10", "1x", "m5", "99999999999999999d"] {
            assert!(time(text).is_err(), "{text}");
        }
        assert_eq!(address("127.0.0.1:0").unwrap().to_string(), "127.0.0.1:0");
        assert_eq!(address(":5000").unwrap().to_string(), "[::]:5000");
        assert!(address("nowhere").is_err());
    }
}
