//! Every exit code, with one line that says why and nothing left beside the target.

use std::fs;
use std::net::TcpListener;

use fixtures::content::Pattern;
use fixtures::http::{Authority, Reply, Server, Settings};
use fixtures::nginx::Nginx;
use fixtures::tool;

use super::program::{Place, copy, image, importer, run, run_piped};

/// Copies, expects this exit code and these words, and that nothing is left.
#[track_caller]
fn fails(place: &Place, source: &str, code: i32, words: &[&str]) {
    let line = run(place.copy(source).args(["--progress", "none"])).failed(code);
    assert!(words.iter().all(|word| line.contains(word)), "{source}: {line}");
    assert_eq!(place.left(), [""; 0], "{source}");
}

#[test]
fn a_server_that_refuses_is_4_and_one_that_fails_is_3() {
    let place = Place::new();
    let server = Server::start(|seen| Reply::new(seen.target[1..].parse().unwrap()).body("no"));
    for (status, code) in [("401", 4), ("403", 4), ("404", 4), ("410", 4), ("429", 3), ("500", 3), ("503", 3)] {
        fails(&place, &server.url(&format!("/{status}")), code, &[status]);
    }
    let loops = Server::start(|_| Reply::redirect(302, "/again"));
    fails(&place, &loops.url("/"), 4, &["redirect"]);
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    fails(&place, &format!("http://{closed}/disk"), 3, &["refused"]);
}

#[test]
fn a_body_that_ends_early_is_3() {
    let place = Place::new();
    let made = image("raw-noise", &place);
    let bytes = fs::read(&made.path).unwrap();
    let server = Server::start(move |_| Reply::ok(bytes.clone()).fault_at(1_000_001, Reply::cut));
    fails(&place, &server.url("/disk"), 3, &[]);
}

#[test]
fn an_expired_certificate_is_4() {
    let place = Place::new();
    let authority = Authority::new("tests");
    let ca = place.file("ca.pem", authority.pem());
    let settings = Settings { identity: Some(authority.issue_expired(&["127.0.0.1"])), ..Settings::default() };
    let server = Server::with(settings, |_| Reply::ok("no one gets this"));
    let mut command = place.copy(server.url("/disk"));
    let line = run(command.args(["--progress", "none", "--ca"]).arg(ca)).failed(4);
    assert!(line.contains("expired"), "{line}");
}

#[test]
fn a_path_that_cannot_be_read_is_4() {
    let place = Place::new();
    let missing = place.path().join("missing.qcow2");
    fails(&place, missing.to_str().unwrap(), 4, &["missing.qcow2", "no such file"]);
    fails(&place, place.path().to_str().unwrap(), 4, &["directory"]);
}

#[test]
fn a_command_that_makes_no_sense_is_2() {
    let place = Place::new();
    let disk = image("raw-one-sector", &place).path;
    let disk = disk.to_str().unwrap();
    fails(&place, "ftp://host/disk", 2, &["ftp://"]);
    fails(&place, "http://", 2, &[]);
    for target in ["docker:host/disk", "oci:layout:v1", "oci-archive:x.tar"] {
        run(&mut copy(disk, target)).failed(2);
    }
    let said = run(copy(disk, "null").current_dir(place.out())).failed(2);
    assert!(said.contains("null:") && said.contains("./null"), "{said}");
    assert!(place.left().is_empty());
    run(copy(disk, "ftp://host/disk:tag").args(["--progress", "none"])).failed(2);
    for options in [
        &["--memory", "1Mi"][..],
        &["--memory", "64Mi", "--no-such-option"],
        &["--size", "-1"],
        &["--size", "10 parsecs"],
        &["--checksum", "md5:00"],
        &["--checksum", "sha256:00"],
        &["--progress", "loud"],
        &["--user", "ali"],
        &["--spool-limit", "much"],
    ] {
        let ran = run(place.copy(disk).args(options));
        assert_eq!(ran.code, 2, "{options:?}: {ran:?}");
        assert_eq!(place.left(), [""; 0], "{options:?}");
    }
    let http = |option: &str, value: &str| {
        run(place.copy("http://127.0.0.1:9/").args(["--progress", "none", option, value])).failed(2)
    };
    http("--header", "no colon");
    http("--header", "Bad Name: x");
    http("--ca", "/no/such/ca.pem");
    for args in [&[][..], &["copy"], &["copy", "a"], &["inspect"], &["move", "a", "b"]] {
        assert_eq!(run(importer().args(args)).code, 2, "{args:?}");
    }
}

