use std::fs;
use std::path::Path;
use std::sync::Arc;

use dvcr_transport::Locator;
use fixtures::http::{Object, Reply, Server};
use fixtures::store;
use serde_json::{Value, json};

use super::*;
use crate::source::{HttpConfig, HttpSource};
use crate::{Kind, Source};

fn account(path: &Path) -> ServiceAccount {
    ServiceAccount::parse(&fs::read(path).unwrap()).unwrap()
}

#[test]
fn signatures_are_those_of_the_library_of_google() {
    let dir = tempfile::tempdir().unwrap();
    let path = store::service_account(dir.path());
    for (bucket, key, endpoint) in [
        ("bucket", "images/f41.qcow2", "https://storage.googleapis.com"),
        ("bucket_with.dots", "a b+c%20d?e#f//ключ~", "https://storage.googleapis.com"),
        ("bucket", "/k", "http://127.0.0.1:4443"),
    ] {
        let object = Gcs::new(&format!("gs://{bucket}/{key}"), Some(endpoint), Some(account(&path))).unwrap();
        let ours = object.signed(&Moment::at(1_369_353_600)).unwrap();
        let theirs = store::signed_by_google(bucket, key, endpoint, &path, VALID_SECONDS, "20130524T000000Z");
        assert_eq!(ours, theirs);
    }
}

#[test]
fn without_an_account_the_address_is_plain() {
    let object = Gcs::new("gs://gcp-public-data/a b", None, None).unwrap();
    assert_eq!(object.locate().unwrap(), "https://storage.googleapis.com/gcp-public-data/a%20b");
    assert_eq!(object.name(), "gs://gcp-public-data/a b");
    let object = Gcs::new("gs://b/k", Some("http://localhost:9023/"), None).unwrap();
    assert_eq!(object.locate().unwrap(), "http://localhost:9023/b/k");
}

#[test]
fn what_is_no_service_account_is_told_without_the_key() {
    let dir = tempfile::tempdir().unwrap();
    let good: Value = serde_json::from_slice(&fs::read(store::service_account(dir.path())).unwrap()).unwrap();
    let with = |name: &str, value: Value| {
        let mut file = good.clone();
        file[name] = value;
        file.to_string()
    };
    for (file, word) in [
        ("s3cret".into(), "no JSON"),
        (with("type", json!("authorized_user")), "authorized_user"),
        (with("client_email", Value::Null), "no client_email"),
        (with("client_email", json!("")), "no client_email"),
        (with("private_key", Value::Null), "no private_key"),
        (with("private_key", json!("s3cret")), "no PEM"),
        (
            with("private_key", json!("-----BEGIN PRIVATE KEY-----\nczNjcmV0\n-----END PRIVATE KEY-----\n")),
            "private_key",
        ),
    ] {
        let error = ServiceAccount::parse(file.as_bytes()).unwrap_err();
        assert_eq!(error.kind(), Kind::Usage);
        let text = error.to_string();
        assert!(text.contains(word) && !text.contains("s3cret") && !text.contains("czNj"), "{text}");
    }
    assert_eq!(
        format!("{:?}", ServiceAccount::parse(good.to_string().as_bytes()).unwrap()),
        "ServiceAccount(importer@tests.iam.gserviceaccount.com)"
    );
}

#[test]
fn an_object_is_read_from_where_google_keeps_it() {
    let dir = tempfile::tempdir().unwrap();
    let served = Object::new("a disk");
    let server = Server::start(move |seen| match seen.target.split('?').next() {
        Some("/bucket/a%20b") => served.answer(seen),
        _ => Reply::new(404).body(
            "<?xml version='1.0' encoding='UTF-8'?><Error><Code>NoSuchKey</Code><Message>The specified key does not \
             exist.</Message><Details>No such object: bucket/gone</Details></Error>",
        ),
    });
    let source = |key: &str| {
        let account = account(&store::service_account(dir.path()));
        let object = Gcs::new(&format!("gs://bucket/{key}"), Some(&server.url("")), Some(account)).unwrap();
        HttpSource::located(Arc::new(object), HttpConfig::default()).unwrap()
    };
    let mut found = source("a b");
    drop(found.open().unwrap());
    assert_eq!((found.len(), found.ranges()), (Some(6), true));
    let target = &server.seen()[0].target;
    assert!(target.contains("?X-Goog-Algorithm=GOOG4-RSA-SHA256&"), "{target}");
    let error = source("gone").open().err().unwrap();
    assert_eq!(error.kind(), Kind::Refused);
    let words = "(\"NoSuchKey: The specified key does not exist. No such object: bucket/gone\"): check the name";
    assert!(error.to_string().contains(words), "{error}");
}
