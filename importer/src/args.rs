//! The command line.

use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueEnum};
use importer_flow::credentials::Secret;
use importer_flow::{Algorithm, Checksum, Size};

/// Brings a virtual machine's disk image to a file, a block device or a registry, in one pass.
#[derive(Debug, Parser)]
#[command(name = "importer", version, after_help = EXAMPLES)]
pub struct Args {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Copy an image to a raw disk, or to a registry
    ///
    /// The image may be qcow2, VMDK, VHD, VHDX, VDI, QED, Parallels, ISO or raw, inside gzip, xz, zstd, bzip2, lz4, tar
    /// or OVA. What it is is found out by its content, never by its name.
    Copy(Box<Copy>),
    /// Say what an image is, reading only its metadata
    Inspect(Box<Inspect>),
}

/// Copy an image to a raw disk, or to a registry.
#[derive(Debug, Parser)]
#[command(after_help = EXAMPLES)]
pub struct Copy {
    /// Where the image is: an http(s) URL, docker://HOST/REPOSITORY[:TAG][@DIGEST], s3://BUCKET/KEY,
    /// gs://BUCKET/KEY, oci:FOLDER[:NAME], oci-archive:FILE[:NAME], a path, or - for standard input
    pub source: String,
    /// Where the disk goes: a file, a block device, docker://HOST/REPOSITORY:TAG, or null: (with its colon), which only
    /// decodes and verifies
    pub target: String,
    #[command(flatten)]
    pub from: From,
    #[command(flatten)]
    pub to: To,
    /// Grow the disk to this size (never shrinks): 10Gi, 20G, bytes
    ///
    /// A file gets it, with zeros behind the disk. A device keeps its own size: it must have at least this one, and else is
    /// refused as too small (exit code 8), as is a size that is smaller than the disk.
    #[arg(long, value_name = "SIZE")]
    pub size: Option<Size>,
    /// Reserve the space for the whole disk
    #[arg(long)]
    pub preallocate: bool,
    /// Keep what is done beside a file, or on the device, when the copy is interrupted, even by SIGKILL; the same command
    /// again goes on from there, if the source is still the same
    #[arg(long)]
    pub resume: bool,
    /// What the image, as received, must hash to; all that are given must match
    ///
    /// ALG is md5, sha1, sha256, sha512, streebog256 or streebog512. The hash is of the file as its publisher has it, before
    /// anything is unpacked. Of an image of layers that is the file in its layer, or the layer that is the disk: the layers
    /// themselves are compared with their digests anyway. The whole file is read, once.
    #[arg(long, value_name = "ALG:HEX")]
    pub checksum: Vec<Checksum>,
    /// A list that has the image's checksum, such as SHA256SUMS: a URL or a path
    ///
    /// The image is found in it by the last part of its URL or path. Lists of sha256sum and the like, of BSD, openssl and
    /// rhash are understood, also signed ones: the signature is NOT verified. ALG: in front says of which algorithm the
    /// hashes are; else that is told by their length, and by the name of the list for Streebog. What identifies us to the
    /// source is sent to the list's server only if that is the same.
    #[arg(long, value_name = "[ALG:]LIST")]
    pub checksum_url: Vec<List>,
    /// The most to spool beside the target when standard input brings an image's tables after its data
    #[arg(long, value_name = "SIZE", default_value = "1Gi")]
    pub spool_limit: Size,
    /// Write what was done, or why it failed, as JSON
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// How to show progress
    #[arg(long, value_name = "HOW", default_value = "auto")]
    pub progress: Show,
}

/// Where a list of checksums is, and which of its hashes count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct List {
    /// Only those of this algorithm, which is also that of hashes without one.
    pub algorithm: Option<Algorithm>,
    /// A URL or a path.
    pub place: String,
}

impl std::convert::From<&str> for List {
    fn from(text: &str) -> Self {
        let named = |(name, place)| Some((Algorithm::named(name)?, place));
        match text.split_once(':').and_then(named) {
            Some((algorithm, place)) => Self { algorithm: Some(algorithm), place: str::to_owned(place) },
            None => Self { algorithm: None, place: text.to_owned() },
        }
    }
}

/// Say what an image is.
#[derive(Debug, Parser)]
pub struct Inspect {
    /// Where the image is: an http(s) URL, docker://HOST/REPOSITORY[:TAG][@DIGEST], s3://BUCKET/KEY,
    /// gs://BUCKET/KEY, oci:FOLDER[:NAME], oci-archive:FILE[:NAME], a path, or - for standard input
    pub source: String,
    #[command(flatten)]
    pub from: From,
    /// Write JSON
    #[arg(long)]
    pub json: bool,
}

