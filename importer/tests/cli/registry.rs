//! Registries as source and target: the distribution registry, and ours where it was built.

use std::fs;
use std::path::Path;

use fixtures::http::{Reply, Server};
use fixtures::oci::{self, Image, Index, Layer, Packing, Tar};
use fixtures::registry::{Config, Registry};
use fixtures::{run as tool_run, tool};

use super::interrupt;
use super::program::{Place, copy, image, importer, names, reported, run, run_piped};

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

/// Uploads that somebody has begun and nobody ended, in the store at `root`.
fn uploads(root: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(root).unwrap() {
        let path = entry.unwrap().path();
        if !path.is_dir() {
            continue;
        }
        let name = path.file_name().unwrap().to_str().unwrap();
        if !["_uploads", "uploads"].contains(&name) {
            found.extend(uploads(&path));
            continue;
        }
        // The distribution registry leaves a folder of hash states, even where an upload was ended.
        found.extend(
            names(&path)
                .into_iter()
                .filter(|name| !path.join(name).join("hashstates").exists() || path.join(name).join("data").exists()),
        );
    }
    found
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
            assert_eq!(uploads(registry.root()), [""; 0], "{said}");
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
        assert!(said.failed(4).contains("with --target-ca FILE"));
        let said = to(&mut copy(&made.path, &target), &wrong).failed(4);
        assert!(said.contains("team/disk") && !said.contains("guess"), "{said}");
        assert!(said.contains("--target-user and --target-password-file"), "{said}");
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
        assert!(said.contains("insecure = true in its entry") && !said.contains("--insecure"), "{said}");
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

/// What is copied without a word about platforms stays for the machines it was for.
#[test]
fn an_image_keeps_its_platform() {
    for registry in registries(|config| config) {
        let place = Place::new();
        let bytes: Vec<u8> = (0..3_000_320_u32).map(|at| (at >> 5).to_le_bytes()[0]).collect();
        let disk = place.file("disk", &bytes);
        // One of them is not for this machine.
        for (name, platform) in [("amd", "linux/amd64"), ("arm", "linux/arm64")] {
            let (ours, taken) = (at(&registry, &format!("{name}/ours:v1")), at(&registry, &format!("{name}/taken:v1")));
            let (ran, pushed) = reported(copy(&disk, &ours).args(["--platform", platform]), &place);
            ran.succeeded();
            assert_eq!(pushed["target"]["platform"], platform);
            let (ran, report) = reported(&mut copy(&ours, &taken), &place);
            assert!(ran.succeeded().stderr.contains(&format!(" for {platform} from ")));
            assert_eq!(report["target"]["digest"], pushed["target"]["digest"], "{platform}");
            assert_eq!(report["target"]["platform"], platform);
            // One that is made anew.
            let foreign = Image::new(platform).layer(Layer::new(&Tar::disk("a.img", &bytes).end(), Packing::Gzip));
            oci::push(&registry.wire(), &format!("{name}/foreign"), "v1", &foreign.build());
            let (ran, report) = reported(&mut copy(at(&registry, &format!("{name}/foreign:v1")), &taken), &place);
            ran.succeeded();
            assert_eq!(report["target"]["platform"], platform);
            run(place.copy(&taken).args(["--platform", platform])).succeeded();
            place.assert_copied(&disk, platform);
        }
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

/// An image that is as it would be made: its blobs are taken over, from the cheapest place, and nothing is unpacked.
#[test]
fn an_image_of_ours_is_taken_over_as_it_is() {
    let second = Config::distribution().start();
    for registry in registries(|config| config) {
        for (name, options) in [("raw", &[][..]), ("qcow2-64k-v1.1", &[]), ("raw", &["--layer", "plain"])] {
            let place = Place::new();
            let made = image(name, &place);
            let first = at(&registry, "cvi/first:v1");
            let (ran, pushed) = reported(copy(&made.path, &first).args(options), &place);
            ran.succeeded();
            let take = |source: &str, target: &str| {
                let (ran, report) = reported(copy(source, target).args(options), &place);
                assert_eq!(ran.code, 0, "{}", ran.stderr);
                assert_eq!(report["target"]["reference"], target);
                assert_eq!(report["target"]["digest"], pushed["target"]["digest"], "{target}");
                assert_eq!(report["source"]["digest"], pushed["target"]["digest"], "{source}");
                assert_eq!(report["image"]["virtualSize"], pushed["image"]["virtualSize"]);
                assert_eq!(report["image"]["format"], pushed["image"]["format"]);
                (report["source"]["bytes"].as_u64().unwrap(), report["target"]["bytesWritten"].as_u64().unwrap())
            };
            // Mounted from the next repository, and then there.
            for repository in ["vi/team/second", "vi/team/second", "cvi/first"] {
                let target = at(&registry, &format!("{repository}:v2"));
                assert_eq!(take(&first, &target), (0, 0), "{target}");
            }
            let stored = manifest(&registry, "cvi/first", "v1").unwrap();
            let repository = format!("from/{}/{}", registry.address().port(), name.replace('.', "-"));
            let elsewhere = at(&second, &format!("{repository}{}:v1", options.len()));
            // What has to be brought is made again, and is the same.
            assert!(take(&first, &elsewhere).1 > 0);
            assert_eq!(take(&first, &elsewhere), (0, 0));
            run(&mut place.copy(&elsewhere)).succeeded();
            place.assert_copied(&made.raw(), &elsewhere);
            assert_eq!(uploads(registry.root()), [""; 0]);
            assert_eq!(uploads(second.root()), [""; 0]);
            // Out of a layout, too. What is not compressed, skopeo compresses.
            if stored["layers"][0]["mediaType"].as_str().unwrap().ends_with(".tar") {
                continue;
            }
            let layout = format!("oci:{}:v1", place.path().join("layout").display());
            tool_run(tool("skopeo").args(["copy", "-q", "--src-tls-verify=false", &first, &layout]));
            let target = at(&second, &format!("layout/{repository}{}:v1", options.len()));
            assert!(take(&layout, &target).1 > 0);
            assert_eq!(take(&layout, &target), (0, 0));
            assert_eq!(uploads(second.root()), [""; 0]);
        }
    }
}

#[test]
fn an_image_that_would_be_made_otherwise_is_made_anew() {
    let registry = Config::distribution().start();
    let place = Place::new();
    let made = image("qcow2-64k-v1.1", &place);
    let first = at(&registry, "cvi/first:v1");
    run(&mut copy(&made.path, &first)).succeeded();
    let wrong = format!("sha256:{}", "0".repeat(64));
    for (options, kind) in [
        (&["--as", "raw"][..], "tar+zstd"),
        (&["--layer", "zstd"], "tar+zstd"),
        (&["--as", "raw", "--layer", "plain"], "tar"),
        (&["--platform", "linux/s390x"], ""),
        (&["--checksum", &wrong], ""),
    ] {
        let target = at(&registry, "cvi/other:v1");
        let ran = run(copy(&first, &target).args(options));
        match options[0] {
            "--platform" => drop(ran.failed(4)),
            "--checksum" => drop(ran.failed(7)),
            _ => {
                ran.succeeded();
                let found = manifest(&registry, "cvi/other", "v1").unwrap();
                assert!(found["layers"][0]["mediaType"].as_str().unwrap().ends_with(kind), "{options:?}: {found}");
                run(&mut place.copy(&target)).succeeded();
                place.assert_copied(&made.raw(), kind);
            }
        }
    }
}

/// What is taken over is compared with its digest all the same, and what is not to be had leaves nothing.
#[test]
fn a_blob_that_is_taken_over_is_verified() {
    let (registry, second) = (Config::distribution().start(), Config::distribution().start());
    for kind in ["plain", "zstd"] {
        let place = Place::new();
        let made = image("raw", &place);
        let source = at(&registry, &format!("cvi/{kind}:v1"));
        run(copy(&made.path, &source).args(["--layer", kind])).succeeded();
        let digest = manifest(&registry, &format!("cvi/{kind}"), "v1").unwrap()["layers"][0]["digest"].clone();
        let hex = digest.as_str().unwrap().strip_prefix("sha256:").unwrap().to_owned();
        let blob = registry.root().join(format!("docker/registry/v2/blobs/sha256/{}/{hex}/data", &hex[..2]));
        let mut bytes = fs::read(&blob).unwrap();
        let last = bytes.len() - 600;
        bytes[last] ^= 1;
        fs::write(&blob, bytes).unwrap();
        let said = run(copy(&source, at(&second, &format!("cvi/{kind}:v1"))).args(["--layer", kind])).failed(7);
        assert!(said.contains(&source) && said.contains(&hex), "{said}");
        assert!(manifest(&second, &format!("cvi/{kind}"), "v1").is_none());
        assert_eq!(uploads(second.root()), [""; 0]);
    }
}

/// A registry that keeps a damaged blob takes the push, and keeps it.
#[test]
fn a_layer_of_another_length_in_the_target_gets_no_tag() {
    let registry = Config::distribution().start();
    let place = Place::new();
    let made = image("qcow2-64k-v1.1", &place);
    run(&mut copy(&made.path, at(&registry, "cvi/first:v1"))).succeeded();
    let digest = manifest(&registry, "cvi/first", "v1").unwrap()["layers"][0]["digest"].clone();
    let hex = digest.as_str().unwrap().strip_prefix("sha256:").unwrap().to_owned();
    let blob = registry.root().join(format!("docker/registry/v2/blobs/sha256/{}/{hex}/data", &hex[..2]));
    let short = fs::read(&blob).unwrap();
    fs::write(&blob, &short[..short.len() - 512]).unwrap();
    let said = run(&mut copy(&made.path, at(&registry, "cvi/first:v2"))).failed(7);
    assert!(said.contains(&hex) && said.contains("its store is damaged"), "{said}");
    assert!(manifest(&registry, "cvi/first", "v2").is_none());
    assert_eq!(uploads(registry.root()), [""; 0]);
}

/// Asked to end in the middle: the upload is ended, too, and there is no tag.
#[test]
fn an_interrupted_push_leaves_no_upload() {
    for registry in registries(|config| config) {
        let place = Place::new();
        let (_, qcow2) = super::kill::images(&place);
        let bytes = fs::read(qcow2).unwrap();
        let target = at(&registry, "cvi/disk:v1");
        let mut command = copy("-", &target);
        command.args(["--progress", "none", "--as", "raw", "--layer", "plain"]);
        let line = interrupt::interrupt_with(&mut command, &bytes[..bytes.len() - 1]).failed(-15);
        assert!(line.contains("interrupted by SIGTERM") && line.contains("is as it was"), "{line}");
        assert_eq!(uploads(registry.root()), [""; 0], "{line}");
        assert!(manifest(&registry, "cvi/disk", "v1").is_none());
    }
}

/// A target that is not there, or does not let us push, is known before the source is read.
#[test]
fn a_target_is_looked_at_before_the_source() {
    let source = Server::start(|_| Reply::ok(vec![7; 100_000]));
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let said = run(&mut copy(source.url("/disk"), format!("docker://{nobody}/x:v1"))).failed(3);
    assert!(said.contains("target registry") && said.contains("refused"), "{said}");
    let registry = Config::distribution().login("alice", "secret").start();
    let said = run(&mut copy(source.url("/disk"), at(&registry, "x:v1"))).failed(4);
    assert!(said.contains("--target-user and --target-password-file, or --target-auth-file"), "{said}");
    assert!(source.seen().is_empty());
}

/// Something between us and the registry says yes to everything.
#[test]
fn a_tag_is_looked_at_once_it_is_set() {
    let nothing = Server::start(|seen| match (seen.method.as_str(), seen.target.as_str()) {
        ("GET", "/v2/") => Reply::ok("{}"),
        ("POST" | "PATCH", _) => Reply::new(202).header("location", "/v2/x/blobs/uploads/1"),
        ("PUT", _) => Reply::new(201),
        ("DELETE", _) => Reply::new(204),
        _ => Reply::new(404),
    });
    let place = Place::new();
    let made = image("raw", &place);
    let said = run(&mut copy(&made.path, format!("docker://{}/x:v1", nothing.address()))).failed(7);
    assert!(said.contains("/x:v1") && said.contains("has nothing there"), "{said}");
}

/// What can't be pushed as it comes is told with what to do.
#[test]
fn a_fixed_vhd_that_shows_too_late_is_refused_with_what_to_do() {
    let registry = Config::distribution().start();
    let place = Place::new();
    let made = image("raw", &place);
    let vhd = place.path().join("fixed.vhd");
    let options = ["convert", "-f", "raw", "-O", "vpc", "-o", "subformat=fixed,force_size=on"];
    tool_run(tool("qemu-img").args(options).arg(&made.path).arg(&vhd));
    let object = fixtures::http::Object::new(fs::read(&vhd).unwrap()).without_ranges();
    let server = Server::start(move |seen| object.answer(seen));
    let target = at(&registry, "cvi/disk:v1");
    let said = run(&mut copy(server.url("/fixed.vhd"), &target)).failed(4);
    assert!(said.contains("fixed VHD") && said.contains("copy it to a file first"), "{said}");
    assert!(manifest(&registry, "cvi/disk", "v1").is_none());
    // That does.
    run(&mut place.copy(server.url("/fixed.vhd"))).succeeded();
    run(&mut copy(place.target(), &target)).succeeded();
    run(&mut copy(&vhd, at(&registry, "cvi/file:v1"))).succeeded();
    let digest = |name: &str| manifest(&registry, name, "v1").unwrap()["layers"][0]["digest"].clone();
    assert_eq!(digest("cvi/disk"), digest("cvi/file"));
}

/// Names that mean something else than a file.
#[test]
fn a_target_that_is_a_slip_becomes_no_file() {
    let place = Place::new();
    let disk = place.file("disk", [7; 4096]);
    for (target, code, says) in [
        ("-", 2, "standard output"),
        ("quay.io:v1", 2, "docker://HOST/REPOSITORY:TAG"),
        ("127.0.0.1:5000/cvi/a:v1", 2, "docker://HOST/REPOSITORY:TAG"),
        ("/dev/nosuch", 8, "/dev/nosuch: there is no such device"),
    ] {
        let said = run(copy(&disk, target).current_dir(place.out())).failed(code);
        assert!(said.contains(says), "{said}");
        assert!(place.left().is_empty() && !Path::new("/dev/nosuch").exists(), "{target}");
    }
    let said = run(&mut place.copy("quay.io/containerdisks/fedora:41")).failed(2);
    assert!(said.contains("docker://HOST/REPOSITORY:TAG"), "{said}");
    for (options, says) in [
        (["--ca", "absent"], "--ca is for the source, which is no server: for the target that is --target-ca"),
        (["--target-ca", "absent"], "--target-ca absent: there is no such file"),
        (["--target-auth-file", "absent"], "--target-auth-file absent: there is no such file"),
    ] {
        let said = run(copy(&disk, "docker://127.0.0.1:1/a:v1").args(options)).failed(2);
        assert!(said.contains(says), "{said}");
    }
    assert!(run(place.copy(&disk).arg("--nonsense")).failed(2).contains("see importer copy --help"));
}

/// What comes once can't begin with a length that is known at its end: that is said before hours of it were read.
#[test]
fn standard_input_is_told_what_to_do_instead() {
    let registry = Config::distribution().start();
    let place = Place::new();
    let made = image("qcow2-64k-v1.1", &place);
    let target = at(&registry, "cvi/disk:v1");
    let said = run_piped(&mut copy("-", &target), &made.path).failed(2);
    assert!(said.contains("--as raw") && said.contains("in a file first"), "{said}");
    assert!(said.contains("a registry needs the length first, which a pipe does not have"), "{said}");
    assert!(manifest(&registry, "cvi/disk", "v1").is_none());
    run_piped(copy("-", &target).args(["--as", "raw"]), &made.path).succeeded();
    run(&mut place.copy(&target)).succeeded();
    place.assert_copied(&made.raw(), "as raw");
}
