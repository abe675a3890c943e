//! Who may come in.

#![allow(clippy::unwrap_used, reason = "this is a test; clippy allows it only inside the test functions")]

mod support;

use fixtures::http::Call;
use fixtures::oci::push;
use fixtures::registry::{Config, Tokens};
use serde_json::json;
use support::{dvcr, image};

fn basic(user: &str, password: &str) -> String {
    use base64::Engine;
    format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(format!("{user}:{password}")))
}

fn status(wire: &fixtures::http::Wire, method: &str, target: &str) -> u16 {
    wire.send(&Call::new(method, target)).unwrap().status
}

#[test]
fn passwords() {
    let registry = dvcr().login("admin", "geheim").start();
    let nobody = registry.wire();
    let answer = nobody.send(&Call::new("GET", "/v2/")).unwrap();
    assert_eq!((answer.status, answer.header("www-authenticate")), (401, Some("Basic realm=\"dvcr\"")));
    assert_eq!(answer.json()["errors"][0]["code"], "UNAUTHORIZED");
    for wrong in
        [basic("admin", "wrong"), basic("nobody", "geheim"), basic("admin", ""), "Basic ???".into(), "x".into()]
    {
        assert_eq!(status(&registry.wire().header("Authorization", &wrong), "GET", "/v2/"), 401, "{wrong}");
    }
    let admin = registry.wire().header("Authorization", &basic("admin", "geheim"));
    push(&admin, "a", "v1", &image(b"layer"));
    assert_eq!(status(&admin, "GET", "/v2/_catalog"), 200);
    assert_eq!(status(&nobody, "GET", "/v2/a/manifests/v1"), 401);
    assert_eq!(status(&nobody, "GET", "/healthz"), 200);
}

#[test]
fn who_may_only_pull() {
    let readers = tempfile::NamedTempFile::new().unwrap();
    let hash = bcrypt::hash("lesen", 4).unwrap();
    std::fs::write(readers.path(), format!("reader:{hash}\n")).unwrap();
    let file = readers.path().to_str().unwrap();
    let registry = dvcr().login("admin", "geheim").with("--htpasswd-pull").with(file).start();
    let manifest = image(b"layer");
    push(&registry.wire().header("Authorization", &basic("admin", "geheim")), "a", "v1", &manifest);
    let reader = registry.wire().header("Authorization", &basic("reader", "lesen"));
    for target in ["/v2/", "/v2/a/manifests/v1", "/v2/a/tags/list", "/v2/_catalog"] {
        assert_eq!(status(&reader, "GET", target), 200, "{target}");
    }
    let answer = reader.send(&Call::new("POST", "/v2/a/blobs/uploads/")).unwrap();
    assert_eq!((answer.status, answer.json()["errors"][0]["code"].as_str()), (403, Some("DENIED")));
    assert_eq!(status(&reader, "PUT", "/v2/a/manifests/v2"), 403);
    assert_eq!(status(&reader, "DELETE", &format!("/v2/a/manifests/{}", manifest.digest())), 403);
    assert_eq!(status(&registry.wire().header("Authorization", &basic("reader", "geheim")), "GET", "/v2/"), 401);
    assert_eq!(status(&registry.wire(), "GET", "/v2/a/manifests/v1"), 401);
    assert!(!registry.said().contains("nobody can push"));
    // Without another file nobody may push.
    let registry = dvcr().with("--htpasswd-pull").with(file).start();
    assert_eq!(status(&registry.wire(), "POST", "/v2/a/blobs/uploads/"), 401);
    let reader = registry.wire().header("Authorization", &basic("reader", "lesen"));
    assert_eq!(status(&reader, "POST", "/v2/a/blobs/uploads/"), 403);
    assert!(registry.said().contains("nobody can push"), "{}", registry.said());
}

