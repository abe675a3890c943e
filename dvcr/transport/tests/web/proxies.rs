//! What goes through a proxy, and what a proxy gets to see.

use dvcr_transport::{Client, Config, Kind, Proxies, Request};
use fixtures::http::{Authority, Identity, Object, Proxy, Reply, Server, Settings, Speech};
use fixtures::nginx;
use fixtures::squid::Squid;

use super::{failure, read, sample, whole, with};

/// A client of this proxy, with credentials for the origin, that trusts anyone.
fn through(proxy: &str) -> Config {
    Config {
        proxies: Proxies::choose(Some(proxy), Some("")).unwrap(),
        headers: vec![("X-Auth-Token".into(), "s3cret-token".into())],
        user: Some("user".into()),
        password: Some("s3cret-password".into()),
        insecure: true,
        ..Config::default()
    }
}

/// A server that says what it was asked.
fn server(tls: bool, http2: bool) -> Server {
    let identity = tls.then(|| Authority::new("test").issue(&["127.0.0.1", "name.invalid"]));
    Server::with(Settings { identity, http2, ..Settings::default() }, |seen| {
        let [host, token, login] = ["host", "x-auth-token", "authorization"].map(|name| seen.header(name).is_some());
        assert!(host && token && login && seen.header("proxy-authorization").is_none());
        Reply::ok(format!("{} {}", seen.version, seen.target))
    })
}

fn known() -> Option<(String, String)> {
    Some(("pr0xy".into(), "p@ss".into()))
}

#[tokio::test]
async fn a_plain_origin_is_asked_in_absolute_form() {
    let server = server(false, false);
    let proxy = Proxy::start(Speech { login: known(), resolve: Some(server.address()), ..Speech::default() });
    let config = through(&proxy.url_as("pr0xy:p%40ss"));
    let url = "http://name.invalid/a%2Bb;x?sig=%3A+&y";
    assert_eq!(whole(&with(config.clone(), url)).await, b"1 /a%2Bb;x?sig=%3A+&y");
    assert_eq!(whole(&with(config, &server.url("/"))).await, b"1 /");
    let seen = proxy.seen();
    assert_eq!((seen[0].method.as_str(), seen[0].target.as_str()), ("GET", url));
    assert_eq!(seen[0].header("host"), Some("name.invalid"));
    assert_eq!(seen[0].header("proxy-authorization"), Some("Basic cHIweHk6cEBzcw=="));
    assert_eq!(seen[1].target, server.url("/"));
}

#[tokio::test]
async fn a_secure_origin_is_asked_by_connect_and_shares_nothing_with_the_proxy() {
    for http2 in [false, true] {
        let server = server(true, http2);
        for identity in [None, Some(Authority::new("proxy").issue(&["127.0.0.1"]))] {
            let speech = Speech { identity, login: known(), resolve: Some(server.address()), ..Speech::default() };
            let proxy = Proxy::start(speech);
            let config = through(&proxy.url_as("pr0xy:p%40ss"));
            let expected = format!("{} /x?s3cret", if http2 { 2 } else { 1 });
            assert_eq!(whole(&with(config, "https://name.invalid/x?s3cret")).await, expected.as_bytes());
            let seen = proxy.seen();
            assert_eq!(seen.len(), 1);
            assert_eq!((seen[0].method.as_str(), seen[0].target.as_str()), ("CONNECT", "name.invalid:443"));
            let mut names: Vec<_> = seen[0].headers.iter().map(|(name, _)| name.as_str()).collect();
            names.sort_unstable();
            assert_eq!(names, ["host", "proxy-authorization"]);
            assert!(!format!("{seen:?}").contains("s3cret"));
        }
    }
}

#[tokio::test]
async fn socks_leads_to_both_and_resolves_where_it_is_told_to() {
    for tls in [false, true] {
        let server = server(tls, tls);
        let proxy =
            Proxy::start(Speech { socks: true, login: known(), resolve: Some(server.address()), ..Speech::default() });
        let there = proxy.url_as("pr0xy:p%40ss");
        let here = there.replace("socks5h:", "socks5:");
        let port = server.address().port();
        let by_name = server.url_by_name("localhost", "/");
        let expected = if tls { b"2 /" } else { b"1 /" };
        assert_eq!(whole(&with(through(&there), &by_name)).await, expected);
        assert_eq!(whole(&with(through(&here), &server.url("/"))).await, expected);
        let seen = proxy.seen();
        assert_eq!(seen[0].target, format!("localhost:{port}"));
        assert_eq!(seen[1].target, format!("127.0.0.1:{port}"));
        assert_eq!(seen[0].header("proxy-authorization"), Some("pr0xy:p@ss"));
        assert_eq!(failure(&with(through(&here), "http://does-not-exist.invalid/")).await.kind(), Kind::Dns);
        assert_eq!(proxy.seen().len(), 2);
    }
}

