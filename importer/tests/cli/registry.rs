//! Registries as source and target: the distribution registry, and ours where it was built.

use std::fs;
use std::path::Path;

use fixtures::oci::{self, Image, Index, Layer, Packing, Tar};
use fixtures::registry::{Config, Registry};
use fixtures::{run as tool_run, tool};

use super::program::{Place, copy, image, importer, reported, run};

/// Starts each registry there is.
fn registries(change: impl Fn(Config) -> Config) -> Vec<Registry> {
    let mut all = vec![change(Config::distribution()).start()];
    let ours = std::env::current_exe().unwrap().ancestors().nth(2).unwrap().join("dvcr");
    if ours.exists() || std::env::var_os("MILLRACE_DVCR").is_some() {
        all.push(change(Config::dvcr(fixtures::registry::dvcr_program())).start());
    } else {
        fixtures::not_tested("importer and dvcr together: dvcr was not built (cargo build -p dvcr)");
    }
    all
}

fn at(registry: &Registry, name: &str) -> String {
    format!("docker://{}/{name}", registry.host())
}

/// What is under a tag; `None` if nothing is.
fn manifest(registry: &Registry, repository: &str, tag: &str) -> Option<serde_json::Value> {
    let accept = "application/vnd.oci.image.manifest.v1+json";
    let call = fixtures::http::Call::new("GET", &format!("/v2/{repository}/manifests/{tag}")).header("accept", accept);
    let answer = registry.wire().send(&call).unwrap();
    (answer.status == 200).then(|| answer.json())
}

/// Every kind of image goes in and comes out the same, and equal disks are one image.
#[test]
fn disks_go_in_and_come_out_the_same() {
    let cases = [
        ("qcow2-64k-v1.1", "qcow2", "plain"),
        ("qcow2.gzip", "qcow2", "plain"),
        ("raw", "raw", "zstd"),
        ("raw.gzip", "raw", "zstd"),
        ("vhdx", "raw", "zstd"),
        ("vmdk-sparse", "raw", "zstd"),
        ("vdi", "raw", "zstd"),
    ];
    for registry in registries(|config| config) {
        for (name, format, layer) in cases {
            let place = Place::new();
            let Ok(made) = std::panic::catch_unwind(|| image(name, &place)) else { panic!("no image {name}") };
            for options in [&[][..], &["--as", "raw"], &["--as", "keep"], &["--layer", "plain"], &["--layer", "zstd"]] {
                let what = format!("{name} {options:?} {}", registry.host());
                let target = at(&registry, "cvi/disk:v1");
                let (ran, report) = reported(copy(&made.path, &target).args(options), &place);
                assert_eq!(ran.code, 0, "{what}: {}", ran.stderr);
                assert_eq!(report["target"]["reference"], target.as_str());
                let found = manifest(&registry, "cvi/disk", "v1").unwrap();
                let kind = found["layers"][0]["mediaType"].as_str().unwrap();
                if options.is_empty() {
                    assert_eq!(kind.ends_with("+zstd"), layer == "zstd", "{what}: {kind}");
                }
                let ran = run(&mut place.copy(&target)).succeeded();
                assert!(ran.stderr.contains(if options.is_empty() { format } else { "" }), "{what}: {}", ran.stderr);
                place.assert_copied(&made.raw(), &what);
            }
        }
    }
}

#[test]
fn equal_disks_are_one_image_whatever_they_came_in() {
    for registry in registries(|config| config) {
        let place = Place::new();
        let mut digests = Vec::new();
        let made = image("raw", &place);
        let qcow2 = place.path().join("again.qcow2");
        let vmdk = place.path().join("again.vmdk");
        for (path, format) in [(&qcow2, "qcow2"), (&vmdk, "vmdk")] {
            tool_run(tool("qemu-img").args(["convert", "-f", "raw", "-O", format]).arg(&made.path).arg(path));
        }
        for (path, repository) in [(&made.path, "a"), (&qcow2, "b"), (&vmdk, "c/d")] {
            let target = at(&registry, &format!("{repository}:v1"));
            let (ran, report) = reported(copy(path, target).args(["--as", "raw"]), &place);
            assert_eq!(ran.code, 0, "{}", ran.stderr);
            digests.push(report["target"]["digest"].as_str().unwrap().to_owned());
        }
        assert!(digests.windows(2).all(|pair| pair[0] == pair[1]), "{digests:?}");
    }
}

