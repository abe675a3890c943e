//! Devices and registries as targets.

use std::fs;
use std::path::PathBuf;

use fixtures::devices::LoopDevice;
use fixtures::registry::{Config, Registry};
use fixtures::{run, tool};

use crate::program::{Place, Server, curl, disk, text};

#[test]
fn devices_are_written_and_too_small_ones_refuse_early() {
    let Some(device) = LoopDevice::filled(8 << 20, 512, 0xaa) else { return };
    let place = Place::new();
    let disk = disk(4);
    let image = place.file("image.img", &disk);
    let large = place.path().join("large.qcow2");
    run(tool("qemu-img").args(["create", "-f", "qcow2"]).arg(&large).arg("9M"));
    let server = Server::start(&["--target", text(device.path())]);
    curl(&["-T", text(&large), &server.url("/upload")]).says(413, "too small");
    curl(&["-T", text(&large), &server.url("/v1beta1/upload"), "-X", "POST"]).says(400, "effective image size larger");
    curl(&["-T", text(&image), &server.url("/upload")]).says(200, "complete");
    assert!(fs::read(device.path()).unwrap()[..4 << 20] == disk);
}

/// Starts each registry there is.
fn registries(change: impl Fn(Config) -> Config) -> Vec<Registry> {
    let mut all = vec![change(Config::distribution()).start()];
    let ours: PathBuf = std::env::current_exe().unwrap().ancestors().nth(2).unwrap().join("dvcr");
    if ours.exists() || std::env::var_os("MILLRACE_DVCR").is_some() {
        all.push(change(Config::dvcr(fixtures::registry::dvcr_program())).start());
    } else {
        fixtures::not_tested("uploader and dvcr together: dvcr was not built (cargo build -p dvcr)");
    }
    all
}

#[test]
fn registries_get_the_image_under_its_tag() {
    let place = Place::new();
    let image = place.file("image.img", disk(3));
    let qcow2 = place.path().join("image.qcow2");
    run(tool("qemu-img").args(["convert", "-O", "qcow2"]).args([&image, &qcow2]));
    let password = place.file("password", "s3cret\n");
    for registry in registries(|config| config.tls().login("pusher", "s3cret")) {
        let target = format!("docker://{}/vi/disk:v1", registry.host());
        let ca = registry.ca_file();
        let options = ["--target-ca", text(&ca), "--target-user", "pusher", "--target-password-file", text(&password)];
        for (image, format) in [(&image, "raw"), (&qcow2, "qcow2")] {
            let report = place.path().join("report.json");
            let server = Server::start(
                &[&["--target", &target, "--exit-after", "0", "--report", text(&report)], &options[..]].concat(),
            );
            curl(&["-T", text(image), &server.url("/upload")]).says(200, "complete");
            let (code, said) = server.end();
            assert_eq!(code, Some(0), "{said}");
            assert!(!said.contains("s3cret"), "{said}");
            let report: serde_json::Value = serde_json::from_slice(&fs::read(&report).unwrap()).unwrap();
            assert_eq!(report["image"]["format"], format);
            let digest = report["target"]["digest"].as_str().unwrap();
            assert!(digest.starts_with("sha256:"), "{report}");
            let accept = "application/vnd.oci.image.manifest.v1+json";
            let url = registry.url("/v2/vi/disk/manifests/v1");
            let found = curl(&["-u", "pusher:s3cret", "--cacert", text(&ca), "-H", &format!("accept: {accept}"), &url]);
            assert_eq!(format!("sha256:{}", fixtures::sha256(found.text.as_bytes())), digest, "{found:?}");
        }
        // A layer begins with its length, which this has at its end.
        let wrapped = place.path().join("image.gz");
        fixtures::images::wrapper_named("gzip").apply(&image, &wrapped);
        let server = Server::start(&[&["--target", &target, "--spool-limit", "0"], &options[..]].concat());
        curl(&["-T", text(&wrapped), &server.url("/upload")]).says(400, "needs the length first");
        let server = Server::start(&[&["--target", &target, "--spool-limit", "2Mi"], &options[..]].concat());
        curl(&["-T", text(&wrapped), &server.url("/upload")]).says(507, "--spool-limit");
        // It waits in a file that has no name.
        let chunked = ["-H", "transfer-encoding: chunked"];
        let spool = place.path().join("spool");
        fs::create_dir_all(&spool).unwrap();
        let mut layers = Vec::new();
        for (image, how) in [(&wrapped, &[][..]), (&image, &chunked), (&image, &[]), (&qcow2, &chunked), (&qcow2, &[])]
        {
            let target = format!("docker://{}/vi/spooled:v1", registry.host());
            let server = Server::start(&[&["--target", &target, "--spool", text(&spool)], &options[..]].concat());
            curl(&[&["-T", text(image), &server.url("/upload")], how].concat()).says(200, "complete");
            let spooled = server.status()["report"]["mode"] == "spooled";
            assert_eq!(spooled, !how.is_empty() || image == &wrapped);
            let url = registry.url("/v2/vi/spooled/manifests/v1");
            let accept = "accept: application/vnd.oci.image.manifest.v1+json";
            let found = curl(&["-u", "pusher:s3cret", "--cacert", text(&ca), "-H", accept, &url]).text;
            let found: serde_json::Value = serde_json::from_str(&found).unwrap();
            layers.push(found["layers"][0]["digest"].clone());
            assert!(crate::program::names(&spool).is_empty());
        }
        assert!(layers[0] == layers[2] && layers[1] == layers[2] && layers[3] == layers[4], "{layers:?}");
        // What is no image gets no tag, and neither does anybody without the right to push.
        let target = format!("docker://{}/vi/other:v1", registry.host());
        let page = place.file("page", "<html>".repeat(5000));
        let server = Server::start(&[&["--target", &target], &options[..]].concat());
        curl(&["-T", text(&page), &server.url("/upload")]).says(400, "HTML");
        let server = Server::start(&["--target", &target, "--target-ca", text(&ca)]);
        let refused = curl(&["-T", text(&image), &server.url("/upload")]).says(500, "target registry");
        assert!(!refused.text.contains("s3cret"));
        let url = registry.url("/v2/vi/other/manifests/v1");
        curl(&["-u", "pusher:s3cret", "--cacert", text(&ca), &url]).says(404, "");
    }
}