#[tokio::test]
async fn ranges_of_one_origin_share_a_tunnel() {
    let content = sample(100_000);
    let object = Object::new(content.clone());
    let settings = Settings { identity: Some(Identity::self_signed(&["127.0.0.1"])), ..Settings::default() };
    let server = Server::with(settings, move |seen| object.answer(seen));
    let proxy = Proxy::start(Speech::default());
    let resource = Client::new(through(&proxy.url())).unwrap().resource(&server.url("/")).unwrap();
    for range in [0..50_000, 50_000..100_000] {
        let answer = resource.get(&Request::from(range.start as u64..range.end as u64)).await.unwrap();
        assert_eq!(answer.peer, Some(proxy.address()));
        assert_eq!(read(answer).await.unwrap(), content[range]);
    }
    assert_eq!((proxy.seen().len(), server.connections()), (1, 1));
}

#[tokio::test]
async fn a_redirect_is_judged_anew() {
    let exempt = Server::start(|seen| Reply::ok(seen.header("x-auth-token").unwrap_or("none").to_owned()));
    let to = exempt.url_by_name("localhost", "/end");
    let server = Server::start(move |_| Reply::redirect(302, to.clone()));
    let proxy = Proxy::start(Speech::default());
    let proxies = Proxies::choose(Some(&proxy.url()), Some("localhost")).unwrap();
    let answer = with(Config { proxies, ..through(&proxy.url()) }, &server.url("/")).get(&Request::default()).await;
    let answer = answer.unwrap();
    assert_eq!(answer.peer, Some(exempt.address()));
    assert_eq!(read(answer).await.unwrap(), b"none");
    assert_eq!(proxy.seen().len(), 1);
}

#[tokio::test]
async fn a_proxy_that_wants_credentials_is_told_clearly() {
    let server = server(false, false);
    for (socks, url) in [(false, server.url("/x")), (false, "https://name.invalid/x".into()), (true, server.url("/x"))]
    {
        let proxy = Proxy::start(Speech { socks, login: known(), ..Speech::default() });
        for (address, words) in [
            (proxy.url(), "it wants user and password"),
            (proxy.url_as("pr0xy:wr0ng"), "it does not accept the user and password in its address"),
        ] {
            let error = failure(&with(through(&address), &url)).await;
            assert_eq!((error.kind(), error.is_transient()), (Kind::Proxy, false), "{error}");
            let text = format!("{error} {error:?}");
            assert!(error.to_string().starts_with(&format!("{url} (through the proxy {}): the proxy ", proxy.url())));
            assert!(text.contains(words), "{text}");
            for secret in ["wr0ng", "pr0xy:", "cHIweHk6", "s3cret"] {
                assert!(!text.contains(secret), "{text}");
            }
        }
    }
    assert_eq!(server.seen().len(), 0);
}

#[tokio::test]
async fn what_a_proxy_refuses_or_cannot_reach_is_told() {
    for (status, transient) in [(403, false), (404, false), (502, true), (503, true), (504, true)] {
        let proxy = Proxy::start(Speech { refuse: Some(status), ..Speech::default() });
        let error = failure(&with(through(&proxy.url()), "https://name.invalid/")).await;
        assert_eq!((error.kind(), error.is_transient()), (Kind::Proxy, transient), "{error}");
        assert!(error.to_string().contains(&format!("the proxy {} answered {status} ", proxy.url())), "{error}");
        // In absolute form nobody knows whose answer it is; the message has the proxy in it.
        let error = failure(&with(through(&proxy.url_as("pr0xy:s3cret")), "http://name.invalid/")).await;
        assert_eq!((error.kind(), error.is_transient()), (Kind::Status(status), transient), "{error}");
        assert!(error.to_string().contains(&format!("(through the proxy {})", proxy.url())), "{error}");
        assert!(!error.to_string().contains("cHIweHk6"), "{error}");
    }
    for (reply, transient, words) in [(2, false, "rules"), (4, true, "reach the host"), (5, true, "refused")] {
        let proxy = Proxy::start(Speech { socks: true, refuse: Some(reply), ..Speech::default() });
        let error = failure(&with(through(&proxy.url()), "http://name.invalid/")).await;
        assert_eq!((error.kind(), error.is_transient()), (Kind::Proxy, transient), "{error}");
        assert!(error.to_string().contains(words), "{error}");
    }
}

