//! What several tests of the server need.

#![allow(dead_code, reason = "each test uses a part of it")]
#![allow(clippy::unwrap_used, reason = "only tests use this; clippy allows it only inside the test functions")]

use std::path::Path;
use std::process::{Command, Output};

use fixtures::http::{Call, Wire};
use fixtures::oci::{Blob, Image, Layer, Manifest};
use fixtures::registry::Config;

/// Our registry.
pub fn dvcr() -> Config {
    Config::dvcr(env!("CARGO_BIN_EXE_dvcr"))
}

/// Runs `dvcr COMMAND --root ROOT ARGS`.
pub fn run(command: &str, root: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_dvcr")).arg(command).arg("--root").arg(root).args(args).output().unwrap()
}

/// What it wrote, if it succeeded.
#[track_caller]
pub fn output(command: &str, root: &Path, args: &[&str]) -> String {
    let output = run(command, root, args);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

/// An image whose only layer is these bytes.
pub fn image(layer: &[u8]) -> Manifest {
    Image::new("linux/amd64").layer(Layer::bare("application/octet-stream", layer)).build()
}

/// Bytes that look like nothing.
pub fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

/// Begins an upload and returns where it is.
#[track_caller]
pub fn begin(wire: &Wire, repository: &str) -> String {
    let answer = wire.send(&Call::new("POST", &format!("/v2/{repository}/blobs/uploads/"))).unwrap();
    assert_eq!(answer.status, 202, "{}", String::from_utf8_lossy(&answer.body));
    answer.location()
}

/// A blob of these bytes.
pub fn blob(bytes: &[u8]) -> Blob {
    Blob::new("application/octet-stream", bytes)
}
