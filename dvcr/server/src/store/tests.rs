use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use dvcr_oci::{Descriptor, Digest, ImageManifest, Index, Name, Tag, media};
use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, UTIME_OMIT, utimensat};
use tempfile::TempDir;

use super::gc::Options;
use super::*;

/// A store in a folder that goes with it.
pub(super) struct Home {
    pub(super) store: Store,
    pub(super) dir: TempDir,
}

impl Home {
    pub(super) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::create(&dir.path().join("root"), Limits { quota: None, reserve: Some(0) }).unwrap();
        Self { store, dir }
    }

    pub(super) fn push(&self, name: &Name, bytes: &[u8]) -> Digest {
        let mut upload = self.store.begin(name, bytes.len() as u64).unwrap();
        upload.append(&[Bytes::copy_from_slice(bytes)]).unwrap();
        let digest = upload.hash(dvcr_oci::Algorithm::Sha256).unwrap().finish();
        upload.commit(&digest).unwrap();
        digest
    }

    pub(super) fn put(&self, name: &Name, bytes: &[u8], tag: Option<&str>) -> Result<Digest> {
        let tag = tag.map(|tag| Tag::parse(tag).unwrap());
        self.store.put_manifest(name, bytes, None, None, tag.as_ref(), &|_| true).map(|(digest, _)| digest)
    }

    /// Pushes an image of one layer and its configuration.
    pub(super) fn image(&self, name: &Name, layer: &[u8], tag: Option<&str>) -> Digest {
        self.push(name, b"{}");
        self.push(name, layer);
        self.put(name, &image(layer), tag).unwrap()
    }

    /// Makes everything that much older.
    pub(super) fn age(&self, by: Duration) {
        let mut open = vec![self.store.layout().repositories(), self.store.layout().uploads()];
        while let Some(path) = open.pop() {
            let meta = path.metadata().unwrap();
            if meta.is_dir() {
                open.extend(path.read_dir().unwrap().map(|entry| entry.unwrap().path()));
            }
            let then = meta.modified().unwrap() - by;
            let then = then.duration_since(std::time::UNIX_EPOCH).unwrap();
            let times = Timestamps {
                last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
                last_modification: Timespec {
                    tv_sec: then.as_secs().try_into().unwrap(),
                    tv_nsec: then.subsec_nanos().into(),
                },
            };
            utimensat(CWD, &path, &times, AtFlags::empty()).unwrap();
        }
    }

    pub(super) fn contents(&self) -> BTreeSet<Digest> {
        let mut found = BTreeSet::new();
        self.store
            .each_content(|digest, _| {
                found.insert(digest);
                Ok(())
            })
            .unwrap();
        found
    }

    #[track_caller]
    pub(super) fn is_sound(&self) {
        let report = self.store.check(1).unwrap();
        assert!(report.findings.is_empty(), "{:#?}", report.findings);
    }
}

pub(super) fn name(text: &str) -> Name {
    Name::parse(text).unwrap()
}

pub(super) fn image(layer: &[u8]) -> Vec<u8> {
    ImageManifest::new(Descriptor::of(media::OCI_EMPTY, b"{}"), vec![Descriptor::of(media::OCI_LAYER, layer)])
        .to_bytes()
}

pub(super) fn index(images: &[&[u8]]) -> Vec<u8> {
    Index::new(images.iter().map(|image| Descriptor::of(media::OCI_MANIFEST, image)).collect()).to_bytes()
}

#[test]
fn a_folder_of_something_else_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("notes.txt"), "mine").unwrap();
    let error = Store::create(dir.path(), Limits::default()).err().unwrap();
    assert_eq!(error.kind(), Kind::Usage);
    assert!(error.to_string().contains("notes.txt"), "{error}");
    assert_eq!(Store::open(dir.path()).err().unwrap().kind(), Kind::Usage);
    std::fs::write(dir.path().join("VERSION"), "dvcr store 2\n").unwrap();
    assert!(Store::open(dir.path()).err().unwrap().to_string().contains("another version"));
    assert_eq!(Store::open(&PathBuf::from("/does/not/exist")).err().unwrap().kind(), Kind::Usage);
}

