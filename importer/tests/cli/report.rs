//! What scripts read: the report and the lines of progress.

use std::path::Path;

use serde_json::Value;

use super::program::{Place, image, reported, run};

fn keys(value: &Value) -> Vec<&str> {
    let mut keys: Vec<_> = value.as_object().unwrap().keys().map(String::as_str).collect();
    keys.sort_unstable();
    keys
}

#[test]
fn a_report_of_success_has_every_field() {
    let place = Place::new();
    let made = image("qcow2.gzip-1", &place);
    let (ran, report) = reported(&mut place.copy(&made.path), &place);
    ran.succeeded();
    let fields = [
        "averageBytesPerSecond",
        "durationSeconds",
        "exitCode",
        "image",
        "message",
        "mode",
        "outcome",
        "reason",
        "source",
        "target",
    ];
    assert_eq!(keys(&report), fields);
    assert_eq!(report["outcome"], "succeeded");
    assert_eq!(report["exitCode"], 0);
    assert_eq!(report["reason"], "Completed");
    assert!(!report["message"].as_str().unwrap().is_empty());
    assert_eq!(report["source"]["bytes"], made.path.metadata().unwrap().len());
    assert_eq!(keys(&report["image"]), ["allocated", "cdrom", "format", "virtualSize", "wrappers"]);
    assert_eq!(report["image"]["format"], "qcow2");
    assert_eq!(report["image"]["virtualSize"], made.raw().metadata().unwrap().len());
    assert!(report["image"]["allocated"].as_u64().unwrap() > 0);
    assert_eq!(report["image"]["cdrom"], false);
    assert_eq!(report["target"]["reference"], place.target().to_str().unwrap());
    let written = report["target"]["bytesWritten"].as_u64().unwrap();
    assert!(written > 0 && written <= report["target"]["size"].as_u64().unwrap());
    assert!(report["durationSeconds"].as_f64().unwrap() > 0.0);
    assert!(report["averageBytesPerSecond"].as_u64().unwrap() > 0);
}

#[test]
fn a_report_of_failure_says_why() {
    let place = Place::new();
    let text = place.file("page.qcow2", "<html><body>Sign in</body></html>\n".repeat(100));
    let (ran, report) = reported(place.copy(text).args(["--progress", "none"]), &place);
    let line = ran.failed(5);
    let fields = ["averageBytesPerSecond", "durationSeconds", "exitCode", "message", "outcome", "reason", "source"];
    assert_eq!(keys(&report), fields);
    assert_eq!(report["outcome"], "failed");
    assert_eq!(report["exitCode"], 5);
    assert_eq!(report["reason"], "NotADiskImage");
    assert_eq!(format!("importer: {}\n", report["message"].as_str().unwrap()), line);
}

#[test]
fn a_report_that_cannot_be_written_is_not_hushed_up() {
    let place = Place::new();
    let made = image("raw-one-sector", &place);
    let mut command = place.copy(&made.path);
    let said = run(command.args(["--progress", "none", "--report", "/dev/full"])).failed(8);
    assert!(said.contains("/dev/full") && said.contains("the disk is complete"), "{said}");
    place.assert_copied(&made.raw(), "the disk is complete all the same");
}

#[test]
fn a_report_goes_to_standard_output_too() {
    let place = Place::new();
    let made = image("raw-one-sector", &place);
    let ran = run(place.copy(&made.path).args(["--report", "/dev/stdout"])).succeeded();
    assert_eq!(ran.json()["outcome"], "succeeded");
}

#[test]
fn progress_for_programs_is_json_and_nothing_else() {
    let place = Place::new();
    let bytes = |path: &Path| path.metadata().unwrap().len();
    for name in ["qcow2-64k-v1.1", "raw.zstd", "raw"] {
        let made = image(name, &place);
        let (ran, report) = reported(place.copy(&made.path).args(["--progress", "json"]), &place);
        let ran = ran.succeeded();
        let lines: Vec<Value> = ran
            .stderr
            .lines()
            .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
            .collect();
        let last = lines.last().unwrap();
        assert_eq!(
            keys(last),
            ["bytesPerSecond", "elapsedSeconds", "expectedBytes", "pass", "percent", "receivedBytes", "waiting"]
        );
        assert_eq!((&last["pass"], &last["percent"]), (&1.into(), &100.into()), "{name}");
        // All that was expected has come, and not more than the file has.
        assert_eq!(last["receivedBytes"], last["expectedBytes"], "{name}");
        assert!(last["receivedBytes"].as_u64().unwrap() <= bytes(&made.path) * 2, "{name}: {last}");
        assert_eq!(last["receivedBytes"], report["source"]["bytes"], "{name}");
    }
}

#[test]
fn progress_none_says_nothing() {
    let place = Place::new();
    let made = image("qcow2-64k-v1.1", &place);
    let ran = run(place.copy(&made.path).args(["--progress", "none"])).succeeded();
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("", ""));
    let ran = run(&mut place.copy(&made.path)).succeeded();
    assert!(ran.stderr.contains("disk.raw: 8.0 MiB from qcow2 (") && ran.stderr.contains("ranged"), "{ran:?}");
}
