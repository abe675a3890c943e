use super::*;
use crate::digest::Digest;
use crate::platform::Platform;

const D: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// A descriptor of this type, with more members.
fn entry(media_type: &str, more: &str) -> String {
    format!(r#"{{"mediaType":"{media_type}","digest":"{D}","size":7{more}}}"#)
}

fn image(head: &str) -> String {
    let (config, layer) = (entry(media::OCI_CONFIG, ""), entry(media::OCI_LAYER, ""));
    format!(r#"{{"schemaVersion":2,{head}"config":{config},"layers":[{layer}]}}"#)
}

fn index(entries: &[String]) -> Index {
    let text = format!(r#"{{"schemaVersion":2,"manifests":[{}]}}"#, entries.join(","));
    match Manifest::parse(text.as_bytes(), None).unwrap() {
        Manifest::Index(index) => index,
        Manifest::Image(_) => panic!("an index"),
    }
}

fn on(platform: &str) -> String {
    let parts: Vec<_> = platform.split('/').collect();
    let variant = parts.get(2).map(|variant| format!(r#","variant":"{variant}""#)).unwrap_or_default();
    let platform = format!(r#","platform":{{"os":"{}","architecture":"{}"{variant}}}"#, parts[0], parts[1]);
    entry(media::OCI_MANIFEST, &platform)
}

fn kind(text: &str) -> Kind {
    Manifest::parse(text.as_bytes(), None).map(|manifest| panic!("{text}: {manifest:?}")).unwrap_err().kind()
}

#[test]
fn what_it_is_is_what_it_says_or_looks_like() {
    let typed = |media_type: &str| image(&format!(r#""mediaType":"{media_type}","#));
    let cases = [
        (image(""), None, media::OCI_MANIFEST),
        (image(""), Some(""), media::OCI_MANIFEST),
        (image(""), Some("text/plain; charset=utf-8"), media::OCI_MANIFEST),
        (image(""), Some("application/vnd.docker.distribution.manifest.v2+json"), media::DOCKER_MANIFEST),
        // The header of a cache that knows better, and of one that mixes things up.
        (image(""), Some("application/vnd.docker.distribution.manifest.v1+prettyjws"), media::OCI_MANIFEST),
        (image(""), Some(media::OCI_INDEX), media::OCI_MANIFEST),
        (typed(media::DOCKER_MANIFEST), Some(media::OCI_MANIFEST), media::DOCKER_MANIFEST),
        (typed(media::OCI_MANIFEST), None, media::OCI_MANIFEST),
        (r#"{"schemaVersion":2,"manifests":[]}"#.into(), None, media::OCI_INDEX),
        (r#"{"schemaVersion":2,"manifests":null}"#.into(), Some(media::DOCKER_LIST), ""),
        (
            format!(r#"{{"schemaVersion":2,"mediaType":"{}","manifests":[]}}"#, media::DOCKER_LIST),
            None,
            media::DOCKER_LIST,
        ),
    ];
    for (text, hint, media_type) in cases {
        match Manifest::parse(text.as_bytes(), hint) {
            Ok(manifest) => assert_eq!(manifest.media_type(), media_type, "{text}"),
            Err(error) => assert_eq!((media_type, error.kind()), ("", Kind::Malformed), "{text}: {error}"),
        }
    }
}

#[test]
fn schema_1_is_refused_by_name() {
    let texts = [
        r#"{"schemaVersion":1,"name":"x","tag":"y","fsLayers":[],"history":[],"signatures":[]}"#,
        r#"{"schemaVersion":2,"mediaType":"application/vnd.docker.distribution.manifest.v1+prettyjws"}"#,
        r#"{"schemaVersion":1,"mediaType":"application/vnd.docker.distribution.manifest.v1+json"}"#,
    ];
    for text in texts {
        let error = Manifest::parse(text.as_bytes(), None).unwrap_err();
        assert_eq!(error.kind(), Kind::Unsupported);
        assert!(
            error.to_string().contains("schema 1") && error.to_string().contains("push the image again"),
            "{error}"
        );
    }
    let artifact = r#"{"mediaType":"application/vnd.oci.artifact.manifest.v1+json","artifactType":"x","blobs":[]}"#;
    let error = Manifest::parse(artifact.as_bytes(), None).unwrap_err();
    assert!(error.to_string().contains("artifact manifests"), "{error}");
    assert_eq!(
        kind(r#"{"schemaVersion":2,"mediaType":"application/vnd.example+json","layers":[]}"#),
        Kind::Unsupported
    );
}

#[test]
fn what_is_unsound_is_refused() {
    let layer = entry(media::OCI_LAYER, "");
    let with = |from: &str, to: &str| image("").replace(from, to);
    let cases = [
        "{}".to_owned(),
        r#"{"schemaVersion":2}"#.into(),
        r#"{"schemaVersion":"2","manifests":[]}"#.into(),
        r#"{"schemaVersion":3,"manifests":[]}"#.into(),
        r#"{"manifests":[]}"#.into(),
        r#"{"schemaVersion":2,"layers":[]}"#.into(),
        // CVE-2021-41190: both at once.
        image(r#""manifests":[],"#),
        image(r#""mediaType":"application/vnd.oci.image.index.v1+json","#),
        format!(r#"{{"schemaVersion":2,"mediaType":"{}","manifests":[]}}"#, media::OCI_MANIFEST),
        image(r#""layers":[],"#),
        image(r#""Layers":[],"#),
        image(r#""annotations":{"a":1},"#),
        image(r#""annotations":{"a":"1","a":"1"},"#),
        image(r#""subject":[],"#),
        with(&layer, "7"),
        with(&layer, "{}"),
        with(r#""size":7"#, r#""size":-7"#),
        with(r#""size":7"#, r#""size":7.0"#),
        with(r#""size":7"#, r#""size":"7""#),
        with(r#""size":7"#, r#""size":9223372036854775808"#),
        with(r#""size":7"#, r#""size":7,"size":8"#),
        with(r#""size":7"#, r#""sizes":7"#),
        with(media::OCI_LAYER, ""),
    ];
    for text in cases {
        assert_eq!(kind(&text), Kind::Malformed, "{text}");
    }
    assert_eq!(kind(&with("sha256:", "sha1:")), Kind::Digest);
    assert_eq!(kind(&with("sha256:e3", "sha256:E3")), Kind::Digest);
    let many = vec![layer.clone(); MAX_DESCRIPTORS + 1].join(",");
    assert_eq!(kind(&with(&layer, &many)), Kind::TooLarge);
    let error = Manifest::parse(with(r#""size":7"#, r#""size":-7"#).as_bytes(), None).unwrap_err();
    assert!(error.to_string().starts_with("the manifest: \"config\": \"size\" is a negative number"), "{error}");
}

#[test]
fn an_image_is_read_and_written() {
    let parsed = Manifest::parse(image(r#""annotations":{"k":"v"},"#).as_bytes(), None).unwrap();
    let Manifest::Image(image) = &parsed else { panic!("an image") };
    assert_eq!((image.layers.len(), image.config.size, image.layers[0].digest), (1, 7, Digest::of(b"")));
    assert_eq!(parsed.annotations()["k"], "v");
    assert_eq!(Manifest::parse(&image.to_bytes(), None).unwrap(), parsed);
    let made =
        ImageManifest::new(Descriptor::of(media::OCI_CONFIG, b"{}"), vec![Descriptor::of(media::OCI_LAYER, b"x")]);
    let text = String::from_utf8(made.to_bytes()).unwrap();
    assert!(
        text.starts_with(r#"{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":{"#)
    );
    assert_eq!(Manifest::parse(text.as_bytes(), None).unwrap(), Manifest::Image(made));
}

#[test]
fn an_artifact_is_an_image_of_anything() {
    let subject = entry(media::OCI_MANIFEST, "");
    let (config, layer) = (entry(media::OCI_EMPTY, ""), entry("application/x-qcow2", ""));
    let text = format!(
        r#"{{"schemaVersion":2,"artifactType":"application/x-disk","config":{config},"layers":[{layer}],"subject":{subject}}}"#
    );
    let manifest = Manifest::parse(text.as_bytes(), None).unwrap();
    assert_eq!(manifest.artifact_type(), Some("application/x-disk"));
    assert_eq!(manifest.subject().unwrap().digest, Digest::of(b""));
    let none = Manifest::parse(text.replace(r#""artifactType":"application/x-disk","#, "").as_bytes(), None).unwrap();
    assert_eq!(none.artifact_type(), Some(media::OCI_EMPTY));
}

#[test]
fn the_platform_that_is_asked_for_is_chosen() {
    let attestation = r#","annotations":{"vnd.docker.reference.type":"attestation-manifest"},"platform":{"os":"unknown","architecture":"unknown"}"#;
    let index = index(&[
        entry(media::OCI_MANIFEST, attestation),
        on("linux/amd64").replace("\"size\":7", "\"size\":1"),
        on("linux/arm64/v8").replace("\"size\":7", "\"size\":2"),
        on("linux/arm/v6").replace("\"size\":7", "\"size\":3"),
        on("linux/amd64").replace("\"size\":7", "\"size\":4"),
        on("unknown/unknown"),
        entry("application/vnd.example.signature", r#","platform":{"os":"linux","architecture":"riscv64"}"#),
    ]);
    let sizes = |asked: &str| {
        let found = index.choose(&Platform::parse(asked).unwrap())?;
        Ok::<Vec<_>, Error>(found.iter().map(|entry| entry.size).collect())
    };
    assert_eq!(sizes("linux/amd64").unwrap(), [1]);
    assert_eq!(sizes("linux/x86_64").unwrap(), [1]);
    assert_eq!(sizes("linux/arm64").unwrap(), [2]);
    assert_eq!(sizes("linux/aarch64/v8").unwrap(), [2]);
    assert_eq!(sizes("linux/arm/v6").unwrap(), [3]);
    for asked in ["linux/arm/v7", "linux/s390x", "linux/riscv64", "unknown/unknown", "windows/amd64"] {
        let error = sizes(asked).unwrap_err();
        assert_eq!(error.kind(), Kind::NoPlatform);
        let text = error.to_string();
        assert_eq!(text, format!("there is no image for {asked}: there is linux/amd64, linux/arm64, linux/arm/v6"));
    }
}

#[test]
fn what_declares_no_platform_is_looked_at_last() {
    let silent = [entry(media::OCI_INDEX, ""), entry(media::OCI_MANIFEST, r#","platform":null"#)];
    let asked = Platform::parse("linux/arm64").unwrap();
    let both = index(&[silent[0].clone(), silent[1].clone(), on("linux/arm64")]);
    assert_eq!(both.choose(&asked).unwrap(), [&both.manifests[2]]);
    let nested = index(&[silent[0].clone(), on("linux/amd64"), silent[1].clone()]);
    assert_eq!(nested.choose(&asked).unwrap(), [&nested.manifests[0], &nested.manifests[2]]);
    let error = index(&[]).choose(&asked).unwrap_err();
    assert_eq!(error.to_string(), "there is no image for linux/arm64: there is none for any");
}

proptest::proptest! {
    /// Whatever is done to a document, it is refused or read as what it says.
    #[test]
    fn nothing_makes_it_panic_and_what_it_takes_it_writes(
        changes in proptest::collection::vec((0_usize..700, proptest::prelude::any::<u8>()), 0..4),
        cut in 0_usize..700,
        of_index: bool,
    ) {
        let text = if of_index {
            Index::new(vec![Descriptor::of(media::OCI_MANIFEST, b"x").on(Platform::new("linux", "arm64", Some("v8")))]).to_bytes()
        } else {
            ImageManifest::new(Descriptor::of(media::OCI_CONFIG, b"{}"), vec![Descriptor::of(media::OCI_LAYER, b"x")]).to_bytes()
        };
        let mut text = text.get(..cut).filter(|_| changes.is_empty()).unwrap_or(&text).to_vec();
        for (at, byte) in changes {
            if let Some(changed) = text.get_mut(at) {
                *changed = byte;
            }
        }
        if let Ok(manifest) = Manifest::parse(&text, None) {
            let again = match &manifest {
                Manifest::Image(image) => image.to_bytes(),
                Manifest::Index(index) => index.to_bytes(),
            };
            proptest::prop_assert_eq!(Manifest::parse(&again, None).unwrap(), manifest);
        }
    }
}