#[test]
fn a_repository_has_what_was_pushed_to_it_and_nothing_else() {
    let home = Home::new();
    let (a, b) = (name("a"), name("b"));
    let digest = home.push(&a, b"bytes");
    assert_eq!(home.store.blob_size(&a, &digest).unwrap(), 5);
    assert_eq!(home.store.blob(&b, &digest).unwrap_err().kind(), Kind::BlobUnknown);
    assert_eq!(home.store.blob_size(&b, &digest).unwrap_err().kind(), Kind::BlobUnknown);
    assert!(home.store.mount(&b, &digest).unwrap());
    assert_eq!(home.store.blob(&b, &digest).unwrap().size, 5);
    assert!(!home.store.mount(&b, &Digest::of(b"other")).unwrap());
    assert_eq!(home.contents().len(), 1, "both have the same content");
    home.store.delete_blob(&a, &digest).unwrap();
    assert!(!home.store.has_blob(&a, &digest).unwrap() && home.store.has_blob(&b, &digest).unwrap());
}

#[test]
fn an_upload_belongs_to_one_request_at_a_time_and_to_one_repository() {
    let home = Home::new();
    let a = name("a");
    let mut upload = home.store.begin(&a, 0).unwrap();
    let id = upload.id().to_owned();
    upload.append(&[Bytes::from_static(b"by"), Bytes::from_static(b"tes")]).unwrap();
    assert_eq!(home.store.upload(&a, &id).err().unwrap().kind(), Kind::TooManyRequests);
    drop(upload);
    assert_eq!(home.store.upload(&name("b"), &id).err().unwrap().kind(), Kind::UploadUnknown);
    for id in ["../../etc", "..", "", "x", &"0".repeat(36)] {
        assert_eq!(home.store.upload_len(&a, id).unwrap_err().kind(), Kind::UploadUnknown, "{id}");
    }
    let upload = home.store.upload(&a, &id).unwrap();
    assert_eq!(upload.len(), 5);
    let digest = upload.hash(dvcr_oci::Algorithm::Sha512).unwrap().finish();
    assert_eq!(digest, Digest::by(dvcr_oci::Algorithm::Sha512, b"bytes"));
    upload.commit(&digest).unwrap();
    assert_eq!(home.store.blob(&a, &digest).unwrap().size, 5);
    assert_eq!(home.store.upload(&a, &id).err().unwrap().kind(), Kind::UploadUnknown);
    home.is_sound();
}

#[test]
fn more_pieces_than_a_call_takes_are_written_in_order() {
    let home = Home::new();
    let mut upload = home.store.begin(&name("a"), 0).unwrap();
    let pieces: Vec<Bytes> = (0..3000_u32).map(|n| Bytes::from(n.to_be_bytes().to_vec())).collect();
    upload.append(&pieces).unwrap();
    upload.append(&[]).unwrap();
    assert_eq!(upload.len(), 12_000);
    assert_eq!(upload.hash(dvcr_oci::Algorithm::Sha256).unwrap().finish(), Digest::of(&pieces.concat()));
}

#[test]
fn pushing_again_heals_what_was_damaged() {
    let home = Home::new();
    let digest = home.image(&name("a"), b"layer", Some("v1"));
    let layer = Digest::of(b"layer");
    let path = home.store.layout().content(&layer);
    std::fs::remove_file(&path).unwrap();
    std::fs::write(&path, b"lager").unwrap();
    let manifest = home.store.layout().content(&digest);
    std::fs::remove_file(&manifest).unwrap();
    std::fs::write(&manifest, b"{}").unwrap();
    let findings = home.store.check(2).unwrap().findings;
    assert_eq!(findings.len(), 2, "{findings:#?}");
    let hint = "run dvcr check --discard, then push a:v1 again";
    assert!(findings.iter().all(|finding| finding.what.ends_with(hint)), "{findings:#?}");
    assert_eq!(home.store.manifest(&name("a"), &digest).unwrap_err().kind(), Kind::Damaged);
    home.image(&name("a"), b"layer", Some("v1"));
    home.is_sound();
}

