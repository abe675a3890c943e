use std::sync::atomic::{AtomicBool, Ordering};

use dvcr_oci::{Descriptor, ImageManifest, Index, Tag, media};

use super::*;
use crate::store::blob::FRESH;
use crate::store::tests::{Home, image, index, name};

/// With no grace: what a person asks for who wants the space now.
fn now() -> Options {
    Options { grace: Duration::ZERO, ..Options::default() }
}

const HOURS: Duration = Duration::from_secs(7200);

#[test]
fn what_was_deleted_goes_at_once_and_what_others_have_stays() {
    let home = Home::new();
    let (a, b) = (name("a"), name("b"));
    let first = home.image(&a, b"one", Some("v1"));
    home.image(&a, b"two", Some("v2"));
    home.image(&b, b"one", Some("v1"));
    assert_eq!(home.store.collect(&now()).unwrap(), Outcome { repositories: 2, ..Outcome::default() });
    home.store.delete_manifest(&a, &first).unwrap();
    let outcome = home.store.collect(&Options::default()).unwrap();
    assert_eq!((outcome.blobs, outcome.contents), (1, 0), "b still has the content");
    home.store.delete_repository(&b).unwrap();
    let preview = home.store.collect(&Options { dry_run: true, ..now() }).unwrap();
    let outcome = home.store.collect(&now()).unwrap();
    assert_eq!(preview, outcome);
    assert_eq!((outcome.manifests, outcome.blobs, outcome.contents), (0, 2, 2));
    assert_eq!(outcome.bytes, 3 + image(b"one").len() as u64);
    assert!(!home.store.exists(&b), "the folders of what is empty go too");
    home.is_sound();
}

#[test]
fn a_push_that_goes_on_keeps_what_it_has_brought() {
    let home = Home::new();
    let a = name("a");
    let layer = home.push(&a, b"layer");
    let outcome = home.store.collect(&now()).unwrap();
    assert_eq!((outcome.young, outcome.held), (0, 1));
    assert!(outcome.held_wait <= LEASE && outcome.held_wait + FRESH > LEASE, "{outcome:?}");
    // The next layer takes hours, but it is not given up.
    let upload = home.store.begin(&a, 0).unwrap();
    home.age(HOURS);
    home.store.collect(&now()).unwrap();
    assert!(home.store.has_blob(&a, &layer).unwrap());
    upload.cancel().unwrap();
    home.age(HOURS);
    home.store.collect(&now()).unwrap();
    assert!(!home.store.has_blob(&a, &layer).unwrap());
    assert!(home.contents().is_empty());
}

#[test]
fn who_was_told_that_a_blob_is_there_can_rely_on_it() {
    let home = Home::new();
    let a = name("a");
    let digest = home.image(&a, b"layer", Some("v1"));
    home.age(HOURS);
    assert_eq!(home.store.blob_size(&a, &Digest::of(b"layer")).unwrap(), 5);
    home.store.delete_manifest(&a, &digest).unwrap();
    let outcome = home.store.collect(&Options::default()).unwrap();
    assert_eq!(
        (outcome.blobs, outcome.young, outcome.held),
        (1, 0, 1),
        "only the configuration goes, nobody has asked for it"
    );
    assert!(outcome.held_wait <= ASKED && outcome.held_wait + FRESH > ASKED, "{outcome:?}");
    home.push(&a, b"{}");
    home.put(&a, &image(b"layer"), Some("v2")).unwrap();
    home.is_sound();
}

#[test]
fn a_manifest_that_did_not_get_its_place_takes_nothing_with_it() {
    let home = Home::new();
    let a = name("a");
    let layer = home.push(&a, b"layer");
    home.push(&a, b"{}");
    // As if the registry had ended before the tag was set.
    let tags = home.store.layout().tags(&a);
    fs::write(&tags, "in the way").unwrap();
    home.put(&a, &image(b"layer"), Some("v1")).unwrap_err();
    home.store.collect(&now()).unwrap();
    assert!(home.store.has_blob(&a, &layer).unwrap(), "it was acknowledged, and its push goes on");
    fs::remove_file(&tags).unwrap();
    let digest = home.put(&a, &image(b"layer"), Some("v1")).unwrap();
    home.is_sound();
    home.store.delete_manifest(&a, &digest).unwrap();
    home.age(HOURS);
    assert_eq!(home.store.collect(&now()).unwrap().blobs, 2);
}

#[test]
fn an_upload_goes_when_it_has_expired_and_not_while_it_is_written() {
    let home = Home::new();
    let a = name("a");
    let kept = home.store.begin(&a, 0).unwrap();
    let gone = home.store.begin(&a, 0).unwrap().id().to_owned();
    home.age(Duration::from_secs(25 * 3600));
    assert_eq!(home.store.collect(&now()).unwrap().uploads, 1);
    assert_eq!(home.store.upload_len(&a, &gone).unwrap_err().kind(), Kind::UploadUnknown);
    assert_eq!(home.store.upload_len(&a, kept.id()).unwrap(), 0);
}

