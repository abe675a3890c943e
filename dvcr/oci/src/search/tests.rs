use std::collections::HashMap;

use super::*;
use crate::index::Index;

/// Documents by their digests.
#[derive(Default)]
struct Store(HashMap<Digest, Vec<u8>>);

impl Store {
    fn put(&mut self, media_type: &str, bytes: Vec<u8>) -> Descriptor {
        let descriptor = Descriptor::of(media_type, &bytes);
        self.0.insert(descriptor.digest, bytes);
        descriptor
    }

    /// An image whose configuration is for `platform`; for none if that is empty.
    fn image(&mut self, platform: &str) -> Descriptor {
        let config = match platform {
            "" => ImageConfig::default(),
            platform => ImageConfig::new(&Platform::parse(platform).unwrap(), Vec::new()),
        };
        let config = self.put(media::OCI_CONFIG, config.to_bytes());
        self.put(media::OCI_MANIFEST, ImageManifest::new(config, Vec::new()).to_bytes())
    }

    fn artifact(&mut self, kind: &str) -> Descriptor {
        let config = self.put(kind, b"{}".to_vec());
        self.put(media::OCI_MANIFEST, ImageManifest::new(config, Vec::new()).to_bytes())
    }

    fn index(&mut self, manifests: Vec<Descriptor>) -> Descriptor {
        self.put(media::OCI_INDEX, Index::new(manifests).to_bytes())
    }

    fn search(&self, root: &Descriptor, asked: Option<&str>) -> Result<Found> {
        let read = |descriptor: &Descriptor| self.0[&descriptor.digest].as_slice();
        let manifest = |descriptor: &Descriptor| Manifest::parse(read(descriptor), None);
        let mut search = Search::new(asked.map(|asked| Platform::parse(asked).unwrap()));
        let mut step = search.root(root.digest, manifest(root)?)?;
        loop {
            step = match step {
                Step::Manifest(entry) => {
                    let manifest = manifest(entry.descriptor())?;
                    search.manifest(entry, manifest)?
                }
                Step::Config(image) => {
                    let config = ImageConfig::parse(read(image.config()))?;
                    search.config(image, config)?
                }
                Step::Found(found) => return Ok(found),
            };
        }
    }
}

/// The image, as an index declares it for `platform`.
fn on(image: &Descriptor, platform: &str) -> Descriptor {
    image.clone().on(Platform::parse(platform).unwrap())
}

#[test]
fn what_is_declared_is_found_in_any_spelling() {
    let mut store = Store::default();
    let images = ["linux/amd64", "linux/arm64", "linux/arm/v6", "linux/arm/v7"].map(|name| (name, store.image(name)));
    let root = store.index(images.iter().map(|(name, image)| on(image, name)).collect());
    for (asked, name) in [
        ("linux/x86_64", "linux/amd64"),
        ("linux/arm64", "linux/arm64"),
        ("linux/arm64/v8", "linux/arm64"),
        ("linux/arm", "linux/arm/v7"),
        ("linux/arm/v6", "linux/arm/v6"),
    ] {
        let found = store.search(&root, Some(asked)).unwrap();
        assert_eq!(found.platform.unwrap().to_string(), name, "{asked}");
        assert_eq!(found.digest, images.iter().find(|(there, _)| *there == name).unwrap().1.digest);
    }
    let error = store.search(&root, Some("linux/s390x")).unwrap_err();
    assert_eq!(error.kind(), Kind::NoPlatform);
    let there = "there is linux/amd64, linux/arm64, linux/arm/v6, linux/arm/v7";
    assert_eq!(error.to_string(), format!("there is no image for linux/s390x: {there}"));
}

#[test]
fn the_index_knows_variants_and_the_configuration_the_machine() {
    let mut store = Store::default();
    let (arm, amd) = (store.image("linux/arm"), store.image("linux/amd64"));
    // Configurations lack variants…
    let root = store.index(vec![on(&arm, "linux/arm/v6")]);
    assert_eq!(store.search(&root, Some("linux/arm/v6")).unwrap().digest, arm.digest);
    // …but no index makes one machine of another.
    let root = store.index(vec![on(&amd, "linux/arm64")]);
    let error = store.search(&root, Some("linux/arm64")).unwrap_err();
    assert_eq!(error.to_string(), "there is no image for linux/arm64: there is linux/arm64, linux/amd64");
}

