//! What is written, whatever happens.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use bytes::Bytes;
use dvcr_client::{Content, Kind, Pushed, Repository, Result, Target};
use dvcr_oci::{Descriptor, Digest, Host, ImageManifest, Name, Tag, media};
use fixtures::http::{Reply, Seen, Server, Settings, Taking};

use super::fake::{Fake, error};
use super::{client, quick, repository, sample};

const LEN: u32 = 5_500_000;

/// Pushes without knowing the length, in pieces of an odd length.
async fn upload(repository: &Repository, bytes: &[u8]) -> Result<Pushed> {
    let mut upload = repository.upload();
    for piece in bytes.chunks(99_999) {
        upload.write(Bytes::copy_from_slice(piece)).await?;
    }
    upload.finish(&Digest::of(bytes)).await
}

async fn push(repository: &Repository, bytes: &[u8]) -> Result<Pushed> {
    let content = Bytes::copy_from_slice(bytes);
    repository.push(&Descriptor::of(media::OCI_LAYER, bytes), &content).await
}

fn has(fake: &Fake, bytes: &[u8]) -> bool {
    fake.state().blobs.get(&Digest::of(bytes).to_string()).is_some_and(|there| there == bytes)
}

fn count(server: &Server, method: &str) -> usize {
    server.seen().iter().filter(|seen| seen.method == method).count()
}

fn serve(fake: &Fake, answer: impl Fn(&Seen, Reply) -> Reply + Send + Sync + 'static) -> Server {
    let fake = fake.clone();
    Server::start(move |seen| answer(seen, fake.answer(seen)))
}

/// Answers `refusal` in place of asking the registry, where `refuses` says so.
fn refusing(fake: &Fake, refuses: impl Fn(&Seen) -> bool + Send + Sync + 'static, refusal: fn() -> Reply) -> Server {
    let fake = fake.clone();
    Server::start(move |seen| if refuses(seen) { refusal() } else { fake.answer(seen) })
}

#[tokio::test]
async fn what_is_known_is_sent_whole_and_once() {
    let fake = Fake::default();
    let server = serve(&fake, |_, reply| reply);
    let repository = repository(quick(), &server, "x");
    let bytes = sample(LEN);
    assert_eq!(push(&repository, &bytes).await.unwrap(), Pushed::Sent);
    assert!(has(&fake, &bytes));
    assert_eq!((count(&server, "POST"), count(&server, "PATCH"), count(&server, "PUT")), (1, 0, 1));
    let put = server.seen().into_iter().find(|seen| seen.method == "PUT").unwrap();
    assert_eq!(put.header("content-length"), Some(LEN.to_string().as_str()));
    assert_eq!(push(&repository, &bytes).await.unwrap(), Pushed::Existed);
    assert_eq!((count(&server, "POST"), count(&server, "PUT")), (1, 1));
    assert_eq!(push(&repository, b"").await.unwrap(), Pushed::Sent);
    assert!(has(&fake, b""));
}

#[tokio::test]
async fn what_is_not_known_is_sent_in_large_chunks() {
    let fake = Fake::default();
    let server = serve(&fake, |_, reply| reply);
    let repository = repository(quick(), &server, "x");
    let bytes = sample(LEN);
    upload(&repository, &bytes).await.unwrap();
    assert!(has(&fake, &bytes));
    let ranges: Vec<_> =
        server.seen().iter().filter_map(|seen| seen.header("content-range").map(str::to_owned)).collect();
    assert_eq!(ranges.len(), 6);
    assert_eq!((ranges[0].as_str(), ranges[5].as_str()), ("0-1048575", "5242880-5499999"));
    // What fits into a chunk needs none.
    for small in [&bytes[..1 << 20], b"x", b""] {
        let before = count(&server, "PATCH");
        upload(&repository, small).await.unwrap();
        assert!(has(&fake, small));
        assert_eq!(count(&server, "PATCH"), before);
    }
}

