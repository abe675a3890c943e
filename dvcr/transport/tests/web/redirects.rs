//! Where redirects lead, and what goes along.

use std::sync::atomic::{AtomicUsize, Ordering};

use dvcr_transport::{Config, Kind, Request};
use fixtures::http::{Authority, Object, Reply, Server, Settings};

use super::{failure, read, resource, sample, whole, with};

fn secret() -> Config {
    Config {
        headers: vec![("X-Auth-Token".into(), "token".into()), ("Cookie".into(), "session".into())],
        user: Some("user".into()),
        password: Some("password".into()),
        ..Config::default()
    }
}

const SECRETS: [&str; 3] = ["authorization", "x-auth-token", "cookie"];

#[tokio::test]
async fn every_kind_of_redirect_is_followed() {
    let server = Server::start(|seen| match seen.target.strip_prefix("/") {
        Some("end?a=%2B") => Reply::ok("found"),
        Some("absolute") => Reply::redirect(302, format!("http://{}/end?a=%2B", seen.header("host").unwrap())),
        Some(status) => Reply::redirect(status.parse().unwrap(), "end?a=%2B"),
        None => Reply::new(500),
    });
    for path in ["/301", "/302", "/303", "/307", "/308", "/absolute"] {
        let answer = resource(&server, path).get(&Request::default()).await.unwrap();
        assert_eq!(answer.final_url.to_string(), server.url("/end?…"), "{path}");
        assert_eq!(read(answer).await.unwrap(), b"found", "{path}");
    }
    // The small body of a redirect is read, so that its connection serves the next request.
    assert_eq!((server.seen().len(), server.connections()), (12, 6));
}

#[tokio::test]
async fn ten_redirects_are_followed_and_no_more() {
    let server = Server::start(|seen| match seen.target[1..].parse::<u32>().unwrap() {
        0 => Reply::ok("found"),
        left => Reply::redirect(302, format!("/{}", left - 1)),
    });
    assert_eq!(whole(&resource(&server, "/10")).await, b"found");
    let error = failure(&resource(&server, "/11")).await;
    assert_eq!((error.kind(), error.is_transient()), (Kind::Redirect, false));
    assert!(error.to_string().contains("more than 10"), "{error}");
}

#[tokio::test]
async fn a_circle_is_found() {
    let server = Server::start(|seen| Reply::redirect(302, if seen.target == "/a" { "/b" } else { "/a" }));
    let error = failure(&resource(&server, "/a")).await;
    assert_eq!((error.kind(), error.is_transient()), (Kind::Redirect, false));
    assert!(error.to_string().contains("circle"), "{error}");
    assert_eq!(server.seen().len(), 2);
    let server = Server::start(|_| Reply::redirect(302, ""));
    assert_eq!(failure(&resource(&server, "/")).await.kind(), Kind::Redirect);
    assert_eq!(server.seen().len(), 1);
}

/// HT37.
#[tokio::test]
async fn credentials_stay_with_their_origin() {
    let back = std::sync::Arc::new(std::sync::Mutex::new(String::new()));
    let elsewhere = {
        let back = std::sync::Arc::clone(&back);
        Server::start(move |_| Reply::redirect(302, back.lock().unwrap().clone()))
    };
    let away = elsewhere.url("/away?q");
    let server = Server::start(move |seen| match seen.target.as_str() {
        "/start" => Reply::redirect(302, "/same"),
        "/same" => Reply::redirect(307, away.clone()),
        _ => Reply::ok("found"),
    });
    *back.lock().unwrap() = server.url("/end");
    let resource = with(secret(), &server.url("/start"));
    assert_eq!(whole(&resource).await, b"found");
    for seen in server.seen() {
        for name in SECRETS {
            assert!(seen.header(name).is_some(), "{} without {name}", seen.target);
        }
    }
    let seen = elsewhere.seen();
    assert_eq!(seen.len(), 1);
    for name in SECRETS {
        assert_eq!(seen[0].header(name), None);
    }
}

/// HT37.
#[tokio::test]
async fn another_name_of_the_same_server_gets_no_credentials() {
    let server = Server::start(|seen| match seen.target.as_str() {
        "/start" => {
            let port = seen.header("host").unwrap().rsplit_once(':').unwrap().1;
            Reply::redirect(302, format!("http://localhost:{port}/end"))
        }
        _ => Reply::ok("found"),
    });
    let url = server.url("/start").replace("http://", "http://a:b@");
    assert_eq!(whole(&with(Config::default(), &url)).await, b"found");
    let seen = server.seen();
    assert_eq!(seen[0].header("authorization"), Some("Basic YTpi"));
    assert_eq!(seen[1].header("authorization"), None);
}