#[test]
fn a_single_image_is_checked_by_its_configuration() {
    let mut store = Store::default();
    let arm = store.image("linux/arm64");
    for asked in [None, Some("linux/aarch64/v8")] {
        let found = store.search(&arm, asked).unwrap();
        assert_eq!((found.digest, found.platform.unwrap().to_string().as_str()), (arm.digest, "linux/arm64"));
    }
    let error = store.search(&arm, Some("linux/amd64")).unwrap_err();
    assert_eq!(error.to_string(), "there is no image for linux/amd64: there is linux/arm64");
    // One that says nothing is taken by whoever does not ask.
    let silent = store.image("");
    assert_eq!(store.search(&silent, None).unwrap().platform, None);
    assert_eq!(store.search(&silent, Some("linux/amd64")).unwrap_err().kind(), Kind::NoPlatform);
}

#[test]
fn what_is_not_declared_is_looked_into() {
    let mut store = Store::default();
    let (amd, arm) = (store.image("linux/amd64"), store.image("linux/arm64"));
    let inner = store.index(vec![on(&arm, "linux/arm64")]);
    for manifests in [vec![amd.clone(), arm.clone()], vec![amd.clone(), inner], vec![arm.clone(), amd]] {
        let root = store.index(manifests);
        assert_eq!(store.search(&root, Some("linux/arm64")).unwrap().digest, arm.digest);
        let error = store.search(&root, Some("linux/riscv64")).unwrap_err();
        assert!(error.to_string().contains("linux/amd64") && error.to_string().contains("linux/arm64"), "{error}");
    }
}

#[test]
fn attestations_are_nothing() {
    let mut store = Store::default();
    let (amd, other) = (store.image("linux/amd64"), store.image("linux/arm64"));
    let mut marked = other.clone();
    marked.annotations.insert("vnd.docker.reference.type".into(), "attestation-manifest".into());
    let root = store.index(vec![on(&other, "unknown/unknown"), marked, on(&amd, "linux/amd64")]);
    assert_eq!(store.search(&root, Some("linux/amd64")).unwrap().digest, amd.digest);
    let error = store.search(&root, Some("linux/arm64")).unwrap_err();
    assert_eq!(error.to_string(), "there is no image for linux/arm64: there is linux/amd64");
}

#[test]
fn an_artifact_is_for_any_platform_unless_it_is_one_of_many() {
    let mut store = Store::default();
    let artifact = store.artifact("application/vnd.example");
    let found = store.search(&artifact, Some("linux/arm64")).unwrap();
    assert_eq!((found.digest, found.config, found.platform), (artifact.digest, None, None));
    let declared = store.index(vec![on(&artifact, "linux/arm64")]);
    assert_eq!(store.search(&declared, Some("linux/arm64")).unwrap().digest, artifact.digest);
    let other = store.artifact("application/vnd.other");
    let silent = store.index(vec![artifact, other]);
    for asked in [Some("linux/arm64"), None] {
        assert_eq!(store.search(&silent, asked).unwrap_err().kind(), Kind::NoPlatform);
    }
}

#[test]
fn depth_and_number_are_bounded() {
    let mut store = Store::default();
    let asked = Platform::of_this_machine().to_string();
    let mut root = store.image(&asked);
    let image = root.digest;
    for depth in 1..=MAX_DEPTH + 1 {
        root = store.index(vec![root]);
        let found = store.search(&root, Some(&asked));
        match found {
            Ok(found) => assert!(depth <= MAX_DEPTH && found.digest == image, "{depth}"),
            Err(error) => assert!(depth > MAX_DEPTH && error.kind() == Kind::TooLarge, "{depth}: {error}"),
        }
    }
    // An index of indexes, each of which has to be opened.
    let many: Vec<_> = (0..MAX_MANIFESTS).map(|n| store.artifact(&format!("application/vnd.number-{n}"))).collect();
    let few = store.index(many[1..].to_vec());
    assert_eq!(store.search(&few, None).unwrap_err().kind(), Kind::NoPlatform);
    let root = store.index(many);
    let error = store.search(&root, None).unwrap_err();
    assert_eq!(
        (error.kind(), error.to_string()),
        (Kind::TooLarge, "more than 64 manifests would have to be looked at".into())
    );
}

#[test]
fn without_a_platform_a_list_must_have_one_for_this_machine() {
    let mut store = Store::default();
    let here = store.image(&Platform::of_this_machine().to_string());
    let other = store.image("linux/s390x");
    let root = store.index(vec![on(&other, "linux/s390x"), on(&here, &Platform::of_this_machine().to_string())]);
    assert_eq!(store.search(&root, None).unwrap().digest, here.digest);
    let root = store.index(vec![on(&other, "linux/s390x")]);
    assert_eq!(store.search(&root, None).unwrap_err().kind(), Kind::NoPlatform);
}
