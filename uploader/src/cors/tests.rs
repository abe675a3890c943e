use super::*;

fn cors(origins: &[&str]) -> Cors {
    Cors::new(origins.iter().map(|origin| origin.parse().unwrap()).collect())
}

fn asked(origin: &'static str, names: &'static str) -> HeaderMap {
    HeaderMap::from_iter([
        (ORIGIN, HeaderValue::from_static(origin)),
        (ACCESS_CONTROL_REQUEST_METHOD, HeaderValue::from_static("PATCH")),
        (ACCESS_CONTROL_REQUEST_HEADERS, HeaderValue::from_static(names)),
    ])
}

#[test]
fn pages_of_allowed_origins_may_send() {
    let names = "authorization,content-type,tus-resumable,upload-offset";
    for (allowed, origin, said) in [
        (&["https://cloud.example"][..], "https://cloud.example", Some("https://cloud.example")),
        (&["https://a.example", "https://Cloud.example:443"], "https://cloud.example", Some("https://cloud.example")),
        (&["http://cloud.example:8080"], "http://cloud.example:8080", Some("http://cloud.example:8080")),
        (&["*"], "https://any.example", Some("*")),
        (&["https://cloud.example"], "http://cloud.example", None),
        (&["https://cloud.example"], "https://cloud.example.evil.example", None),
        (&["https://cloud.example"], "https://evil.example", None),
        (&["https://cloud.example"], "null", None),
        (&[], "https://cloud.example", None),
    ] {
        let cors = cors(allowed);
        let answer = cors.preflight(&Method::OPTIONS, &asked(origin, names)).unwrap();
        let code = if said.is_some() { StatusCode::NO_CONTENT } else { StatusCode::FORBIDDEN };
        assert_eq!(answer.status(), code, "{allowed:?} {origin}");
        let header = |name| answer.headers().get(name).map(|value| value.to_str().unwrap());
        assert_eq!(header(ACCESS_CONTROL_ALLOW_ORIGIN), said, "{allowed:?} {origin}");
        assert_eq!(header(ACCESS_CONTROL_ALLOW_HEADERS), said.map(|_| names));
        assert_eq!(header(ACCESS_CONTROL_ALLOW_METHODS).is_some_and(|list| list.contains("PATCH")), said.is_some());
        assert_eq!(header(VARY), Some("Origin"));
        let mut other = HeaderMap::new();
        cors.expose(Some(&HeaderValue::from_static(origin)), &mut other);
        assert_eq!(other.get(ACCESS_CONTROL_ALLOW_ORIGIN).map(|value| value.to_str().unwrap()), said);
        let exposed = other.get(ACCESS_CONTROL_EXPOSE_HEADERS).is_some_and(|list| {
            let list = list.to_str().unwrap();
            list.contains("Location") && list.contains("Upload-Offset") && list.contains("Tus-Resumable")
        });
        assert_eq!(exposed, said.is_some());
    }
}

#[test]
fn only_a_browser_that_asks_gets_an_answer() {
    let cors = cors(&["*"]);
    assert!(cors.preflight(&Method::POST, &asked("https://cloud.example", "x")).is_none());
    let mut headers = asked("https://cloud.example", "x");
    headers.remove(ACCESS_CONTROL_REQUEST_METHOD);
    assert!(cors.preflight(&Method::OPTIONS, &headers).is_none());
    let mut headers = asked("https://cloud.example", "x");
    headers.remove(ORIGIN);
    assert!(cors.preflight(&Method::OPTIONS, &headers).is_none());
}

#[test]
fn what_is_no_list_of_headers_is_not_repeated() {
    let long: &'static str = Box::leak("x".repeat(MAX_NAMES + 1).into_boxed_str());
    for names in ["a b", "x-a, <script>", "", long] {
        let answer = cors(&["*"]).preflight(&Method::OPTIONS, &asked("https://cloud.example", names)).unwrap();
        assert_eq!(answer.status(), StatusCode::NO_CONTENT);
        assert!(!answer.headers().contains_key(ACCESS_CONTROL_ALLOW_HEADERS), "{names}");
    }
}

#[test]
fn origins_are_checked_when_they_are_given() {
    for wrong in [
        "",
        "cloud.example",
        "ftp://cloud.example",
        "https://",
        "https://a/path",
        "https://*.example",
        "HTTPS://a",
        "null",
    ] {
        assert!(wrong.parse::<Origin>().is_err(), "{wrong}");
    }
    assert_eq!("https://[::1]:8443".parse::<Origin>().unwrap().to_string(), "https://[::1]:8443");
}