#[tokio::test]
async fn a_registry_may_want_larger_chunks() {
    let fake = Fake::default();
    let server = serve(&fake, |seen, reply| match seen.method.as_str() {
        "POST" => reply.header("oci-chunk-min-length", "3000000"),
        _ => reply,
    });
    let bytes = sample(9_000_000);
    upload(&repository(quick(), &server, "x"), &bytes).await.unwrap();
    assert!(has(&fake, &bytes));
    let patches: Vec<_> =
        server.seen().into_iter().filter(|seen| seen.method == "PATCH").map(|seen| seen.body.len()).collect();
    // The first one was filled before anybody knew.
    assert_eq!(patches, [1 << 20, 3_000_000, 3_000_000, 9_000_000 - 6_000_000 - (1 << 20)]);
}

#[tokio::test]
async fn chunks_that_fail_are_sent_again_from_where_the_registry_is() {
    let bytes = sample(LEN);
    for fault in [|| Reply::new(502), || error(429, "TOOMANYREQUESTS", "slow down"), || Reply::raw("")] {
        let fake = Fake::default();
        // Every second one is taken, and nobody says so; every third one is not taken at all.
        let patches = AtomicUsize::new(0);
        let answers = fake.clone();
        let server = Server::start(move |seen| {
            if seen.method != "PATCH" {
                return answers.answer(seen);
            }
            match patches.fetch_add(1, Ordering::SeqCst) % 6 {
                1 | 3 => {
                    answers.answer(seen);
                    fault()
                }
                2 => fault(),
                _ => answers.answer(seen),
            }
        });
        upload(&repository(quick(), &server, "x"), &bytes).await.unwrap();
        assert!(has(&fake, &bytes));
    }
}

#[tokio::test]
async fn a_chunk_that_is_cut_goes_on_in_its_middle() {
    let fake = Fake::default();
    let answers = fake.clone();
    let cuts = AtomicUsize::new(0);
    let partly = fake.clone();
    let taking = move |seen: &Seen| match (seen.method.as_str(), cuts.load(Ordering::SeqCst)) {
        ("PATCH", 0..3) => {
            cuts.fetch_add(1, Ordering::SeqCst);
            // The registry keeps what it got.
            let path = seen.target.split('?').next().unwrap();
            let session = path.rsplit('/').next().unwrap().to_owned();
            let mut state = partly.state();
            let there = state.uploads.get_mut(&session).unwrap();
            let start = there.len();
            there.extend_from_slice(&sample(LEN)[start..start + 300_001]);
            Taking::Cut(300_001)
        }
        _ => Taking::All,
    };
    let server =
        Server::with(Settings { taking: Box::new(taking), ..Settings::default() }, move |seen| answers.answer(seen));
    let bytes = sample(LEN);
    upload(&repository(quick(), &server, "x"), &bytes).await.unwrap();
    assert!(has(&fake, &bytes));
    let ranges: Vec<_> =
        server.seen().iter().filter_map(|seen| seen.header("content-range").map(str::to_owned)).collect();
    assert_eq!(&ranges[..4], ["0-1048575", "300001-1048575", "600002-1048575", "900003-1048575"]);
}

#[tokio::test]
async fn a_whole_that_is_cut_goes_on_by_chunks() {
    let fake = Fake::default();
    let answers = fake.clone();
    let cut = AtomicBool::new(false);
    let settings = Settings {
        taking: Box::new(move |seen| match seen.method == "PUT" && !cut.swap(true, Ordering::SeqCst) {
            true => Taking::Cut(2_000_000),
            false => Taking::All,
        }),
        ..Settings::default()
    };
    let server = Server::with(settings, move |seen| answers.answer(seen));
    let bytes = sample(LEN);
    assert_eq!(push(&repository(quick(), &server, "x"), &bytes).await.unwrap(), Pushed::Sent);
    assert!(has(&fake, &bytes));
    assert_eq!(count(&server, "PATCH"), 6);
}

