//! TLS, and HTTP/2 over it.

use std::path::PathBuf;

use dvcr_transport::{Client, Config, Error, Kind, Request};
use fixtures::http::{Authority, Identity, Object, Reply, Server, Settings};
use tempfile::TempDir;

use super::{failure, read, sample, whole, with};

/// A server that proves itself with `identity`, and says its version and what was asked.
fn server(identity: Identity, http2: bool) -> Server {
    let settings = Settings { identity: Some(identity), http2, ..Settings::default() };
    Server::with(settings, |seen| Reply::ok(format!("{} {}", seen.version, seen.target)))
}

/// A client that trusts these certificates too.
fn trusting(folder: &TempDir, files: &[String]) -> Config {
    let write = |(number, pem): (usize, &String)| {
        let file: PathBuf = folder.path().join(format!("bundle-{number}"));
        std::fs::write(&file, pem).unwrap();
        file
    };
    Config { ca_files: files.iter().enumerate().map(write).collect(), ..Config::default() }
}

async fn distrust(config: Config, url: &str) -> Error {
    let error = failure(&with(config, url)).await;
    assert_eq!((error.kind(), error.is_transient()), (Kind::Tls, false), "{error}");
    error
}

/// HT22.
#[tokio::test]
async fn a_given_authority_is_trusted_in_both_versions() {
    let (other, authority) = (Authority::new("other"), Authority::new("test"));
    let folder = tempfile::tempdir().unwrap();
    let config = trusting(&folder, &[other.pem(), authority.pem()]);
    for (http2, version) in [(false, "1"), (true, "2")] {
        let server = server(authority.issue(&["localhost", "127.0.0.1"]), http2);
        for url in [server.url("/a%2Bb?c=%3A"), server.url_by_name("localhost", "/a%2Bb?c=%3A")] {
            let body = whole(&with(config.clone(), &url)).await;
            assert_eq!(String::from_utf8_lossy(&body), format!("{version} /a%2Bb?c=%3A"));
        }
        assert_eq!(server.seen()[1].header("host"), Some(format!("localhost:{}", server.address().port()).as_str()));
    }
}

#[tokio::test]
async fn an_unknown_authority_is_named() {
    let server = server(Authority::new("nobody knows").issue(&["localhost"]), false);
    let url = server.url_by_name("localhost", "/");
    let error = distrust(Config::default(), &url).await;
    let words = "the server is not trusted: the certificate of localhost (\"server\", issued by \"nobody knows\") is not \
                 signed by a trusted authority: if it is right, give the certificate of \"nobody knows\" with --ca FILE";
    assert_eq!(error.to_string(), format!("{url}: {words}"));
    assert_eq!(server.seen().len(), 0);
}

/// HT23.
#[tokio::test]
async fn a_wrong_name_is_told_with_the_right_ones() {
    let authority = Authority::new("test");
    let folder = tempfile::tempdir().unwrap();
    let config = trusting(&folder, &[authority.pem()]);
    let server = server(authority.issue(&["right.example", "10.1.2.3"]), false);
    let error = distrust(config.clone(), &server.url_by_name("localhost", "/")).await.to_string();
    assert!(error.contains("the certificate of localhost ") && error.contains("right.example"), "{error}");
    let error = distrust(config, &server.url("/")).await.to_string();
    assert!(error.contains("the certificate of 127.0.0.1 ") && error.contains("10.1.2.3"), "{error}");
}

#[tokio::test]
async fn the_unknown_authority_at_the_end_of_a_chain_is_named() {
    let below = Authority::new("nobody knows").below("between", false).below("lower", false);
    let server = server(below.issue(&["127.0.0.1"]), false);
    let error = distrust(Config::default(), &server.url("/")).await.to_string();
    assert!(
        error.contains("issued by \"lower\"") && error.contains("the certificate of \"nobody knows\" with"),
        "{error}"
    );
}

#[tokio::test]
async fn a_certificate_signed_by_itself_is_told_and_can_be_given() {
    let folder = tempfile::tempdir().unwrap();
    let identity = Identity::self_signed(&["127.0.0.1"]);
    let config = trusting(&folder, &[identity.pem()]);
    let server = server(identity, false);
    let error = distrust(Config::default(), &server.url("/")).await.to_string();
    assert!(error.contains("self-signed") && error.contains("give this very certificate with --ca"), "{error}");
    assert_eq!(whole(&with(config, &server.url("/"))).await, b"1 /");
}