#[test]
fn an_index_keeps_its_images_and_a_subject_its_referrers() {
    let home = Home::new();
    let a = name("a");
    let [one, two] = [b"one".as_slice(), b"two"].map(|layer| {
        home.image(&a, layer, None);
        image(layer)
    });
    let list = home.put(&a, &index(&[&one, &two]), Some("v1")).unwrap();
    let mut about =
        ImageManifest::new(Descriptor::of(media::OCI_EMPTY, b"{}"), vec![Descriptor::of(media::OCI_EMPTY, b"{}")]);
    about.subject = Some(Descriptor::of(media::OCI_MANIFEST, &two));
    about.artifact_type = Some("application/vnd.example.signature".into());
    let referrer = home.put(&a, &about.to_bytes(), None).unwrap();
    home.age(HOURS);
    assert_eq!(home.store.collect(&now()).unwrap(), Outcome { repositories: 1, ..Outcome::default() });
    assert_eq!(home.store.referrers(&a, &Digest::of(&two)).unwrap().len(), 1);
    home.is_sound();
    home.store.delete_manifest(&a, &list).unwrap();
    let outcome = home.store.collect(&now()).unwrap();
    assert_eq!(outcome.manifests, 3);
    assert!(home.contents().is_empty(), "also {referrer}");
    assert!(!home.store.exists(&a));
}

#[test]
fn what_lost_its_tag_stays_for_the_grace_and_what_is_pulled_anew() {
    let home = Home::new();
    let a = name("a");
    let old = home.image(&a, b"old", Some("v1"));
    home.age(HOURS);
    home.image(&a, b"new", Some("v1"));
    let outcome = home.store.collect(&Options::default()).unwrap();
    assert_eq!((outcome.manifests, outcome.young, outcome.held), (0, 1, 0), "the tag has just moved");
    assert!(outcome.young_wait <= Options::default().grace && outcome.held_wait.is_zero(), "{outcome:?}");
    home.age(Duration::from_secs(700));
    home.store.manifest(&a, &old).unwrap();
    assert_eq!(home.store.collect(&Options::default()).unwrap().manifests, 0, "somebody is pulling it");
    home.age(Duration::from_secs(700));
    let keep = Options { keep_untagged: true, ..Options::default() };
    assert_eq!(home.store.collect(&keep).unwrap().manifests, 0);
    assert_eq!(home.store.collect(&Options::default()).unwrap().manifests, 1);
    assert!(!home.store.has_blob(&a, &Digest::of(b"old")).unwrap());
    home.is_sound();
}

#[test]
fn a_repository_that_is_being_read_is_left_alone() {
    let home = Home::new();
    let a = name("a");
    let digest = home.image(&a, b"layer", Some("v1"));
    let mut blob = home.store.blob(&a, &Digest::of(b"layer")).unwrap();
    home.store.delete_manifest(&a, &digest).unwrap();
    home.age(HOURS);
    let outcome = home.store.collect(&now()).unwrap();
    assert_eq!((outcome.blobs, outcome.read), (0, 1));
    let mut bytes = Vec::new();
    io::Read::read_to_end(&mut blob.file, &mut bytes).unwrap();
    assert_eq!(bytes, b"layer");
    drop(blob);
    assert_eq!(home.store.collect(&now()).unwrap().blobs, 2);
}

#[test]
fn who_pushes_what_others_have_holds_nothing_up() {
    let home = Home::new();
    let (a, b) = (name("a"), name("b"));
    let digest = home.image(&a, b"layer", Some("v1"));
    home.image(&b, b"layer", Some("v1"));
    home.store.delete_manifest(&a, &digest).unwrap();
    home.age(HOURS);
    // As an upload has it that has just got the name of the content, and is not done with it.
    let pushed = File::open(home.store.layout().content(&Digest::of(b"layer"))).unwrap();
    flock(&pushed, FlockOperation::NonBlockingLockExclusive).unwrap();
    let outcome = home.store.collect(&now()).unwrap();
    assert_eq!((outcome.blobs, outcome.read), (2, 0));
}

#[test]
fn a_list_keeps_and_removes() {
    let home = Home::new();
    let (a, b, c) = (name("a"), name("b"), name("c"));
    let one = home.image(&a, b"one", Some("v1"));
    home.image(&a, b"two", Some("v2"));
    let three = home.image(&b, b"three", None);
    home.image(&b, b"four", None);
    home.image(&c, b"five", None);
    home.age(HOURS);
    let list = home.dir.path().join("keep");
    fs::write(&list, format!("# what is used\na:v1\n\nb@{three}\nc\n")).unwrap();
    let mut keep = Keep::default();
    keep.read(&list).unwrap();
    let outcome = home.store.collect(&Options { keep: keep.clone(), ..now() }).unwrap();
    assert_eq!((outcome.tags, outcome.manifests), (0, 1), "only the other manifest of b goes");
    let outcome = home.store.collect(&Options { keep, only_kept: true, ..now() }).unwrap();
    assert_eq!((outcome.tags, outcome.manifests), (1, 1));
    assert_eq!(home.store.manifests(&a).unwrap(), [one]);
    home.is_sound();
    for line in ["a:", "a@", "a@sha256:00", "A", "a:b:c", "../x"] {
        fs::write(&list, format!("a:v1\n{line}\n")).unwrap();
        let error = Keep::default().read(&list).unwrap_err();
        assert_eq!(error.kind(), Kind::Usage);
        assert!(error.to_string().contains("line 2"), "{error}");
    }
}