/// What others make of it: labels as Deckhouse reads them, and the disk byte for byte.
#[test]
fn skopeo_and_umoci_accept_what_was_pushed() {
    for registry in registries(|config| config) {
        for layer in ["zstd", "plain"] {
            let place = Place::new();
            let made = image("raw", &place);
            let target = at(&registry, "cvi/disk:v1");
            run(copy(&made.path, &target).args(["--layer", layer])).succeeded();
            let told = tool_run(tool("skopeo").args(["inspect", "--tls-verify=false", &target])).stdout;
            let told: serde_json::Value = serde_json::from_slice(&told).unwrap();
            let size = fs::metadata(made.raw()).unwrap().len().to_string();
            assert_eq!(told["Labels"]["source-image-format"], "raw");
            assert_eq!(told["Labels"]["source-image-virtual-size"], size.as_str());
            assert_eq!(told["Labels"]["source-image-size"], size.as_str());
            let layout = place.path().join("layout");
            let to = format!("oci:{}:v1", layout.display());
            tool_run(tool("skopeo").args(["copy", "-q", "--src-tls-verify=false", &target, &to]));
            // Debian's umoci is from before zstd: skopeo packs the layer anew for it.
            let unpacked = place.path().join("unpacked");
            let again = ["copy", "-q", "--dest-compress", "--dest-compress-format", "gzip"];
            tool_run(tool("skopeo").args(again).arg(&to).arg(format!("oci:{}:v1", unpacked.display())));
            let bundle = place.path().join("bundle");
            let from = format!("{}:v1", if layer == "zstd" { unpacked } else { layout.clone() }.display());
            tool_run(tool("umoci").args(["unpack", "--rootless", "--image", &from]).arg(&bundle));
            assert_eq!(fixtures::differ(&bundle.join("rootfs/disk/disk.img"), &made.raw()), None);
            let ran = run(&mut place.copy(format!("oci:{}:v1", layout.display())));
            assert_eq!(ran.code, 0, "{}", ran.stderr);
            place.assert_copied(&made.raw(), layer);
        }
    }
}

/// A tag is set last: whatever fails leaves none, and the one that was there.
#[test]
fn what_fails_leaves_no_tag() {
    for registry in registries(|config| config) {
        let place = Place::new();
        let made = image("raw", &place);
        let target = at(&registry, "cvi/disk:v1");
        let wrong = format!("sha256:{}", "0".repeat(64));
        let cut = place.file("cut.qcow2", {
            let path = image("qcow2-64k-v1.1", &place).path;
            let mut bytes = fs::read(path).unwrap();
            bytes.truncate(bytes.len() * 2 / 3);
            bytes
        });
        let text = place.file("page.html", "<!DOCTYPE html><html><body>not found</body></html>");
        for (source, args, code) in [
            (made.path.clone(), vec!["--checksum", &wrong], 7),
            (cut.clone(), vec![], 5),
            (cut.clone(), vec!["--as", "raw"], 5),
            (text, vec![], 5),
            (made.path.clone(), vec!["--size", "1Gi"], 2),
            (made.path.clone(), vec!["--resume"], 2),
            (place.path().join("absent"), vec![], 4),
        ] {
            let ran = run(copy(&source, &target).args(&args));
            let said = ran.failed(code);
            assert!(manifest(&registry, "cvi/disk", "v1").is_none(), "{said}");
        }
        run(&mut copy(&made.path, &target)).succeeded();
        let before = manifest(&registry, "cvi/disk", "v1").unwrap();
        run(&mut copy(&cut, &target)).failed(5);
        assert_eq!(manifest(&registry, "cvi/disk", "v1").unwrap(), before);
        let named = format!("{target}@{wrong}");
        run(&mut copy(&made.path, named)).failed(2);
        run(copy(&made.path, place.target()).args(["--as", "keep"])).failed(2);
    }
}