#[tokio::test]
async fn the_expired_one_of_a_chain_is_named() {
    let authority = Authority::new("test");
    let folder = tempfile::tempdir().unwrap();
    let config = trusting(&folder, &[authority.pem()]);
    let server = server(authority.below("between", true).issue(&["127.0.0.1"]), false);
    let error = distrust(config, &server.url("/")).await.to_string();
    let words =
        "(\"server\", issued by \"between\"), by way of (\"between\", issued by \"test\") expired on 2020-01-01, ";
    assert!(error.contains(words), "{error}");
}

#[tokio::test]
async fn a_certificate_of_the_future_is_told() {
    let authority = Authority::new("test");
    let folder = tempfile::tempdir().unwrap();
    let config = trusting(&folder, &[authority.pem()]);
    let server = server(authority.issue_too_early(&["127.0.0.1"]), false);
    let error = distrust(config, &server.url("/")).await.to_string();
    assert!(error.contains("is not valid before 2400-01-01, ") && error.contains("clock"), "{error}");
}

/// HT21.
#[tokio::test]
async fn a_folder_of_certificates_is_read_whatever_their_names() {
    let authority = Authority::new("test");
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    // As a ConfigMap is mounted, with a key that is no certificate.
    write(".hidden", "-----BEGIN CERTIFICATE-----\nnonsense");
    write("some.key", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n");
    std::fs::create_dir(folder.path().join("..2026")).unwrap();
    let config = Config { ca_files: vec![folder.path().into()], ..Config::default() };
    let error = Client::new(config.clone()).unwrap_err();
    assert!(error.to_string().ends_with(": has no file with a PEM certificate in it"), "{error}");
    write("bundle", &authority.pem());
    let server = server(authority.issue(&["127.0.0.1"]), false);
    assert_eq!(whole(&with(config.clone(), &server.url("/"))).await, b"1 /");
    write("worse", "-----BEGIN CERTIFICATE-----\nnonsense");
    let error = Client::new(config).unwrap_err();
    assert!(error.to_string().contains("/worse: is not sound PEM"), "{error}");
}

#[tokio::test]
async fn an_expired_certificate_is_told() {
    let authority = Authority::new("test");
    let folder = tempfile::tempdir().unwrap();
    let config = trusting(&folder, &[authority.pem()]);
    let server = server(authority.issue_expired(&["127.0.0.1"]), false);
    let error = distrust(config, &server.url("/")).await.to_string();
    assert!(error.contains("(\"server\", issued by \"test\") expired on 2020-01-01, "), "{error}");
    assert!(error.contains("days ago"), "{error}");
}

#[tokio::test]
async fn the_very_certificate_is_trusted_where_its_name_fits() {
    let folder = tempfile::tempdir().unwrap();
    let signed = Authority::new("not given").issue(&["127.0.0.1"]);
    for identity in [Identity::self_signed_authority(&["127.0.0.1"]), signed] {
        let config = trusting(&folder, &[identity.pem()]);
        let server = server(identity, true);
        assert_eq!(whole(&with(config.clone(), &server.url("/"))).await, b"2 /");
        let error = distrust(config, &server.url_by_name("localhost", "/")).await.to_string();
        assert!(error.contains("is for 127.0.0.1 only"), "{error}");
    }
}

#[tokio::test]
async fn the_very_certificate_is_not_trusted_once_expired() {
    let folder = tempfile::tempdir().unwrap();
    let identity = Authority::new("not given").issue_expired(&["127.0.0.1"]);
    let config = trusting(&folder, &[identity.pem()]);
    let server = server(identity, false);
    assert!(distrust(config, &server.url("/")).await.to_string().contains("expired"));
}

#[tokio::test]
async fn an_authority_as_server_is_told_what_to_do() {
    let server = server(Identity::self_signed_authority(&["127.0.0.1"]), false);
    let error = distrust(Config::default(), &server.url("/")).await.to_string();
    assert!(error.contains("marked as an authority") && error.contains("self-signed"), "{error}");
}

/// HT23.
#[tokio::test]
async fn insecure_trusts_anyone() {
    let config = Config { insecure: true, ..Config::default() };
    let authority = Authority::new("nobody knows");
    for identity in [
        authority.issue(&["wrong.example"]),
        authority.issue_expired(&[]),
        Identity::self_signed_authority(&["wrong.example"]),
    ] {
        let server = server(identity, true);
        assert_eq!(whole(&with(config.clone(), &server.url("/"))).await, b"2 /");
    }
}

#[tokio::test]
async fn a_server_without_tls_is_told() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let speaker = tokio::spawn(async move {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.unwrap();
        let mut rest = Vec::new();
        drop(stream.read_to_end(&mut rest).await);
    });
    let error = distrust(Config::default(), &format!("https://{address}/")).await.to_string();
    assert!(error.contains("does not speak TLS"), "{error}");
    speaker.await.unwrap();
}