#[tokio::test]
async fn a_proxy_that_is_away_or_speaks_something_else_is_named() {
    let proxy = Proxy::start(Speech::default());
    let (url, address) = (proxy.url(), proxy.address());
    drop(proxy);
    let error = failure(&with(through(&url), "http://name.invalid/")).await;
    assert_eq!((error.kind(), error.is_transient()), (Kind::Connect, true), "{error}");
    assert!(error.to_string().contains(&format!("the proxy {url}: cannot connect to {address}")), "{error}");
    let error = failure(&with(through("http://does-not-exist.invalid:3128"), "http://name.invalid/")).await;
    assert_eq!(error.kind(), Kind::Dns);
    assert!(error.to_string().contains("the proxy http://does-not-exist.invalid:3128: "), "{error}");
    let other = Server::start(|_| Reply::raw("SSH-2.0-OpenSSH_9.9\r\n"));
    let error = failure(&with(through(&other.url("")), "https://name.invalid/")).await;
    assert_eq!((error.kind(), error.is_transient()), (Kind::Protocol, false), "{error}");
    let untrusted = Proxy::start(Speech { identity: Some(Identity::self_signed(&["127.0.0.1"])), ..Speech::default() });
    let config = Config { insecure: false, ..through(&untrusted.url()) };
    let error = failure(&with(config, "http://name.invalid/")).await;
    assert_eq!(error.kind(), Kind::Tls);
    assert!(
        error.to_string().contains(&format!("the proxy {}: the server is not trusted", untrusted.url())),
        "{error}"
    );
}

#[tokio::test]
async fn a_proxy_that_keeps_silent_is_not_waited_for_without_end() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    for scheme in ["http", "socks5h"] {
        let resource = with(through(&format!("{scheme}://{address}")), "https://name.invalid/");
        let accepted = async {
            let accepted = listener.accept().await.unwrap();
            // Nothing more comes, so time may leap.
            tokio::time::pause();
            accepted
        };
        let (error, _connection) = tokio::join!(failure(&resource), accepted);
        tokio::time::resume();
        assert_eq!((error.kind(), error.is_transient()), (Kind::Stalled, true), "{error}");
        assert!(error.to_string().contains("did not connect to the server within 30s"), "{error}");
    }
}

#[tokio::test]
async fn no_proxy_is_asked_for_metadata() {
    for socks in [false, true] {
        let proxy = Proxy::start(Speech { socks, ..Speech::default() });
        for url in ["http://169.254.169.254/latest", "https://[fd00:ec2::254]/", "http://2852039166/"] {
            let error = failure(&with(through(&proxy.url()), url)).await;
            assert_eq!(error.kind(), Kind::Forbidden, "{error}");
        }
        assert_eq!(proxy.seen().len(), 0);
    }
}

/// With a program that people use, and its way of refusing.
#[tokio::test]
async fn squid_leads_to_plain_and_secure_origins() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("disk"), b"0123456789").unwrap();
    let (plain, secure) = (nginx::Nginx::serve(folder.path()), nginx::Config::new(folder.path()).tls().start());
    let squid = Squid::with_login("pr0xy", "p@ss word");
    let client = |proxy: &str| Config {
        ca_files: vec![secure.ca_file()],
        proxies: Proxies::choose(Some(proxy), Some("")).unwrap(),
        ..Config::default()
    };
    let config = client(&squid.url_as("pr0xy:p%40ss%20word"));
    for url in [plain.url("disk"), secure.url("disk")] {
        let answer = with(config.clone(), &url).get(&Request::from(2..5)).await.unwrap();
        assert_eq!((answer.status, answer.len), (206, Some(10)));
        assert_eq!(read(answer).await.unwrap(), b"234");
        let error = failure(&with(client(&squid.url()), &url)).await;
        assert_eq!((error.kind(), error.is_transient()), (Kind::Proxy, false), "{error}");
        assert!(error.to_string().contains("it wants user and password"), "{error}");
    }
    // A tunnel hides HTTP/2 from the proxy.
    assert_eq!(secure.finish()[0].protocol, "HTTP/2.0");
}

/// HT21.
#[tokio::test]
async fn a_proxy_that_looks_into_tls_needs_its_authority() {
    let folder = tempfile::tempdir().unwrap();
    let content = sample(1_000_000);
    std::fs::write(folder.path().join("disk"), &content).unwrap();
    let origin = nginx::Config::new(folder.path()).tls().start();
    let squid = Squid::intercepting();
    let proxies = Proxies::choose(Some(&squid.url()), Some("")).unwrap();
    let config = Config { ca_files: vec![squid.ca_file()], proxies, ..Config::default() };
    // squid makes no sound certificates for IP addresses: it writes them as host names.
    let error = failure(&with(config.clone(), &origin.url("disk"))).await.to_string();
    assert!(error.contains("as a host name, not as an IP address"), "{error}");
    let url = origin.url("disk").replace("127.0.0.1", "localhost");
    let resource = with(config.clone(), &url);
    assert_eq!(whole(&resource).await, content);
    let answer = resource.get(&Request::from(10..500_000)).await.unwrap();
    assert_eq!(answer.status, 206);
    assert_eq!(read(answer).await.unwrap(), content[10..500_000]);
    // The origin's own authority is of no use here.
    let config = Config { ca_files: vec![origin.ca_file()], ..config };
    let error = failure(&with(config, &url)).await;
    assert_eq!((error.kind(), error.is_transient()), (Kind::Tls, false), "{error}");
    let text = error.to_string();
    assert!(text.contains(&format!("(through the proxy {})", squid.url())), "{text}");
    assert!(text.contains("fixtures gateway") && text.contains("--ca FILE"), "{text}");
}