/// RG32.
#[tokio::test]
async fn where_one_way_is_refused_the_other_is_taken() {
    let bytes = sample(LEN);
    // A proxy with a limit, in front of a registry that takes chunks.
    let limit = |seen: &Seen| seen.body.len() > 1_000_000;
    let fake = Fake::default();
    let server = refusing(&fake, limit, || Reply::new(413).body("<h1>413 Request Entity Too Large</h1>"));
    push(&repository(quick(), &server, "x"), &bytes).await.unwrap();
    upload(&repository(quick(), &server, "x"), &bytes[1..]).await.unwrap();
    assert!(has(&fake, &bytes) && has(&fake, &bytes[1..]));
    // A registry that takes no data in the last request.
    let fake = Fake::default();
    let whole = |seen: &Seen| seen.method == "PUT" && !seen.body.is_empty();
    let server = refusing(&fake, whole, || error(405, "UNSUPPORTED", "not in this way"));
    push(&repository(quick(), &server, "x"), &bytes).await.unwrap();
    upload(&repository(quick(), &server, "x"), b"small").await.unwrap();
    assert!(has(&fake, &bytes) && has(&fake, b"small"));
    // A registry without chunks.
    let fake = Fake::default();
    let server = refusing(&fake, |seen| seen.method == "PATCH", || error(405, "UNSUPPORTED", "no chunks"));
    push(&repository(quick(), &server, "x"), &bytes).await.unwrap();
    assert!(has(&fake, &bytes));
    let error = upload(&repository(quick(), &server, "x"), &bytes[1..]).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Refused);
    assert!(error.to_string().contains("UNSUPPORTED: no chunks") && error.to_string().contains("offset 0"), "{error}");
}

/// RG31: the upload is known to one replica, and another one is asked.
#[tokio::test]
async fn an_upload_that_is_forgotten_begins_again_where_it_can() {
    let bytes = sample(LEN);
    let forgets = |at: usize| {
        let fake = Fake::default();
        let answers = fake.clone();
        let patches = AtomicUsize::new(0);
        let server = Server::start(move |seen| {
            if seen.method == "PATCH" && patches.fetch_add(1, Ordering::SeqCst) == at {
                answers.state().uploads.clear();
            }
            answers.answer(seen)
        });
        (fake, server)
    };
    let (fake, server) = forgets(0);
    upload(&repository(quick(), &server, "x"), &bytes).await.unwrap();
    assert!(has(&fake, &bytes));
    // Later, what was sent is here no more.
    let (fake, server) = forgets(2);
    let error = upload(&repository(quick(), &server, "x"), &bytes).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Transient);
    assert!(error.to_string().contains("offset 2097152") && !has(&fake, &bytes), "{error}");
}

#[tokio::test]
async fn the_end_may_be_heard_and_not_answered() {
    let bytes = sample(LEN);
    for answer in [|| Reply::raw(""), || Reply::new(504)] {
        let fake = Fake::default();
        let first = AtomicBool::new(true);
        let server =
            serve(&fake, move |seen, reply| match seen.method == "PUT" && first.swap(false, Ordering::SeqCst) {
                true => answer(),
                false => reply,
            });
        upload(&repository(quick(), &server, "x"), &bytes).await.unwrap();
        assert!(has(&fake, &bytes));
        assert_eq!(count(&server, "PUT"), 1);
    }
}

/// RG31.
#[tokio::test]
async fn locations_are_taken_as_they_are() {
    let bytes = sample(LEN);
    let fake = Fake::default();
    let elsewhere = serve(&fake, |_, reply| reply);
    let there = elsewhere.url("");
    // Another host, which is not shown our credentials; and a relative path.
    for (index, prefix) in [there, String::new()].into_iter().enumerate() {
        let answers = fake.clone();
        let server = Server::start(move |seen| {
            if seen.header("authorization").is_none() && seen.target != "/v2/" {
                return Reply::new(401).header("www-authenticate", "Basic");
            }
            let reply = answers.answer(seen);
            match seen.method.as_str() {
                "POST" => {
                    let location = reply.header_of("location");
                    let location = if prefix.is_empty() {
                        location.rsplit('/').next().unwrap().to_owned()
                    } else {
                        format!("{prefix}{location}")
                    };
                    Reply::new(202).header("location", location)
                }
                _ => reply,
            }
        });
        let login = dvcr_client::Login::Basic { user: "user".into(), password: "pw".into() };
        let config = dvcr_client::Config { keyring: dvcr_client::Keyring::only(login), ..quick() };
        let repository = repository(config, &server, "x");
        let bytes = &bytes[index..];
        upload(&repository, bytes).await.unwrap();
        push(&repository, &bytes[2..]).await.unwrap();
        assert!(has(&fake, bytes) && has(&fake, &bytes[2..]));
    }
    assert!(elsewhere.seen().len() > 7);
    assert!(elsewhere.seen().iter().all(|seen| seen.header("authorization").is_none()));
}