#[test]
fn who_may_do_everything_is_not_among_those_who_may_only_pull() {
    let dir = tempfile::tempdir().unwrap();
    let hash = bcrypt::hash("geheim", 4).unwrap();
    let file = |name: &str, users: &[&str]| {
        let path = dir.path().join(name);
        let lines: Vec<_> = users.iter().map(|user| format!("{user}:{hash}\n")).collect();
        std::fs::write(&path, lines.concat()).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (all, pull) = (file("all", &["admin", "ci"]), file("pull", &["reader", "admin"]));
    let root = dir.path().join("root");
    let output =
        support::run("serve", &root, &["--listen", "127.0.0.1:0", "--htpasswd", &all, "--htpasswd-pull", &pull]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains(&format!("admin is in {all} and in {pull}")), "{said}");
}

#[test]
fn anonymous_pull() {
    let registry = dvcr().login("admin", "geheim").with("--anonymous-pull").start();
    let nobody = registry.wire();
    push(&registry.wire().header("Authorization", &basic("admin", "geheim")), "a", "v1", &image(b"layer"));
    assert_eq!(status(&nobody, "GET", "/v2/"), 401, "clients ask here what to send");
    assert_eq!(status(&nobody, "GET", "/v2/a/manifests/v1"), 200);
    assert_eq!(status(&nobody, "GET", "/v2/a/tags/list"), 200);
    assert_eq!(status(&nobody, "GET", "/v2/_catalog"), 401);
    assert_eq!(status(&nobody, "POST", "/v2/a/blobs/uploads/"), 401);
    assert_eq!(status(&nobody, "DELETE", "/v2/a/manifests/v1"), 401);
    let wrong = registry.wire().header("Authorization", &basic("admin", "wrong"));
    assert_eq!(status(&wrong, "GET", "/v2/a/manifests/v1"), 401, "wrong credentials are not none");
}

/// With tokens of this issuer and no other, and no place to get them.
fn without_realm(tokens: &Tokens) -> Config {
    let key = tokens.public_key_file();
    [
        "--token-public-key",
        key.to_str().unwrap(),
        "--token-service",
        "fixtures-registry",
        "--token-issuer",
        "fixtures-issuer",
    ]
    .into_iter()
    .fold(dvcr(), |config, one| config.with(one))
}

#[test]
fn scoped_tokens() {
    let tokens = Tokens::start(Vec::new());
    let realm = tokens.realm();
    let registry = dvcr().tokens(&tokens).start();
    let bearer = |token: &str| registry.wire().header("Authorization", &format!("Bearer {token}"));
    let answer = registry.wire().send(&Call::new("GET", "/v2/a/manifests/v1")).unwrap();
    let challenge = format!("Bearer realm=\"{realm}\",service=\"fixtures-registry\",scope=\"repository:a:pull\"");
    assert_eq!((answer.status, answer.header("www-authenticate")), (401, Some(challenge.as_str())));

    let pusher = bearer(&tokens.token(&[("a", "pull,push")]));
    push(&pusher, "a", "v1", &image(b"layer"));
    assert_eq!(status(&pusher, "DELETE", "/v2/a/manifests/v1"), 401);
    let puller = bearer(&tokens.token(&[("a", "pull")]));
    assert_eq!(status(&puller, "GET", "/v2/"), 200);
    assert_eq!(status(&puller, "GET", "/v2/a/manifests/v1"), 200);
    let answer = puller.send(&Call::new("POST", "/v2/a/blobs/uploads/")).unwrap();
    assert_eq!(answer.status, 401);
    assert!(answer.header("www-authenticate").unwrap().ends_with("error=\"insufficient_scope\""));
    assert_eq!(status(&bearer(&tokens.token(&[("b", "pull,push")])), "GET", "/v2/a/manifests/v1"), 401);
    assert_eq!(status(&bearer(&tokens.token(&[("a", "*")])), "DELETE", "/v2/a/manifests/v1"), 202);
    // A blob of a repository that one may not pull from can't be had by a mount.
    let layer = support::blob(b"layer").digest();
    let other = bearer(&tokens.token(&[("b", "pull,push")]));
    for from in ["&from=a", ""] {
        assert_eq!(status(&other, "POST", &format!("/v2/b/blobs/uploads/?mount={layer}{from}")), 202, "{from}");
        let both = bearer(&tokens.token(&[("b", "pull,push"), ("a", "pull")]));
        assert_eq!(status(&both, "POST", &format!("/v2/c/blobs/uploads/?mount={layer}{from}")), 401, "{from}");
    }
    let both = bearer(&tokens.token(&[("b", "pull,push"), ("a", "pull")]));
    assert_eq!(status(&both, "POST", &format!("/v2/b/blobs/uploads/?mount={layer}&from=a")), 201);
}

#[test]
fn tokens_that_are_not_good() {
    let tokens = Tokens::start(Vec::new());
    let strangers = Tokens::start(Vec::new());
    let registry = without_realm(&tokens).start();
    let asks = |authorization: &str| {
        let wire = registry.wire().header("Authorization", authorization);
        wire.send(&Call::new("GET", "/v2/a/tags/list")).unwrap()
    };
    let good = Tokens::claims(&[("a", "pull")]);
    let changed = |key: &str, value: serde_json::Value| {
        let mut claims = good.clone();
        claims[key] = value;
        format!("Bearer {}", tokens.sign(&claims))
    };
    assert_eq!(asks(&changed("jti", json!("x"))).status, 404, "good, and there is no such repository");
    assert_eq!(asks(&basic("dvcr-jwt", &tokens.sign(&good))).status, 404, "also as a password");
    assert_eq!(asks(&changed("aud", json!(["other", "fixtures-registry"]))).status, 404);
    let past = 1_000_000_000;
    let far = 9_000_000_000_u64;
    let mut unsigned: Vec<String> = tokens.sign(&good).split('.').map(str::to_owned).collect();
    unsigned[2].clear();
    let bad = [
        ("expired", changed("exp", json!(past))),
        ("without an end", changed("exp", json!(null))),
        ("not yet", changed("nbf", json!(far))),
        ("for another", changed("aud", json!("other"))),
        ("for nobody", changed("aud", json!(null))),
        ("of another issuer", changed("iss", json!("other"))),
        ("of a stranger", format!("Bearer {}", strangers.sign(&good))),
        ("without a signature", format!("Bearer {}", unsigned.join("."))),
        ("alg none", "Bearer eyJhbGciOiJub25lIn0.e30.".to_owned()),
        ("nothing", "Bearer x".to_owned()),
        ("huge", format!("Bearer {}", "x".repeat(20_000))),
    ];
    for (what, authorization) in bad {
        let answer = asks(&authorization);
        assert_eq!((answer.status, answer.header("www-authenticate")), (401, Some("Basic realm=\"dvcr\"")), "{what}");
    }
    // Good, but not for this: there is nowhere to get another.
    assert_eq!(asks(&format!("Bearer {}", tokens.token(&[("b", "pull")]))).status, 403);
    assert_eq!(asks(&format!("Bearer {}", tokens.token(&[("a/b", "pull"), ("", "*"), ("*", "*")]))).status, 403);
}

#[test]
fn files_are_read_again_when_they_change() {
    let users = tempfile::NamedTempFile::new().unwrap();
    let hash = |password: &str| bcrypt::hash(password, 4).unwrap();
    std::fs::write(users.path(), format!("a:{}\n", hash("one"))).unwrap();
    let registry = dvcr().with("--htpasswd").with(users.path().to_str().unwrap()).start();
    let enters =
        |password: &str| status(&registry.wire().header("Authorization", &basic("a", password)), "GET", "/v2/");
    assert_eq!((enters("one"), enters("two")), (200, 401));
    std::fs::write(users.path(), format!("a:{}\nb:x\n", hash("two"))).unwrap();
    assert_eq!(enters("one"), 200, "a file that makes no sense changes nothing");
    std::fs::write(users.path(), format!("a:{}\n", hash("two"))).unwrap();
    assert_eq!((enters("one"), enters("two")), (401, 200));
}

#[test]
fn a_certificate_is_replaced_while_it_serves() {
    let registry = dvcr().tls().start();
    assert!(registry.url("/").starts_with("https://"));
    push(&registry.wire(), "a", "v1", &image(&support::noise(3 << 20, 1)));
    let stranger = fixtures::http::Authority::new("another");
    registry.present(&stranger.issue(&["localhost", "127.0.0.1"]));
    assert!(registry.wire().send(&Call::new("GET", "/v2/")).is_err(), "the new one is by somebody else");
}
