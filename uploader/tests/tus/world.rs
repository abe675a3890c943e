//! A running program, a disk to send, and the requests of the protocol.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use fixtures::content::Pattern;
use fixtures::http::{Answer, Call, Wire};
use serde_json::Value;
use tempfile::TempDir;

/// A running program. Dropping it ends it.
pub struct World {
    child: Child,
    pub address: SocketAddr,
    dir: TempDir,
}

/// Twice what one piece of a queue is, and no multiple of it.
pub const SIZE: u64 = (8 << 20) + 512 * 7;

impl World {
    /// `uploader serve --root`.
    pub fn folder(options: &[&str]) -> Self {
        Self::start(options, |dir| vec!["--root".into(), dir.join("out").display().to_string()])
    }

    /// `uploader serve --target`, with the secret `s3cr3t-of-16-letters`.
    pub fn one(options: &[&str]) -> Self {
        Self::start(options, |dir| {
            fs::create_dir(dir.join("out")).unwrap();
            fs::write(dir.join("token"), SECRET).unwrap();
            let file = |name: &str| dir.join(name).display().to_string();
            vec!["--target".into(), file("out/disk.raw"), "--token-file".into(), file("token")]
        })
    }

    /// For this target, without a secret.
    pub fn onto(target: &Path) -> Self {
        Self::start(&[], |_| vec!["--target".into(), target.display().to_string()])
    }

    fn start(options: &[&str], place: impl Fn(&Path) -> Vec<String>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_uploader"));
        command.arg("serve").args(place(dir.path())).args(["--listen", "127.0.0.1:0"]).args(options);
        command.env("MILLRACE_LOG", "debug").stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.stderr(File::create(dir.path().join("log")).unwrap()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().rsplit('/').next().unwrap().parse();
        let address =
            address.unwrap_or_else(|_| panic!("{line}{}", fs::read_to_string(dir.path().join("log")).unwrap()));
        Self { child, address, dir }
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// A client of tus.
    pub fn wire(&self) -> Wire {
        Wire::new(self.address).header("Tus-Resumable", "1.0.0")
    }

    pub fn log(&self) -> String {
        fs::read_to_string(self.dir.path().join("log")).unwrap()
    }

    /// The names in the folder of the disks.
    pub fn left(&self) -> Vec<String> {
        let entries = fs::read_dir(self.dir.path().join("out")).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    pub fn disk(&self, name: &str) -> Vec<u8> {
        fs::read(self.dir.path().join("out").join(name)).unwrap()
    }

    /// A raw disk to send.
    pub fn image(&self) -> PathBuf {
        Pattern::Mixed.disk(self.dir.path(), SIZE)
    }

    /// A file to send.
    pub fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.dir.path().join(name);
        fs::write(&path, bytes).unwrap();
        path
    }

    /// Makes an upload, and gives its path.
    pub fn create(&self, len: u64, metadata: &str) -> String {
        let answer = self.wire().send(&creation(len).header("Upload-Metadata", metadata)).unwrap();
        assert_eq!(answer.status, 201, "{}", text(&answer));
        answer.location()
    }

    /// Where an upload is.
    pub fn offset(&self, path: &str) -> u64 {
        offset(&self.wire().send(&Call::new("HEAD", path)).unwrap())
    }

    /// What its address says in JSON.
    pub fn status(&self, path: &str) -> Value {
        let call = Call::new("GET", path).header("Accept", "application/json");
        Wire::new(self.address).send(&call).unwrap().json()
    }

    /// Waits until so many bytes have come. Each look is a request, and there are many more than are ever needed.
    pub fn wait_for(&self, path: &str, at: u64) {
        assert!((0..10_000).any(|_| self.offset(path) == at), "{at} was never reached");
    }
}

impl Drop for World {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A request for an upload of so many bytes.
pub fn creation(len: u64) -> Call {
    Call::new("POST", "/files/").header("Upload-Length", &len.to_string())
}

/// The next bytes.
pub fn patch(path: &str, at: u64) -> Call {
    Call::new("PATCH", path)
        .header("Content-Type", "application/offset+octet-stream")
        .header("Upload-Offset", &at.to_string())
}

pub fn offset(answer: &Answer) -> u64 {
    let offset = answer.header("upload-offset").map(str::parse);
    offset.unwrap_or_else(|| panic!("no offset: {}", answer.status)).unwrap()
}

pub fn text(answer: &Answer) -> String {
    String::from_utf8_lossy(&answer.body).trim_end().to_owned()
}

/// What [`World::one`] has.
pub const SECRET: &str = "s3cr3t-of-16-letters";
/// Where its upload is.
pub const ONE: &str = "/upload/s3cr3t-of-16-letters";
