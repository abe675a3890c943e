//! Who we are, in every dialect.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use dvcr_client::{Client, Config, Keyring, Kind, Login, Result};
use dvcr_oci::Digest;
use fixtures::http::{Reply, Seen, Server};

use super::fake::Fake;
use super::{client, quick, reference, repository, sample};

fn login() -> Login {
    Login::Basic { user: "user".into(), password: "s3cret".into() }
}

fn with(login: Login) -> Config {
    Config { keyring: Keyring::only(login), ..quick() }
}

/// `user:s3cret`
const BASIC: &str = "Basic dXNlcjpzM2NyZXQ=";

/// A registry that wants `wanted`, and says `challenge` (with `REALM` in it) until it gets it.
fn registry(challenge: &'static [&'static str], wanted: &'static str, issue: fn(&Seen) -> Reply) -> (Server, Server) {
    let tokens = Server::start(issue);
    let realm = tokens.url("/token");
    let fake = Fake::default();
    fake.image("v1", "linux/amd64", b"layer");
    let server = Server::start(move |seen| {
        if seen.header("authorization") == Some(wanted) {
            return fake.answer(seen);
        }
        challenge
            .iter()
            .fold(Reply::new(401), |reply, line| reply.header("www-authenticate", line.replace("REALM", &realm)))
    });
    (server, tokens)
}

async fn pull(client: &Client, server: &Server) -> Result<()> {
    let image = client.resolve(&reference(server, "team/x:v1"), None).await?;
    image.blob(&image.manifest.layers[0]).bytes(100).await.map(drop)
}

