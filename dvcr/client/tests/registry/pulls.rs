//! What is read, from whom ever.

use std::sync::atomic::{AtomicUsize, Ordering};

use dvcr_client::{Blob, Client, Kind, Result, Target};
use dvcr_oci::{Descriptor, Digest, ImageManifest, Platform, Tag, media};
use fixtures::http::{Reply, Server};

use super::fake::{Fake, error};
use super::{client, quick, reference, repository, sample};

fn platform(text: &str) -> Option<Platform> {
    Some(Platform::parse(text).unwrap())
}

async fn read(blob: Blob) -> Result<Vec<u8>> {
    let mut reading = blob.open().await?.verified();
    let mut all = Vec::new();
    while let Some(piece) = reading.next().await? {
        all.extend_from_slice(&piece);
    }
    Ok(all)
}

/// The layer of the image for this platform.
async fn layer(client: &Client, server: &Server, rest: &str, asked: Option<&Platform>) -> Result<Vec<u8>> {
    let image = client.resolve(&reference(server, rest), asked).await?;
    read(image.blob(&image.manifest.layers[0])).await
}

/// `jammy:multi`: an index with attestations, a nested index, and images that do not say in it what they are for.
fn multi(fake: &Fake) {
    let amd64 = fake.image("amd64", "linux/amd64", b"amd64").on(Platform::parse("linux/amd64").unwrap());
    let arm64 = fake.image("", "linux/arm64", b"arm64").on(Platform::new("linux", "arm64", Some("v8")));
    let mut attestation = fake.image("", "linux/s390x", b"x").on(Platform::new("unknown", "unknown", None));
    attestation.annotations.insert("vnd.docker.reference.type".into(), "attestation-manifest".into());
    let silent = fake.image("", "linux/riscv64", b"riscv64");
    let nested =
        fake.index("", vec![fake.image("", "linux/ppc64le", b"ppc64le").on(Platform::parse("linux/ppc64le").unwrap())]);
    fake.index("multi", vec![attestation, nested, silent, amd64, arm64]);
}

#[tokio::test]
async fn the_image_for_the_platform_is_found_and_no_other() {
    let fake = Fake::default();
    multi(&fake);
    let answers = fake.clone();
    let server = Server::start(move |seen| answers.answer(seen));
    let client = client(quick());
    for (asked, bytes) in [
        ("linux/amd64", "amd64"),
        ("linux/arm64", "arm64"),
        ("linux/aarch64/v8", "arm64"),
        ("linux/riscv64", "riscv64"),
        ("linux/ppc64le", "ppc64le"),
    ] {
        let found = layer(&client, &server, "x:multi", platform(asked).as_ref()).await.unwrap();
        assert_eq!(String::from_utf8(found).unwrap(), bytes, "{asked}");
    }
    for asked in ["linux/s390x", "linux/arm/v7", "windows/amd64"] {
        let error = client.resolve(&reference(&server, "x:multi"), platform(asked).as_ref()).await.unwrap_err();
        assert_eq!(error.kind(), Kind::NoPlatform);
        let text = error.to_string();
        assert!(
            text.starts_with(&format!("registry: {}/x:multi: there is no image for {asked}", server.address())),
            "{text}"
        );
        for there in ["linux/amd64", "linux/arm64", "linux/riscv64", "linux/ppc64le"] {
            assert!(text.contains(there), "{text}");
        }
        assert!(!text.split_once(": there is linux").unwrap().1.contains("s390x"), "{text}");
    }
    // One that is no index is checked by what it says itself.
    layer(&client, &server, "x:amd64", platform("linux/x86_64").as_ref()).await.unwrap();
    layer(&client, &server, "x:amd64", None).await.unwrap();
    let error = client.resolve(&reference(&server, "x:amd64"), platform("linux/arm64").as_ref()).await.unwrap_err();
    assert!(error.to_string().ends_with("there is no image for linux/arm64: there is linux/amd64"), "{error}");
}

