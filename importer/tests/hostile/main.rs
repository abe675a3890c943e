//! Every dishonest image, by ranges and through a pipe: the exit code it must have, one line that says why, little
//! memory, and nothing left behind.
//!
//! In a program of its own, because the kernel counts to a new process what its parent had in memory when it was
//! started: other tests beside this one would be measured too.
#![allow(clippy::unwrap_used, clippy::panic, reason = "in a test, that is the failure")]

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;
use std::process::{Command, Stdio};

use fixtures::hostile::{Hostile, hostile};
use wait4::Wait4;

struct Ran {
    code: i32,
    stderr: String,
    /// The largest resident memory in bytes.
    rss: u64,
}

fn copy(source: &Path, piped: bool, target: &Path) -> Ran {
    let mut command = Command::new(env!("CARGO_BIN_EXE_importer"));
    command.env_remove("MILLRACE_LOG").arg("copy").arg(if piped { Path::new("-") } else { source }).arg(target);
    command.args(["--progress", "none"]);
    let stdin = if piped { Stdio::piped() } else { Stdio::null() };
    let mut child = command.stdin(stdin).stderr(Stdio::piped()).spawn().unwrap();
    let feeder = child.stdin.take().map(|mut stdin| {
        let mut file = File::open(source).unwrap();
        // It may have seen enough before the end.
        std::thread::spawn(move || drop(io::copy(&mut file, &mut stdin)))
    });
    let mut stderr = String::new();
    child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    let ended = child.wait4().unwrap();
    if let Some(feeder) = feeder {
        feeder.join().unwrap();
    }
    Ran { code: ended.status.code().unwrap_or(-1), stderr, rss: ended.rusage.maxrss }
}

/// What is wrong with how this image was refused.
fn complaint(image: &Hostile, ran: &Ran, left: usize) -> Option<&'static str> {
    let Ran { code, stderr, rss } = ran;
    if !image.exits.iter().any(|exit| i32::from(*exit) == *code) {
        return Some("is not the exit code");
    }
    let one_line = stderr.starts_with("importer: ") && stderr.ends_with('\n') && stderr.lines().count() == 1;
    if !one_line {
        return Some("is not one line");
    }
    if *rss >= MEMORY {
        return Some("takes too much memory");
    }
    (left > 0).then_some("leaves something behind")
}

#[test]
fn every_dishonest_image_is_refused_in_little_memory() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    fs::create_dir(&out).unwrap();
    let path = dir.path().join("image");
    let mut wrong = Vec::new();
    for image in hostile() {
        fs::write(&path, image.bytes()).unwrap();
        for piped in [false, true] {
            let ran = copy(&path, piped, &out.join("disk.raw"));
            let left = fs::read_dir(&out).unwrap().count();
            if let Some(complaint) = complaint(&image, &ran, left) {
                let Ran { code, stderr, rss } = ran;
                wrong.push(format!("{image:?} piped={piped} {complaint}: {code}, {} MiB, {stderr}", rss >> 20));
                fs::remove_dir_all(&out).unwrap();
                fs::create_dir(&out).unwrap();
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

const MEMORY: u64 = 64 << 20;
