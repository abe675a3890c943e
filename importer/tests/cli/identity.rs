//! Who the program is to a source, by which way it goes there, and that it tells nobody.

use std::fs;
use std::process::Command;

use fixtures::http::{Object, Proxy, Reply, Server, Speech};

use super::program::{Place, image, importer, run};

/// A server with a disk for whoever knows the secrets.
fn guarded(disk: Vec<u8>) -> Server {
    let object = Object::new(disk);
    Server::start(move |seen| match (seen.header("x-auth-token"), seen.header("authorization")) {
        (Some("s3cret-token"), Some("Basic Ym9iOnMzY3JldA==")) => object.answer(seen),
        (token, login) => Reply::new(401).body(format!("not {token:?} {login:?}")),
    })
}

/// HT30.
#[test]
fn credentials_come_from_files_or_the_environment() {
    let place = Place::new();
    let made = image("raw-one-sector", &place);
    let server = guarded(fs::read(&made.path).unwrap());
    let (headers, password) = (place.path().join("headers"), place.file("password", "s3cret\n"));
    fs::create_dir(&headers).unwrap();
    fs::write(headers.join("X-Auth-Token"), "s3cret-token\n").unwrap();
    let lines = place.file("lines", "x-auth-token: s3cret-token\n");
    for file in [&headers, &lines] {
        let mut command = place.copy(server.url("/disk"));
        command.arg("--header-file").arg(file).args(["--user", "bob", "--password-file"]).arg(&password);
        run(&mut command).succeeded();
        place.assert_copied(&made.path, "files");
    }
    let as_bob = |command: &mut Command| {
        let pairs = [("USER", "bob"), ("PASSWORD", "s3cret\n"), ("HEADERS", "X-Auth-Token: s3cret-token\n")];
        command.envs(pairs.map(|(name, value)| (format!("MILLRACE_{name}"), value)));
    };
    let mut command = place.copy(server.url("/disk"));
    as_bob(&mut command);
    run(&mut command).succeeded();
    place.assert_copied(&made.path, "environment");
    // A server that repeats them does not make us repeat them, at any level of logging.
    let mut command = place.copy(server.url("/disk"));
    as_bob(&mut command);
    command.env("MILLRACE_PASSWORD", "s3cret-wrong").env("MILLRACE_LOG", "trace").args(["--progress", "none"]);
    let ran = run(&mut command);
    assert_eq!(ran.code, 4, "{ran:?}");
    for secret in ["s3cret", "Ym9i"] {
        assert!(!ran.stderr.contains(secret) && !ran.stdout.contains(secret), "{ran:?}");
    }
}

/// HT27.
#[test]
fn proxies_come_from_options_or_the_environment() {
    let place = Place::new();
    let made = image("raw-one-sector", &place);
    let object = Object::new(fs::read(&made.path).unwrap());
    let server = Server::start(move |seen| object.answer(seen));
    let login = Some(("bob".to_owned(), "s3cret".to_owned()));
    let proxy = Proxy::start(Speech { login, ..Speech::default() });
    let (known, unknown) = (proxy.url_as("bob:s3cret"), proxy.url_as("bob:s3cret-wrong"));
    let inspect = |args: &[&str], env: &[(&str, &str)]| {
        let before = proxy.seen().len();
        let mut command = importer();
        command.args(["inspect", &server.url("/disk")]).args(args).envs(env.iter().copied());
        let ran = run(&mut command);
        (ran, proxy.seen().len() > before)
    };
    for (args, env, asked) in [
        (&[][..], &[][..], false),
        (&[], &[("http_proxy", known.as_str())][..], true),
        (&[], &[("HTTP_PROXY", &known)], true),
        (&[], &[("ALL_PROXY", &known)], true),
        (&[], &[("https_proxy", &known)], false),
        (&[], &[("http_proxy", &known), ("NO_PROXY", "10.0.0.0/8,127.0.0.0/8")], false),
        (&["--proxy", &known], &[("NO_PROXY", "example.com")], true),
        (&["--proxy", &known, "--no-proxy", ""], &[("NO_PROXY", "*")], true),
        (&["--no-proxy", "127.0.0.1"], &[("http_proxy", &known)], false),
        (&["--proxy", ""], &[("http_proxy", &known)], false),
    ] {
        let (ran, through) = inspect(args, env);
        ran.succeeded();
        assert_eq!(through, asked, "{args:?} {env:?}");
    }
    let line = inspect(&[], &[("http_proxy", &unknown)]).0.failed(4);
    assert!(line.contains(&format!("the proxy {} answered 407", proxy.url())) && !line.contains("s3cret"), "{line}");
    let line = inspect(&[], &[("http_proxy", "http://bob:s3cret/@proxy")]).0.failed(2);
    assert!(line.contains("http_proxy is not the address of a proxy") && !line.contains("s3cret"), "{line}");
}
