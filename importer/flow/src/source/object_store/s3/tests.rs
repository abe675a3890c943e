use std::fs;
use std::sync::Arc;

use fixtures::store::{self, Config, KEY_ID, SECRET, TEMPORARY_ID, TOKEN};

use super::*;
use crate::source::{HttpConfig, HttpSource};
use crate::{Kind, Piece, Source};

const NOW: u64 = 1_369_353_600;

fn keys() -> Keys {
    Keys::new(KEY_ID, SECRET, None).unwrap()
}

fn plain(name: &str, options: S3Options) -> String {
    let object = S3::new(name, options).unwrap();
    let region = object.region.lock().unwrap().clone();
    object.plain(&region)
}

fn at(endpoint: &str) -> S3Options {
    S3Options { endpoint: Some(endpoint.into()), ..S3Options::default() }
}

#[test]
fn the_example_of_aws_is_signed_as_aws_says() {
    let now = Moment::at(NOW);
    let signing = Signing { dialect: AWS, id: KEY_ID, region: "us-east-1", more: &[], now: &now, seconds: 86400 };
    let url = "https://examplebucket.s3.amazonaws.com/test.txt";
    let signed = signing.sign(url, |text| Ok(signing.with_secret(SECRET, text))).unwrap();
    assert_eq!(
        signed,
        "https://examplebucket.s3.amazonaws.com/test.txt?X-Amz-Algorithm=AWS4-HMAC-SHA256\
         &X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20130524%2Fus-east-1%2Fs3%2Faws4_request\
         &X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400&X-Amz-SignedHeaders=host\
         &X-Amz-Signature=aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404"
    );
}

#[test]
fn signatures_are_those_of_the_library_of_aws() {
    for (name, endpoint, region, token) in [
        ("s3://bucket/images/f41.qcow2", None, "eu-central-1", None),
        ("s3://bucket.with.dots/a b+c%20d?e", None, "cn-north-1", Some(TOKEN)),
        ("s3://bucket//ключ//(!*')~/../x", Some("http://127.0.0.1:9000"), "us-east-1", None),
        ("s3://bucket/k", Some("https://Gateway.lan:443/s3"), "garage", Some(TOKEN)),
    ] {
        let options = S3Options {
            endpoint: endpoint.map(Into::into),
            region: Some(region.into()),
            keys: Some(Keys::new(KEY_ID, SECRET, token).unwrap()),
            ..S3Options::default()
        };
        let ours = S3::new(name, options.clone()).unwrap().signed(&Moment::at(NOW)).unwrap();
        let url = plain(name, options);
        let theirs = store::signed_by_aws(&url, KEY_ID, token.unwrap_or(""), region, VALID_SECONDS, "20130524T000000Z");
        // They do not sort what they send, and we do; what is signed is sorted.
        let sorted = |url: &str| {
            let (path, query) = url.split_once('?').unwrap();
            let mut pairs: Vec<String> = query.split('&').map(Into::into).collect();
            pairs.sort();
            (path.to_owned(), pairs)
        };
        assert_eq!(sorted(&ours), sorted(&theirs), "{name}");
    }
}

#[test]
fn buckets_stand_in_the_host_or_in_the_path() {
    let auto = S3Options::default;
    let style = |path_style| S3Options { path_style, ..S3Options::default() };
    for (name, options, url) in [
        ("s3://bucket/k", auto(), "https://bucket.s3.us-east-1.amazonaws.com/k"),
        ("s3://my.bucket/k", auto(), "https://s3.us-east-1.amazonaws.com/my.bucket/k"),
        ("s3://My_Bucket/k", auto(), "https://s3.us-east-1.amazonaws.com/My_Bucket/k"),
        ("s3://bucket/k", style(PathStyle::Always), "https://s3.us-east-1.amazonaws.com/bucket/k"),
        ("s3://my.bucket/k", style(PathStyle::Never), "https://my.bucket.s3.us-east-1.amazonaws.com/k"),
        ("s3://bucket/k", at("http://minio:9000"), "http://minio:9000/bucket/k"),
        (
            "s3://bucket/k",
            S3Options { path_style: PathStyle::Never, ..at("https://minio:9000/s3") },
            "https://bucket.minio:9000/s3/k",
        ),
        (
            "s3://bucket/k",
            S3Options { region: Some("cn-north-1".into()), ..auto() },
            "https://bucket.s3.cn-north-1.amazonaws.com.cn/k",
        ),
    ] {
        assert_eq!(plain(name, options), url);
    }
    for address in ["http://127.0.0.1:9000", "http://[::1]:9000"] {
        let options = S3Options { path_style: PathStyle::Never, ..at(address) };
        let error = S3::new("s3://bucket/k", options).unwrap_err();
        assert_eq!(error.kind(), Kind::Usage);
        assert!(error.to_string().contains("--path-style always"), "{error}");
    }
}

#[test]
fn a_region_is_given_or_read_from_the_endpoint() {
    for (endpoint, region) in [
        ("https://s3.eu-central-1.amazonaws.com", "eu-central-1"),
        ("https://s3.dualstack.eu-west-3.amazonaws.com", "eu-west-3"),
        ("https://s3-ap-south-1.amazonaws.com:443", "ap-south-1"),
        ("https://s3.us-west-004.backblazeb2.com", "us-west-004"),
        ("https://s3.lan", "us-east-1"),
        ("https://minio.my-site-1.example", "us-east-1"),
        ("http://127.0.0.1:9000", "us-east-1"),
    ] {
        let object = S3::new("s3://bucket/k", at(endpoint)).unwrap();
        assert_eq!(*object.region.lock().unwrap(), region, "{endpoint}");
        let options = S3Options { region: Some("garage".into()), ..at(endpoint) };
        assert_eq!(*S3::new("s3://bucket/k", options).unwrap().region.lock().unwrap(), "garage");
    }
    for region in ["", "a b", "evil.example/"] {
        let options = S3Options { region: Some(region.into()), ..S3Options::default() };
        assert_eq!(S3::new("s3://bucket/k", options).unwrap_err().kind(), Kind::Usage);
    }
}