#[tokio::test]
async fn what_is_wrong_is_not_stored_and_not_tried_for_long() {
    let fake = Fake::default();
    let server = serve(&fake, |_, reply| reply);
    let repository_of = |config| repository(config, &server, "x");
    let mut wrong = repository_of(quick()).upload();
    wrong.write(Bytes::from(sample(LEN))).await.unwrap();
    let error = wrong.finish(&Digest::of(b"other")).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Mismatch);
    assert!(error.to_string().contains("DIGEST_INVALID"), "{error}");
    let mut blob = Descriptor::of(media::OCI_LAYER, b"twelve bytes");
    blob.digest = Digest::of(b"other");
    let error = repository_of(quick()).push(&blob, &Bytes::from_static(b"twelve bytes")).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Mismatch, "{error}");
    let error = repository_of(quick())
        .push(&Descriptor { size: 20, ..blob }, &Bytes::from_static(b"twelve bytes"))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), Kind::Mismatch);
    assert!(error.to_string().contains("ends at offset 12 of 20"), "{error}");
    assert!(fake.state().blobs.is_empty());
    // No room is not had by asking again.
    let full = Server::start(|seen| match seen.method.as_str() {
        "HEAD" => Reply::new(404),
        _ if seen.target == "/v2/" => Reply::ok(""),
        _ => error_507(),
    });
    let error = push(&repository(quick(), &full, "x"), b"x").await.unwrap_err();
    assert_eq!((error.kind(), count(&full, "POST")), (Kind::Full, 1), "{error}");
    // Nor from one that takes no pushes at all.
    let fake = Fake::default();
    let server = refusing(&fake, |seen| seen.method == "POST", error_405);
    let error = push(&repository(quick(), &server, "x"), b"x").await.unwrap_err();
    assert_eq!((error.kind(), count(&server, "POST")), (Kind::NotWritable, 1), "{error}");
    assert!(error.to_string().contains("UNSUPPORTED: read-only"), "{error}");
}

fn error_405() -> Reply {
    error(405, "UNSUPPORTED", "read-only")
}

fn error_507() -> Reply {
    error(507, "DENIED", "no space left")
}

/// What breaks when it is read.
struct Broken;

impl Content for Broken {
    async fn at(&self, offset: u64) -> io::Result<Bytes> {
        if offset < 1000 { Ok(Bytes::from_static(&[7; 500])) } else { Err(io::Error::other("the disk is on fire")) }
    }
}

#[tokio::test]
async fn content_that_can_not_be_read_is_told_from_a_registry_that_fails() {
    let fake = Fake::default();
    let server = serve(&fake, |_, reply| reply);
    let blob = Descriptor::new(media::OCI_LAYER, Digest::of(b"x"), 5000);
    let error = repository(quick(), &server, "x").push(&blob, &Broken).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Content);
    assert_eq!(error.to_string(), "what is pushed can't be read at offset 1000: the disk is on fire");
    assert!(fake.state().blobs.is_empty() && fake.state().uploads.is_empty());
}

