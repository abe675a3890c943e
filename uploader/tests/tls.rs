//! Secure connections, with the clients of others.

#![allow(clippy::unwrap_used, reason = "this is a test; clippy allows it only inside the test functions")]

mod running;

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Stdio;

use fixtures::http::Authority;
use fixtures::tool;
use running::{Pki, Running, command, curl, disk, list, read, text};

fn serve(place: &str, path: &Path) -> [String; 3] {
    ["serve", place, text(path)].map(str::to_owned)
}

/// What openssl speaks with a server, if they find something.
fn spoken(address: &str, args: &[&str]) -> Option<String> {
    let output =
        tool("openssl").args(["s_client", "-connect", address, "-alpn", "h2,http/1.1"]).args(args).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = said.lines().find(|line| line.starts_with("New, ") && !line.contains("(NONE)"))?;
    assert!(said.contains("ALPN protocol: h2"), "{said}");
    Some(line.trim_start_matches("New, ").replace(", Cipher is", ""))
}

#[test]
fn profiles_decide_what_is_spoken() {
    let (dir, pki) = (tempfile::tempdir().unwrap(), Pki::new());
    pki.server("server");
    let old = ["-tls1_1", "-cipher", "ALL:@SECLEVEL=0"];
    let gcm128 = ["-tls1_2", "-cipher", "ECDHE-ECDSA-AES128-GCM-SHA256"];
    let gcm256 = ["-tls1_2", "-cipher", "ECDHE-ECDSA-AES256-GCM-SHA384"];
    let cbc = ["-tls1_2", "-cipher", "ECDHE-ECDSA-AES128-SHA"];
    let newest = ["-tls1_3", "-ciphersuites", "TLS_CHACHA20_POLY1305_SHA256"];
    let (is128, is256) = (Some("TLSv1.2 ECDHE-ECDSA-AES128-GCM-SHA256"), Some("TLSv1.2 ECDHE-ECDSA-AES256-GCM-SHA384"));
    let is13 = Some("TLSv1.3 TLS_CHACHA20_POLY1305_SHA256");
    let table: &[(&[&str], [Option<&str>; 3])] = &[
        (&[], [is128, is256, is13]),
        (&["--tls-profile", "intermediate"], [is128, is256, is13]),
        (&["--tls-profile", "old"], [is128, is256, is13]),
        (&["--tls-profile", "modern"], [None, None, is13]),
        (&["--tls-profile", "custom", "--tls-min-version", "VersionTLS13"], [None, None, is13]),
        (
            &["--tls-min-version", "1.0", "--tls-ciphers", "ECDHE-ECDSA-AES256-GCM-SHA384,AES128-SHA"],
            [None, is256, is13],
        ),
        (&["--tls-ciphers", "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,TLS_AES_128_GCM_SHA256"], [is128, None, None]),
    ];
    for (args, [first, second, third]) in table {
        let server = Running::start(&list(&[&serve("--root", dir.path()), &pki.options("server")], args));
        let found = [&gcm128[..], &gcm256, &newest].map(|client| spoken(server.address(), client));
        assert_eq!(found.each_ref().map(Option::as_deref), [*first, *second, *third], "{args:?}");
        for never in [&old[..], &cbc] {
            assert_eq!(spoken(server.address(), never), None, "{args:?} {never:?}");
        }
    }
}

#[test]
fn options_that_contradict_each_other_are_refused() {
    let pki = Pki::new();
    pki.server("server");
    let dir = tempfile::tempdir().unwrap();
    for (args, why) in [
        (&["--tls-profile", "modern", "--tls-min-version", "1.2"][..], "with the profile custom only"),
        (&["--tls-profile", "new"], "modern, intermediate, old and custom"),
        (&["--tls-min-version", "SSLv3"], "--tls-min-version: write it as"),
        (&["--client-name", "somebody"], "--client-ca"),
    ] {
        let all = list(&[&serve("--root", dir.path()), &pki.options("server")], args);
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_uploader")).args(all).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && said.contains(why), "{args:?}: {said}");
    }
}

#[test]
fn only_clients_with_the_right_name_may_send() {
    let (dir, pki) = (tempfile::tempdir().unwrap(), Pki::new());
    pki.server("server");
    pki.client("right", "client.upload-server.cdi.kubevirt.io");
    pki.client("wrong", "client.upload-server.cdi.kubevirt.io.example.org");
    pki.save("foreign", &Authority::new("test").issue_to("client.upload-server.cdi.kubevirt.io", &[]));
    let (image, target, ca) = (dir.path().join("image"), dir.path().join("disk.raw"), pki.file("ca.pem"));
    fs::write(&image, disk(1 << 20)).unwrap();
    let asked = ["--client-ca", &ca, "--client-name", "client.upload-server.cdi.kubevirt.io"];
    let server = Running::start(&list(&[&serve("--target", &target), &pki.options("server")], &asked));
    let (upload, health) = (format!("{}/upload", server.url), format!("{}/healthz", server.url));
    let trust = ["--cacert".to_owned(), ca.clone()];
    let send = ["-T", text(&image), upload.as_str()];
    assert_eq!(curl(&list(&[&trust], &[&health])).0, 200, "the kubelet has no certificate");
    let (status, said) = curl(&list(&[&trust], &send));
    assert!(status == 401 && said.contains("only from clients with a certificate"), "{status} {said}");
    let (status, said) = curl(&list(&[&pki.shown("wrong")], &send));
    assert!(status == 401 && said.contains("is for another name"), "{status} {said}");
    let (status, said) = curl(&list(&[&pki.shown("foreign")], &send));
    assert_eq!(status, 0, "{said}");
    assert!(!target.exists());
    let (status, said) = curl(&list(&[&pki.shown("right")], &send));
    assert_eq!(status, 200, "{said}");
    assert!(fs::read(&target).unwrap() == disk(1 << 20));
}

#[test]
fn a_new_certificate_in_the_middle_of_an_upload() {
    let (dir, pki) = (tempfile::tempdir().unwrap(), Pki::new());
    pki.server("server");
    let target = dir.path().join("disk.raw");
    let server = Running::start(&list(&[&serve("--target", &target), &pki.options("server")], &[]));
    let (upload, ca, disk) = (format!("{}/upload", server.url), pki.file("ca.pem"), disk(4 << 20));
    let mut sending = command(&["--cacert", &ca, "-T", "-", &upload]);
    let mut sending = sending.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut bytes = sending.stdin.take().unwrap();
    bytes.write_all(&disk[..3 << 20]).unwrap();
    while curl(&["--cacert", &ca, &upload]).1.contains("ready for an upload") {}
    let newer = Pki::new();
    newer.server("server");
    for ending in ["pem", "key"] {
        fs::rename(newer.file(&format!("server.{ending}")), pki.file(&format!("server.{ending}"))).unwrap();
    }
    assert_eq!(curl(&["--cacert", &ca, &upload]).0, 0, "its certificate is of another authority now");
    let (status, said) = curl(&["--cacert", &newer.file("ca.pem"), &upload]);
    assert!(status == 200 && said.contains("received"), "{said}");
    bytes.write_all(&disk[3 << 20..]).unwrap();
    drop(bytes);
    let output = sending.wait_with_output().unwrap();
    let (status, said) = read(&output.stdout, &output.stderr);
    assert_eq!(status, 200, "{said}");
    assert!(fs::read(&target).unwrap() == disk);
}
