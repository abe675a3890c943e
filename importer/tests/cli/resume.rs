//! `--resume`: a copy that was killed, or told to end, goes on where it was.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

use bytes::Bytes;
use fixtures::content::Pattern;
use fixtures::devices::LoopDevice;
use fixtures::http::{Object, Reply, Seen, Server};
use fixtures::{run as tool_run, sha256_file, tool};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::program::{Place, Ran, copy, end, reported, run};

/// So that there are checkpoints on the way, which are 64 MiB apart.
const DISK: u64 = 160 << 20;

/// A server that gives what lies before an offset of a file, and of tables also what lies behind it. Who asks for more
/// gets nothing and waits.
struct Stalling {
    server: Server,
    stall: Arc<AtomicU64>,
    version: Arc<AtomicU32>,
    reached: Receiver<()>,
}

impl Stalling {
    fn start(bytes: Vec<u8>) -> Self {
        let (stall, version) = (Arc::new(AtomicU64::new(u64::MAX)), Arc::new(AtomicU32::new(1)));
        let (tell, reached) = channel();
        let script = Script { bytes: bytes.into(), stall: Arc::clone(&stall), version: Arc::clone(&version), tell };
        Self { server: Server::start(move |seen| script.answer(seen)), stall, version, reached }
    }

    fn url(&self) -> String {
        self.server.url("/disk")
    }

    /// From now on, gives nothing from `offset` on.
    fn stall_at(&self, offset: u64) {
        while self.reached.try_recv().is_ok() {}
        self.stall.store(offset, Ordering::SeqCst);
    }

    /// From now on, gives everything.
    fn relent(&self) {
        self.stall.store(u64::MAX, Ordering::SeqCst);
    }
}

struct Script {
    bytes: Bytes,
    stall: Arc<AtomicU64>,
    version: Arc<AtomicU32>,
    tell: Sender<()>,
}

impl Script {
    fn answer(&self, seen: &Seen) -> Reply {
        let etag = format!("\"v{}\"", self.version.load(Ordering::SeqCst));
        let reply = Object::new(self.bytes.clone()).etag(Some(&etag)).answer(seen);
        let range = seen.header("range").and_then(|range| range.strip_prefix("bytes=")?.split_once('-'));
        let start: u64 = range.map_or(0, |(first, _)| first.parse().unwrap());
        let (len, room) = (reply.body_len() as u64, self.stall.load(Ordering::SeqCst).saturating_sub(start));
        if len <= room || len < TABLE {
            return reply;
        }
        if start > 0 {
            // Nobody may listen any more.
            let _ = self.tell.send(());
        }
        reply.fault_at(usize::try_from(room).unwrap(), Reply::stall)
    }
}

/// No table is asked for with as much as this, and data with more.
const TABLE: u64 = 1 << 20;

/// The disk, and as these formats.
fn images(place: &Place, formats: &[&[&str]]) -> (PathBuf, Vec<PathBuf>) {
    let disk = Pattern::Noise.disk(place.path(), DISK);
    let convert = |options: &&[&str]| {
        let path = place.path().join(format!("image.{}", options.last().unwrap()));
        tool_run(tool("qemu-img").args(["convert", "-f", "raw"]).args(*options).arg(&disk).arg(&path));
        path
    };
    let images = formats.iter().map(convert).collect();
    (disk, images)
}

