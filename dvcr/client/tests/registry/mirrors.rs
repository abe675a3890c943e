//! Other places to have images from.

use dvcr_client::{Config, Keyring, Kind, Login, Mirror};
use dvcr_oci::Digest;
use fixtures::http::{Authority, Reply, Server, Settings};

use super::fake::{Fake, error};
use super::{client, quick, reference};

fn serve(fake: &Fake) -> Server {
    let fake = fake.clone();
    Server::start(move |seen| fake.answer(seen))
}

fn mirror(of: &Server, at: &Server) -> Mirror {
    Mirror { of: of.address().to_string(), at: at.address().to_string(), ..Mirror::default() }
}

async fn layer(config: Config, server: &Server, rest: &str) -> dvcr_client::Result<Vec<u8>> {
    let image = client(config).resolve(&reference(server, rest), None).await?;
    Ok(image.blob(&image.manifest.layers[0]).bytes(100).await?.to_vec())
}

#[tokio::test]
async fn they_are_asked_in_order_and_the_registry_last() {
    let (one, two, three) = (Fake::default(), Fake::default(), Fake::default());
    two.image("both", "linux/amd64", b"from two");
    three.image("both", "linux/amd64", b"from three");
    three.image("last", "linux/amd64", b"from three");
    let (first, second, origin) = (serve(&one), serve(&two), serve(&three));
    let config = || Config { mirrors: vec![mirror(&origin, &first), mirror(&origin, &second)], ..quick() };
    assert_eq!(layer(config(), &origin, "x:both").await.unwrap(), b"from two");
    assert!(!first.seen().is_empty() && origin.seen().is_empty());
    assert_eq!(layer(config(), &origin, "x:last").await.unwrap(), b"from three");
    let error = layer(config(), &origin, "x:none").await.unwrap_err();
    assert_eq!(error.kind(), Kind::NotFound);
    let text = error.to_string();
    for server in [&first, &second, &origin] {
        assert!(text.contains(&server.address().to_string()), "{text}");
    }
    assert!(text.starts_with(&format!("registry: {}", origin.url("/"))), "{text}");
    assert!(text.contains("(and before it mirror: http"), "{text}");
}

#[tokio::test]
async fn a_registry_that_is_away_is_not_missed() {
    let fake = Fake::default();
    fake.image("v1", "linux/amd64", b"layer");
    let origin = serve(&Fake::default());
    let at = serve(&fake);
    let mirrors = vec![mirror(&origin, &at)];
    let reference = reference(&origin, "x:v1");
    drop(origin);
    let image = client(Config { mirrors, ..quick() }).resolve(&reference, None).await.unwrap();
    assert_eq!(image.blob(&image.manifest.layers[0]).bytes(100).await.unwrap(), "layer");
}

#[tokio::test]
async fn a_mirror_that_fails_or_lies_is_passed_by() {
    let fake = Fake::default();
    let digest = fake.image("v1", "linux/amd64", b"layer").digest;
    let origin = serve(&fake);
    for answer in [
        || Reply::new(503),
        || Reply::new(401).header("www-authenticate", "Basic"),
        || Reply::ok("<html>a page</html>"),
        || Reply::raw(""),
        || error(404, "MANIFEST_UNKNOWN", "no"),
    ] {
        let bad = Server::start(move |seen| if seen.target == "/v2/" { Reply::ok("") } else { answer() });
        let config = Config { mirrors: vec![mirror(&origin, &bad)], ..quick() };
        assert_eq!(layer(config, &origin, &format!("x@{digest}")).await.unwrap(), b"layer");
    }
    // One that has the manifest and not the layer, which the registry has.
    let half = fake.clone();
    let layer_path = format!("blobs/{}", Digest::of(b"layer"));
    let bad = Server::start(move |seen| match seen.target.ends_with(&layer_path) {
        true => error(404, "BLOB_UNKNOWN", "no"),
        false => half.answer(seen),
    });
    let config = Config { mirrors: vec![mirror(&origin, &bad)], ..quick() };
    assert_eq!(layer(config, &origin, "x:v1").await.unwrap(), b"layer");
}

#[tokio::test]
async fn a_mirror_of_old_tags_is_asked_for_digests_only() {
    let (old, new) = (Fake::default(), Fake::default());
    let stale = old.image("v1", "linux/amd64", b"old").digest;
    new.image("v1", "linux/amd64", b"new");
    let (at, origin) = (serve(&old), serve(&new));
    let mirrors = vec![Mirror { by_digest_only: true, ..mirror(&origin, &at) }];
    let config = Config { mirrors, ..quick() };
    assert_eq!(layer(config.clone(), &origin, "x:v1").await.unwrap(), b"new");
    assert_eq!(layer(config, &origin, &format!("x:v1@{stale}")).await.unwrap(), b"old");
}

#[tokio::test]
async fn each_has_its_own_trust_and_credentials() {
    let fake = Fake::default();
    fake.image("v1", "linux/amd64", b"layer");
    let authority = Authority::new("mirror");
    let answers = fake.clone();
    let settings = Settings { identity: Some(authority.issue(&["127.0.0.1"])), ..Settings::default() };
    let at = Server::with(settings, move |seen| match seen.header("authorization") {
        Some("Basic bWlycm9yOnB3") => answers.answer(seen),
        _ => Reply::new(401).header("www-authenticate", "Basic"),
    });
    let origin = serve(&Fake::default());
    let directory = tempfile::tempdir().unwrap();
    let ca = directory.path().join("ca.pem");
    std::fs::write(&ca, authority.pem()).unwrap();
    let keyring = Keyring::only(Login::Basic { user: "mirror".into(), password: "pw".into() });
    let trusted = Mirror { ca_files: vec![ca.clone()], keyring, ..mirror(&origin, &at) };
    let config = |mirror: Mirror| {
        let keyring = Keyring::only(Login::Basic { user: "origin".into(), password: "pw".into() });
        Config { mirrors: vec![mirror], keyring, ..quick() }
    };
    assert_eq!(layer(config(trusted.clone()), &origin, "x:v1").await.unwrap(), b"layer");
    // Credentials and trust of the registry are not those of the mirror.
    let error =
        layer(config(Mirror { keyring: Keyring::default(), ..trusted.clone() }), &origin, "x:v1").await.unwrap_err();
    assert!(error.to_string().contains("wants credentials"), "{error}");
    let mut theirs = config(Mirror { ca_files: Vec::new(), ..trusted });
    theirs.transport.ca_files = vec![ca];
    let error = layer(theirs, &origin, "x:v1").await.unwrap_err();
    assert!(error.to_string().contains("not trusted"), "{error}");
}