#[tokio::test]
async fn without_a_platform_a_list_must_have_one_for_this_machine() {
    let fake = Fake::default();
    let here = Platform::of_this_machine();
    let other = Platform::parse("linux/s390x").unwrap();
    let ours = fake.image("", &here.to_string(), b"ours").on(here);
    let theirs = fake.image("", "linux/s390x", b"theirs").on(other);
    let third = fake.image("", "linux/riscv64", b"third").on(Platform::parse("linux/riscv64").unwrap());
    fake.index("one", vec![theirs.clone()]);
    fake.index("both", vec![theirs.clone(), ours]);
    fake.index("none", vec![theirs, third]);
    let server = Server::start(move |seen| fake.answer(seen));
    let client = client(quick());
    assert_eq!(layer(&client, &server, "x:both", None).await.unwrap(), b"ours");
    for tag in ["x:one", "x:none"] {
        let error = client.resolve(&reference(&server, tag), None).await.unwrap_err();
        assert_eq!(error.kind(), Kind::NoPlatform, "{error}");
        assert!(error.to_string().contains("linux/s390x"), "{error}");
    }
}

/// What a list says of an image does not make it one for another machine.
#[tokio::test]
async fn a_list_can_not_make_one_machine_of_another() {
    let fake = Fake::default();
    let lied = fake.image("", "linux/arm64", b"arm64").on(Platform::parse("linux/amd64").unwrap());
    let vague = fake.image("", "linux/arm", b"v6").on(Platform::parse("linux/arm/v6").unwrap());
    fake.index("lying", vec![lied]);
    fake.index("vague", vec![vague]);
    let server = Server::start(move |seen| fake.answer(seen));
    let client = client(quick());
    let error = client.resolve(&reference(&server, "x:lying"), platform("linux/amd64").as_ref()).await.unwrap_err();
    assert_eq!(error.kind(), Kind::NoPlatform, "{error}");
    assert_eq!(layer(&client, &server, "x:vague", platform("linux/arm/v6").as_ref()).await.unwrap(), b"v6");
}

#[tokio::test]
async fn what_is_nested_too_deep_is_refused() {
    let fake = Fake::default();
    let mut inner = fake.image("", "linux/amd64", b"x");
    for _ in 0..6 {
        inner = fake.index("deep", vec![inner]);
    }
    let many = (0..100_u32).map(|at| fake.image("", "linux/arm64", &at.to_le_bytes())).collect();
    fake.index("many", many);
    let server = Server::start(move |seen| fake.answer(seen));
    let client = client(quick());
    for (rest, words) in [("x:deep", "nested deeper than 4"), ("x:many", "more than 64")] {
        let error = client.resolve(&reference(&server, rest), platform("linux/amd64").as_ref()).await.unwrap_err();
        assert_eq!(error.kind(), Kind::Malformed);
        assert!(error.to_string().contains(words), "{error}");
    }
}

#[tokio::test]
async fn optional_headers_may_be_missing_or_wrong() {
    for (name, value) in [
        ("docker-content-digest", ""),
        ("docker-content-digest", "sha256:0000000000000000000000000000000000000000000000000000000000000000"),
        ("docker-content-digest", "nonsense"),
        ("content-type", ""),
        ("content-type", "text/plain"),
        ("content-type", "application/vnd.docker.distribution.manifest.v1+prettyjws"),
    ] {
        let fake = Fake::default();
        let digest = fake.image("v1", "linux/amd64", b"layer").digest;
        let bytes = fake.state().manifests["v1"].1.clone();
        let server = Server::start(move |seen| match seen.target.contains("/manifests/") {
            true if seen.method == "HEAD" => Reply::new(200).claim(bytes.len() as u64),
            true => Reply::ok(bytes.clone()).header(name, value),
            false => fake.answer(seen),
        });
        let client = client(quick());
        assert_eq!(layer(&client, &server, "x:v1", None).await.unwrap(), b"layer");
        let image = client.resolve(&reference(&server, &format!("x:old@{digest}")), None).await.unwrap();
        assert_eq!(image.digest, digest);
        // Nothing in the HEAD: asked for, and computed.
        let repository = repository(quick(), &server, "x");
        assert_eq!(repository.digest(&Tag::parse("v1").unwrap()).await.unwrap(), digest);
    }
}