#[test]
fn what_was_discarded_can_be_pushed_again_by_anybody() {
    let home = Home::new();
    let (a, b) = (name("a"), name("b"));
    for (name, tag) in [(&a, "v1"), (&b, "v2")] {
        home.image(name, b"layer", Some(tag));
    }
    let left = home.push(&a, b"left");
    let layer = Digest::of(b"layer");
    for (digest, bytes) in [(layer, b"lager"), (left, b"lift!")] {
        let path = home.store.layout().content(&digest);
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, bytes).unwrap();
    }
    let said = || -> Vec<String> {
        let report = home.store.check_and_discard(2).unwrap();
        report.findings.iter().map(ToString::to_string).collect()
    };
    let wrong = "its bytes are others than were pushed: it was removed";
    let mut expected = [
        format!("{layer}: {wrong}: push one of these again, and all have it: a:v1, b:v2"),
        format!("{left}: {wrong}; no image needs it"),
    ];
    expected.sort();
    assert_eq!(said(), expected);
    // Whoever asks is told to push it, and it can't be had by a mount.
    assert_eq!(home.store.blob_size(&a, &layer).unwrap_err().kind(), Kind::BlobUnknown);
    assert_eq!(home.store.blob(&b, &layer).unwrap_err().kind(), Kind::BlobUnknown);
    assert!(!home.store.mount(&name("c"), &layer).unwrap());
    assert_eq!(home.put(&a, &image(b"layer"), Some("v1")).unwrap_err().kind(), Kind::ManifestBlobUnknown);
    let missing = "the content of this blob is missing";
    assert!(said().contains(&format!("b@{layer}: {missing}: push b:v2 again")), "{:?}", said());
    assert!(said().contains(&format!("a@{left}: {missing}: no image needs it: run dvcr gc")), "{:?}", said());
    home.push(&a, b"left");
    home.image(&b, b"layer", Some("v2"));
    home.is_sound();
    assert_eq!(home.store.blob(&a, &layer).unwrap().size, 5);
}

#[test]
fn what_was_pushed_again_meanwhile_is_not_discarded() {
    let home = Home::new();
    let a = name("a");
    let layer = home.push(&a, b"layer");
    let path = home.store.layout().content(&layer);
    std::fs::remove_file(&path).unwrap();
    std::fs::write(&path, b"lager").unwrap();
    let read = std::fs::File::open(&path).unwrap();
    home.push(&a, b"layer");
    assert!(!home.store.discard(&layer, &read).unwrap());
    home.is_sound();
    assert!(home.store.discard(&layer, &std::fs::File::open(&path).unwrap()).unwrap());
    assert!(!home.store.discard(&layer, &read).unwrap(), "it is gone already");
}

#[test]
fn what_is_missing_is_found() {
    let home = Home::new();
    let a = name("a");
    let digest = home.image(&a, b"layer", Some("v1"));
    std::fs::remove_file(home.store.layout().content(&Digest::of(b"layer"))).unwrap();
    std::fs::remove_file(home.store.layout().blob_link(&a, &Digest::of(b"{}"))).unwrap();
    std::fs::write(home.store.layout().tag(&a, &Tag::parse("odd").unwrap()), "nonsense").unwrap();
    std::fs::write(home.store.layout().tag(&a, &Tag::parse("lost").unwrap()), Digest::of(b"?").to_string()).unwrap();
    let findings: Vec<String> = home.store.check(1).unwrap().findings.iter().map(ToString::to_string).collect();
    assert_eq!(findings.len(), 4, "{findings:#?}");
    assert!(findings.iter().any(|finding| finding.starts_with(&format!("a@{digest}: it names"))), "{findings:#?}");
    assert!(findings.iter().any(|finding| finding.starts_with("a:lost: it stands for")), "{findings:#?}");
}

#[test]
fn a_quota_is_kept_and_told() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::create(dir.path(), Limits { quota: Some(1 << 20), reserve: Some(0) }).unwrap();
    let error = store.begin(&name("a"), 2 << 20).err().unwrap();
    assert_eq!(error.kind(), Kind::Full);
    assert!(error.to_string().contains("quota of 1048576"), "{error}");
    // What is removed is free at once, however lately it was counted.
    for _ in 0..3 {
        let mut upload = store.begin(&name("a"), 1 << 19).unwrap();
        upload.append(&[bytes::Bytes::from(vec![1; 700 << 10])]).unwrap();
        assert_eq!(store.begin(&name("a"), 1 << 19).err().unwrap().kind(), Kind::Full);
        upload.cancel().unwrap();
    }
    let dir = tempfile::tempdir().unwrap();
    let store = Store::create(dir.path(), Limits { quota: None, reserve: Some(u64::MAX / 2) }).unwrap();
    assert_eq!(store.begin(&name("a"), 1).err().unwrap().kind(), Kind::Full);
    assert_eq!(store.probe().unwrap_err().kind(), Kind::Full);
}

/// What should be in a store: the plainest way to say it.
#[derive(Default)]
struct Model {
    blobs: BTreeMap<Name, BTreeSet<Digest>>,
    /// By digest, with what each needs.
    manifests: BTreeMap<Name, BTreeMap<Digest, Vec<Digest>>>,
    tags: BTreeMap<Name, BTreeMap<String, Digest>>,
}