#[tokio::test]
async fn a_redirect_out_of_tls_is_refused() {
    let authority = Authority::new("test");
    let folder = tempfile::tempdir().unwrap();
    let ca = folder.path().join("ca");
    std::fs::write(&ca, authority.pem()).unwrap();
    let plain = Server::start(|_| Reply::ok("found"));
    let to = plain.url("/end?q=s3cret");
    let settings = Settings { identity: Some(authority.issue(&["127.0.0.1"])), ..Settings::default() };
    let secure = Server::with(settings, move |_| Reply::redirect(302, to.clone()));
    let config = Config { ca_files: vec![ca], ..Config::default() };
    let error = failure(&with(config, &secure.url("/"))).await;
    assert_eq!((error.kind(), error.is_transient()), (Kind::Redirect, false));
    assert!(error.to_string().contains("not secure") && !error.to_string().contains("s3cret"), "{error}");
    assert_eq!(plain.seen().len(), 0);
    let config = Config { insecure: true, ..Config::default() };
    assert_eq!(whole(&with(config, &secure.url("/"))).await, b"found");
}

#[tokio::test]
async fn a_redirect_to_metadata_or_another_scheme_is_refused() {
    for (location, kind) in [
        ("http://169.254.169.254/latest/meta-data/", Kind::Forbidden),
        ("http://[::ffff:169.254.169.254]/", Kind::Forbidden),
        ("file:///etc/passwd", Kind::Redirect),
        ("ftp://host/x", Kind::Redirect),
    ] {
        let server = Server::start(move |_| Reply::redirect(302, location));
        let error = failure(&resource(&server, "/")).await;
        assert_eq!((error.kind(), error.is_transient()), (kind, false), "{error}");
    }
}

/// HT01.
#[tokio::test]
async fn ranges_stick_to_the_mirror_until_it_fails() {
    let content = sample(1000);
    // Each request to the origin leads to another mirror; the first one fails at its third request.
    let object = Object::new(content.clone());
    let asked = AtomicUsize::new(0);
    let first = Server::start(move |seen| match asked.fetch_add(1, Ordering::SeqCst) {
        0 | 1 => object.answer(seen),
        _ => Reply::new(404),
    });
    let object = Object::new(content.clone());
    let second = Server::start(move |seen| object.answer(seen));
    let mirrors = [first.url("/file?sig=1"), second.url("/file?sig=2")];
    let hop = AtomicUsize::new(0);
    let origin = Server::start(move |_| Reply::redirect(302, mirrors[hop.fetch_add(1, Ordering::SeqCst) % 2].clone()));
    let resource = resource(&origin, "/file");
    for start in [0_u32, 100, 200, 300] {
        let answer = resource.get(&Request::from(u64::from(start)..u64::from(start) + 100)).await.unwrap();
        assert_eq!(read(answer).await.unwrap(), content[start as usize..start as usize + 100]);
    }
    assert_eq!((origin.seen().len(), first.seen().len(), second.seen().len()), (2, 3, 2));
}

/// HT02.
#[tokio::test]
async fn a_stale_mirror_is_replaced_at_once() {
    let hop = AtomicUsize::new(0);
    let server = Server::start(move |seen| match seen.target.as_str() {
        "/fresh" => Reply::ok("found"),
        "/file" if hop.fetch_add(1, Ordering::SeqCst) > 0 => Reply::redirect(302, "/fresh"),
        "/file" => Reply::redirect(302, "/stale"),
        _ => Reply::new(404),
    });
    let resource = resource(&server, "/file");
    for _ in 0..2 {
        assert_eq!(whole(&resource).await, b"found");
    }
    // The fresh address is kept.
    let seen: Vec<_> = server.seen().into_iter().map(|seen| seen.target).collect();
    assert_eq!(seen, ["/file", "/stale", "/file", "/fresh", "/fresh"]);
}

/// HT02.
#[tokio::test]
async fn the_error_of_a_mirror_names_both_addresses() {
    let server = Server::start(|seen| match seen.target.split('?').next().unwrap() {
        "/always" => Reply::redirect(302, "/stale?sig=s3cret"),
        _ => Reply::new(403).body("Request has expired"),
    });
    let error = failure(&resource(&server, "/always?sig=s3cret")).await;
    let (url, mirror) = (server.url("/always?…"), server.url("/stale?…"));
    let words = "the server answered 403 Forbidden (\"Request has expired\"): check the credentials, or whether a signed \
                 address has expired";
    assert_eq!(error.to_string(), format!("{url} (redirected to {mirror}): {words}"));
    // Asked for a fresh address once, and no more.
    assert_eq!(server.seen().len(), 4);
}
