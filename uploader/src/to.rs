//! Options for a target in a registry.

use std::env;
use std::path::PathBuf;

use clap::{Args as Group, ValueEnum};
use importer_flow::credentials::{Secret, header, read};
use importer_flow::layer::LayerKind;
use importer_flow::registry::{Identity, Platform, Reference, Registry};
use importer_flow::sink::{Keep, Storing};
use importer_flow::source::{HttpConfig, Proxies};
use importer_flow::{Error, Kind, Result, Size};
use uploader::target::{Spool, Target};

/// How an image is stored in a registry, and who we are to that. As in the importer.
#[derive(Debug, Group)]
pub struct To {
    /// What to store: keep the image as it is, without its wrappers, or make a raw disk of it; else qcow2 is kept and all
    /// others become raw
    #[arg(long = "as", value_name = "WHAT", help_heading = TARGETS)]
    pub stored_as: Option<As>,
    /// How to store the layer; else a raw disk is compressed and an image that is kept is not
    #[arg(long, value_name = "HOW", help_heading = TARGETS)]
    pub layer: Option<Stored>,
    /// For which machines the image is: os/architecture, as in linux/arm64; else for those like this one
    #[arg(long, value_name = "PLATFORM", help_heading = TARGETS)]
    pub platform: Option<String>,
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
    /// Where an image waits whose length shows only at its end, as in what is compressed, while a registry wants it first
    /// [default: /var/tmp]
    #[arg(long, value_name = "DIR", help_heading = TARGETS)]
    pub spool: Option<PathBuf>,
    /// The most of an image that waits there; with 0 it is refused [default: 10Gi]
    #[arg(long, value_name = "SIZE", help_heading = TARGETS)]
    pub spool_limit: Option<Size>,
}

impl To {
    /// One of these options that was given.
    pub fn given(&self) -> Option<&'static str> {
        let options = [
            ("--as", self.stored_as.is_some()),
            ("--layer", self.layer.is_some()),
            ("--platform", self.platform.is_some()),
            ("--target-ca", !self.target_ca.is_empty()),
            ("--target-insecure", self.target_insecure),
            ("--target-header", !self.target_header.is_empty()),
            ("--target-user", self.target_user.is_some()),
            ("--target-password-file", self.target_password_file.is_some()),
            ("--target-auth-file", self.target_auth_file.is_some()),
            ("--spool", self.spool.is_some()),
            ("--spool-limit", self.spool_limit.is_some()),
        ];
        options.iter().find(|(_, given)| *given).map(|(option, _)| *option)
    }

    /// The image at `reference`.
    pub fn target(&self, reference: Reference) -> Result<Target> {
        let usage = |message: String| Error::new(Kind::Usage, message);
        let platform = match &self.platform {
            Some(text) => Platform::parse(text).map_err(|error| usage(format!("--platform: {error}")))?,
            None => Platform::of_this_machine(),
        };
        let storing = Storing {
            keep: match self.stored_as {
                None => Keep::Usual,
                Some(As::Keep) => Keep::All,
                Some(As::Raw) => Keep::Nothing,
            },
            layer: self.layer.map(|layer| match layer {
                Stored::Zstd => LayerKind::Zstd,
                Stored::Plain => LayerKind::Plain,
            }),
            threads: std::thread::available_parallelism().map_or(2, usize::from),
        };
        let named = |line: &Secret| {
            header(&line.0).ok_or_else(|| usage("a --target-header has no name; write it as 'Name: value'".into()))
        };
        let identity = Identity {
            user: self.target_user.clone().or_else(|| env::var("MILLRACE_TARGET_USER").ok()),
            password: match &self.target_password_file {
                Some(file) => Some(read(file)?),
                None => env::var("MILLRACE_TARGET_PASSWORD").ok(),
            },
            auth_file: self.target_auth_file.clone(),
        };
        let transport = HttpConfig {
            ca_files: self.target_ca.clone(),
            insecure: self.target_insecure,
            headers: self.target_header.iter().map(named).collect::<Result<_>>()?,
            proxies: Proxies::choose(None, None).map_err(|error| usage(error.to_string()))?,
            ..HttpConfig::default()
        };
        let directory = self.spool.clone().unwrap_or_else(|| PathBuf::from("/var/tmp"));
        let spool = Spool { directory, limit: self.spool_limit.map_or(SPOOL_LIMIT, |limit| limit.0) };
        Ok(Target::registry(Registry::target(transport, identity)?, reference, platform, storing, spool))
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

const SPOOL_LIMIT: u64 = 10 << 30;
const TARGETS: &str = "Registries as the target (docker://)";
