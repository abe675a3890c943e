//! A registry with ten thousand images: how it starts, and how it forgets half of them while others push.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use fixtures::http::{Call, Connection, Wire};
use fixtures::oci::{Blob, Image, Layer, Manifest};
use fixtures::registry::Config;
use fixtures::{run, tool};

use crate::measure::{Usage, measure};
use crate::median;
use crate::report::{self, Check, Row};

/// A store with many images, in memory: sixty thousand small files would be made and removed on a disk for minutes.
pub struct Many {
    program: PathBuf,
    root: tempfile::TempDir,
}

impl Many {
    /// Pushes them to a server.
    pub fn make(program: &Path) -> Self {
        let root = tempfile::tempdir_in(MEMORY).expect("a folder for a registry");
        let registry = Config::dvcr(program).root(root.path()).start();
        let begun = Instant::now();
        std::thread::scope(|scope| {
            for first in 0..PUSHERS {
                let wire = registry.wire();
                scope.spawn(move || {
                    let mut pusher = Pusher::new(&wire);
                    for repository in (first..REPOSITORIES).step_by(PUSHERS) {
                        for tag in 0..EACH {
                            assert!(pusher.push(&format!("many/{repository}"), tag), "an image was refused");
                        }
                    }
                });
            }
        });
        eprintln!("{} images were pushed in {} s", REPOSITORIES * EACH, report::seconds(begun.elapsed()));
        Self { program: program.to_owned(), root }
    }

    /// From nothing to the first answer.
    pub fn start(&self, name: &'static str, runs: usize) -> Row {
        let starts = (0..runs.max(3)).map(|_| {
            let begun = Instant::now();
            let registry = Config::dvcr(&self.program).root(self.root.path()).start();
            let wall = begun.elapsed();
            Usage { wall, cpu: Duration::ZERO, rss: crate::registry::peak(&registry), written: 0 }
        });
        let ours = median(starts.collect());
        let value = ours.wall.as_secs_f64() / START.as_secs_f64();
        let check = Check { against: "time".into(), theirs: "0.1 s".into(), value, bar: 1.0 };
        Row { name, data: 0, stored: 0, checks: vec![check], ours }
    }

    /// Half of the images go in one collection, while pushes go on from its beginning to its end.
    pub fn collect(&self, name: &'static str) -> Row {
        let registry = Config::dvcr(&self.program).root(self.root.path()).start();
        let list = self.root.path().with_extension("keep");
        let kept = (0..REPOSITORIES / 2).map(|n| format!("many/{n}\n"));
        let pushed = (0..PUSHERS).map(|n| format!("new/{n}\n"));
        fs::write(&list, kept.chain(pushed).collect::<String>()).expect("a list");
        let (ended, done, failed) = (AtomicBool::new(false), AtomicUsize::new(0), AtomicUsize::new(0));
        let ours = std::thread::scope(|scope| {
            for n in 0..PUSHERS {
                let (wire, ended, done, failed) = (registry.wire(), &ended, &done, &failed);
                scope.spawn(move || {
                    let mut pusher = Pusher::new(&wire);
                    let mut tag = 0;
                    while !ended.load(Ordering::SeqCst) {
                        let count = if pusher.push(&format!("new/{n}"), tag) { done } else { failed };
                        count.fetch_add(1, Ordering::SeqCst);
                        tag += 1;
                    }
                });
            }
            // Pushes are under way before it begins.
            while done.load(Ordering::SeqCst) < PUSHERS {
                std::thread::yield_now();
            }
            let mut command = tool(&self.program.to_string_lossy());
            command
                .args(["gc", "--grace", "0", "--only-kept", "--keep"])
                .arg(&list)
                .arg("--root")
                .arg(self.root.path());
            let usage = measure(&mut command);
            ended.store(true, Ordering::SeqCst);
            usage.unwrap_or_else(|why| panic!("{why}"))
        });
        fs::remove_file(&list).expect("the list");
        let (done, failed) = (done.into_inner(), failed.into_inner());
        let check = run(tool(&self.program.to_string_lossy()).args(["check", "--root"]).arg(self.root.path()));
        let said = String::from_utf8_lossy(&check.stdout).into_owned();
        let images = REPOSITORIES / 2 * EACH + done;
        assert!(said.contains(&format!("{images} manifests, {images} tags: all sound")), "{done} pushed: {said}");
        let check = Check {
            against: format!("pushes that failed, of {}", done + failed),
            theirs: "0".into(),
            value: failed as f64,
            bar: 0.0,
        };
        Row { name, data: 0, stored: 0, checks: vec![check], ours }
    }
}

/// Pushes small images over one connection.
struct Pusher {
    connection: Connection,
    config: Blob,
}

impl Pusher {
    fn new(wire: &Wire) -> Self {
        let config = Blob::new("application/vnd.oci.image.config.v1+json", "{}");
        Self { connection: wire.connect().expect("a connection"), config }
    }

    /// An image of its own for each tag: whether all of it was taken.
    fn push(&mut self, repository: &str, tag: usize) -> bool {
        let layer = Layer::bare("application/octet-stream", format!("{repository}:{tag}").as_bytes());
        let image: Manifest = Image::new("linux/amd64").config(self.config.clone()).layer(layer).build();
        image.blobs.iter().all(|blob| {
            let target = format!("/v2/{repository}/blobs/uploads/?digest={}", blob.digest());
            self.sent(&Call::new("POST", &target).body(blob.bytes.clone()))
        }) && {
            let put = Call::new("PUT", &format!("/v2/{repository}/manifests/v{tag}"));
            self.sent(&put.header("Content-Type", &image.media_type).body(image.bytes.clone()))
        }
    }

    fn sent(&mut self, call: &Call) -> bool {
        self.connection.send(call).is_ok_and(|answer| answer.status == 201)
    }
}

/// Where every Linux has a tmpfs.
const MEMORY: &str = "/dev/shm";
const REPOSITORIES: usize = 1000;
const EACH: usize = 10;
const PUSHERS: usize = 4;
const START: Duration = Duration::from_millis(100);