#[tokio::test]
async fn a_handshake_that_breaks_is_transient() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let closer = tokio::spawn(async move { drop(listener.accept().await.unwrap()) });
    let error = failure(&with(Config::default(), &format!("https://{address}/"))).await;
    assert_eq!((error.kind(), error.is_transient()), (Kind::Cut, true), "{error}");
    closer.await.unwrap();
}

#[tokio::test]
async fn a_handshake_that_stands_still_ends_with_the_connect_timeout() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let resource = with(Config::default(), &format!("https://{}/", listener.local_addr().unwrap()));
    let accepted = async {
        let accepted = listener.accept().await.unwrap();
        // Nothing more comes, so time may leap.
        tokio::time::pause();
        accepted
    };
    let (error, _connection) = tokio::join!(failure(&resource), accepted);
    assert_eq!((error.kind(), error.is_transient()), (Kind::Stalled, true), "{error}");
    assert!(error.to_string().contains("TLS handshake within 10s"), "{error}");
}

/// HT25: The roots of the machine come from the environment, which a test can set only for another process: it runs
/// [`child_fetches`].
#[tokio::test]
async fn the_roots_of_the_machine_are_trusted() {
    let (machine, given) = (Authority::new("machine"), Authority::new("given"));
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    std::fs::create_dir(path("folder")).unwrap();
    std::fs::write(path("folder/any name"), machine.pem()).unwrap();
    std::fs::write(path("bundle"), machine.pem()).unwrap();
    std::fs::write(path("ca"), given.pem()).unwrap();
    let servers = [&machine, &given].map(|authority| server(authority.issue(&["127.0.0.1"]), false));
    let fetch = |variable: &str, value: &str, server: &Server, ca: Option<&str>| {
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", "secure::child_fetches", "--ignored", "--nocapture"]);
        child.env_remove("SSL_CERT_DIR").env_remove("SSL_CERT_FILE");
        child.env(variable, path(value)).env(CHILD_URL, server.url("/"));
        child.envs(ca.map(|ca| (CHILD_CA, path(ca)))).output().unwrap()
    };
    for (variable, value) in [("SSL_CERT_FILE", "bundle"), ("SSL_CERT_DIR", "folder")] {
        let fetched = fetch(variable, value, &servers[0], None);
        assert!(fetched.status.success(), "{variable}: {fetched:?}");
        // What is given comes on top.
        for server in &servers {
            let fetched = fetch(variable, value, server, Some("ca"));
            assert!(fetched.status.success(), "{variable}: {fetched:?}");
        }
    }
    let failed = fetch("SSL_CERT_FILE", "bundle", &servers[1], None);
    assert!(String::from_utf8_lossy(&failed.stdout).contains("not signed by a trusted authority"), "{failed:?}");
    let failed = fetch("SSL_CERT_FILE", "none", &servers[0], None);
    assert!(String::from_utf8_lossy(&failed.stdout).contains("this machine has no trusted certificates"), "{failed:?}");
}

#[tokio::test]
#[ignore = "the_roots_of_the_machine_are_trusted runs it in its own environment"]
async fn child_fetches() {
    let ca_files = std::env::var_os(CHILD_CA).map(PathBuf::from).into_iter().collect();
    let config = Config { ca_files, ..Config::default() };
    match with(config, &std::env::var(CHILD_URL).unwrap()).get(&Request::default()).await {
        Ok(response) => assert_eq!(read(response).await.unwrap(), b"1 /"),
        Err(error) => {
            println!("{error}");
            std::process::exit(1);
        }
    }
}

const CHILD_CA: &str = "TRANSPORT_TEST_CA";
const CHILD_URL: &str = "TRANSPORT_TEST_URL";

