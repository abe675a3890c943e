use super::*;
use crate::Address;

type Env<'a> = &'a [(&'a str, &'a str)];

fn chosen(proxy: Option<&str>, exempt: Option<&str>, env: Env<'_>) -> Result<Proxies> {
    let env = |name: &str| env.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
    Proxies::choose_from(proxy, exempt, env)
}

/// The proxy for `url`, as it is shown.
fn found(proxies: &Proxies, url: &str) -> Option<String> {
    proxies.find(Address::parse(url).unwrap().origin()).map(ToString::to_string)
}

#[test]
fn the_environment_is_read_as_by_curl() {
    let both = |env: Env<'_>| {
        let proxies = chosen(None, None, env).unwrap();
        ["http://a", "https://a"].map(|url| found(&proxies, url).map(|shown| shown.replace("http://", "")))
    };
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(both(&[]), [None, None]);
    assert_eq!(both(&[("http_proxy", "p:1"), ("https_proxy", "q:2")]), [some("p:1"), some("q:2")]);
    assert_eq!(both(&[("HTTP_PROXY", "p:1"), ("HTTPS_PROXY", "q:2")]), [some("p:1"), some("q:2")]);
    assert_eq!(both(&[("http_proxy", "p:1"), ("HTTP_PROXY", "q:2")]), [some("p:1"), None]);
    assert_eq!(both(&[("https_proxy", ""), ("HTTPS_PROXY", " q:2\n")]), [None, some("q:2")]);
    assert_eq!(both(&[("all_proxy", "p:1"), ("https_proxy", "q:2")]), [some("p:1"), some("q:2")]);
    assert_eq!(both(&[("ALL_PROXY", "p:1")]), [some("p:1"), some("p:1")]);
    let cgi = ("REQUEST_METHOD", "GET");
    assert_eq!(both(&[("HTTP_PROXY", "p:1"), ("HTTPS_PROXY", "q:2"), cgi]), [None, some("q:2")]);
    assert_eq!(both(&[("http_proxy", "p:1"), cgi]), [some("p:1"), None]);
}

#[test]
fn options_come_before_the_environment() {
    let env = [("http_proxy", "env"), ("no_proxy", "a"), ("NO_PROXY", "b")];
    let proxies = chosen(Some("option"), None, &env).unwrap();
    assert_eq!(found(&proxies, "https://c"), Some("http://option:80".into()));
    assert_eq!(found(&proxies, "http://a"), None);
    let proxies = chosen(Some("option"), Some("b"), &env).unwrap();
    assert_eq!((found(&proxies, "http://a").is_some(), found(&proxies, "http://b")), (true, None));
    let proxies = chosen(Some(""), None, &env).unwrap();
    assert_eq!(found(&proxies, "http://c"), None);
    let proxies = chosen(None, Some("*"), &env).unwrap();
    assert_eq!(found(&proxies, "http://c"), None);
    let proxies = chosen(None, Some(""), &env).unwrap();
    assert_eq!(found(&proxies, "http://a"), Some("http://env:80".into()));
}

#[test]
fn addresses_of_proxies_are_understood() {
    for (url, shown, login) in [
        ("proxy", "http://proxy:80", None),
        ("proxy:3128/", "http://proxy:3128", None),
        ("HTTP://proxy", "http://proxy:80", None),
        ("https://proxy", "https://proxy:443", None),
        ("socks5://[::1]", "socks5://[::1]:1080", None),
        ("socks5h://10.0.0.1:9", "socks5h://10.0.0.1:9", None),
        ("http://us%65r:p%40s:s@proxy:1", "http://proxy:1", Some("Basic dXNlcjpwQHM6cw==")),
        ("user:p@ss@proxy:1", "http://proxy:1", Some("Basic dXNlcjpwQHNz")),
        ("user@proxy:1", "http://proxy:1", Some("Basic dXNlcjo=")),
    ] {
        let proxy = Proxy::parse(url, "--proxy").unwrap();
        assert_eq!(proxy.to_string(), shown);
        assert_eq!(format!("{proxy:?}"), format!("Proxy({shown})"));
        assert_eq!(proxy.authorization().as_ref().map(|value| value.to_str().unwrap()), login);
    }
}

#[test]
fn what_is_no_proxy_is_refused_by_its_place_and_not_repeated() {
    for url in [
        "socks4://s3cret",
        "ftp://s3cret",
        "http://user:s3cret/@proxy:1",
        "http://user:s3cret@proxy:0",
        "http://user:s3cret@",
        "http://user:s3cret@a b",
        &format!("http://s3cret:{}@proxy", "x".repeat(256)),
    ] {
        let error = chosen(None, None, &[("HTTPS_PROXY", url)]).unwrap_err();
        assert_eq!(error.kind(), Kind::Usage);
        assert!(error.to_string().starts_with("HTTPS_PROXY is not the address of a proxy: "), "{error}");
        assert!(!error.to_string().contains("s3cret"), "{error}");
        assert!(chosen(Some(url), None, &[]).unwrap_err().to_string().starts_with("--proxy "));
    }
}

#[test]
fn nothing_is_shown_of_credentials() {
    let proxies = chosen(Some("http://us3r:s3cret@proxy"), None, &[]).unwrap();
    let shown = format!("{proxies:?}");
    assert!(shown.contains("http://proxy:80") && !shown.contains("s3cret") && !shown.contains("us3r"), "{shown}");
}

#[test]
fn refusals_say_what_to_do() {
    let (open, known) = (Proxy::parse("p", "").unwrap(), Proxy::parse("user:s3cret@p", "").unwrap());
    for (proxy, status, transient, words) in [
        (&open, 407, false, "it wants user and password"),
        (&known, 407, false, "does not accept the user and password"),
        (&known, 403, false, "does not allow"),
        (&open, 502, true, "can it reach the server?"),
        (&open, 404, false, "is this the address of a proxy?"),
        (&open, 302, false, "is this the address of a proxy?"),
    ] {
        let error = proxy.refusal(StatusCode::from_u16(status).unwrap());
        assert_eq!((error.kind(), error.is_transient()), (Kind::Proxy, transient));
        let text = error.to_string();
        assert!(text.starts_with(&format!("the proxy http://p:80 answered {status} ")), "{text}");
        assert!(text.contains(words) && !text.contains("s3cret"), "{text}");
    }
}