#[tokio::test]
async fn a_blob_is_taken_over_from_another_repository_where_that_can_be_done() {
    let digest = Digest::of(b"x");
    let server = Server::start(move |seen| match (seen.method.as_str(), seen.target.contains("from=yes")) {
        ("POST", true) => Reply::new(201),
        ("POST", false) => Reply::new(202).header("location", "/v2/x/blobs/uploads/session"),
        _ => Reply::new(204),
    });
    let repository = repository(quick(), &server, "x");
    assert!(repository.mount(&digest, &Name::parse("yes").unwrap()).await.unwrap());
    assert!(!repository.mount(&digest, &Name::parse("other/no").unwrap()).await.unwrap());
    let seen = server.seen();
    let hex = digest.hex();
    assert!(
        seen.iter().any(|seen| seen.target == format!("/v2/x/blobs/uploads/?mount=sha256%3A{hex}&from=other%2Fno"))
    );
    assert_eq!(
        (seen.last().unwrap().method.as_str(), seen.last().unwrap().target.as_str()),
        ("DELETE", "/v2/x/blobs/uploads/session")
    );
}

#[tokio::test]
async fn a_manifest_is_stored_as_what_it_is() {
    let fake = Fake::default();
    let attempts = AtomicUsize::new(0);
    let server = serve(&fake, move |seen, reply| match seen.method.as_str() {
        "PUT" if attempts.fetch_add(1, Ordering::SeqCst) == 0 => Reply::new(503),
        "PUT" => Reply::new(201).header("docker-content-digest", Digest::of(b"something else").to_string()),
        _ => reply,
    });
    let repository = repository(quick(), &server, "x");
    let manifest = ImageManifest::new(Descriptor::of(media::OCI_CONFIG, b"{}"), Vec::new()).to_bytes();
    let digest = Digest::of(&manifest);
    let tag = Target::Tag(Tag::parse("v1").unwrap());
    // The registry says another digest, and has the right one.
    assert_eq!(repository.put_manifest(&tag, media::OCI_MANIFEST, manifest.clone()).await.unwrap(), digest);
    assert_eq!(repository.manifest(&tag).await.unwrap().bytes, manifest);
    repository.put_manifest(&Target::Digest(digest), media::OCI_MANIFEST, manifest.clone()).await.unwrap();
    let other = Target::Digest(Digest::of(b"other"));
    assert_eq!(repository.put_manifest(&other, media::OCI_MANIFEST, manifest).await.unwrap_err().kind(), Kind::Usage);
}

#[tokio::test]
async fn an_upload_that_is_given_up_leaves_nothing() {
    let fake = Fake::default();
    let server = serve(&fake, |_, reply| reply);
    let repository = repository(quick(), &server, "x");
    let mut upload = repository.upload();
    upload.write(Bytes::from(sample(LEN))).await.unwrap();
    assert_eq!((upload.len(), upload.is_empty()), (u64::from(LEN), false));
    upload.cancel().await;
    assert!(fake.state().uploads.is_empty());
    repository.upload().cancel().await;
}

/// RG39: a chunk says how long it is, and what the registry has of it is understood in both spellings.
#[tokio::test]
async fn chunks_say_how_long_they_are_and_both_spellings_of_a_range_are_known() {
    let bytes = sample(LEN);
    for spelling in ["", "bytes=", "bytes "] {
        let fake = Fake::default();
        let cut = AtomicBool::new(false);
        let answers = fake.clone();
        let server = Server::start(move |seen| {
            // Of one chunk only a part is kept, which nobody but the range says.
            let short = seen.method == "PATCH" && !cut.swap(true, Ordering::SeqCst);
            let seen = if short { Seen { body: seen.body[..500_000].to_vec(), ..seen.clone() } } else { seen.clone() };
            let reply = answers.answer(&seen);
            match seen.method.as_str() {
                "PATCH" | "GET" if seen.target.contains("/uploads/") => {
                    let (location, range) = (reply.header_of("location"), reply.header_of("range"));
                    Reply::new(202).header("location", location).header("range", format!("{spelling}{range}"))
                }
                _ => reply,
            }
        });
        upload(&repository(quick(), &server, "x"), &bytes).await.unwrap();
        assert!(has(&fake, &bytes), "{spelling}");
        let seen = server.seen();
        let patches: Vec<_> = seen.iter().filter(|seen| seen.method == "PATCH").collect();
        assert_eq!(patches[1].header("content-range"), Some("500000-1048575"), "{spelling}");
        assert!(
            patches
                .iter()
                .all(|seen| seen.header("content-length").is_some() && seen.header("transfer-encoding").is_none())
        );
    }
}

