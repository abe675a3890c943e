//! What was done, as people and scripts read it: the same from every program that moves images.

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::{Error, FeatureValue, Image, Kind, Outcome, Pushed};

/// What was done, or why it failed (DESIGN §3).
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    outcome: &'static str,
    exit_code: u8,
    reason: &'static str,
    message: String,
    source: Source,
    #[serde(skip_serializing_if = "Option::is_none")]
    image: Option<Described>,
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<Target>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mode: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resumed_from: Option<u64>,
    duration_seconds: f64,
    average_bytes_per_second: u64,
}

#[derive(Clone, Debug, Serialize)]
struct Source {
    bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    digest: Option<String>,
}

/// An image, as the report and `inspect` show it.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Described {
    wrappers: Vec<&'static str>,
    format: &'static str,
    virtual_size: Option<u64>,
    allocated: Option<u64>,
    cdrom: bool,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Target {
    bytes_written: u64,
    size: u64,
    reference: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    digest: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    platform: Option<String>,
}

/// What an image of layers is, of which a disk was looked at.
#[derive(Debug, Serialize)]
pub struct Origin {
    /// What its manifest is known by.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// For which machines it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub platform: Option<String>,
}

/// What `inspect --json` shows.
#[derive(Debug, Serialize)]
pub struct Inspected {
    #[serde(flatten)]
    image: Described,
    #[serde(flatten)]
    origin: Origin,
    features: Map<String, Value>,
}

impl Report {
    /// The report of a copy to `target` that is complete.
    #[must_use]
    pub fn succeeded(target: &str, outcome: &Outcome, pushed: Option<Pushed>, elapsed: Duration) -> Self {
        let bytes = outcome.source_bytes;
        Self {
            outcome: "succeeded",
            source: Source { bytes, digest: outcome.source_digest.clone() },
            image: Some(Described::new(&outcome.image)),
            target: Some(Target {
                bytes_written: outcome.bytes_written,
                size: outcome.target_size,
                reference: pushed.as_ref().map_or(target, |pushed| &pushed.reference).to_owned(),
                digest: pushed.as_ref().map(|pushed| pushed.digest.clone()),
                platform: pushed.map(|pushed| pushed.platform),
            }),
            mode: Some(outcome.mode.name()),
            resumed_from: outcome.resumed_from,
            ..Self::ended(0, "Completed", "the disk is complete", bytes, elapsed)
        }
    }

    /// The report of a copy that failed after so many bytes were received.
    #[must_use]
    pub fn failed(error: &Error, received: u64, elapsed: Duration) -> Self {
        Self::ended(error.kind().exit_code(), error.kind().reason(), &error.to_string(), received, elapsed)
    }

    /// The report of a copy that a signal ended, with the exit code that shells know it by.
    #[must_use]
    pub fn interrupted(exit_code: u8, message: &str, received: u64, elapsed: Duration) -> Self {
        Self::ended(exit_code, "Interrupted", message, received, elapsed)
    }

    /// The report of an upload that nobody sent, or went on with.
    #[must_use]
    pub fn expired(message: &str, received: u64, elapsed: Duration) -> Self {
        Self::ended(Kind::Transient.exit_code(), "Expired", message, received, elapsed)
    }

    /// Whether the disk is complete.
    #[must_use]
    pub fn is_success(&self) -> bool {
        self.exit_code == 0
    }

    /// The exit code of a program that has done this and nothing else.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        self.exit_code
    }

    /// What happened, as one word for programs.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        self.reason
    }

    /// What happened, as one line.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    fn ended(exit_code: u8, reason: &'static str, message: &str, bytes: u64, elapsed: Duration) -> Self {
        Self {
            outcome: "failed",
            exit_code,
            reason,
            message: line(message),
            source: Source { bytes, digest: None },
            image: None,
            target: None,
            mode: None,
            resumed_from: None,
            duration_seconds: elapsed.as_secs_f64(),
            average_bytes_per_second: per_second(bytes, elapsed),
        }
    }

    /// Writes it to a file, whole or not at all.
    ///
    /// # Errors
    ///
    /// Those of the file system.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        let mut json = serde_json::to_vec_pretty(self)?;
        json.push(b'\n');
        // A device or pipe (/dev/stdout, /dev/termination-log) can't be renamed over.
        if fs::metadata(path).is_ok_and(|metadata| !metadata.is_file()) {
            return fs::write(path, json);
        }
        let mut temporary = path.as_os_str().to_owned();
        temporary.push(".tmp");
        fs::write(&temporary, json)?;
        fs::rename(&temporary, path)
    }
}

impl Described {
    fn new(image: &Image) -> Self {
        Self {
            wrappers: image.wrappers.clone(),
            format: image.format,
            virtual_size: image.virtual_size,
            allocated: image.allocated,
            cdrom: image.cdrom,
        }
    }
}

impl Inspected {
    /// What `inspect` shows of an image.
    #[must_use]
    pub fn new(image: &Image, origin: Origin) -> Self {
        let features = image.features.iter().map(|feature| (feature.name.to_owned(), json(&feature.value)));
        Self { image: Described::new(image), origin, features: features.collect() }
    }
}

fn json(value: &FeatureValue) -> Value {
    match value {
        FeatureValue::Number(number) => (*number).into(),
        FeatureValue::Flag(flag) => (*flag).into(),
        FeatureValue::Text(text) => text.as_str().into(),
    }
}

/// A feature's value, for people.
#[must_use]
pub fn value(value: &FeatureValue) -> String {
    match value {
        FeatureValue::Number(number) => number.to_string(),
        FeatureValue::Flag(flag) => if *flag { "yes" } else { "no" }.to_owned(),
        FeatureValue::Text(text) => text.clone(),
    }
}

/// `clusterSize` as `cluster size`.
#[must_use]
pub fn words(name: &str) -> String {
    let mut words = String::new();
    for letter in name.chars() {
        if letter.is_ascii_uppercase() {
            words.push(' ');
        }
        words.push(letter.to_ascii_lowercase());
    }
    words
}

/// Text as one line. Names in it may hold anything: nothing a terminal acts on gets through.
#[must_use]
pub fn line(text: &str) -> String {
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    words.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

/// Bytes per second.
#[must_use]
pub fn per_second(bytes: u64, elapsed: Duration) -> u64 {
    let millis = elapsed.as_millis().max(1);
    u64::try_from(u128::from(bytes) * 1000 / millis).unwrap_or(u64::MAX)
}
