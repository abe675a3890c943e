use super::*;

fn target(text: &str) -> String {
    Address::parse(text).unwrap().target().to_owned()
}

fn error(text: &str) -> String {
    let error = Address::parse(text).unwrap_err();
    assert_eq!(error.kind(), Kind::Usage, "{text}");
    error.to_string()
}

/// Where `location` leads, credentials and query included.
fn join(base: &str, location: &str) -> String {
    let address = Address::parse(base).unwrap().join(location.as_bytes()).unwrap();
    format!("{}{}", address.origin(), address.target())
}

#[test]
fn path_and_query_are_kept_byte_for_byte() {
    for text in [
        "/a%2Bb+c%20d/%7e~/x:y@z?sig=a%2Bb%3D&se=2026-09-01T00%3A00Z",
        "/A/a/../b/./c//d",
        "/?a=b&&c==d?e/f",
        "/{\"json\"}|^?q='[]{}|\\^",
        "/%zz%",
        "/ä/日本?ö",
        "/a;b,c!$&'()*",
    ] {
        assert_eq!(target(&format!("http://host{text}")), text);
    }
    assert_eq!(target("http://host"), "/");
    assert_eq!(target("http://host?a=b"), "/?a=b");
    assert_eq!(target("http://host/a#b?c"), "/a");
    assert_eq!(target("http://host#b"), "/");
    assert_eq!(target("http://host/<a>?`"), "/%3Ca%3E?%60");
    // What goes into a request is what is accepted here.
    assert!(target("http://host/ä{\"}|?ö<`>").parse::<hyper::http::uri::PathAndQuery>().is_ok());
}

#[test]
fn host_and_port_are_understood() {
    for (text, origin) in [
        ("HTTP://Example.COM/X", "http://example.com"),
        ("http://example.com:80/", "http://example.com"),
        ("https://example.com:80/", "https://example.com:80"),
        ("https://example.com:/", "https://example.com"),
        ("https://[::1]/", "https://[::1]"),
        ("http://[FD00::1]:8080/x", "http://[fd00::1]:8080"),
        ("http://bücher.example/", "http://xn--bcher-kva.example"),
        ("http://user:p@ss@example.com/", "http://example.com"),
        ("http://127.1:8080", "http://127.0.0.1:8080"),
        ("http://under_score/", "http://under_score"),
    ] {
        assert_eq!(Address::parse(text).unwrap().origin().to_string(), origin, "{text}");
    }
}

#[test]
fn what_makes_no_sense_is_refused_by_name() {
    for (text, words) in [
        ("htp:/x", "http:// or https://"),
        ("ftp://host/x", "http:// or https://"),
        ("/etc/passwd", "http:// or https://"),
        ("", "http:// or https://"),
        ("http:///x", "host"),
        ("http://", "host"),
        ("http://ho st/", "a space at byte 9"),
        ("http://host/a b", "a space at byte 13"),
        ("http://host/a\n", "U+000A at byte 13"),
        ("http://host/\u{a0}", "U+00A0 at byte 12"),
        ("http://host/\u{7f}", "U+007F at byte 12"),
        ("http://host:0/", "port"),
        ("http://host:65536/", "port"),
        ("http://host:+80/", "port"),
        ("http://host:80:80/", "host"),
        ("http://[::1/", "host"),
        ("http://[fe80::1%25eth0]/", "host"),
        ("http://a\\b/", "host"),
    ] {
        assert!(error(text).contains(words), "{text}: {}", error(text));
    }
    assert!(error(&format!("http://host/{}", "x".repeat(MAX_TARGET))).contains("longer"));
    // The rest of a password that was not encoded is not repeated.
    assert!(!error("http://user:s3/cret@host/").contains("s3"));
}

#[test]
fn credentials_are_understood_and_never_shown() {
    let address = Address::parse("https://Al%61ddin:open%20sesame@host/x?token=s3cret#s3cret").unwrap();
    assert_eq!(address.login().unwrap(), "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==");
    assert_eq!(address.to_string(), "https://host/x?…");
    assert_eq!(format!("{address:?}"), "Address(https://host/x?…)");
    let address = Address::parse("https://host/x?sig=a%2Bb&c&d=").unwrap();
    assert_eq!(address.query_values().collect::<Vec<_>>(), ["a%2Bb", "a+b", "c", "c", "", ""]);
    assert_eq!(percent_decoded("%41%4%zz%"), b"A%4%zz%");
    assert!(Address::parse("https://host/").unwrap().login().is_none());
}

