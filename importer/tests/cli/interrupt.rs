//! Asked to end in the middle: nothing is left behind, and one line says so.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};

use fixtures::devices::LoopDevice;
use fixtures::{run as tool_run, sha256_file, tool};
use rustix::process::{Pid, Signal, kill_process};

use super::kill::{DISK, Stopping, images};
use super::program::{Place, Ran, copy, end, importer, report, run_piped};

/// Enough for the copy to have begun: the start that tells what it is, and the queue in front of it, are over.
const BEGUN: usize = 5 << 20;

/// Starts `command` and gives it the start of `image` through a pipe that stays open.
fn begin(command: &mut Command, image: &Path) -> (Child, ChildStdin) {
    begin_with(command, &fs::read(image).unwrap()[..BEGUN])
}

fn begin_with(command: &mut Command, bytes: &[u8]) -> (Child, ChildStdin) {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(bytes).unwrap();
    (child, stdin)
}

/// Asks `command` to end when it has got `bytes`, less what a pipe holds, and waits for more.
pub fn interrupt_with(command: &mut Command, bytes: &[u8]) -> Ran {
    let (child, stdin) = begin_with(command, bytes);
    send(&child, Signal::TERM);
    let ran = end(child);
    drop(stdin);
    ran
}

fn send(child: &Child, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    kill_process(pid, signal).unwrap();
}

fn interrupt(command: &mut Command, image: &Path, signal: Signal) -> Ran {
    let (child, stdin) = begin(command, image);
    send(&child, signal);
    let ran = end(child);
    drop(stdin);
    ran
}

#[test]
fn a_file_that_was_not_there_is_not_there() {
    let place = Place::new();
    let (disk, qcow2) = images(&place);
    for image in [&disk, &qcow2] {
        for (signal, name) in [(Signal::INT, "SIGINT"), (Signal::TERM, "SIGTERM"), (Signal::HUP, "SIGHUP")] {
            let mut command = place.copy("-");
            let (child, stdin) = begin(command.args(["--progress", "none"]), image);
            assert_eq!(place.left().len(), 1, "it has not begun");
            send(&child, signal);
            let line = end(child).failed(-signal.as_raw());
            drop(stdin);
            assert_eq!(
                line,
                format!("importer: interrupted by {name}; nothing is left at {}\n", place.target().display())
            );
            assert_eq!(place.left(), [""; 0]);
        }
    }
}

#[test]
fn a_file_that_was_there_is_as_it_was() {
    let place = Place::new();
    let (_, qcow2) = images(&place);
    fs::write(place.target(), "precious").unwrap();
    let mut command = place.copy("-");
    let line = interrupt(command.args(["--progress", "none", "--preallocate"]), &qcow2, Signal::TERM).failed(-15);
    assert!(line.contains("disk.raw is as it was"), "{line}");
    assert_eq!(place.left(), ["disk.raw"]);
    assert_eq!(fs::read(place.target()).unwrap(), b"precious");
}

#[test]
fn a_device_does_not_begin_with_a_disk() {
    let place = Place::new();
    let (disk, qcow2) = images(&place);
    let Some(device) = LoopDevice::filled(usize::try_from(DISK).unwrap(), 512, 0xff) else { return };
    let mut command = copy("-", device.path());
    let line = interrupt(command.args(["--progress", "none"]), &qcow2, Signal::TERM).failed(-15);
    assert!(line.contains("has a part of the disk"), "{line}");
    let mut head = vec![1; 1 << 20];
    File::open(device.path()).unwrap().read_exact(&mut head).unwrap();
    assert!(head.iter().all(|&byte| byte == 0));
    run_piped(&mut copy("-", device.path()), &qcow2).succeeded();
    assert_eq!(sha256_file(device.path()), sha256_file(&disk));
}

#[test]
fn a_download_that_stalls_is_given_up() {
    let place = Place::new();
    let (_, qcow2) = images(&place);
    let bytes = fs::read(&qcow2).unwrap();
    // Before anything tells what it is, and in the middle.
    for at in [1, bytes.len() / 2] {
        let server = Stopping::start(bytes.clone(), at);
        let report_path = place.path().join("report.json");
        let mut command = place.copy(&server.url);
        command.args(["--progress", "json", "--report"]).arg(&report_path);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let stream = server.reached.recv().unwrap();
        send(&child, Signal::TERM);
        let ran = end(child);
        drop(stream);
        assert_eq!(ran.code, -15, "{ran:?}");
        assert_eq!(place.left(), [""; 0]);
        let report = report(&report_path);
        assert_eq!(report["outcome"], "failed");
        assert_eq!(report["exitCode"], 143);
        assert_eq!(report["reason"], "Interrupted");
        let line = format!("importer: {}", report["message"].as_str().unwrap());
        assert_eq!(ran.stderr.lines().last(), Some(&*line));
    }
}

#[test]
fn a_copy_to_nowhere_just_ends() {
    let place = Place::new();
    let (disk, _) = images(&place);
    let line = interrupt(copy("-", "null:").args(["--progress", "none"]), &disk, Signal::INT).failed(-2);
    assert_eq!(line, "importer: interrupted by SIGINT\n");
}

#[test]
fn a_second_signal_does_not_wait() {
    let place = Place::new();
    let (_, qcow2) = images(&place);
    // No one ever reads the report.
    let pipe = place.path().join("report");
    tool_run(tool("mkfifo").arg(&pipe));
    let mut command = place.copy("-");
    let (child, _stdin) = begin(command.args(["--progress", "none", "--report"]).arg(&pipe), &qcow2);
    send(&child, Signal::TERM);
    send(&child, Signal::INT);
    // Which of them is the second is the kernel's choice.
    let ran = end(child);
    assert!([-2, -15].contains(&ran.code), "{ran:?}");
}

#[test]
fn what_was_ignored_before_stays_ignored() {
    let place = Place::new();
    let (disk, qcow2) = images(&place);
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' HUP INT; exec \"$@\"", "sh"]);
    command.arg(importer().get_program()).arg("copy").arg("-").arg(place.target());
    let (child, mut stdin) = begin(&mut command, &qcow2);
    send(&child, Signal::HUP);
    send(&child, Signal::INT);
    stdin.write_all(&fs::read(&qcow2).unwrap()[BEGUN..]).unwrap();
    drop(stdin);
    end(child).succeeded();
    place.assert_copied(&disk, "as if nothing had been sent");
}
