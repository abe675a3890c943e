//! Options that make no sense, and what probes ask for.

use std::process::Stdio;

use crate::program::{Place, Server, curl, disk, program, text};

#[test]
fn what_makes_no_sense_is_refused_at_once() {
    let place = Place::new();
    let short = place.file("short", "abc\n");
    for (args, why) in [
        (&[][..], "required"),
        (&["--target", "a", "--root", "b"], "cannot be used with"),
        (&["--target", "s3://bucket/key"], "s3://"),
        (&["--target", "docker://"], ""),
        (&["--target", "docker://x/y@sha256:00"], ""),
        (&["--target", "docker://x/y:z", "--size", "1G"], "--size"),
        (&["--target", "a", "--layer", "zstd"], "--layer"),
        (&["--root", "a", "--target-insecure"], "--target-insecure"),
        (&["--root", "a", "--once"], "cannot be used with"),
        (&["--target", "docker://x/y:z", "--target-user", "a"], "belong together"),
        (&["--target", "a", "--token-file", text(&short)], "at least 16"),
        (&["--target", "a", "--token-file", "/does/not/exist"], "/does/not/exist"),
        (&["--target", "a", "--health-listen", "nowhere"], "host:port"),
        (&["--target", "a", "--checksum", "md5:0"], "md5"),
    ] {
        let output =
            program().current_dir(place.path()).args(args).stdout(Stdio::piped()).stderr(Stdio::piped()).output();
        let output = output.unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
        assert!(said.starts_with("uploader: ") && said.contains(why) && said.lines().count() == 1, "{args:?}: {said}");
    }
}

#[test]
fn counters_only_go_up_and_have_an_address_of_their_own() {
    let place = Place::new();
    let image = place.file("image.img", disk(3));
    let page = place.file("page", "<html>".repeat(5000));
    let mut server = place.serve_with(&["--health-listen", "127.0.0.1:0"]);
    let line = server.line();
    let health = line.strip_prefix("health and metrics at ").unwrap();
    curl(&[&format!("{health}/healthz")]).says(200, "OK");
    curl(&[&format!("{health}/upload")]).says(404, "");
    curl(&[&server.url("/metrics")]).says(404, "");
    curl(&[&server.url("/healthz")]).says(200, "OK");
    let received = || -> u64 {
        let text = curl(&[&format!("{health}/metrics")]).says(200, "uploader_uploads{phase=").text;
        text.lines().find_map(|line| line.strip_prefix("uploader_received_bytes_total ")).unwrap().parse().unwrap()
    };
    assert_eq!(received(), 0);
    curl(&["-T", text(&page), &server.url("/upload")]).says(400, "");
    let first = received();
    assert!(first > 0);
    curl(&["-T", text(&image), &server.url("/upload")]).says(200, "");
    assert_eq!(received(), first + (3 << 20));
    let text = curl(&[&format!("{health}/metrics")]).text;
    for line in [
        "uploader_imports_total{reason=\"Completed\"} 1",
        "uploader_imports_total{reason=\"NotADiskImage\"} 1",
        "uploader_imports_active 0",
        "uploader_uploads{phase=\"Succeeded\"} 1",
        "uploader_requests_total{code=\"400\"} 1",
    ] {
        assert!(text.lines().any(|other| other == line), "{line}\n{text}");
    }
    assert!(!text.contains("disk.raw"));
    let root = place.path().join("root");
    let server = Server::start(&["--root", crate::program::text(&root)]);
    curl(&[&server.url("/metrics")]).says(200, "uploader_received_bytes_total 0");
}