/// Starts the copy, and waits until there is a checkpoint and the server gives nothing more.
fn begin(command: &mut Command, server: &Stalling, until: impl Fn() -> bool) -> Child {
    command.args(["--resume", "--progress", "none"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    server.reached.recv().unwrap();
    while !until() {
        std::thread::yield_now();
    }
    child
}

fn kill(mut child: Child) {
    child.kill().unwrap();
    assert_eq!(child.wait().unwrap().code(), None, "it had ended before");
}

fn checkpoint(place: &Place) -> PathBuf {
    place.out().join(".disk.raw.checkpoint")
}

fn go_on(place: &Place, command: &mut Command) -> (Ran, Value) {
    let (ran, report) = reported(command.args(["--resume", "--progress", "none"]), place);
    (ran.succeeded(), report)
}

#[track_caller]
fn assert_continued(ran: &Ran, report: &Value, image: &Path) {
    assert!(ran.stderr.contains("going on behind the first"), "{}", ran.stderr);
    let from = report["resumedFrom"].as_u64().unwrap();
    assert!(from >= 60 << 20, "{report}");
    // The start that tells what it is, and the tables, come again.
    let fetched = report["source"]["bytes"].as_u64().unwrap();
    let len = image.metadata().unwrap().len();
    assert!(fetched <= len - from + (4 << 20), "{fetched} of {len} after {from}");
}

/// HT09.
#[test]
fn a_copy_that_was_killed_goes_on() {
    let place = Place::new();
    let formats: [&[&str]; 3] = [&["-O", "qcow2"], &["-c", "-O", "qcow2"], &["-O", "vmdk"]];
    let (disk, mut images) = images(&place, &formats);
    images.push(disk.clone());
    for image in images {
        let server = Stalling::start(fs::read(&image).unwrap());
        for at in [80 << 20, 150 << 20] {
            let what = format!("{} killed at {at}", image.display());
            server.stall_at(at);
            kill(begin(&mut place.copy(server.url()), &server, || checkpoint(&place).exists()));
            assert_eq!(place.left(), [".disk.raw.checkpoint", ".disk.raw.part"], "{what}");
            server.relent();
            let (ran, report) = go_on(&place, &mut place.copy(server.url()));
            assert_continued(&ran, &report, &image);
            place.assert_copied(&disk, &what);
        }
    }
}

#[test]
fn a_device_goes_on() {
    let place = Place::new();
    let Some(device) = LoopDevice::filled(usize::try_from(DISK).unwrap(), 512, 0xff) else { return };
    let (disk, images) = images(&place, &[&["-O", "qcow2"]]);
    let server = Stalling::start(fs::read(&images[0]).unwrap());
    server.stall_at(150 << 20);
    let recorded = || {
        let mut head = vec![0; 1 << 20];
        std::io::Read::read_exact(&mut fs::File::open(device.path()).unwrap(), &mut head).unwrap();
        head.windows(8).any(|window| window == b"millrace")
    };
    kill(begin(&mut copy(server.url(), device.path()), &server, recorded));
    server.relent();
    let (ran, report) = go_on(&place, &mut copy(server.url(), device.path()));
    assert_continued(&ran, &report, &images[0]);
    assert_eq!(sha256_file(device.path()), sha256_file(&disk));
}

#[test]
fn a_signal_leaves_what_is_to_be_continued() {
    let place = Place::new();
    let (disk, images) = images(&place, &[&["-O", "qcow2"]]);
    let server = Stalling::start(fs::read(&images[0]).unwrap());
    let stop = || {
        server.stall_at(100 << 20);
        let child = begin(&mut place.copy(server.url()), &server, || checkpoint(&place).exists());
        kill_process(Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap(), Signal::TERM).unwrap();
        let ran = end(child);
        let [begins, line] = ran.stderr.lines().collect::<Vec<_>>()[..] else { panic!("{ran:?}") };
        assert!(ran.code == -15 && begins.contains("starting at the beginning"), "{ran:?}");
        assert!(line.contains("run the same command again to continue"), "{line}");
        assert_eq!(place.left(), [".disk.raw.checkpoint", ".disk.raw.part"]);
        server.relent();
    };
    stop();
    let (ran, report) = go_on(&place, &mut place.copy(server.url()));
    assert_continued(&ran, &report, &images[0]);
    place.assert_copied(&disk, "continued");
    // Another object: nothing of the first is used.
    stop();
    server.version.store(2, Ordering::SeqCst);
    let (ran, report) = go_on(&place, &mut place.copy(server.url()));
    assert!(ran.stderr.contains("the source has changed since its checkpoint; starting over"), "{}", ran.stderr);
    assert_eq!(report.get("resumedFrom"), None);
    place.assert_copied(&disk, "changed");
    // Without the option, as if nothing had been.
    stop();
    let (ran, report) = reported(place.copy(server.url()).args(["--progress", "none"]), &place);
    ran.succeeded();
    assert_eq!(report.get("resumedFrom"), None);
    place.assert_copied(&disk, "without --resume");
}

#[test]
fn what_has_no_middle_starts_over() {
    let place = Place::new();
    let disk = Pattern::Noise.disk(place.path(), 8 << 20);
    tool_run(tool("gzip").args(["-1", "-k"]).arg(&disk));
    let mut name = disk.clone().into_os_string();
    name.push(".gz");
    let server = Stalling::start(fs::read(name).unwrap());
    server.stall_at(6 << 20);
    let part = place.out().join(".disk.raw.part");
    let written = || part.metadata().is_ok_and(|part| part.len() > 0);
    kill(begin(&mut place.copy(server.url()), &server, written));
    server.relent();
    let (ran, report) = go_on(&place, &mut place.copy(server.url()));
    assert!(ran.stderr.contains("starting over: the image is compressed"), "{}", ran.stderr);
    assert_eq!(report.get("resumedFrom"), None);
    place.assert_copied(&disk, "gzip");
}

/// One line on stderr says that nothing is continued, and why.
#[test]
fn what_can_not_be_continued_is_said_in_one_line() {
    let place = Place::new();
    let disk = Pattern::Noise.disk(place.path(), DISK);
    let server = Stalling::start(fs::read(&disk).unwrap());
    let (part, file) = (place.out().join(".disk.raw.part"), checkpoint(&place));
    let damages: [(&str, &dyn Fn()); 3] = [
        ("its checkpoint can't be read", &|| fs::write(&file, "millrace resume\n???").unwrap()),
        ("it was interrupted before its first checkpoint", &|| fs::remove_file(&file).unwrap()),
        ("it is not what its checkpoint says", &|| fs::write(&part, "other").unwrap()),
    ];
    for (why, damage) in damages {
        server.stall_at(80 << 20);
        kill(begin(&mut place.copy(server.url()), &server, || checkpoint(&place).exists()));
        damage();
        server.relent();
        let (ran, report) = go_on(&place, &mut place.copy(server.url()));
        let line = format!("can't be continued: {why}; starting over");
        assert_eq!(ran.stderr.lines().count(), 1, "{}", ran.stderr);
        assert!(ran.stderr.contains(&line), "{}", ran.stderr);
        assert_eq!(report.get("resumedFrom"), None);
        place.assert_copied(&disk, why);
    }
    // So on a device.
    let Some(device) = LoopDevice::filled(usize::try_from(DISK).unwrap(), 512, 0) else { return };
    fs::write(device.path(), [&[0; 512 << 10][..], b"millrace resume\n???"].concat()).unwrap();
    let mut command = copy(server.url(), device.path());
    let ran = run(command.args(["--resume", "--progress", "none"])).succeeded();
    assert_eq!(ran.stderr.lines().count(), 1, "{}", ran.stderr);
    assert!(ran.stderr.contains("its checkpoint can't be read; starting over"), "{}", ran.stderr);
    assert_eq!(sha256_file(device.path()), sha256_file(&disk));
}

#[test]
fn what_is_refused_is_not_kept() {
    let place = Place::new();
    let disk = Pattern::Noise.disk(place.path(), DISK);
    let device = LoopDevice::filled(usize::try_from(DISK).unwrap(), 512, 0xff);
    let wrong = format!("sha256:{}", "0".repeat(64));
    let targets = [Some(place.target()), device.as_ref().map(|device| device.path().to_owned())];
    for target in targets.into_iter().flatten() {
        for _ in 0..2 {
            let mut command = copy(&disk, &target);
            let ran = run(command.args(["--resume", "--progress", "none", "--checksum", &wrong]));
            assert!(ran.code == 7 && ran.stderr.lines().last().unwrap().contains("checksum"), "{ran:?}");
        }
    }
    assert_eq!(place.left(), [""; 0]);
}

/// Also without `--resume`.
#[test]
fn a_source_that_changes_is_read_anew() {
    let place = Place::new();
    let disk = Pattern::Noise.disk(place.path(), 8 << 20);
    let bytes: Bytes = fs::read(&disk).unwrap().into();
    let asked = AtomicU32::new(0);
    // The first transfer is cut, and by then it is another object.
    let server = Server::start(move |seen| {
        let first = asked.fetch_add(1, Ordering::SeqCst) == 0;
        let old = Object::new(vec![7; 8 << 20]).etag(Some("\"old\""));
        if first { old.answer(seen).fault_at(3 << 20, Reply::cut) } else { Object::new(bytes.clone()).answer(seen) }
    });
    let ran = run(place.copy(server.url("/disk")).args(["--progress", "none"])).succeeded();
    assert!(ran.stderr.contains("changed") && ran.stderr.contains("attempt 2 of 3"), "{}", ran.stderr);
    place.assert_copied(&disk, "changed");
    // One that never stays the same.
    let asked = AtomicU32::new(0);
    let server = Server::start(move |seen| {
        let etag = format!("\"{}\"", asked.fetch_add(1, Ordering::SeqCst));
        Object::new(vec![7; 8 << 20]).etag(Some(&etag)).answer(seen).fault_at(3 << 20, Reply::cut)
    });
    let ran = run(place.copy(server.url("/disk")).args(["--progress", "none"]));
    assert_eq!(ran.code, 3, "{ran:?}");
    assert_eq!(ran.stderr.lines().count(), 3, "{ran:?}");
    assert_eq!(place.left(), [""; 0]);
}