#[test]
fn what_is_no_disk_is_5() {
    let place = Place::new();
    let page = "<!DOCTYPE html><html><body>Please sign in to download this file.</body></html>\n";
    for (name, bytes, words) in [
        ("page.qcow2", page.as_bytes().to_vec(), &["page.qcow2"][..]),
        ("long-page.qcow2", page.repeat(1000).into_bytes(), &["long-page.qcow2"]),
        ("empty.img", Vec::new(), &["empty"]),
        ("short.img", vec![7; 511], &["511"]),
    ] {
        let path = place.file(name, bytes);
        fails(&place, path.to_str().unwrap(), 5, words);
        let line = run_piped(place.copy("-").args(["--progress", "none"]), &path).failed(5);
        assert!(line.contains("standard input"), "{line}");
        assert_eq!(place.left(), [""; 0], "{name}");
    }
}

#[test]
fn a_target_that_cannot_be_written_is_8() {
    let place = Place::new();
    let disk = image("raw-one-sector", &place).path;
    fs::create_dir(place.path().join("folder")).unwrap();
    for target in [place.path().join("no/such/folder/disk.raw"), place.path().join("folder")] {
        let line = run(copy(&disk, &target).args(["--progress", "none"])).failed(8);
        assert!(line.contains(target.to_str().unwrap()), "{line}");
    }
}

#[test]
fn nothing_is_written_over_what_is_read() {
    let place = Place::new();
    let source = place.path().join("source.raw");
    std::fs::write(&source, vec![7; 1 << 20]).unwrap();
    let source = source.to_str().unwrap();
    let link = place.path().join("link.raw");
    std::os::unix::fs::symlink("source.raw", &link).unwrap();
    let target = place.path().join("out.raw");
    for args in [
        vec!["copy", source, source],
        vec!["copy", source, link.to_str().unwrap()],
        vec!["copy", "--report", source, source, target.to_str().unwrap()],
        vec!["copy", "--report", target.to_str().unwrap(), source, target.to_str().unwrap()],
        vec!["copy", "--report", "/nowhere/report.json", source, target.to_str().unwrap()],
        vec!["copy", "", target.to_str().unwrap()],
    ] {
        let said = run(importer().args(&args)).failed(2);
        assert!(!said.trim().is_empty(), "{args:?}");
        assert!(!target.exists(), "{args:?}");
        assert_eq!(std::fs::read(source).unwrap(), vec![7; 1 << 20], "{args:?}");
    }
}

#[test]
fn errors_are_one_line_that_no_name_can_break() {
    for args in [
        vec!["copy", "a", "b", "--size", "1.5Gi"],
        vec!["copy", "a", "b", "--size", "-1"],
        vec!["copy", "a"],
        vec!["frobnicate"],
    ] {
        let said = run(importer().args(&args)).failed(2);
        assert_eq!(said.trim_end().lines().count(), 1, "{said}");
        assert!(said.starts_with("importer: "), "{said}");
    }
    let said = run(importer().args(["copy", "miss\x1b[31m\ned", "null:"])).failed(4);
    assert!(!said.contains('\x1b') && said.trim_end().lines().count() == 1, "{said:?}");
}

#[test]
fn an_error_names_the_image_whatever_it_is_called() {
    let place = Place::new();
    // Names that the rest of the message contains anyway.
    for name in ["e", "qcow2", "the file"] {
        let path = place.file(name, b"QFI\xfb\0\0\0\x03");
        let mut command = importer();
        command.current_dir(place.path()).args(["copy", name]).arg(place.target());
        let line = run(command.args(["--progress", "none"])).failed(5);
        assert!(line.starts_with(&format!("importer: {name}: qcow2: ")), "{}: {line}", path.display());
    }
}

/// A DMG may begin with a whole compressed block; what it is stands at its end.
#[test]
fn a_dmg_is_not_taken_for_what_its_blocks_are_compressed_with() {
    let place = Place::new();
    let disk = Pattern::Noise.disk(place.path(), 1 << 20);
    let server = Nginx::serve(place.path());
    for compressor in ["bzip2", "xz"] {
        let mut dmg = tool(compressor).arg("-c").arg(&disk).output().unwrap().stdout;
        dmg.resize(dmg.len() + 1024, 0);
        let trailer = dmg.len() - 512;
        dmg[trailer..][..12].copy_from_slice(b"koly\0\0\0\x04\0\0\x02\0");
        let path = place.file("disk.dmg", dmg);
        for source in [path.to_str().unwrap(), &server.url("disk.dmg")] {
            fails(&place, source, 5, &["disk.dmg", "DMG"]);
        }
        let line = run(importer().arg("inspect").arg(&path)).failed(5);
        assert!(line.contains("DMG"), "{line}");
    }
}