#[test]
fn a_damaged_repository_is_left_alone_and_the_others_are_not() {
    let home = Home::new();
    let (a, b) = (name("a"), name("b"));
    let digest = home.image(&a, b"one", Some("v1"));
    home.store.delete_manifest(&b, &home.image(&b, b"two", Some("v1"))).unwrap();
    home.push(&a, b"left");
    home.age(HOURS);
    fs::remove_file(home.store.layout().content(&digest)).unwrap();
    let outcome = home.store.collect(&now()).unwrap();
    assert_eq!((outcome.skipped, outcome.blobs), (1, 2));
    assert!(home.store.has_blob(&a, &Digest::of(b"left")).unwrap());
    assert!(home.store.blob(&a, &Digest::of(b"one")).is_ok());
}

#[test]
fn what_is_used_between_the_look_and_the_removal_stays() {
    let home = Home::new();
    let a = name("a");
    for layer in [b"one".as_slice(), b"two"] {
        home.image(&a, layer, Some("v1"));
    }
    home.store.delete_tag(&a, &Tag::parse("v1").unwrap()).unwrap();
    home.age(HOURS);
    let contents = home.store.contents().unwrap();
    let mark = home.store.mark(&a, home.store.look(&a).unwrap(), &now(), false).unwrap();
    assert_eq!((mark.manifests.len(), mark.blobs.len()), (2, 3));
    // An index that needs one of the images, and so its blobs; and the other image is pulled.
    home.put(&a, &index(&[&image(b"one")]), Some("v2")).unwrap();
    home.store.manifest(&a, &Digest::of(&image(b"two"))).unwrap();
    let mut outcome = Outcome::default();
    home.store.sweep(BTreeMap::from([(a.clone(), mark)]), contents, false, &mut outcome).unwrap();
    assert_eq!(outcome, Outcome::default());
    home.is_sound();
    assert!(
        home.store.has_blob(&a, &Digest::of(b"one")).unwrap() && home.store.has_blob(&a, &Digest::of(b"two")).unwrap()
    );
}

#[test]
fn one_collection_at_a_time() {
    let home = Home::new();
    let alone = home.store.alone().unwrap();
    assert_eq!(home.store.collect(&now()).unwrap_err().kind(), Kind::TooManyRequests);
    drop(alone);
    home.store.collect(&now()).unwrap();
}

/// Four threads push, delete and push the same again, while another collects without any grace.
#[test]
fn collecting_never_hurts_a_push() {
    let home = Home::new();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let collector = scope.spawn(|| {
            let mut removed = 0;
            while !done.load(Ordering::SeqCst) {
                removed += home.store.collect(&now()).unwrap().contents;
            }
            removed
        });
        let pushers: Vec<_> = (0..4)
            .map(|n| {
                let home = &home;
                scope.spawn(move || {
                    // Two share a repository, and all share contents.
                    let repository = name(["a", "b", "c", "c"][n]);
                    let tag = format!("t{n}");
                    for round in 0..40_u8 {
                        let layer = [b'l', round % 3];
                        let other = [b'm', round % 2];
                        home.push(&repository, &layer);
                        if !home.store.mount(&repository, &Digest::of(&other)).unwrap() {
                            home.push(&repository, &other);
                        }
                        home.push(&repository, b"{}");
                        let mine = ImageManifest::new(
                            Descriptor::of(media::OCI_EMPTY, b"{}"),
                            vec![Descriptor::of(media::OCI_LAYER, &layer), Descriptor::of(media::OCI_LAYER, &other)],
                        );
                        let bytes = mine.to_bytes();
                        home.put(&repository, &bytes, Some(&tag)).unwrap();
                        let list = Index::new(vec![Descriptor::of(media::OCI_MANIFEST, &bytes)]).to_bytes();
                        home.put(&repository, &list, Some(&tag)).unwrap();
                        let tag = Tag::parse(&tag).unwrap();
                        let digest = home.store.resolve(&repository, &tag).unwrap();
                        home.store.manifest(&repository, &digest).unwrap();
                        home.store.blob(&repository, &Digest::of(&layer)).unwrap();
                        if round % 2 == 0 {
                            home.store.delete_tag(&repository, &tag).unwrap();
                        }
                    }
                })
            })
            .collect();
        let pushed: Vec<_> = pushers.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
        done.store(true, Ordering::SeqCst);
        for pushed in pushed {
            pushed.unwrap();
        }
        assert!(collector.join().unwrap() > 0, "nothing was ever removed, so nothing was tried");
    });
    home.is_sound();
}
