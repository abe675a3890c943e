//! The command line.

use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueEnum};
use importer_flow::Checksum;

use crate::size::Size;

/// Brings a virtual machine's disk image to a file or a block device, in one pass.
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
    /// Copy an image to a raw disk
    ///
    /// The image may be qcow2, VMDK, VHD, VHDX, VDI, QED, Parallels, ISO or raw, inside gzip, xz, zstd, bzip2, lz4, tar
    /// or OVA. What it is is found out by its content, never by its name.
    Copy(Copy),
    /// Say what an image is, reading only its metadata
    Inspect(Inspect),
}

/// Copy an image to a raw disk.
#[derive(Debug, Parser)]
#[command(after_help = EXAMPLES)]
pub struct Copy {
    /// Where the image is: an http(s) URL, a path, or - for standard input
    pub source: String,
    /// Where the disk goes: a file, a block device, or null: to decode and verify only
    pub target: String,
    #[command(flatten)]
    pub from: From,
    /// Grow the disk to this size (a file only; never shrinks): 10Gi, 20G, bytes
    #[arg(long, value_name = "SIZE")]
    pub size: Option<Size>,
    /// Reserve the space for the whole disk
    #[arg(long)]
    pub preallocate: bool,
    /// What the image, as received, must hash to: sha256:HEX or sha512:HEX; all that are given must match
    #[arg(long, value_name = "ALG:HEX")]
    pub checksum: Vec<Checksum>,
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

/// Say what an image is.
#[derive(Debug, Parser)]
pub struct Inspect {
    /// Where the image is: an http(s) URL, a path, or - for standard input
    pub source: String,
    #[command(flatten)]
    pub from: From,
    /// Write JSON
    #[arg(long)]
    pub json: bool,
}

/// How to read the source.
#[derive(Debug, Parser)]
pub struct From {
    /// The disk to take from an archive that holds several
    #[arg(long, value_name = "NAME")]
    pub disk: Option<String>,
    /// Trust the certificates in this file too (PEM)
    #[arg(long, value_name = "FILE")]
    pub ca: Vec<PathBuf>,
    /// Trust any certificate
    #[arg(long)]
    pub insecure: bool,
    /// Send this header to the source
    #[arg(long, value_name = "K: V")]
    pub header: Vec<String>,
    /// User for basic authentication
    #[arg(long, value_name = "NAME", requires = "password_file")]
    pub user: Option<String>,
    /// File with the password
    #[arg(long, value_name = "FILE", requires = "user")]
    pub password_file: Option<PathBuf>,
    /// Memory to use; xz and zstd with long windows need their dictionaries on top
    #[arg(long, value_name = "SIZE", default_value = "64Mi")]
    pub memory: Size,
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
  importer copy --disk data.vmdk appliance.ova data.raw
  zstd -dc backup.zst | importer copy - /dev/sdb
  importer inspect https://cloud.example/jammy.img --json";