/// RG29, RG30, RG43 from the command line: credentials of both sides, and trust.
#[test]
fn credentials_and_trust_are_of_each_side() {
    for registry in registries(|config| config.tls().login("alice", "secret")) {
        let place = Place::new();
        let made = image("raw", &place);
        let password = place.file("password", "secret\n");
        let wrong = place.file("wrong", "guess\n");
        let target = at(&registry, "team/disk:v1");
        let ca = registry.ca_file();
        let to = |command: &mut std::process::Command, password: &Path| {
            command.args(["--target-user", "alice", "--target-password-file"]).arg(password);
            command.arg("--target-ca").arg(&ca);
            run(command)
        };
        let said =
            run(copy(&made.path, &target).args(["--target-user", "alice", "--target-password-file"]).arg(&password));
        assert!(said.failed(4).contains("certificate"));
        let said = to(&mut copy(&made.path, &target), &wrong).failed(4);
        assert!(said.contains("team/disk") && !said.contains("guess"), "{said}");
        to(&mut copy(&made.path, &target), &password).succeeded();
        run(place.copy(&target).arg("--ca").arg(&ca)).failed(4);
        let config =
            format!(r#"{{"auths":{{"{}/team":{{"username":"alice","password":"secret"}}}}}}"#, registry.host());
        let config = place.file("config.json", config);
        run(place.copy(&target).arg("--ca").arg(&ca).arg("--auth-file").arg(&config)).succeeded();
        place.assert_copied(&made.raw(), "by file");
        run(place.copy(&target).arg("--insecure").args(["--user", "alice", "--password-file"]).arg(&password))
            .succeeded();
        place.assert_copied(&made.raw(), "insecure");
        run(place.copy(&target).arg("--ca").arg(&ca).env("REGISTRY_AUTH_FILE", &config)).succeeded();
        place.assert_copied(&made.raw(), "from the environment");
    }
}

/// RG24: a mirror has what its registry, which can't be reached, does not give.
#[test]
fn mirrors_are_asked_as_the_configuration_has_it() {
    for registry in registries(|config| config.tls()) {
        let place = Place::new();
        let made = image("raw", &place);
        let target = at(&registry, "hub/cvi/disk:v1");
        let (ran, report) = reported(copy(&made.path, &target).arg("--target-ca").arg(registry.ca_file()), &place);
        ran.succeeded();
        let digest = report["target"]["digest"].as_str().unwrap();
        // Nobody listens there.
        let source = |rest: &str| format!("docker://127.0.0.1:1/{rest}");
        let conf = |name: &str, mirror: &str| {
            let mirror = format!("[[registry.mirror]]\nlocation = \"{}/hub/cvi\"\n{mirror}", registry.host());
            place.file(name, format!("[[registry]]\nlocation = \"127.0.0.1:1/cvi\"\n{mirror}"))
        };
        let strict = conf("strict.conf", "");
        let copied = |conf: &Path, rest: &str, args: &[&str]| {
            let ran = run(place.copy(source(rest)).arg("--registries-conf").arg(conf).args(args));
            if ran.code == 0 {
                place.assert_copied(&made.raw(), rest);
            }
            ran
        };
        let insecure = conf("insecure.conf", "insecure = true");
        copied(&insecure, "cvi/disk:v1", &[]).succeeded();
        run(place.copy(source("cvi/disk:v1")).env("CONTAINERS_REGISTRIES_CONF", &insecure)).succeeded();
        place.assert_copied(&made.raw(), "from the environment");
        let ca = registry.ca_file().display().to_string();
        copied(&strict, "cvi/disk:v1", &["--ca", &ca]).succeeded();
        let said = copied(&strict, "cvi/disk:v1", &["--insecure"]).failed(3);
        assert!(said.contains("not trusted") && said.contains("127.0.0.1:1"), "{said}");
        copied(&insecure, "other/disk:v1", &[]).failed(3);
        let by_digest = conf("digest.conf", "insecure = true\npull-from-mirror = \"digest-only\"");
        copied(&by_digest, "cvi/disk:v1", &[]).failed(3);
        copied(&by_digest, &format!("cvi/disk@{digest}"), &[]).succeeded();
        let blocked = place.file("blocked.conf", "[[registry]]\nlocation = \"127.0.0.1:1\"\nblocked = true");
        assert!(copied(&blocked, "cvi/disk:v1", &[]).failed(4).contains("blocked"));
        let wrong = place.file("wrong.conf", "[[registry]]\n\nlocation = 5");
        assert!(copied(&wrong, "cvi/disk:v1", &[]).failed(2).contains("wrong.conf: line 1: "));
        assert!(copied(&place.path().join("absent"), "cvi/disk:v1", &[]).failed(2).contains("absent"));
        // What lies beside the file, as containers have it.
        let certificates = place.path().join("certs.d").join(registry.host());
        fs::create_dir_all(&certificates).unwrap();
        fs::copy(registry.ca_file(), certificates.join("ca.crt")).unwrap();
        copied(&strict, "cvi/disk:v1", &[]).succeeded();
        run(place.copy(&made.path).arg("--registries-conf").arg(&strict)).failed(2);
        assert!(place.left().is_empty());
    }
}

/// RG09…RG14, RG25: platforms and digests.
#[test]
fn the_image_for_the_platform_is_taken() {
    for registry in registries(|config| config) {
        let place = Place::new();
        let disk = |seed: u8| -> Vec<u8> { (0..3_000_320_u32).map(|at| (at >> 5).to_le_bytes()[0] ^ seed).collect() };
        let built = |platform: &str, seed| {
            Image::new(platform).layer(Layer::new(&Tar::disk("a.img", &disk(seed)).end(), Packing::Gzip)).build()
        };
        let (amd64, arm64) = (built("linux/amd64", 1), built("linux/arm64/v8", 2));
        let index = Index::new().attestation(&amd64).with(&amd64).with(&arm64).build();
        oci::push(&registry.wire(), "multi/disk", "v1", &index);
        let source = at(&registry, "multi/disk:v1");
        for (source, platform, seed) in [
            (source.clone(), "linux/arm64", 2),
            (source.clone(), "linux/amd64", 1),
            (format!("{}@{}", at(&registry, "multi/disk"), arm64.digest()), "linux/arm64", 2),
            (format!("{source}@{}", index.digest()), "linux/arm64/v8", 2),
        ] {
            let (ran, report) = reported(place.copy(&source).args(["--platform", platform]), &place);
            assert_eq!(ran.code, 0, "{}", ran.stderr);
            let digest = if seed == 1 { amd64.digest() } else { arm64.digest() };
            assert_eq!(report["source"]["digest"], digest.as_str());
            let expect = place.file("expect", disk(seed));
            place.assert_copied(&expect, platform);
            let told = run(importer().args(["inspect", &source, "--platform", platform])).succeeded();
            assert!(told.stdout.contains("format: raw"), "{}", told.stdout);
        }
        // What is pushed is for the platform that is said.
        let pushed = at(&registry, "pushed/disk:v1");
        let disk_file = place.file("pushed", disk(7));
        run(copy(&disk_file, &pushed).args(["--platform", "linux/arm64"])).succeeded();
        run(place.copy(&pushed).args(["--platform", "linux/amd64"])).failed(4);
        run(place.copy(&pushed).args(["--platform", "linux/arm64"])).succeeded();
        place.assert_copied(&disk_file, "pushed");
        let said = run(place.copy(&source).args(["--platform", "linux/s390x"])).failed(4);
        assert!(said.contains("linux/amd64") && said.contains("linux/arm64"), "{said}");
        let said =
            run(&mut place.copy(format!("{}@{}", at(&registry, "multi/disk"), built("linux/amd64", 9).digest())));
        said.failed(4);
        assert!(place.left().is_empty());
    }
}

/// RG-R4: a blob that is another than its digest says is refused, and nothing is left.
#[test]
fn a_blob_that_is_not_its_digest_is_refused() {
    let registry = Config::distribution().start();
    for kind in ["plain", "zstd"] {
        let place = Place::new();
        let made = image("raw", &place);
        let target = at(&registry, &format!("cvi/{kind}:v1"));
        run(copy(&made.path, &target).args(["--layer", kind])).succeeded();
        let digest = manifest(&registry, &format!("cvi/{kind}"), "v1").unwrap()["layers"][0]["digest"].clone();
        let hex = digest.as_str().unwrap().strip_prefix("sha256:").unwrap().to_owned();
        let blob = registry.root().join(format!("docker/registry/v2/blobs/sha256/{}/{hex}/data", &hex[..2]));
        let mut bytes = fs::read(&blob).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(&blob, bytes).unwrap();
        let ran = run(&mut place.copy(&target));
        let said = ran.failed(7);
        assert!(said.contains(&hex), "{said}");
        assert!(place.left().is_empty());
    }
}