#[tokio::test]
async fn what_has_become_a_blob_that_is_there_is_given_up() {
    let fake = Fake::default();
    let server = serve(&fake, |_, reply| reply);
    let repository = repository(quick(), &server, "x");
    let bytes = sample(LEN);
    for bytes in [&bytes[..], &bytes[..1000]] {
        assert_eq!(upload(&repository, bytes).await.unwrap(), Pushed::Sent);
        let before = count(&server, "PUT");
        assert_eq!(upload(&repository, bytes).await.unwrap(), Pushed::Existed);
        let mut begun = repository.upload();
        begun.begin().await.unwrap();
        begun.write(Bytes::copy_from_slice(bytes)).await.unwrap();
        assert_eq!(begun.finish(&Digest::of(bytes)).await.unwrap(), Pushed::Existed);
        assert_eq!(count(&server, "PUT"), before);
        assert!(fake.state().uploads.is_empty());
    }
}

#[tokio::test]
async fn what_was_begun_early_is_gone_on_with() {
    let fake = Fake::default();
    let server = serve(&fake, |_, reply| reply);
    let repository = repository(quick(), &server, "x");
    let bytes = sample(LEN);
    for (bytes, lost) in [(&bytes[..], false), (&bytes[1..], true), (&bytes[..9], false), (&bytes[..8], true)] {
        let mut upload = repository.upload();
        upload.begin().await.unwrap();
        if lost {
            fake.state().uploads.clear();
        }
        let before = count(&server, "POST");
        upload.write(Bytes::copy_from_slice(bytes)).await.unwrap();
        assert_eq!(upload.finish(&Digest::of(bytes)).await.unwrap(), Pushed::Sent);
        assert!(has(&fake, bytes));
        assert_eq!(count(&server, "POST") - before, usize::from(lost));
    }
}

/// The registry says that it has stored a manifest, and has nothing there, or another one.
#[tokio::test]
async fn a_manifest_is_read_back() {
    let manifest = ImageManifest::new(Descriptor::of(media::OCI_CONFIG, b"{}"), Vec::new()).to_bytes();
    let other = ImageManifest::new(Descriptor::of(media::OCI_CONFIG, b"{ }"), Vec::new()).to_bytes();
    let tag = Target::Tag(Tag::parse("v1").unwrap());
    for there in [None, Some(other), Some(b"{}".to_vec())] {
        let fake = Fake::default();
        if let Some(there) = &there {
            fake.manifest("v1", media::OCI_MANIFEST, there);
        }
        let answers = fake.clone();
        let server = Server::start(move |seen| match seen.method.as_str() {
            "PUT" => Reply::new(201).header("docker-content-digest", Digest::of(&seen.body).to_string()),
            _ => answers.answer(seen),
        });
        let repository = repository(quick(), &server, "x");
        let error = repository.put_manifest(&tag, media::OCI_MANIFEST, manifest.clone()).await.unwrap_err();
        assert_eq!(error.kind(), Kind::Mismatch, "{error}");
        assert!(error.to_string().contains(&Digest::of(&manifest).to_string()), "{error}");
    }
    // It may take a moment to be seen everywhere, and who pushes may not be allowed to pull.
    for late in [404, 403] {
        let fake = Fake::default();
        let first = AtomicBool::new(true);
        let server = serve(&fake, move |seen, reply| match seen.method.as_str() {
            "GET" if seen.target.contains("manifests") && (late == 403 || first.swap(false, Ordering::SeqCst)) => {
                Reply::new(late)
            }
            _ => reply,
        });
        let repository = repository(quick(), &server, "x");
        repository.put_manifest(&tag, media::OCI_MANIFEST, manifest.clone()).await.unwrap();
    }
}