/// How an image is stored in a registry.
#[derive(Debug, Parser)]
pub struct To {
    /// What to store: keep the image as it is, without its wrappers, or make a raw disk of it; else qcow2 is kept and all
    /// others become raw
    #[arg(long = "as", value_name = "WHAT", help_heading = TARGETS)]
    pub stored_as: Option<As>,
    /// How to store the layer; else a raw disk is compressed and an image that is kept is not
    #[arg(long, value_name = "HOW", help_heading = TARGETS)]
    pub layer: Option<Stored>,
    /// Trust the certificates in this file or folder too (PEM)
    #[arg(long, value_name = "FILE", help_heading = TARGETS)]
    pub target_ca: Vec<PathBuf>,
    /// Trust any certificate of the target
    #[arg(long, help_heading = TARGETS)]
    pub target_insecure: bool,
    /// Send this header to the target
    #[arg(long, value_name = "K: V", help_heading = TARGETS)]
    pub target_header: Vec<Secret>,
    /// User of the target [env: MILLRACE_TARGET_USER]
    #[arg(long, value_name = "NAME", help_heading = TARGETS)]
    pub target_user: Option<String>,
    /// File with the password for the target [env: MILLRACE_TARGET_PASSWORD]
    #[arg(long, value_name = "FILE", help_heading = TARGETS)]
    pub target_password_file: Option<PathBuf>,
    /// Credentials for the target, as docker login leaves them [env: REGISTRY_AUTH_FILE, DOCKER_CONFIG]
    #[arg(long, value_name = "FILE", help_heading = TARGETS)]
    pub target_auth_file: Option<PathBuf>,
}

impl To {
    /// One of these options that was given.
    pub fn given(&self) -> Option<&'static str> {
        let options = [
            ("--as", self.stored_as.is_some()),
            ("--layer", self.layer.is_some()),
            ("--target-ca", !self.target_ca.is_empty()),
            ("--target-insecure", self.target_insecure),
            ("--target-header", !self.target_header.is_empty()),
            ("--target-user", self.target_user.is_some()),
            ("--target-password-file", self.target_password_file.is_some()),
            ("--target-auth-file", self.target_auth_file.is_some()),
        ];
        options.iter().find(|(_, given)| *given).map(|(option, _)| *option)
    }
}

/// What to store in a registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum As {
    /// A raw disk
    Raw,
    /// The image as it is
    Keep,
}

/// How to store a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Stored {
    /// Compressed in frames that can be read in any order
    Zstd,
    /// As it is
    Plain,
}

/// How to read the source.
#[derive(Debug, Parser)]
pub struct From {
    /// The disk to take from an archive or an image of layers that holds several
    #[arg(long, value_name = "NAME")]
    pub disk: Option<String>,
    /// For which machines the image of layers shall be: os/architecture, as in linux/arm64 or linux/arm/v7
    ///
    /// An image for another platform is never taken. Without it, a list of images is searched for one for this machine, and
    /// an image that is in no list is taken as it is. An image that is pushed is for this platform, too;
    /// without it, for that of the image it is made of.
    #[arg(long, value_name = "PLATFORM")]
    pub platform: Option<String>,
    /// Trust the certificates in this file or folder too (PEM)
    #[arg(long, value_name = "FILE")]
    pub ca: Vec<PathBuf>,
    /// Trust any certificate
    #[arg(long)]
    pub insecure: bool,
    /// Send this header to the source; secrets are safer in a file
    #[arg(long, value_name = "K: V")]
    pub header: Vec<Secret>,
    /// Send the headers in this file, one a line, or in the files of this folder, each named like its header
    #[arg(long, value_name = "FILE")]
    pub header_file: Vec<PathBuf>,
    /// User for basic authentication; for s3://, the access key id [env: MILLRACE_USER; AWS_ACCESS_KEY_ID]
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,
    /// File with the password; for s3://, with the secret key [env: MILLRACE_PASSWORD; AWS_SECRET_ACCESS_KEY,
    /// AWS_SESSION_TOKEN]
    #[arg(long, value_name = "FILE")]
    pub password_file: Option<PathBuf>,
    /// Credentials for docker://, as docker login leaves them; for gs://, the service account of Google (JSON)
    /// [env: REGISTRY_AUTH_FILE, DOCKER_CONFIG; GOOGLE_APPLICATION_CREDENTIALS]
    #[arg(long, value_name = "FILE")]
    pub auth_file: Option<PathBuf>,
    /// Mirrors of registries, and registries that are insecure or blocked, as containers have them (registries.conf,
    /// version 2) [env: CONTAINERS_REGISTRIES_CONF]
    ///
    /// The mirrors of a docker:// source are asked in order, then the registry itself. A certificate for a mirror may lie
    /// beside the file, in certs.d/HOST[:PORT]/ca.crt; --ca counts for mirrors too, --insecure and --user do not. No such file is
    /// read unless it is named: not /etc/containers/registries.conf.
    #[arg(long, value_name = "FILE")]
    pub registries_conf: Option<PathBuf>,
    /// Go through this proxy: http, https, socks5 or socks5h; none if empty [env: http_proxy, https_proxy, all_proxy]
    #[arg(long, value_name = "URL")]
    pub proxy: Option<Secret>,
    /// Connect to these directly: hosts, domains, addresses, networks, * [env: no_proxy]
    #[arg(long, value_name = "LIST")]
    pub no_proxy: Option<String>,
    #[command(flatten)]
    pub store: Store,
    /// The most connections that read the source side by side, where it has ranges and is slow
    #[arg(long, value_name = "N", default_value = "8", value_parser = clap::value_parser!(u8).range(1..=64))]
    pub connections: u8,
    /// How often to try without any progress in between [env: MILLRACE_ATTEMPTS]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub attempts: Option<u32>,
    /// Memory to use, besides 4 MiB for each further connection; xz and zstd with long windows need their dictionaries
    /// on top
    #[arg(long, value_name = "SIZE", default_value = "64Mi")]
    pub memory: Size,
}