#[tokio::test]
async fn http2_ranges_share_a_connection_and_survive_cuts() {
    let content = sample(3_000_000);
    let object = Object::new(content.clone());
    let settings =
        Settings { identity: Some(Authority::new("test").issue(&["127.0.0.1"])), http2: true, ..Settings::default() };
    let server = Server::with(settings, move |seen| match seen.header("range") {
        Some("bytes=1000000-1999999") => object.answer(seen).fault_at(400_000, Reply::cut),
        Some("bytes=2000000-2999999") => object.answer(seen).chunked(),
        _ => object.answer(seen),
    });
    let client = Client::new(Config { insecure: true, ..Config::default() }).unwrap();
    let resource = client.resource(&server.url("/")).unwrap();
    for range in [0..1_000_000, 2_000_000..3_000_000] {
        let answer = resource.get(&Request::from(range.start as u64..range.end as u64)).await.unwrap();
        assert_eq!((answer.status, answer.len), (206, Some(3_000_000)));
        assert_eq!(read(answer).await.unwrap(), content[range]);
    }
    assert_eq!(server.connections(), 1);
    let mut cut = resource.get(&Request::from(1_000_000..2_000_000)).await.unwrap();
    let error = loop {
        match cut.body.next().await {
            Ok(Some(_)) => {}
            Ok(None) => panic!("ended"),
            Err(error) => break error,
        }
    };
    assert_eq!((error.kind(), error.is_transient()), (Kind::Cut, true), "{error}");
    assert_eq!(cut.body.offset(), 1_400_000);
    assert!(error.to_string().contains("at offset 1400000 of 2000000"), "{error}");
}

#[tokio::test]
async fn an_origin_whose_http2_failed_is_asked_in_http1() {
    for fault in [Reply::cut as fn(Reply) -> Reply, Reply::stall] {
        let object = Object::new(sample(3000));
        let settings =
            Settings { identity: Some(Authority::new("x").issue(&["127.0.0.1"])), http2: true, ..Settings::default() };
        let server = Server::with(settings, move |seen| match (seen.version, seen.target.as_str()) {
            (2, "/fails") => object.answer(seen).fault_at(1000, fault),
            _ => object.answer(seen),
        });
        let client = Client::new(Config { insecure: true, ..Config::default() }).unwrap();
        let [fine, fails] = ["/fine", "/fails"].map(|path| client.resource(&server.url(path)).unwrap());
        assert_eq!(whole(&fine).await, sample(3000));
        // It has another connection of its own while the one above waits.
        let open = fine.get(&Request::default()).await.unwrap();
        let mut answer = fails.get(&Request::default()).await.unwrap();
        while answer.body.offset() < 1000 {
            answer.body.next().await.unwrap();
        }
        // Nothing more comes, so time may leap.
        tokio::time::pause();
        let error = answer.body.next().await.unwrap_err();
        tokio::time::resume();
        assert!(error.is_transient(), "{error}");
        // One that was open then is not kept.
        assert_eq!(read(open).await.unwrap(), sample(3000));
        for resource in [&fails, &fine] {
            assert_eq!(whole(resource).await, sample(3000));
        }
        let versions: Vec<_> = server.seen().iter().map(|seen| seen.version).collect();
        assert_eq!(versions, [2, 2, 2, 1, 1]);
    }
}

#[tokio::test]
async fn a_server_that_fails_before_it_answers_in_http2_is_asked_in_http1() {
    let settings =
        Settings { identity: Some(Authority::new("x").issue(&["127.0.0.1"])), http2: true, ..Settings::default() };
    let server = Server::with(settings, move |seen| match seen.version {
        2 => Reply::ok("abc").fault_at(0, Reply::cut),
        _ => Reply::ok("abc"),
    });
    let resource = with(Config { insecure: true, ..Config::default() }, &server.url("/"));
    let answer = resource.get(&Request::default()).await;
    let failed = match answer {
        Ok(answer) => read(answer).await.unwrap_err(),
        Err(error) => error,
    };
    assert!(failed.is_transient(), "{failed}");
    assert_eq!(whole(&resource).await, b"abc");
    assert_eq!(server.seen().iter().map(|seen| seen.version).collect::<Vec<_>>(), [2, 1]);
}

#[tokio::test]
async fn an_http2_body_without_a_length_ends_where_it_ends() {
    let settings =
        Settings { identity: Some(Authority::new("test").issue(&["x"])), http2: true, ..Settings::default() };
    let server = Server::with(settings, |_| Reply::ok("abc").chunked());
    let config = Config { insecure: true, ..Config::default() };
    let answer = with(config, &server.url("/")).get(&Request::from(0..)).await.unwrap();
    assert_eq!((answer.len, answer.body.remaining()), (None, None));
    assert_eq!(read(answer).await.unwrap(), b"abc");
}