/// From another task, whatever is on its way: here chunks that are never answered.
#[tokio::test]
async fn a_push_can_be_given_up_from_elsewhere() {
    let bytes = sample(LEN);
    for way in 0..2 {
        let fake = Fake::default();
        let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
        let answers = fake.clone();
        let server = Server::start(move |seen| match seen.method.as_str() {
            "PATCH" | "PUT" => {
                let _ = tell.send(());
                Reply::raw("HTTP/1.1 ").stall()
            }
            _ => answers.answer(seen),
        });
        let repository = repository(quick(), &server, "x");
        let (pushing, content) = (repository.clone(), bytes.clone());
        let pushing = tokio::spawn(async move {
            match way {
                0 => push(&pushing, &content).await,
                _ => upload(&pushing, &content).await,
            }
        });
        told.recv().await.unwrap();
        assert_eq!(fake.state().uploads.len(), 1);
        repository.give_up().await;
        assert!(fake.state().uploads.is_empty());
        let error = pushing.await.unwrap().unwrap_err();
        assert!(error.to_string().contains("given up"), "{error}");
        // Nothing is begun after that.
        upload(&repository, &bytes[1..]).await.unwrap_err();
        let manifest = ImageManifest::new(Descriptor::of(media::OCI_CONFIG, b"{}"), Vec::new()).to_bytes();
        let tag = Target::Tag(Tag::parse("v1").unwrap());
        repository.put_manifest(&tag, media::OCI_MANIFEST, manifest).await.unwrap_err();
        assert!(fake.state().manifests.is_empty() && fake.state().uploads.is_empty());
    }
}

/// Uploads that failed, which the registry would keep for a day.
#[tokio::test]
async fn what_failed_is_forgotten_with_the_rest() {
    let fake = Fake::default();
    let server = refusing(&fake, |seen| seen.method == "PATCH", || Reply::new(503));
    let repository = repository(quick(), &server, "x");
    assert_eq!(upload(&repository, &sample(LEN)).await.unwrap_err().kind(), Kind::Transient);
    assert_eq!(fake.state().uploads.len(), 1);
    repository.give_up().await;
    assert!(fake.state().uploads.is_empty());
}

/// Nobody is there: known after few attempts. Once it has answered, it is waited for as usual.
#[tokio::test]
async fn a_registry_that_never_answered_is_not_tried_as_often() {
    let config = || dvcr_client::Config { first_attempts: 2, ..quick() };
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let nobody = Host::parse(&nobody.to_string()).unwrap();
    let nobody = client(config()).repository(&nobody, &Name::parse("x").unwrap());
    let error = nobody.upload().begin().await.unwrap_err();
    assert!(error.is_transient() && error.to_string().contains("(after 2 attempts)"), "{error}");
    let server = Server::start(|seen| if seen.target == "/v2/" { Reply::ok("") } else { Reply::raw("") });
    let error = repository(config(), &server, "x").upload().begin().await.unwrap_err();
    assert!(error.is_transient() && error.to_string().contains("after 5 attempts"), "{error}");
}

/// Errors name the options of their side.
#[tokio::test]
async fn a_refusal_names_the_options_that_help() {
    let server = Server::start(|seen| match seen.target.as_str() {
        "/v2/" => Reply::ok(""),
        target if target.contains("/denied/") => error(403, "DENIED", "no"),
        _ => Reply::new(401).header("www-authenticate", "Basic"),
    });
    for (side, options) in [
        (dvcr_transport::Side::Source, "--user and --password-file, or --auth-file"),
        (dvcr_transport::Side::Target, "--target-user and --target-password-file, or --target-auth-file"),
    ] {
        let config = || {
            let transport = dvcr_transport::Config { side, ..quick().transport };
            dvcr_client::Config { transport, ..quick() }
        };
        for name in ["x", "denied"] {
            let error = repository(config(), &server, name).upload().begin().await.unwrap_err();
            assert_eq!(error.kind(), Kind::Denied);
            assert!(error.to_string().contains(options), "{error}");
        }
    }
}