fn issued(seen: &Seen) -> Reply {
    assert!(seen.method == "GET" || seen.method == "POST");
    Reply::ok(r#"{"token":"t1"}"#)
}

#[tokio::test]
async fn every_dialect_of_a_challenge_is_understood() {
    let cases: &[(&'static [&'static str], Option<&str>)] = &[
        (
            &[r#"Bearer realm="REALM",service="s",scope="repository:team/x:pull""#],
            Some("/token?service=s&scope=repository%3Ateam%2Fx%3Apull"),
        ),
        (&[r#"Bearer realm="REALM""#], Some("/token?scope=repository%3Ateam%2Fx%3Apull")),
        (&[r#"bearer realm="REALM?a=b",service="""#], Some("/token?a=b&scope=repository%3Ateam%2Fx%3Apull")),
        (
            &[r#"Bearer realm="REALM",scope="repository:team/x:pull registry:catalog:*""#],
            Some("/token?scope=repository%3Ateam%2Fx%3Apull&scope=registry%3Acatalog%3A%2A"),
        ),
        (&[r#"Basic realm="x", Bearer realm="REALM""#], Some("/token?scope=repository%3Ateam%2Fx%3Apull")),
        (&["Negotiate", r#"Bearer realm="REALM""#], Some("/token?scope=repository%3Ateam%2Fx%3Apull")),
        (&["Bearer"], None),
    ];
    for (challenge, asked) in cases {
        let (server, tokens) = registry(challenge, "Bearer t1", issued);
        let result = pull(&client(quick()), &server).await;
        let seen: Vec<_> = tokens.seen().iter().map(|seen| seen.target.clone()).collect();
        match asked {
            Some(asked) => {
                result.unwrap();
                // One token does for manifest, configuration and layer.
                assert_eq!(seen, [*asked], "{challenge:?}");
            }
            None => assert_eq!((result.unwrap_err().kind(), seen.len()), (Kind::Denied, 0), "{challenge:?}"),
        }
    }
}

#[tokio::test]
async fn a_password_is_shown_to_the_issuer_and_not_to_the_registry() {
    let (server, tokens) =
        registry(&[r#"Bearer realm="REALM",service="s""#], "Bearer t1", |seen| match seen.header("authorization") {
            Some(BASIC) => Reply::ok(r#"{"access_token":"t1","token":""}"#),
            _ => Reply::new(401).body(r#"{"details":"incorrect username or password"}"#),
        });
    pull(&client(with(login())), &server).await.unwrap();
    assert!(tokens.seen()[0].target.starts_with("/token?account=user&service=s&"));
    assert!(server.seen().iter().all(|seen| seen.header("authorization") != Some(BASIC)));
    let wrong = Login::Basic { user: "user".into(), password: "wrong-s3cret".into() };
    let error = pull(&client(with(wrong)), &server).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Denied);
    assert!(error.to_string().contains("incorrect username or password"), "{error}");
    assert!(error.to_string().contains(&tokens.url("/token")) && !error.to_string().contains("s3cret"), "{error}");
}

#[tokio::test]
async fn basic_authentication_is_enough_for_some() {
    for challenge in [&[r#"Basic realm="x""#][..], &["BASIC"], &[]] {
        let (server, _tokens) = registry(Box::leak(challenge.into()), BASIC, issued);
        pull(&client(with(login())), &server).await.unwrap();
        // Nothing is said before it is asked for, and then it is said at once.
        let refused = server.seen().iter().filter(|seen| seen.header("authorization").is_none()).count();
        assert_eq!(refused, 2, "the probe and the first request");
        let wrong = Login::Basic { user: "user".into(), password: "wrong".into() };
        let error = pull(&client(with(wrong)), &server).await.unwrap_err();
        assert_eq!(error.kind(), Kind::Denied);
        assert!(error.to_string().contains("the credentials given for the user user were refused"), "{error}");
        let error = pull(&client(quick()), &server).await.unwrap_err();
        assert!(error.to_string().contains("/v2/team/x/manifests/v1: the server wants credentials"), "{error}");
    }
}

#[tokio::test]
async fn tokens_that_are_given_are_used() {
    let (server, tokens) = registry(&[r#"Bearer realm="REALM",service="s s""#], "Bearer t1", |seen| {
        let form = String::from_utf8(seen.body.clone()).unwrap();
        assert_eq!(seen.method, "POST");
        assert_eq!(
            form,
            "grant_type=refresh_token&refresh_token=id%2Btoken&client_id=millrace&service=s%20s&scope=repository%3Ateam%2Fx%3Apull"
        );
        Reply::ok(r#"{"access_token":"t1","expires_in":300}"#)
    });
    pull(&client(with(Login::Identity("id+token".into()))), &server).await.unwrap();
    assert_eq!(tokens.seen().len(), 1);
    pull(&client(with(Login::Bearer("t1".into()))), &server).await.unwrap();
    assert_eq!(tokens.seen().len(), 1);
    assert_eq!(pull(&client(with(Login::Bearer("t2".into()))), &server).await.unwrap_err().kind(), Kind::Denied);
}

#[tokio::test]
async fn an_issuer_that_wants_a_form_gets_one_and_one_that_fails_is_asked_again() {
    let (server, tokens) = registry(&[r#"Bearer realm="REALM""#], "Bearer t1", |seen| {
        if seen.method == "GET" {
            return Reply::new(405);
        }
        assert!(seen.body.starts_with(b"grant_type=password&username=user&password=s3cret&"));
        Reply::ok(r#"{"access_token":"t1"}"#)
    });
    pull(&client(with(login())), &server).await.unwrap();
    assert_eq!(tokens.seen().len(), 2);
    static FAILURES: AtomicUsize = AtomicUsize::new(0);
    let (server, _tokens) =
        registry(&[r#"Bearer realm="REALM""#], "Bearer t1", |_| match FAILURES.fetch_add(1, Ordering::SeqCst) {
            0 => Reply::new(503),
            1 => Reply::new(429).header("retry-after", "0"),
            2 => Reply::ok("").claim(100),
            _ => Reply::ok(r#"{"token":"t1"}"#),
        });
    pull(&client(quick()), &server).await.unwrap();
    let (server, _tokens) = registry(&[r#"Bearer realm="REALM""#], "Bearer t1", |_| Reply::ok("{}"));
    let error = pull(&client(quick()), &server).await.unwrap_err();
    assert!(error.to_string().contains("it gave no token"), "{error}");
}

/// A registry whose tokens are good for `requests` requests each, and how many tokens it has issued.
fn forgetful(fake: Fake, requests: usize) -> (Server, Server, Arc<AtomicUsize>) {
    let issued = Arc::<AtomicUsize>::default();
    let left = Arc::new(Mutex::new((0, 0)));
    let (count, fresh) = (Arc::clone(&issued), Arc::clone(&left));
    let tokens = Server::start(move |_| {
        let number = count.fetch_add(1, Ordering::SeqCst) + 1;
        *fresh.lock().unwrap() = (number, requests);
        Reply::ok(format!(r#"{{"token":"t{number}","expires_in":300}}"#))
    });
    let realm = tokens.url("/token");
    let server = Server::start(move |seen| {
        let mut left = left.lock().unwrap();
        if left.1 > 0 && seen.header("authorization") == Some(format!("Bearer t{}", left.0).as_str()) {
            left.1 -= 1;
            return fake.answer(seen);
        }
        Reply::new(401).header("www-authenticate", format!("Bearer realm=\"{realm}\""))
    });
    (server, tokens, issued)
}

#[tokio::test]
async fn tokens_expire_in_the_middle_of_a_pull() {
    let fake = Fake::default();
    let bytes = sample(9_000_000);
    fake.image("v1", "linux/amd64", &bytes);
    let (server, _tokens, issued) = forgetful(fake, 2);
    let mut config = quick();
    config.transport.connections = 1;
    let image = client(config).resolve(&reference(&server, "team/x:v1"), None).await.unwrap();
    assert_eq!(image.blob(&image.manifest.layers[0]).bytes(10_000_000).await.unwrap(), bytes);
    assert!(issued.load(Ordering::SeqCst) > 2, "{issued:?}");
}

#[tokio::test]
async fn tokens_expire_in_the_middle_of_a_push() {
    let fake = Fake::default();
    let (server, tokens, issued) = forgetful(fake.clone(), 3);
    let bytes = sample(9_000_000);
    let mut upload = repository(quick(), &server, "team/x").upload();
    for piece in bytes.chunks(100_000) {
        upload.write(bytes::Bytes::copy_from_slice(piece)).await.unwrap();
    }
    upload.finish(&Digest::of(&bytes)).await.unwrap();
    assert!(fake.state().blobs[&Digest::of(&bytes).to_string()] == bytes);
    assert!(issued.load(Ordering::SeqCst) > 3, "{issued:?}");
    assert!(tokens.seen().iter().all(|seen| seen.target.ends_with("scope=repository%3Ateam%2Fx%3Apull%2Cpush")));
}

#[tokio::test]
async fn a_registry_behind_tls_can_not_have_tokens_had_in_the_open() {
    use fixtures::http::{Authority, Settings};
    let identity = Authority::new("test").issue(&["127.0.0.1"]);
    let server = Server::with(Settings { identity: Some(identity), ..Settings::default() }, |_| {
        Reply::new(401).header("www-authenticate", "Bearer realm=\"http://tokens.example/token\"")
    });
    let mut config = with(login());
    let directory = tempfile::tempdir().unwrap();
    let ca = directory.path().join("ca.pem");
    let authority = Authority::new("other");
    std::fs::write(&ca, authority.pem()).unwrap();
    config.transport.ca_files = vec![ca];
    let server_of_ours =
        Server::with(Settings { identity: Some(authority.issue(&["127.0.0.1"])), ..Settings::default() }, |_| {
            Reply::new(401).header("www-authenticate", "Bearer realm=\"http://tokens.example/token\"")
        });
    let error = pull(&client(config.clone()), &server_of_ours).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Refused);
    assert!(error.to_string().contains("http://tokens.example/token, which is not secure"), "{error}");
    // And one whose certificate nobody knows is not told anything at all.
    let error = pull(&client(config), &server).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Refused);
    assert!(error.to_string().contains("not trusted") && server.seen().is_empty(), "{error}");
}
