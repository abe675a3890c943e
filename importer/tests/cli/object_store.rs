//! `s3://` and `gs://` as sources.

use std::fs;
use std::process::Command;

use fixtures::content::Pattern;
use fixtures::http::{Object, Reply, Server};
use fixtures::store::{self, Config, KEY_ID, SECRET, Store, TEMPORARY_ID, TOKEN};

use super::program::{Place, image, importer, reported, run};

/// With the keys in the environment.
fn signed<'a>(command: &'a mut Command, store: &Store) -> &'a mut Command {
    command.env("AWS_ENDPOINT_URL", store.url()).env("AWS_ACCESS_KEY_ID", KEY_ID).env("AWS_SECRET_ACCESS_KEY", SECRET)
}

#[test]
fn a_qcow2_in_a_bucket_is_read_by_ranges() {
    let place = Place::new();
    let made = image("qcow2-64k-v1.1-zlib", &place);
    let key = "images/f 41+(x86_64).qcow2";
    let store = Config::new().bucket("bucket", "us-east-1").object("bucket", key, &made.path).start();
    let source = format!("s3://bucket/{key}");
    let (ran, report) = reported(signed(&mut place.copy(&source), &store), &place);
    ran.succeeded();
    place.assert_copied(&made.raw(), "signed");
    assert_eq!(report["mode"], "ranged");
    let seen = store.seen();
    assert!(seen.len() > 1 && seen.iter().all(|request| request.status == 206 && request.method == "GET"), "{seen:?}");
    // One signature serves them all.
    assert!(seen.iter().all(|request| request.target == seen[0].target), "{seen:?}");

    let told = run(signed(importer().args(["inspect", "--json", &source]), &store)).succeeded().json();
    assert_eq!(told["format"], "qcow2");
}

#[test]
fn a_compressed_disk_in_a_bucket_is_streamed() {
    let place = Place::new();
    let made = image("raw.gzip", &place);
    let store = Config::new().bucket("bucket", "us-east-1").object("bucket", "disk.gz", &made.path).start();
    let (ran, report) = reported(signed(&mut place.copy("s3://bucket/disk.gz"), &store), &place);
    ran.succeeded();
    place.assert_copied(&made.raw(), "gzip");
    assert_eq!((&report["mode"], &report["image"]["wrappers"][0]), (&"streaming".into(), &"gzip".into()));
}

#[test]
fn keys_come_from_a_secret_or_are_temporary_or_are_not_needed() {
    let place = Place::new();
    let disk = Pattern::Noise.disk(place.path(), 1 << 20);
    let store = Config::new()
        .bucket("far.bucket", "eu-west-3")
        .object("far.bucket", "disk", &disk)
        .bucket("public", "us-east-1")
        .object("public", "disk", &disk)
        .start();
    let secret = place.file("secretKey", format!("{SECRET}\n"));
    let mut command = place.copy("s3://far.bucket/disk");
    run(command.args(["--endpoint", &store.url(), "--user", KEY_ID, "--password-file"]).arg(secret)).succeeded();
    place.assert_copied(&disk, "--user");
    let mut command = place.copy("s3://far.bucket/disk");
    run(signed(&mut command, &store).env("AWS_ACCESS_KEY_ID", TEMPORARY_ID).env("AWS_SESSION_TOKEN", TOKEN))
        .succeeded();
    place.assert_copied(&disk, "temporary");
    // With the right region, it is not asked for.
    let before = store.seen().len();
    run(signed(&mut place.copy("s3://far.bucket/disk"), &store).args(["--region", "eu-west-3"])).succeeded();
    place.assert_copied(&disk, "--region");
    assert!(store.seen()[before..].iter().all(|request| request.status == 206));
    run(place.copy("s3://public/disk").args(["--endpoint", &store.url()])).succeeded();
    place.assert_copied(&disk, "anonymous");
    run(signed(&mut place.copy("s3://public/disk"), &store).env("AWS_ACCESS_KEY_ID", "wrong").arg("--anonymous"))
        .succeeded();
    place.assert_copied(&disk, "--anonymous");
}

