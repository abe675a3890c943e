//! Objects whose addresses are made, and made anew.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use dvcr_transport::{Client, Config, Kind, Locator, Request, Resource};
use fixtures::http::{Object, Reply, Server};

use super::{failure, read, sample, whole};

/// Signs with the number of the signature and the region.
#[derive(Debug)]
struct Numbered {
    base: String,
    made: AtomicUsize,
    region: Mutex<String>,
}

impl Locator for Numbered {
    fn name(&self) -> String {
        "s3://bucket/disk".into()
    }

    fn locate(&self) -> Result<String, String> {
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        Ok(format!("{}/bucket/disk?sig={number}-s3cret&region={}", self.base, self.region.lock().unwrap()))
    }

    fn moved(&self, region: &str) -> bool {
        std::mem::replace(&mut *self.region.lock().unwrap(), region.into()) != region
    }
}

/// The first address that is asked for has the signature 1: 0 only shows that there can be one.
fn located(server: &Server) -> Resource {
    let locator = Numbered { base: server.url(""), made: AtomicUsize::new(0), region: Mutex::new("here".into()) };
    Client::new(Config::default()).unwrap().located(Arc::new(locator)).unwrap()
}

const ERROR: &str = "<?xml version=\"1.0\"?><Error><Code>CODE</Code><Message>So it is.</Message>";

#[tokio::test]
async fn an_address_is_used_until_it_expires_and_then_made_anew() {
    let content = sample(1000);
    let (expired, object) = (Arc::new(AtomicUsize::new(1)), Object::new(content.clone()));
    let now = Arc::clone(&expired);
    let server =
        Server::start(move |seen| match seen.target.contains(&format!("sig={}-", now.load(Ordering::SeqCst))) {
            true => object.answer(seen),
            false => Reply::new(403).body(ERROR.replace("CODE", "AccessDenied") + "</Error>"),
        });
    let resource = located(&server);
    assert_eq!(resource.address().to_string(), "s3://bucket/disk");
    assert_eq!(whole(&resource).await, content);
    let part = resource.get(&Request::from(10..20)).await.unwrap();
    let validator = part.validator.clone().unwrap();
    assert_eq!(read(part).await.unwrap(), content[10..20]);
    expired.store(2, Ordering::SeqCst);
    let part = resource.get(&Request::from(30..40).same(validator)).await.unwrap();
    assert_eq!(read(part).await.unwrap(), content[30..40]);
    let signatures: Vec<_> = server.seen().iter().map(|seen| seen.target[17..18].to_owned()).collect();
    assert_eq!(signatures, ["1", "1", "1", "2"]);
}

#[tokio::test]
async fn a_refusal_names_the_object_and_where_it_was_asked_for_once() {
    let server = Server::start(|_| Reply::new(403).body(ERROR.replace("CODE", "InvalidAccessKeyId") + "</Error>"));
    let error = failure(&located(&server)).await;
    assert_eq!((error.kind(), error.is_transient()), (Kind::Status(403), false));
    assert_eq!(
        error.to_string(),
        format!(
            "s3://bucket/disk (at {}/bucket/disk?…): the server answered 403 Forbidden (\"InvalidAccessKeyId: So it is.\"): \
             check the access key id and the endpoint",
            server.url("")
        )
    );
    assert_eq!(server.seen().len(), 1);
}

#[tokio::test]
async fn a_bucket_in_another_region_is_asked_for_there_once() {
    let server = Server::start(|seen| match seen.target.ends_with("region=there-2") {
        true => Reply::ok("found"),
        false => Reply::new(301)
            .header("x-amz-bucket-region", "there-2")
            .body(ERROR.replace("CODE", "PermanentRedirect") + "</Error>"),
    });
    assert_eq!(whole(&located(&server)).await, b"found");
    assert_eq!(server.seen().len(), 2);
    // It is not chased from region to region.
    let server = Server::start(|seen| {
        let next = if seen.target.ends_with("region=a") { "b" } else { "a" };
        let page = format!("{}<Region>{next}</Region></Error>", ERROR.replace("CODE", "AuthorizationHeaderMalformed"));
        Reply::new(400).body(page)
    });
    let error = failure(&located(&server)).await;
    assert_eq!((error.kind(), error.is_transient()), (Kind::Status(400), false));
    assert!(error.to_string().contains("the bucket is in the region b: give --region b"), "{error}");
    assert_eq!(server.seen().len(), 2);
}

#[tokio::test]
async fn what_cannot_be_located_is_told_at_once() {
    #[derive(Debug)]
    struct Nowhere(Result<String, String>);
    impl Locator for Nowhere {
        fn name(&self) -> String {
            "gs://bucket/disk".into()
        }
        fn locate(&self) -> Result<String, String> {
            self.0.clone()
        }
        fn moved(&self, _: &str) -> bool {
            false
        }
    }
    let client = Client::new(Config::default()).unwrap();
    let error = |said| client.located(Arc::new(Nowhere(said))).unwrap_err();
    assert_eq!(error(Err("no key".into())).to_string(), "gs://bucket/disk: no key");
    let unusable = error(Ok("http://two words/".into()));
    assert_eq!(unusable.kind(), Kind::Usage);
    assert!(unusable.to_string().starts_with("gs://bucket/disk: the address is not usable"), "{unusable}");
}
