//! `importer copy`: every way to a disk, and what options do.

use std::fs;
use std::os::unix::fs::MetadataExt;

use fixtures::content::Pattern;
use fixtures::http::{Object, Reply, Server};
use fixtures::images::{Manifest, Ova, OvaDisk, SIZE};
use fixtures::nginx::{Config, Nginx};
use fixtures::{run as tool_run, tool};

use super::program::{Place, copy, image, report, reported, run, run_piped};

#[test]
fn a_web_server_with_ranges_is_read_by_ranges() {
    let place = Place::new();
    let made = image("qcow2-64k-v1.1-zlib", &place);
    let server = Nginx::serve(place.path());
    let (ran, report) = reported(&mut place.copy(server.url("qcow2-64k-v1.1-zlib.qcow2")), &place);
    ran.succeeded();
    place.assert_copied(&made.raw(), "ranged");
    assert_eq!(report["mode"], "ranged");
    let log = server.finish();
    assert!(log.iter().any(|request| request.status == 206 && !request.range.is_empty()), "{log:?}");
}

/// HT03.
#[test]
fn a_web_server_without_ranges_is_read_in_order() {
    let place = Place::new();
    let server = Config::new(place.path()).ranges(false).start();
    for (name, mode) in [("qcow2-64k-v1.1", "streaming"), ("qcow2-64k-grown-written", "two-pass")] {
        let made = image(name, &place);
        let url = server.url(&format!("{name}.qcow2"));
        let (ran, report) = reported(place.copy(url).args(["--memory", "16Mi"]), &place);
        ran.succeeded();
        place.assert_copied(&made.raw(), name);
        assert_eq!(report["mode"], mode, "{name}");
    }
    assert!(server.finish().iter().all(|request| request.status == 200));
}

#[test]
fn tls_needs_trust() {
    let place = Place::new();
    let made = image("vdi", &place);
    let server = Config::new(place.path()).tls().start();
    let url = server.url("vdi.vdi");
    let line = run(&mut place.copy(&url)).failed(4);
    assert!(line.contains("--ca") || line.contains("trust"), "{line}");
    assert_eq!(place.left(), [""; 0]);
    run(place.copy(&url).arg("--ca").arg(server.ca_file())).succeeded();
    place.assert_copied(&made.raw(), "--ca");
    run(place.copy(&url).arg("--insecure")).succeeded();
    place.assert_copied(&made.raw(), "--insecure");
    let log = server.finish();
    assert!(!log.is_empty() && log.iter().all(|request| request.protocol == "HTTP/2.0"), "{log:?}");
}

#[test]
fn redirects_chunks_and_bodies_of_unknown_length() {
    let place = Place::new();
    let made = image("vmdk-stream", &place);
    let expected = made.raw();
    let bytes = fs::read(&made.path).unwrap();
    let object = Object::new(bytes.clone());
    let server = Server::start(move |seen| match seen.target.as_str() {
        "/redirect" => Reply::redirect(302, "/object"),
        "/object" => object.answer(seen),
        "/chunked" => bytes.chunks(70_001).fold(Reply::new(200), |reply, chunk| reply.body(chunk.to_vec())).chunked(),
        "/close" => Reply::ok(bytes.clone()).until_close(),
        _ => Reply::new(404),
    });
    for path in ["/redirect", "/object", "/chunked", "/close"] {
        run(&mut place.copy(server.url(path))).succeeded();
        place.assert_copied(&expected, path);
    }
}

#[test]
fn headers_and_passwords_reach_the_server() {
    let place = Place::new();
    let made = image("raw-one-sector", &place);
    let password = place.file("password", "open sesame\n");
    let object = Object::new(fs::read(&made.path).unwrap());
    let server = Server::start(move |seen| match (seen.header("authorization"), seen.header("x-tenant")) {
        (Some("Basic YWxpOm9wZW4gc2VzYW1l"), Some("blue")) => object.answer(seen),
        _ => Reply::new(401),
    });
    let url = server.url("/disk");
    let line = run(&mut place.copy(&url)).failed(4);
    assert!(line.contains("401"), "{line}");
    let mut command = place.copy(&url);
    run(command.args(["--header", "X-Tenant: blue", "--user", "ali", "--password-file"]).arg(password)).succeeded();
    place.assert_copied(&made.raw(), "with a password");
}

#[test]
fn standard_input_streams_or_spools() {
    let place = Place::new();
    let report_path = place.path().join("report.json");
    for (name, mode) in [("qcow2-64k-v1.1-zlib", "streaming"), ("qcow2-64k-grown-written", "spooled")] {
        let made = image(name, &place);
        let mut command = place.copy("-");
        run_piped(command.args(["--memory", "16Mi", "--report"]).arg(&report_path), &made.path).succeeded();
        place.assert_copied(&made.raw(), name);
        assert_eq!(report(&report_path)["mode"], mode, "{name}");
    }
}

#[test]
fn the_spool_has_a_limit() {
    let place = Place::new();
    let image = place.path().join("late.qcow2");
    let disk = Pattern::Noise.disk(place.path(), 24 << 20);
    tool_run(tool("qemu-img").args(["convert", "-f", "raw", "-O", "qcow2"]).arg(disk).arg(&image));
    tool_run(tool("qemu-img").args(["resize", "-q"]).arg(&image).arg("4T"));
    let mut command = place.copy("-");
    let ran = run_piped(command.args(["--memory", "16Mi", "--spool-limit", "1Mi", "--progress", "none"]), &image);
    let line = ran.failed(8);
    assert!(line.contains("raise --spool-limit"), "{line}");
    assert_eq!(place.left(), [""; 0]);
}