#[test]
fn a_location_leads_where_the_rfc_says() {
    let base = "http://user:password@host:8080/a/b/c?q";
    for (location, to) in [
        ("https://Other/x%2By?z=%3D", "https://other/x%2By?z=%3D"),
        ("HTTP://other", "http://other/"),
        ("//other/x/../y", "http://other/x/../y"),
        ("/x/../y?z", "http://host:8080/x/../y?z"),
        ("?z", "http://host:8080/a/b/c?z"),
        ("", "http://host:8080/a/b/c?q"),
        ("#f", "http://host:8080/a/b/c?q"),
        ("x", "http://host:8080/a/b/x"),
        ("x?y#z", "http://host:8080/a/b/x?y"),
        ("./x/", "http://host:8080/a/b/x/"),
        ("../x", "http://host:8080/a/x"),
        ("../../../x", "http://host:8080/x"),
        ("..", "http://host:8080/a/"),
        (".", "http://host:8080/a/b/"),
        ("x/../y/./z?../w", "http://host:8080/a/b/y/z?../w"),
        (" /a b ", "http://host:8080/a%20b"),
        ("/ä", "http://host:8080/%C3%A4"),
        ("2:3/x", "http://host:8080/a/b/2:3/x"),
    ] {
        assert_eq!(join(base, location), to, "{location}");
    }
    assert_eq!(join("http://host", "x"), "http://host/x");
    assert_eq!(join("http://host", "../x"), "http://host/x");
}

#[test]
fn the_name_of_the_file_is_the_last_part_of_the_path() {
    let name = |url: &str| Address::parse(url).unwrap().file_name().map(|name| String::from_utf8(name).unwrap());
    for (url, expected) in [
        ("http://host/a/disk.img", Some("disk.img")),
        ("http://host/a/disk%20%2B1.img?sig=a/b#c", Some("disk +1.img")),
        ("http://host/d%C3%AFsk.img", Some("dïsk.img")),
        ("http://host/a%2Fb", Some("a/b")),
        ("http://host/a/", None),
        ("http://host", None),
        ("http://host?x/y", None),
    ] {
        assert_eq!(name(url).as_deref(), expected, "{url}");
    }
}

#[test]
fn an_origin_is_scheme_host_and_port() {
    let base = Address::parse("https://Host/a").unwrap();
    for (other, same) in [
        ("https://host:443/b?c", true),
        ("https://user:password@host/", true),
        ("http://host/a", false),
        ("https://host:444/a", false),
        ("https://host.example/a", false),
    ] {
        assert_eq!(base.same_origin(&Address::parse(other).unwrap()), same, "{other}");
    }
}

#[test]
fn an_unusable_location_is_a_redirect_error() {
    let base = Address::parse("http://host/").unwrap();
    for (location, words) in [
        ("ftp://host/x", "ftp"),
        ("file:///etc/passwd", "file"),
        ("javascript:alert(1)", "javascript"),
        ("http:/x", "http:// or https://"),
        ("http://", "host"),
        ("http://a:b:c/", "port"),
    ] {
        let error = base.join(location.as_bytes()).unwrap_err();
        assert_eq!(error.kind(), Kind::Redirect, "{location}");
        assert!(error.to_string().contains(words), "{error}");
    }
    // Credentials of the base stay with its origin.
    let base = Address::parse("http://user:password@host/").unwrap();
    assert!(base.join(b"/x").unwrap().login().is_some());
    assert!(base.join(b"http://host/x").unwrap().login().is_none());
    assert!(base.join(b"//other/x").unwrap().login().is_none());
}

#[test]
fn a_query_is_added_to() {
    let with = |text: &str, more| {
        let address = Address::parse(text).unwrap().with_query(more);
        address.target().to_owned()
    };
    assert_eq!(with("http://h/x", "digest=a%3Ab"), "/x?digest=a%3Ab");
    assert_eq!(with("http://h/x?_state=y%3D", "digest=a:b"), "/x?_state=y%3D&digest=a:b");
    assert_eq!(with("http://h", "a"), "/?a");
}

#[test]
fn this_machine_is_known() {
    for (text, loopback) in [
        ("http://localhost:5000/", true),
        ("http://127.0.0.2/", true),
        ("http://[::1]:1/", true),
        ("http://x.localhost/", true),
        ("http://localhost.example/", false),
        ("http://10.0.0.1/", false),
    ] {
        assert_eq!(Address::parse(text).unwrap().is_loopback(), loopback, "{text}");
    }
    assert!(Address::parse("https://h/").unwrap().is_secure() && !Address::parse("http://h/").unwrap().is_secure());
}