#[test]
fn another_region_counts_where_it_makes_another_address() {
    let moved = |options, to| S3::new("s3://bucket/k", options).unwrap().moved(to);
    assert!(moved(S3Options::default(), "eu-west-3"));
    assert!(!moved(S3Options::default(), "us-east-1"));
    assert!(!moved(at("http://minio:9000"), "eu-west-3"));
    assert!(moved(S3Options { keys: Some(keys()), ..at("http://minio:9000") }, "eu-west-3"));
    assert!(!moved(S3Options { keys: Some(keys()), ..at("http://minio:9000") }, "us-east-1"));
}

#[test]
fn keys_lose_one_newline_and_are_never_shown() {
    let keys = Keys::new("id\n", "s3cret\r\n", Some("token\n")).unwrap();
    assert_eq!((&*keys.id, &*keys.secret, keys.token.as_deref()), ("id", "s3cret", Some("token")));
    let object = S3::new("s3://bucket/k", S3Options { keys: Some(keys), ..S3Options::default() }).unwrap();
    let shown = format!("{object:?}");
    assert!(!shown.contains("s3cret") && !shown.contains("token"), "{shown}");
    for (id, secret, token, word) in [
        ("", "s3cret", None, "access key id is empty"),
        ("id", "\n", None, "secret key is empty"),
        ("id", "s3cret\n\n", None, "secret key has white space"),
        ("id", "s3cret", Some("a b"), "session token has white space"),
    ] {
        let error = Keys::new(id, secret, token).unwrap_err();
        assert_eq!(error.kind(), Kind::Usage);
        assert!(error.to_string().contains(word) && !error.to_string().contains("s3cret"), "{error}");
    }
}

/// Reads an object to its end.
fn read(source: &mut HttpSource) -> Result<Vec<u8>> {
    let mut stream = source.open()?;
    let mut all = Vec::new();
    while let Some(piece) = stream.next()? {
        match piece {
            Piece::Bytes(bytes) => all.extend_from_slice(&bytes),
            other => panic!("{other:?}"),
        }
    }
    Ok(all)
}

fn source(name: &str, options: S3Options) -> HttpSource {
    HttpSource::located(Arc::new(S3::new(name, options).unwrap()), HttpConfig::default()).unwrap()
}

#[test]
fn a_server_finds_every_key_under_its_name() {
    let dir = tempfile::tempdir().unwrap();
    let names = [
        "a b+c%20d&e=f;g",
        "ключ/日本",
        "/leading",
        "double//slash/",
        "?#question",
        "(!*')~",
        "..hidden/..",
        "%",
        "x:y@z,$",
    ];
    let mut config = Config::new().bucket("bucket", "us-east-1").bucket("public.files", "us-east-1");
    for (number, key) in names.iter().enumerate() {
        let path = dir.path().join(number.to_string());
        fs::write(&path, format!("this is {key}")).unwrap();
        config = config.object("bucket", key, &path).object("public.files", key, &path);
    }
    let server = config.start();
    for key in names {
        let signed = S3Options { keys: Some(keys()), ..at(&server.url()) };
        for (name, options) in
            [(format!("s3://bucket/{key}"), signed), (format!("s3://public.files/{key}"), at(&server.url()))]
        {
            let mut source = source(&name, options);
            assert_eq!(source.name(), name);
            let bytes = read(&mut source).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(String::from_utf8_lossy(&bytes), format!("this is {key}"));
            assert!(source.ranges(), "{name}");
            assert_eq!(source.len(), Some(bytes.len() as u64));
        }
    }
    assert!(server.seen().iter().all(|request| request.method == "GET"));
}

#[test]
fn a_server_takes_temporary_keys_with_their_token_and_names_its_region() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("disk");
    fs::write(&path, "a disk").unwrap();
    let server = Config::new().bucket("far", "eu-west-3").object("far", "disk", &path).start();
    let options = |keys| S3Options { keys: Some(keys), ..at(&server.url()) };
    let mut temporary = source("s3://far/disk", options(Keys::new(TEMPORARY_ID, SECRET, Some(TOKEN)).unwrap()));
    assert_eq!(read(&mut temporary).unwrap(), b"a disk");
    // The region was asked for once, and is known from then on.
    assert_eq!(read(&mut temporary).unwrap(), b"a disk");
    let statuses: Vec<_> = server.seen().iter().map(|request| request.status).collect();
    assert_eq!(statuses, [400, 206, 206]);

    let refused = |keys: Keys| read(&mut source("s3://far/disk", options(keys))).unwrap_err();
    for (keys, words) in [
        (Keys::new(TEMPORARY_ID, SECRET, Some("stale")).unwrap(), ["InvalidToken", "check the session token"]),
        (Keys::new("AKIDUNKNOWN", SECRET, None).unwrap(), ["InvalidAccessKeyId", "check the access key id"]),
        (Keys::new(KEY_ID, "not+the+secret", None).unwrap(), ["SignatureDoesNotMatch", "check the secret key"]),
    ] {
        let error = refused(keys);
        assert_eq!(error.kind(), Kind::Refused);
        let text = error.to_string();
        let place = format!("s3://far/disk (at {}/far/disk", server.url());
        assert!(text.starts_with(&place) && words.iter().all(|word| text.contains(word)), "{text}");
        assert!(!text.contains("X-Amz") && !text.contains("not+the+secret"), "{text}");
    }
}