#[test]
fn wrappers_are_taken_off_and_named() {
    let place = Place::new();
    for name in ["raw.gzip", "qcow2.xz-blocks", "raw.zstd", "raw.bzip2", "raw.lz4", "qcow2.tar-gnu", "raw.tar-gnu.gzip"]
    {
        let recipe = super::program::recipe(name);
        let made = recipe.build(place.path());
        let (ran, report) = reported(&mut place.copy(&made.path), &place);
        ran.succeeded();
        place.assert_copied(&made.raw(), name);
        assert_eq!(report["image"]["wrappers"], serde_json::json!(recipe.wrappers), "{name}");
        assert_eq!(report["mode"], "streaming", "{name}");
    }
}

#[test]
fn an_archive_with_several_disks_needs_a_name() {
    let place = Place::new();
    let (first, second) = (image("vmdk-stream", &place), image("vmdk-stream-text", &place));
    let ova = place.path().join("two.ova");
    let disks = vec![OvaDisk::new(&first.path, "system.vmdk", SIZE), OvaDisk::new(&second.path, "data.vmdk", SIZE)];
    Ova { disks, manifest: Manifest::First }.build(&ova);
    let tar = place.path().join("two.tar");
    fs::copy(&first.path, place.path().join("system.vmdk")).unwrap();
    fs::copy(&second.path, place.path().join("data.vmdk")).unwrap();
    tool_run(tool("tar").arg("-C").arg(place.path()).arg("-cf").arg(&tar).args(["system.vmdk", "data.vmdk"]));
    for archive in [&ova, &tar] {
        let line = run(place.copy(archive).args(["--progress", "none"])).failed(5);
        assert!(["system.vmdk", "data.vmdk", "--disk"].iter().all(|word| line.contains(word)), "{line}");
        for (name, disk) in [("system.vmdk", &first), ("data.vmdk", &second)] {
            run(place.copy(archive).args(["--disk", name])).succeeded();
            place.assert_copied(&disk.raw(), name);
        }
        let line = run(place.copy(archive).args(["--disk", "other.vmdk", "--progress", "none"])).failed(5);
        assert!(["system.vmdk", "data.vmdk", "other.vmdk"].iter().all(|word| line.contains(word)), "{line}");
        assert_eq!(place.left(), [""; 0]);
    }
}

#[test]
fn the_size_grows_and_never_shrinks() {
    let place = Place::new();
    let made = image("vdi", &place);
    let (ran, report) = reported(place.copy(&made.path).args(["--size", "1Gi"]), &place);
    ran.succeeded();
    assert_eq!(report["target"]["size"], 1 << 30);
    let expected = made.raw();
    fs::File::options().write(true).open(&expected).unwrap().set_len(1 << 30).unwrap();
    assert!(fixtures::allocated(&place.target()) < SIZE + (1 << 20));
    place.assert_copied(&expected, "--size");
    let line = run(place.copy(&made.path).args(["--size", "1Mi", "--progress", "none"])).failed(8);
    assert!(line.contains(&(1 << 20).to_string()) && line.contains("ask for at least"), "{line}");
    assert_eq!(place.left(), [""; 0]);
}

#[test]
fn preallocation_takes_the_space_of_the_whole_disk() {
    let place = Place::new();
    let made = image("qcow2-empty", &place);
    run(&mut place.copy(&made.path)).succeeded();
    assert!(fixtures::allocated(&place.target()) < 1 << 20);
    run(place.copy(&made.path).arg("--preallocate")).succeeded();
    assert!(fixtures::allocated(&place.target()) >= SIZE);
    place.assert_copied(&made.raw(), "--preallocate");
}

#[test]
fn null_decodes_and_writes_nothing() {
    let place = Place::new();
    let made = image("qcow2-64k-zstd", &place);
    let (ran, report) = reported(&mut copy(&made.path, "null:"), &place);
    ran.succeeded();
    assert_eq!(report["target"]["reference"], "null:");
    assert_eq!(report["target"]["size"], SIZE);
    assert_eq!(place.left(), [""; 0]);
    assert!(!fs::exists("null:").unwrap());
}

#[test]
fn an_older_target_stays_until_the_new_one_is_complete() {
    let place = Place::new();
    let made = image("qcow2-64k-v1.1", &place);
    let bytes = fs::read(&made.path).unwrap();
    let cut = place.file("cut.qcow2", &bytes[..bytes.len() * 6 / 10]);
    fs::write(place.target(), "precious").unwrap();
    let before = fs::metadata(place.target()).unwrap();
    run(place.copy(&cut).args(["--progress", "none"])).failed(5);
    let after = fs::metadata(place.target()).unwrap();
    assert_eq!((after.ino(), after.mtime_nsec()), (before.ino(), before.mtime_nsec()));
    assert_eq!(fs::read(place.target()).unwrap(), b"precious");
    run(&mut place.copy(&made.path)).succeeded();
    place.assert_copied(&made.raw(), "replaced");
}

#[test]
fn a_disk_of_nothing_is_an_empty_file_in_every_format() {
    let place = Place::new();
    let empty = place.file("nothing", "");
    for format in ["qcow2", "vmdk", "vdi", "vpc", "vhdx", "qed", "parallels"] {
        let path = place.path().join(format);
        tool_run(tool("qemu-img").args(["create", "-q", "-f", format]).arg(&path).arg("0"));
        run(&mut place.copy(&path)).succeeded();
        place.assert_copied(&empty, format);
        run_piped(&mut place.copy("-"), &path).succeeded();
        place.assert_copied(&empty, &format!("{format}, piped"));
    }
}