#[tokio::test]
async fn what_is_not_what_it_has_to_be_is_a_mismatch() {
    let fake = Fake::default();
    let image = fake.image("v1", "linux/amd64", b"layer");
    let wrong_size = Descriptor { size: image.size + 1, ..image.clone() }.on(Platform::parse("linux/amd64").unwrap());
    fake.index("size", vec![wrong_size]);
    let entry = fake.state().manifests["v1"].clone();
    let other = Digest::of(b"other");
    fake.state().manifests.insert(other.to_string(), entry);
    let layer_digest = Digest::of(b"layer").to_string();
    fake.state().blobs.insert(layer_digest.clone(), b"layex".to_vec());
    let answers = fake.clone();
    let server = Server::start(move |seen| answers.answer(seen));
    let client = client(quick());
    let error = layer(&client, &server, "x:v1", None).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Mismatch);
    assert!(
        error.to_string().contains(&layer_digest) && error.to_string().contains(&Digest::of(b"layex").to_string()),
        "{error}"
    );
    for rest in [format!("x@{other}"), "x:size".into()] {
        let error = client.resolve(&reference(&server, &rest), platform("linux/amd64").as_ref()).await.unwrap_err();
        assert_eq!(error.kind(), Kind::Mismatch, "{error}");
    }
    // One of another length is not read at all.
    fake.state().blobs.insert(layer_digest, b"longer layer".to_vec());
    let error = layer(&client, &server, "x:v1", None).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Mismatch, "{error}");
    assert!(error.to_string().contains("12 bytes of what has to have 5"), "{error}");
}

#[tokio::test]
async fn a_blob_goes_on_where_it_broke() {
    let fake = Fake::default();
    let bytes = sample(3_000_000);
    fake.image("v1", "linux/amd64", &bytes);
    let requests = AtomicUsize::new(0);
    let layer_path = format!("/blobs/{}", Digest::of(&bytes));
    let server = Server::start(move |seen| {
        let reply = fake.answer(seen);
        if !seen.target.ends_with(&layer_path) {
            return reply;
        }
        match requests.fetch_add(1, Ordering::SeqCst) {
            1 => reply.fault_at(300_000, Reply::reset),
            2 => Reply::new(502),
            3 => error(429, "TOOMANYREQUESTS", "slow down").header("retry-after", "0"),
            4 => error(403, "toomanyrequests", "slow down"),
            5 => reply.fault_at(100_000, Reply::cut),
            _ => reply,
        }
    });
    let mut config = quick();
    config.transport.connections = 1;
    assert_eq!(layer(&client(config), &server, "x:v1", None).await.unwrap(), bytes);
    let ranges: Vec<_> = server.seen().iter().filter_map(|seen| seen.header("range").map(str::to_owned)).collect();
    assert!(ranges.iter().any(|range| range.starts_with("bytes=824288-")), "{ranges:?}");
}

#[tokio::test]
async fn all_requests_are_tried_again_and_what_is_final_is_not() {
    for status in [429, 500, 502, 503, 504] {
        let fake = Fake::default();
        fake.image("v1", "linux/amd64", b"layer");
        let requests = AtomicUsize::new(0);
        // Every other one fails.
        let server = Server::start(move |seen| match requests.fetch_add(1, Ordering::SeqCst) % 2 {
            0 => Reply::new(status),
            _ => fake.answer(seen),
        });
        assert_eq!(layer(&client(quick()), &server, "x:v1", None).await.unwrap(), b"layer", "{status}");
    }
    let server = Server::start(|_| error(503, "UNAVAILABLE", "come back"));
    let error = client(quick()).resolve(&reference(&server, "x:v1"), None).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Transient);
    let text = error.to_string();
    let url = server.url("/v2/x/manifests/v1");
    assert_eq!(
        text,
        format!(
            "registry: {url}: the server answered 503 (\"UNAVAILABLE: come back\"): try again later (after 5 attempts)"
        )
    );
    let fake = Fake::default();
    let server = Server::start(move |seen| fake.answer(seen));
    let config = dvcr_client::Config { role: "source registry".into(), ..quick() };
    let error = client(config).resolve(&reference(&server, "x:v1"), None).await.unwrap_err();
    assert_eq!(error.kind(), Kind::NotFound);
    assert!(error.to_string().starts_with("source registry: http://127.0.0.1:"), "{error}");
    assert!(error.to_string().contains("MANIFEST_UNKNOWN: no such manifest"), "{error}");
}