#[test]
fn a_refusal_is_one_line_that_says_what_to_do() {
    let place = Place::new();
    let disk = Pattern::Noise.disk(place.path(), 1 << 20);
    let store = Config::new().bucket("bucket", "us-east-1").object("bucket", "disk", &disk).start();
    let line = |source: &str, variable: (&str, &str), options: &[&str]| {
        let mut command = place.copy(source);
        signed(&mut command, &store).env(variable.0, variable.1).args(["--progress", "none"]).args(options);
        let line = run(&mut command).failed(4);
        assert_eq!(place.left(), [""; 0], "{source}");
        assert!(line.contains(&format!("{source} (at {}/", store.url())), "{line}");
        assert!(!line.contains("X-Amz") && !line.contains(SECRET), "{line}");
        line
    };
    let right = ("AWS_ACCESS_KEY_ID", KEY_ID);
    assert!(line("s3://bucket/missing", right, &[]).contains("NoSuchKey"));
    assert!(line("s3://no-bucket/disk", right, &[]).contains("NoSuchBucket"));
    let wrong = line("s3://bucket/disk", ("AWS_SECRET_ACCESS_KEY", "wrong+secret"), &[]);
    assert!(wrong.contains("SignatureDoesNotMatch") && wrong.contains("check the secret key"), "{wrong}");
    assert!(!wrong.contains("wrong+secret"), "{wrong}");
    let unknown = line("s3://bucket/disk", ("AWS_ACCESS_KEY_ID", "AKIDUNKNOWN"), &[]);
    assert!(unknown.contains("check the access key id"), "{unknown}");
    assert!(line("s3://bucket/disk", right, &["--anonymous"]).contains("AccessDenied"));
}

#[test]
fn a_store_that_is_too_busy_is_3() {
    let place = Place::new();
    let busy = "<?xml version=\"1.0\"?><Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>";
    let server = Server::start(move |_| Reply::new(503).header("retry-after", "0").body(busy));
    let mut command = place.copy("s3://bucket/disk");
    let line = run(command.args(["--progress", "none", "--endpoint", &server.url("")])).failed(3);
    assert!(line.contains("SlowDown: Please reduce your request rate."), "{line}");
    assert!(line.contains("s3://bucket/disk"), "{line}");
}

#[test]
fn google_is_asked_with_a_signature_or_without() {
    let place = Place::new();
    let made = image("qcow2-64k-v1.1", &place);
    let object = Object::new(fs::read(&made.path).unwrap());
    let server = Server::start(move |seen| object.answer(seen));
    let emulator = server.address().to_string();
    let source = "gs://bucket/images/disk.qcow2";
    run(place.copy(source).env("STORAGE_EMULATOR_HOST", &emulator)).succeeded();
    place.assert_copied(&made.raw(), "anonymous");
    let targets: Vec<_> = server.seen().into_iter().map(|seen| seen.target).collect();
    assert!(targets.iter().all(|target| target == "/bucket/images/disk.qcow2"), "{targets:?}");
    let account = store::service_account(place.path());
    run(place.copy(source).env("STORAGE_EMULATOR_HOST", &emulator).arg("--auth-file").arg(account)).succeeded();
    place.assert_copied(&made.raw(), "signed");
    let seen = server.seen();
    let last = &seen.last().unwrap().target;
    assert!(last.starts_with("/bucket/images/disk.qcow2?X-Goog-Algorithm=GOOG4-RSA-SHA256&"), "{last}");
}

#[test]
fn what_makes_no_sense_is_2() {
    let place = Place::new();
    for (source, options, word) in [
        ("s3://bucket", &[][..], "one object in it is needed"),
        ("s3://bucket/disk", &["--endpoint", "minio.lan:9000"], "no scheme"),
        ("s3://bucket/disk", &["--region", "not a region"], "region"),
        ("s3://bucket/disk", &["--auth-file", "account.json"], "--auth-file is for gs://"),
        ("gs://bucket/disk", &["--auth-file", "/no/such.json"], "/no/such.json"),
        ("http://127.0.0.1:9/disk", &["--endpoint", "http://127.0.0.1:9"], "--endpoint is for s3:// and gs://"),
    ] {
        let line = run(place.copy(source).args(["--progress", "none"]).args(options)).failed(2);
        assert!(line.contains(word), "{line}");
    }
}
