//! Other places to have images from.

use dvcr_client::{Config, Keyring, Kind, Login, Mirror, Pulls, Route};
use dvcr_oci::Digest;
use fixtures::http::{Authority, Reply, Server, Settings};

use super::fake::{Fake, error};
use super::{client, quick, reference};

fn serve(fake: &Fake) -> Server {
    let fake = fake.clone();
    Server::start(move |seen| fake.answer(seen))
}

fn mirror(at: &Server) -> Mirror {
    Mirror { at: at.address().to_string(), ..Mirror::default() }
}

fn route(of: &Server, mirrors: Vec<Mirror>) -> Route {
    Route { of: of.address().to_string(), mirrors, ..Route::default() }
}

fn mirrored(of: &Server, mirrors: Vec<Mirror>) -> Config {
    Config { routes: vec![route(of, mirrors)], ..quick() }
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
    let config = || mirrored(&origin, vec![mirror(&first), mirror(&second)]);
    assert_eq!(layer(config(), &origin, "x:both").await.unwrap(), b"from two");
    assert!(!first.seen().is_empty() && origin.seen().is_empty());
    assert_eq!(layer(config(), &origin, "x:last").await.unwrap(), b"from three");
    let error = layer(config(), &origin, "x:none").await.unwrap_err();
    assert_eq!(error.kind(), Kind::NotFound);
    let text = error.to_string();
    for server in [&first, &second, &origin] {
        assert!(text.contains(&server.address().to_string()), "{text}");
    }
    assert!(!text.contains("latest"), "{text}");
    let untagged = layer(config(), &origin, "x").await.unwrap_err().to_string();
    assert!(untagged.contains("where no tag is given, :latest is meant"), "{untagged}");
    // As they were asked.
    assert!(text.starts_with(&format!("mirror: {}", first.url("/"))), "{text}");
    assert!(text.contains(&format!("; then registry: {}", origin.url("/"))), "{text}");
}

#[tokio::test]
async fn a_registry_that_is_away_is_not_missed() {
    let fake = Fake::default();
    fake.image("v1", "linux/amd64", b"layer");
    let origin = serve(&Fake::default());
    let at = serve(&fake);
    let config = mirrored(&origin, vec![mirror(&at)]);
    let reference = reference(&origin, "x:v1");
    drop(origin);
    let image = client(config).resolve(&reference, None).await.unwrap();
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
        let config = mirrored(&origin, vec![mirror(&bad)]);
        assert_eq!(layer(config, &origin, &format!("x@{digest}")).await.unwrap(), b"layer");
    }
    // One that has the manifest and not the layer, which the registry has.
    let half = fake.clone();
    let layer_path = format!("blobs/{}", Digest::of(b"layer"));
    let bad = Server::start(move |seen| match seen.target.ends_with(&layer_path) {
        true => error(404, "BLOB_UNKNOWN", "no"),
        false => half.answer(seen),
    });
    let config = mirrored(&origin, vec![mirror(&bad)]);
    assert_eq!(layer(config, &origin, "x:v1").await.unwrap(), b"layer");
}

#[tokio::test]
async fn a_mirror_of_old_tags_is_asked_for_digests_only() {
    let (old, new) = (Fake::default(), Fake::default());
    let stale = old.image("v1", "linux/amd64", b"old").digest;
    new.image("v1", "linux/amd64", b"new");
    let (at, origin) = (serve(&old), serve(&new));
    let config = mirrored(&origin, vec![Mirror { pulls: Pulls::ByDigest, ..mirror(&at) }]);
    assert_eq!(layer(config.clone(), &origin, "x:v1").await.unwrap(), b"new");
    assert_eq!(layer(config, &origin, &format!("x:v1@{stale}")).await.unwrap(), b"old");
    let config = mirrored(&origin, vec![Mirror { pulls: Pulls::ByTag, ..mirror(&at) }]);
    assert_eq!(layer(config.clone(), &origin, "x:v1").await.unwrap(), b"old");
    assert_eq!(layer(config, &origin, &format!("x@{stale}")).await.unwrap_err().kind(), Kind::NotFound);
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
    let trusted = Mirror { ca_files: vec![ca.clone()], keyring, ..mirror(&at) };
    let config = |mirror: Mirror| {
        let keyring = Keyring::only(Login::Basic { user: "origin".into(), password: "pw".into() });
        Config { keyring, ..mirrored(&origin, vec![mirror]) }
    };
    assert_eq!(layer(config(trusted.clone()), &origin, "x:v1").await.unwrap(), b"layer");
    // Credentials and trust of the registry are not those of the mirror.
    let error =
        layer(config(Mirror { keyring: Keyring::default(), ..trusted.clone() }), &origin, "x:v1").await.unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("wants credentials") && text.contains("with --auth-file") && !text.contains("--user"),
        "{text}"
    );
    let mut theirs = config(Mirror { ca_files: Vec::new(), ..trusted });
    theirs.transport.ca_files = vec![ca];
    let error = layer(theirs, &origin, "x:v1").await.unwrap_err();
    assert!(error.to_string().contains("not trusted"), "{error}");
}