/// Where an object store is, and who asks it.
#[derive(Debug, Parser)]
pub struct Store {
    /// Where the store is, if not at AWS or Google: https://minio.lan:9000 [env: AWS_ENDPOINT_URL_S3,
    /// AWS_ENDPOINT_URL, STORAGE_EMULATOR_HOST]
    #[arg(long, value_name = "URL", help_heading = STORES)]
    pub endpoint: Option<String>,
    /// Region of the bucket; the store is asked if it is wrong [env: AWS_REGION, AWS_DEFAULT_REGION]
    #[arg(long, value_name = "NAME", help_heading = STORES)]
    pub region: Option<String>,
    /// Whether the bucket is in the path or in the host name
    #[arg(long, value_name = "WHEN", default_value = "auto", help_heading = STORES)]
    pub path_style: PathStyle,
    /// Use no credentials, whatever the environment has
    #[arg(long, conflicts_with_all = ["user", "auth_file"], help_heading = STORES)]
    pub anonymous: bool,
}

impl Store {
    /// One of these options that was given.
    pub fn given(&self) -> Option<&'static str> {
        let options = [
            ("--endpoint", self.endpoint.is_some()),
            ("--region", self.region.is_some()),
            ("--path-style", self.path_style != PathStyle::Auto),
            ("--anonymous", self.anonymous),
        ];
        options.iter().find(|(_, given)| *given).map(|(option, _)| *option)
    }
}

/// Whether a bucket is in the path or in the host name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PathStyle {
    /// In the path at an --endpoint, or if the bucket has a dot; otherwise in the host name
    Auto,
    /// https://host/bucket/key
    Always,
    /// https://bucket.host/key
    Never,
}

/// How to show progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Show {
    /// A bar on a terminal, lines elsewhere
    Auto,
    /// A bar
    Bar,
    /// A JSON object per line
    Json,
    /// Nothing
    None,
}

const EXAMPLES: &str = "\
Examples:
  importer copy https://cloud.example/jammy.img disk.raw
  importer copy disk.qcow2 /dev/vg0/root
  importer copy --ca ca.pem --size 20Gi https://files.lan/win.vhdx.xz win.raw
  importer copy --checksum sha256:9f86d0… https://mirror.example/f41.raw.xz f41.raw
  importer copy --checksum-url SHA256SUMS https://mirror.example/f41.raw.xz f41.raw
  importer copy --disk data.vmdk appliance.ova data.raw
  zstd -dc backup.zst | importer copy - /dev/sdb
  importer copy docker://quay.io/containerdisks/fedora:41 fedora.raw --platform linux/arm64
  importer copy jammy.img docker://registry.lan/images/jammy:v1
  importer copy --endpoint https://minio.lan:9000 s3://images/jammy.img disk.raw
  importer inspect https://cloud.example/jammy.img --json

Environment, where no option says otherwise:
  MILLRACE_USER, MILLRACE_PASSWORD        for basic authentication
  MILLRACE_HEADERS                        headers for the source, one a line
  http_proxy, https_proxy, all_proxy      proxies, as in curl; also in upper case
  no_proxy                                what is connected to directly
  AWS_…, GOOGLE_APPLICATION_CREDENTIALS   for object stores; see copy --help
  SSL_CERT_FILE, SSL_CERT_DIR             the certificates of the system
  MILLRACE_LOG                            what to log: debug, trace";

const TARGETS: &str = "Registries as the target (docker://)";
const STORES: &str = "Object stores (s3://, gs://)";
