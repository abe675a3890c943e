use hyper::header::HeaderValue;

use super::*;

const WHOLE: ByteRange = ByteRange { start: 0, end: None };
const MIDDLE: ByteRange = ByteRange { start: 100, end: Some(200) };

fn headers(lines: &[(&'static str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in lines {
        headers.append(*name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
    }
    headers
}

fn judge(status: u16, lines: &[(&'static str, &str)], body: Option<u64>, range: Option<ByteRange>) -> Result<Answer> {
    Answer::judge(StatusCode::from_u16(status).unwrap(), &headers(lines), body, range.as_ref(), None)
}

fn error(status: u16, lines: &[(&'static str, &str)], body: Option<u64>, range: ByteRange) -> String {
    let error = judge(status, lines, body, Some(range)).unwrap_err();
    assert_eq!(error.kind(), Kind::Protocol, "{error}");
    error.to_string()
}

fn part(line: &str, body: Option<u64>, range: ByteRange) -> (Meta, ContentRange) {
    match judge(206, &[("content-range", line)], body, Some(range)).unwrap() {
        Answer::Part(meta, part) => (meta, part),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_asked_range_or_its_first_part_is_accepted() {
    let (meta, range) = part("bytes 100-199/1000", Some(100), MIDDLE);
    assert_eq!((meta.len, range.start, range.end), (Some(1000), 100, 200));
    let (meta, range) = part("bytes 100-149/150", None, MIDDLE);
    assert_eq!((meta.len, range.start, range.end), (Some(150), 100, 150));
    let (meta, range) = part("bytes 0-9/*", Some(10), WHOLE);
    assert_eq!((meta.len, range.start, range.end), (None, 0, 10));
}

#[test]
fn any_other_range_is_not() {
    for line in ["bytes 0-99/1000", "bytes 101-199/1000", "bytes 100-200/1000", "bytes 100-199/150"] {
        assert!(error(206, &[("content-range", line)], None, MIDDLE).contains("asked for bytes 100 to 200"));
    }
    let right = ("content-range", "bytes 100-199/1000");
    assert!(error(206, &[right], Some(99), MIDDLE).contains("99"));
    assert!(error(206, &[right, right], Some(100), MIDDLE).contains("Content-Range"));
    assert!(error(206, &[], Some(100), MIDDLE).contains("Content-Range"));
    assert!(error(206, &[("content-type", "multipart/byteranges; boundary=x")], None, MIDDLE).contains("several"));
    assert_eq!(judge(206, &[right], Some(100), None).unwrap_err().kind(), Kind::Protocol);
}

#[test]
fn the_whole_is_an_answer_to_any_range() {
    for range in [None, Some(WHOLE), Some(MIDDLE)] {
        for status in [200, 203] {
            let Answer::Whole(meta) = judge(status, &[("content-type", "text/html")], Some(5), range).unwrap() else {
                panic!("not the whole");
            };
            assert_eq!((meta.len, meta.content_type.as_deref()), (Some(5), Some("text/html")));
        }
    }
}

#[test]
fn a_range_of_nothing_is_told_from_a_range_too_far() {
    let empty = [("content-range", "bytes */0")];
    assert_eq!(judge(416, &empty, None, Some(WHOLE)).unwrap(), Answer::Empty);
    assert_eq!(judge(416, &[], None, Some(WHOLE)).unwrap(), Answer::NoRanges);
    assert_eq!(judge(416, &[("content-range", "bytes */50")], None, Some(WHOLE)).unwrap(), Answer::NoRanges);
    assert_eq!(judge(416, &[("content-range", "bytes */50")], None, Some(MIDDLE)).unwrap(), Answer::Refused);
    assert_eq!(judge(416, &[], None, None).unwrap(), Answer::Refused);
}

#[test]
fn a_range_of_a_known_object_that_is_refused_tells_of_another_or_of_a_server_without_ranges() {
    let refused = |lines: &[(&'static str, &str)]| {
        let same = Validator::find(&headers(&[("etag", "\"a\"")]), Some(1000)).unwrap();
        Answer::judge(StatusCode::RANGE_NOT_SATISFIABLE, &headers(lines), None, Some(&MIDDLE), Some(&same)).unwrap_err()
    };
    for total in ["99", "100"] {
        let error = refused(&[("content-range", &format!("bytes */{total}"))]);
        assert_eq!(error.kind(), Kind::Changed, "{error}");
        assert!(error.to_string().contains("shorter than it was"), "{error}");
    }
    for lines in [&[("content-range", "bytes */1000")][..], &[("content-range", "what")], &[]] {
        let error = refused(lines);
        assert_eq!(error.kind(), Kind::Protocol, "{error}");
        assert!(error.to_string().contains("refuses bytes 100 to 200"), "{error}");
        assert!(!error.to_string().contains("shorter"), "{error}");
    }
}

#[test]
fn a_part_must_prove_to_be_of_the_same_object() {
    let part = |lines: &[(&'static str, &str)], total: &str| {
        let mut lines = lines.to_vec();
        let range = format!("bytes 100-199/{total}");
        lines.push(("content-range", &range));
        let same = Validator::find(&headers(&[("etag", "\"a\"")]), Some(1000)).unwrap();
        Answer::judge(StatusCode::PARTIAL_CONTENT, &headers(&lines), None, Some(&MIDDLE), Some(&same))
    };
    assert!(part(&[("etag", "\"a\"")], "1000").is_ok());
    assert!(part(&[("etag", "\"a\"")], "*").is_ok());
    for (lines, total) in [(&[("etag", "\"b\"")][..], "1000"), (&[("etag", "\"a\"")], "1001")] {
        let error = part(lines, total).unwrap_err();
        assert_eq!(error.kind(), Kind::Changed, "{lines:?} {total}");
        assert!(error.is_transient());
    }
    // No proof is no change.
    for lines in [&[("etag", "W/\"a\"")][..], &[]] {
        assert_eq!(part(lines, "1000").unwrap_err().kind(), Kind::NoRanges, "{lines:?}");
    }
}

#[test]
fn encodings_are_named_or_refused() {
    let codings = |lines: &[(&'static str, &str)]| match judge(200, lines, None, None) {
        Ok(Answer::Whole(meta)) => Ok(meta.codings),
        Ok(other) => panic!("{other:?}"),
        Err(error) => Err(error.to_string()),
    };
    assert_eq!(codings(&[]), Ok(vec![]));
    assert_eq!(codings(&[("content-encoding", "identity")]), Ok(vec![]));
    assert_eq!(codings(&[("content-encoding", "X-Gzip, zstd")]), Ok(vec![Coding::Gzip, Coding::Zstd]));
    let two = [("content-encoding", "deflate"), ("content-encoding", "br")];
    assert_eq!(codings(&two), Ok(vec![Coding::Deflate, Coding::Brotli]));
    assert!(codings(&[("content-encoding", "aes128gcm")]).unwrap_err().contains("aes128gcm"));
    assert_eq!(codings(&[("transfer-encoding", "Chunked")]), Ok(vec![]));
    assert!(codings(&[("transfer-encoding", "gzip, chunked")]).unwrap_err().contains("gzip"));
}

#[test]
fn a_redirect_without_a_location_leads_nowhere() {
    let location = [("location", "/x")];
    assert_eq!(judge(300, &location, None, None).unwrap(), Answer::Elsewhere(b"/x".to_vec()));
    assert_eq!(judge(300, &[], None, None).unwrap(), Answer::Refused);
    for status in [301, 302, 303, 307, 308] {
        assert_eq!(judge(status, &location, None, None).unwrap(), Answer::Elsewhere(b"/x".to_vec()));
        assert_eq!(judge(status, &[], None, None).unwrap_err().kind(), Kind::Redirect);
    }
    for status in [304, 305, 306] {
        assert_eq!(judge(status, &location, None, None).unwrap(), Answer::Refused);
    }
}

#[test]
fn only_what_may_pass_is_transient() {
    let refused = |status: u16| refusal(StatusCode::from_u16(status).unwrap(), &HeaderMap::new(), "");
    for status in [408, 425, 429, 500, 502, 503, 504, 599] {
        assert!(refused(status).is_transient(), "{status}");
    }
    for status in [204, 300, 304, 400, 401, 403, 404, 405, 407, 410, 416, 451] {
        assert!(!refused(status).is_transient(), "{status}");
        assert_eq!(refused(status).kind(), Kind::Status(status));
    }
    assert_eq!(refused(404).to_string(), "the server answered 404 Not Found: check the address");
    let asked = refusal(StatusCode::UNAUTHORIZED, &headers(&[("www-authenticate", "Bearer realm=\"x\"")]), "no");
    assert_eq!(asked.to_string(), "the server answered 401 Unauthorized (\"no\"): give valid credentials (Bearer)");
    assert!(refused(599).to_string().contains("599: try"));
}

#[test]
fn an_excerpt_is_one_short_line_without_markup_and_secrets() {
    let plain = |page: &[u8]| excerpt(page, std::iter::empty());
    let page = b"<html>\r\n<head><title>404 Not Found</title></head>\r\n<h1>\"nginx\"</h1>";
    assert_eq!(plain(page), "404 Not Found 'nginx'");
    assert_eq!(plain(b"a\x1b[31m\0\xff\nb"), "a [31m b");
    assert_eq!(plain(b"a < b"), "a");
    assert_eq!(plain("ä".repeat(200).as_bytes()), "ä".repeat(100));
    assert_eq!(plain(b""), "");
    let json = br#"{"errors":[{"code":"BLOB_UNKNOWN","message":"a has no\nblob \"b\"","detail":{}}]}"#;
    assert_eq!(plain(json), "a has no blob 'b'");
    assert_eq!(plain(br#"{"code":500, "message" : "so sorry"#), "so sorry", "a page that was cut");
    for other in [r#"{"message":""}"#, r#"{"message":7}"#, r#"{"error":"x"}"#, r#"["message","x"]"#] {
        assert_eq!(plain(other.as_bytes()), other.replace('"', "'"));
    }
    let page = b"<Error><Message>bad signature</Message><Given>Zm9v%3D</Given></Error>";
    assert_eq!(excerpt(page, ["Zm9v%3D"].into_iter()), "bad signature");
    assert_eq!(excerpt(page, ["Zm9v%3D", "signature"].into_iter()), "bad");
    assert_eq!(excerpt(page, ["other", ""].into_iter()), "bad signature Zm9v%3D");
}