#[tokio::test]
async fn the_route_that_says_most_counts_alone() {
    let (fake, elsewhere) = (Fake::default(), Fake::default());
    for name in ["v1", "v2"] {
        fake.image(name, "linux/amd64", b"at its own place");
        elsewhere.image(name, "linux/amd64", b"elsewhere");
    }
    let (origin, other, never) = (serve(&fake), serve(&elsewhere), serve(&Fake::default()));
    let of = |path: &str| format!("{}{path}", origin.address());
    let location = Some(format!("{}/moved", other.address()));
    let routes = vec![
        route(&origin, vec![mirror(&never)]),
        Route { of: of("/team"), location, ..Route::default() },
        Route { of: of("/team/secret"), blocked: true, mirrors: vec![mirror(&other)], ..Route::default() },
    ];
    let config = || Config { routes: routes.clone(), ..quick() };
    assert_eq!(layer(config(), &origin, "team/x:v1").await.unwrap(), b"elsewhere");
    assert!(other.seen().iter().any(|seen| seen.target == "/v2/moved/x/manifests/v1"));
    assert!(never.seen().is_empty() && origin.seen().is_empty());
    for blocked in ["team/secret:v1", "team/secret/x:v1"] {
        let error = layer(config(), &origin, blocked).await.unwrap_err();
        assert_eq!(error.kind(), Kind::Refused);
        assert!(error.to_string().contains("is blocked"), "{error}");
    }
    assert_eq!(layer(config(), &origin, "team/secrets:v1").await.unwrap(), b"elsewhere");
    assert_eq!(layer(config(), &origin, "teams/x:v1").await.unwrap(), b"at its own place");
    assert!(!never.seen().is_empty());
}

/// RG30: nobody else is trusted because one is.
#[tokio::test]
async fn only_the_one_that_is_named_need_not_prove_who_it_is() {
    let fake = Fake::default();
    fake.image("v1", "linux/amd64", b"layer");
    let secure = |fake: &Fake| {
        let settings =
            Settings { identity: Some(Authority::new("nobody").issue(&["127.0.0.1"])), ..Settings::default() };
        let fake = fake.clone();
        Server::with(settings, move |seen| fake.answer(seen))
    };
    let (origin, at) = (secure(&fake), secure(&fake));
    let trusting = |insecure, mirror_insecure| {
        let mirrors = vec![Mirror { insecure: mirror_insecure, ..mirror(&at) }];
        Config { routes: vec![Route { insecure, ..route(&origin, mirrors) }], ..quick() }
    };
    let error = layer(trusting(false, false), &origin, "x:v1").await.unwrap_err();
    assert!(error.to_string().matches("not trusted").count() == 2, "{error}");
    assert_eq!(layer(trusting(false, true), &origin, "x:v1").await.unwrap(), b"layer");
    assert!(!at.seen().is_empty() && origin.seen().is_empty());
    let before = at.seen().len();
    assert_eq!(layer(trusting(true, false), &origin, "x:v1").await.unwrap(), b"layer");
    assert!(at.seen().len() == before && !origin.seen().is_empty());
}