impl Model {
    fn reachable(&self, name: &Name) -> BTreeSet<Digest> {
        let mut open: Vec<Digest> = self.tags.get(name).into_iter().flat_map(|tags| tags.values().copied()).collect();
        let mut seen = BTreeSet::new();
        while let Some(digest) = open.pop() {
            if seen.insert(digest) {
                open.extend(self.manifests.get(name).and_then(|all| all.get(&digest)).into_iter().flatten());
            }
        }
        seen
    }

    fn collect(&mut self) {
        for name in self.blobs.keys().cloned().collect::<Vec<_>>() {
            let seen = self.reachable(&name);
            self.blobs.entry(name.clone()).or_default().retain(|digest| seen.contains(digest));
            self.manifests.entry(name).or_default().retain(|digest, _| seen.contains(digest));
        }
    }

    fn contents(&self) -> BTreeSet<Digest> {
        let manifests = self.manifests.values().flat_map(|all| all.keys().copied());
        self.blobs.values().flatten().copied().chain(manifests).collect()
    }
}

#[test]
fn any_order_of_operations_is_as_the_model_says() {
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = move |below: u64| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        usize::try_from(seed % below).unwrap()
    };
    for _ in 0..6 {
        let home = Home::new();
        let mut model = Model::default();
        for _ in 0..60 {
            let repository = name(["a", "a/b", "c"][random(3)]);
            let layer = vec![b'x'; random(4) + 1];
            let tag = ["v1", "v2"][random(2)];
            match random(8) {
                0 | 1 => {
                    let digest = home.push(&repository, &layer);
                    model.blobs.entry(repository).or_default().insert(digest);
                }
                2 => {
                    let digest = Digest::of(&layer);
                    let there = model.contents().contains(&digest) || home.contents().contains(&digest);
                    assert_eq!(home.store.mount(&repository, &digest).unwrap(), there);
                    if there {
                        model.blobs.entry(repository).or_default().insert(digest);
                    }
                }
                3 | 4 => {
                    home.push(&repository, b"{}");
                    let blobs = model.blobs.entry(repository.clone()).or_default();
                    blobs.insert(Digest::of(b"{}"));
                    let has_layer = blobs.contains(&Digest::of(&layer));
                    match home.put(&repository, &image(&layer), Some(tag)) {
                        Ok(digest) => {
                            assert!(has_layer);
                            let needs = vec![Digest::of(b"{}"), Digest::of(&layer)];
                            model.manifests.entry(repository.clone()).or_default().insert(digest, needs);
                            model.tags.entry(repository).or_default().insert(tag.to_owned(), digest);
                        }
                        Err(error) => assert!(!has_layer && error.kind() == Kind::ManifestBlobUnknown, "{error}"),
                    }
                }
                5 => {
                    let there = model.tags.entry(repository.clone()).or_default().remove(tag).is_some();
                    assert_eq!(home.store.delete_tag(&repository, &Tag::parse(tag).unwrap()).is_ok(), there);
                }
                6 => {
                    let digest = Digest::of(&image(&layer));
                    let there = model.manifests.entry(repository.clone()).or_default().remove(&digest).is_some();
                    assert_eq!(home.store.delete_manifest(&repository, &digest).is_ok(), there);
                    model.tags.entry(repository).or_default().retain(|_, other| *other != digest);
                }
                _ => {
                    home.age(Duration::from_secs(7200));
                    home.store.collect(&Options::default()).unwrap();
                    model.collect();
                    assert_eq!(home.contents(), model.contents());
                }
            }
            for (repository, blobs) in &model.blobs {
                for digest in blobs {
                    assert!(home.store.has_blob(repository, digest).unwrap(), "{repository} lost {digest}");
                }
            }
            for (repository, tags) in &model.tags {
                for (tag, digest) in tags {
                    assert_eq!(home.store.resolve(repository, &Tag::parse(tag).unwrap()).unwrap(), *digest);
                }
                if let Ok((listed, _)) = home.store.tags(repository, None, usize::MAX) {
                    assert_eq!(
                        listed.iter().map(Tag::to_string).collect::<Vec<_>>(),
                        tags.keys().cloned().collect::<Vec<_>>()
                    );
                }
            }
        }
        // A blob that was taken from under a manifest is none of the operations.
        home.is_sound();
    }
}
