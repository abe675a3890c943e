//! Running the server, and curl.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use fixtures::tool;
use serde_json::Value;
use tempfile::TempDir;

/// A folder of its own for a test, in which the target is `out/disk.raw`.
pub struct Place(TempDir);

impl Place {
    pub fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("out")).unwrap();
        Self(dir)
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// A file with these bytes.
    pub fn file(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path().join(name);
        fs::write(&path, bytes).unwrap();
        path
    }

    pub fn target(&self) -> PathBuf {
        self.path().join("out/disk.raw")
    }

    /// The names beside the target.
    pub fn left(&self) -> Vec<String> {
        names(&self.path().join("out"))
    }

    /// `uploader serve --target out/disk.raw`.
    pub fn serve(&self) -> Server {
        self.serve_with(&[])
    }

    /// The same with these options.
    pub fn serve_with(&self, options: &[&str]) -> Server {
        Server::start(&[&["--target", self.target().to_str().unwrap()], options].concat())
    }

    /// Fails unless the target holds these bytes, and is alone.
    #[track_caller]
    pub fn assert_disk(&self, expected: &[u8]) {
        assert!(fs::read(self.target()).unwrap() == expected, "another disk");
        assert_eq!(self.left(), ["disk.raw"]);
    }
}

pub fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// A disk of so many MiB in which no block is like another.
pub fn disk(mib: usize) -> Vec<u8> {
    (0..mib << 20).map(|at| u8::try_from((at / 7 + at / 4096) % 255 + 1).unwrap()).collect()
}

/// The server. Killed when it is dropped.
pub struct Server {
    child: Child,
    stdout: BufReader<ChildStdout>,
    address: String,
}

impl Server {
    pub fn start(args: &[impl AsRef<OsStr>]) -> Self {
        let mut child = program().args(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let line = line(&mut stdout);
        let Some(address) = line.strip_prefix("listening on http://") else {
            let mut said = String::new();
            child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
            panic!("{line}{said}");
        };
        Self { child, stdout, address: address.to_owned() }
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// The next line that it prints.
    pub fn line(&mut self) -> String {
        line(&mut self.stdout)
    }

    /// What the upload's address tells.
    pub fn status(&self) -> Value {
        let answer = curl(&[&self.url("/upload"), "-H", "accept: application/json"]);
        serde_json::from_str(&answer.text).unwrap_or_else(|error| panic!("{error}: {answer:?}"))
    }

    /// Waits until the upload's address tells so. Fails with what it tells after two minutes.
    #[track_caller]
    pub fn until(&self, told: impl Fn(&Value) -> bool) -> Value {
        let begun = std::time::Instant::now();
        loop {
            let status = self.status();
            if told(&status) {
                return status;
            }
            assert!(begun.elapsed().as_secs() < 120, "{status}");
            std::thread::yield_now();
        }
    }

    /// Waits until it takes no more connections.
    pub fn until_refused(&self) {
        while TcpStream::connect(&self.address).is_ok() {
            std::thread::yield_now();
        }
    }

    pub fn signal(&self, name: &str) {
        fixtures::run(tool("kill").args(["-s", name, &self.child.id().to_string()]));
    }

    /// Waits for its end. Gives the exit code and what it said.
    pub fn end(mut self) -> (Option<i32>, String) {
        let mut said = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        (self.child.wait().unwrap().code(), said)
    }

    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// A connection on which this was sent.
    pub fn send(&self, bytes: impl AsRef<[u8]>) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.write_all(bytes.as_ref()).unwrap();
        stream
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may be gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn line(stdout: &mut BufReader<ChildStdout>) -> String {
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    line.trim_end().to_owned()
}

/// `uploader serve` at any free port, with nothing from the environment that would change what it does.
pub fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_uploader"));
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy().into_owned();
        if name.starts_with("MILLRACE_") || name.to_lowercase().ends_with("_proxy") {
            command.env_remove(name);
        }
    }
    command.args(["serve", "--listen", "127.0.0.1:0"]).stdin(Stdio::null());
    command
}

/// Waits for the next line that comes on a connection.
pub fn read_line(stream: &mut TcpStream) -> String {
    let mut line = Vec::new();
    let mut byte = [0];
    while !line.ends_with(b"\n") && stream.read(&mut byte).unwrap() > 0 {
        line.push(byte[0]);
    }
    String::from_utf8(line).unwrap()
}

/// What curl has got.
#[derive(Debug)]
pub struct Got {
    /// The status of the answer; 0 if there was none.
    pub status: u16,
    pub text: String,
    pub stderr: String,
}

/// curl with these arguments.
pub fn curl(args: &[impl AsRef<OsStr>]) -> Got {
    got(begin(args))
}

/// Starts it.
pub fn begin(args: &[impl AsRef<OsStr>]) -> Child {
    let mut command = tool("curl");
    command.args(["-sS", "--noproxy", "*", "-m", "120", "-w", "\n%{http_code}"]).args(args);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Waits for its end.
pub fn got(curl: Child) -> Got {
    let output = curl.wait_with_output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let (text, status) = said.rsplit_once('\n').unwrap_or_default();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    Got { status: status.parse().unwrap_or_default(), text: text.to_owned(), stderr }
}

impl Got {
    /// Fails unless the answer has this status and says this.
    #[track_caller]
    pub fn says(self, status: u16, text: &str) -> Self {
        let Self { status: got, text: said, stderr } = &self;
        assert!(*got == status && said.contains(text), "{got} {said:?}, not {status} {text:?}; curl: {stderr}");
        self
    }
}

/// A path as an argument.
pub fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}