#[tokio::test]
async fn manifests_that_are_none_are_refused() {
    let fake = Fake::default();
    let schema1 = br#"{"schemaVersion":1,"name":"x","tag":"v1","fsLayers":[],"history":[]}"#;
    fake.manifest("schema1", "application/vnd.docker.distribution.manifest.v1+prettyjws", schema1);
    fake.manifest("page", "text/html", b"<html></html>");
    fake.manifest("twice", media::OCI_MANIFEST, br#"{"schemaVersion":2,"schemaVersion":2}"#);
    fake.manifest("huge", media::OCI_MANIFEST, &vec![b' '; dvcr_oci::MAX_DOCUMENT + 1]);
    let server = Server::start(move |seen| fake.answer(seen));
    for (rest, kind, words) in [
        ("x:schema1", Kind::Unsupported, "schema 1"),
        ("x:page", Kind::Malformed, "can't be read as JSON"),
        ("x:twice", Kind::Malformed, "there twice"),
        ("x:huge", Kind::Refused, "more than 4194304 bytes"),
    ] {
        let error = client(quick()).resolve(&reference(&server, rest), None).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(words) && error.to_string().contains(&rest[2..]), "{error}");
    }
}

#[tokio::test]
async fn an_artifact_needs_no_configuration_and_no_platform() {
    let fake = Fake::default();
    let config = fake.blob(media::OCI_EMPTY, b"{}");
    let manifest = ImageManifest::new(config, vec![fake.blob("application/x-qcow2", b"disk")]);
    fake.manifest("disk", media::OCI_MANIFEST, &manifest.to_bytes());
    let server = Server::start(move |seen| fake.answer(seen));
    let client = client(quick());
    let image = client.resolve(&reference(&server, "x:disk"), platform("linux/arm64").as_ref()).await.unwrap();
    assert_eq!((image.config.is_none(), image.platform.clone()), (true, None));
    assert_eq!(read(image.blob(&image.manifest.layers[0])).await.unwrap(), b"disk");
}

#[tokio::test]
async fn tags_are_listed_page_by_page() {
    let server = Server::start(|seen| match seen.target.as_str() {
        "/v2/" => Reply::ok(""),
        "/v2/x/tags/list?n=1000" => {
            Reply::ok(r#"{"name":"x","tags":["a","b"]}"#).header("link", "</v2/x/tags/list?last=b&n=2>; rel=\"next\"")
        }
        "/v2/x/tags/list?last=b&n=2" => Reply::ok(r#"{"name":"x","tags":["c"]}"#),
        "/v2/none/tags/list?n=1000" => Reply::ok(r#"{"name":"none","tags":null}"#),
        "/v2/away/tags/list?n=1000" => {
            Reply::ok(r#"{"tags":[]}"#).header("link", "<http://127.0.0.2:1/x>; rel=\"next\"")
        }
        _ => Reply::ok(r#"{"tags":["../up"]}"#),
    });
    let tags = async |name: &str| repository(quick(), &server, name).tags().await;
    let names: Vec<_> = tags("x").await.unwrap().iter().map(ToString::to_string).collect();
    assert_eq!(names, ["a", "b", "c"]);
    assert_eq!(tags("none").await.unwrap(), []);
    for name in ["away", "other"] {
        assert_eq!(tags(name).await.unwrap_err().kind(), Kind::Malformed);
    }
}

#[tokio::test]
async fn the_target_of_a_reference_is_its_digest_if_it_has_one() {
    let digest = Digest::of(b"x");
    let target = |text: &str| Target::of(&dvcr_oci::Reference::parse(text).unwrap());
    assert_eq!(target("r.example/x"), Target::Tag(Tag::latest()));
    assert_eq!(target(&format!("r.example/x:v1@{digest}")), Target::Digest(digest));
}
