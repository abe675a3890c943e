//! The program is killed, and started again.

#![allow(clippy::unwrap_used, reason = "this is a test; clippy allows it only inside the test functions")]

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A server for one target. Killed when it is dropped.
struct Server {
    child: Child,
    address: String,
}

impl Server {
    fn start(target: &Path) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_uploader"))
            .args(["serve", "--listen", "127.0.0.1:0", "--target"])
            .arg(target)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening on http://").unwrap().to_owned();
        Self { child, address }
    }

    fn request(&self, head: &str) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        write!(stream, "{head}\r\nhost: {}\r\nconnection: close\r\n", self.address).unwrap();
        stream
    }

    /// Where it says that the upload goes on.
    fn offset(&self) -> usize {
        let mut stream = self.request("HEAD /upload HTTP/1.1");
        stream.write_all(b"\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let offset = answer.lines().find_map(|line| line.strip_prefix("upload-offset: ")).unwrap();
        offset.parse().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

#[test]
fn a_killed_server_goes_on_where_its_last_checkpoint_was() {
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("disk.raw");
    let disk: Vec<u8> = (0..220 << 20_u32).map(|at| u8::try_from((at / 5 + at / 4096) % 255 + 1).unwrap()).collect();
    let part = |server: &Server, from: usize, to: usize| {
        let mut stream = server.request("PUT /upload HTTP/1.1");
        let (last, len) = (disk.len() - 1, disk.len());
        write!(stream, "content-length: {}\r\ncontent-range: bytes {from}-{last}/{len}\r\n\r\n", len - from).unwrap();
        stream.write_all(&disk[from..to]).unwrap();
        stream
    };
    // Twice, so that a part that goes on is killed, too.
    let mut at = 0;
    for to in [100 << 20, 190 << 20] {
        let server = Server::start(&target);
        assert_eq!(server.offset(), at);
        let _open = part(&server, at, to);
        // A checkpoint is made at least every 64 MiB, of what has come by then.
        while server.offset() < to {}
        drop(server);
        assert!(!target.exists());
        let server = Server::start(&target);
        at = server.offset();
        assert!((to - (80 << 20)..=to).contains(&at), "{at} of {to}");
    }
    let server = Server::start(&target);
    let mut answer = String::new();
    part(&server, at, disk.len()).read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(fs::read(&target).unwrap() == disk);
    let left: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["disk.raw"]);
}
