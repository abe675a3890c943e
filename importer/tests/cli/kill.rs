//! Killed in the middle: a target never looks complete, and the next run is as if nothing had been.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

use fixtures::content::{Pattern, Random};
use fixtures::devices::LoopDevice;
use fixtures::{run as tool_run, sha256_file, tool};

use super::program::{Place, copy, names, run, run_piped};

pub const DISK: u64 = 24 << 20;

/// A raw disk and a qcow2 of it, both of more bytes than any queue on the way holds.
pub fn images(place: &Place) -> (PathBuf, PathBuf) {
    let disk = Pattern::Noise.disk(place.path(), DISK);
    let qcow2 = place.path().join("image.qcow2");
    tool_run(tool("qemu-img").args(["convert", "-f", "raw", "-O", "qcow2"]).arg(&disk).arg(&qcow2));
    (disk, qcow2)
}

/// Kills `command` when it has taken `at` bytes of `image`, less what a pipe holds, from its standard input.
fn kill_at(command: &mut Command, image: &Path, at: usize) {
    let mut child = command.stdin(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let bytes = fs::read(image).unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(&bytes[..at]).unwrap();
    kill(&mut child);
}

fn kill(child: &mut Child) {
    child.kill().unwrap();
    assert_eq!(child.wait().unwrap().code(), None, "it had ended before");
}

/// Places that are the same on every run, and the first and the last there are.
fn offsets(len: u64, count: usize) -> Vec<usize> {
    let mut random = Random::new(len);
    let mut all = vec![1, usize::try_from(len).unwrap() - 1];
    all.resize_with(count, || usize::try_from(random.below(len)).unwrap());
    all
}

fn is_disk(names: &[String]) -> bool {
    names.iter().any(|name| name == "disk.raw")
}

#[test]
fn a_new_file_does_not_exist_until_it_is_complete() {
    let place = Place::new();
    let (disk, qcow2) = images(&place);
    for image in [&disk, &qcow2] {
        for at in offsets(image.metadata().unwrap().len(), 8) {
            kill_at(&mut place.copy("-"), image, at);
            assert!(!is_disk(&place.left()), "killed at {at}");
        }
        // It removes what the killed ones have left.
        run_piped(&mut place.copy("-"), image).succeeded();
        place.assert_copied(&disk, "the run after");
    }
}

#[test]
fn an_old_file_stays_until_the_new_one_is_complete() {
    let place = Place::new();
    let (disk, qcow2) = images(&place);
    fs::write(place.target(), "precious").unwrap();
    for at in offsets(qcow2.metadata().unwrap().len(), 8) {
        kill_at(&mut place.copy("-"), &qcow2, at);
        assert_eq!(fs::read(place.target()).unwrap(), b"precious", "killed at {at}");
    }
    run(&mut place.copy(&qcow2)).succeeded();
    place.assert_copied(&disk, "the run after");
}

#[test]
fn a_device_has_no_first_sector_until_it_is_complete() {
    let place = Place::new();
    let (disk, qcow2) = images(&place);
    let size = usize::try_from(DISK).unwrap();
    let Some(device) = LoopDevice::filled(size, 512, 0xff) else { return };
    for image in [&disk, &qcow2] {
        // From where on it has certainly begun: the start that tells what it is, and the queue in front of it, are over.
        let len = image.metadata().unwrap().len();
        let begun = 4 << 20;
        for at in offsets(len - begun, 6) {
            let at = at + usize::try_from(begun).unwrap();
            kill_at(&mut copy("-", device.path()), image, at);
            let mut head = [1; 512];
            File::open(device.path()).unwrap().read_exact(&mut head).unwrap();
            assert_eq!(head, [0; 512], "killed at {at}");
        }
        run_piped(&mut copy("-", device.path()), image).succeeded();
        assert_eq!(sha256_file(device.path()), sha256_file(&disk));
    }
}

/// A server that sends so many bytes of each body, says so, and then nothing more.
pub struct Stopping {
    pub url: String,
    pub reached: Receiver<TcpStream>,
}

impl Stopping {
    pub fn start(bytes: Vec<u8>, at: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/disk", listener.local_addr().unwrap());
        let (sender, reached) = channel();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = Vec::new();
            let mut block = [0; 4096];
            while !request.ends_with(b"\r\n\r\n") {
                let read = stream.read(&mut block).unwrap();
                request.extend_from_slice(&block[..read]);
            }
            write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", bytes.len()).unwrap();
            stream.write_all(&bytes[..at]).unwrap();
            // The stream goes along, so that it stays open until it was seen.
            sender.send(stream).unwrap();
        });
        Self { url, reached }
    }
}

#[test]
fn a_download_that_is_killed_leaves_no_disk() {
    let place = Place::new();
    let (disk, qcow2) = images(&place);
    let bytes = fs::read(&qcow2).unwrap();
    for at in offsets(bytes.len() as u64, 6) {
        let server = Stopping::start(bytes.clone(), at);
        let mut child = place.copy(&server.url).stderr(Stdio::null()).spawn().unwrap();
        let stream = server.reached.recv().unwrap();
        kill(&mut child);
        drop(stream);
        assert!(!is_disk(&place.left()), "killed at {at}");
    }
    run(&mut place.copy(&qcow2)).succeeded();
    place.assert_copied(&disk, "the run after");
    assert_eq!(names(&place.out()), [""; 0]);
}
