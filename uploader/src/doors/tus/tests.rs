use std::convert::Infallible;
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use http_body_util::Full;
use hyper::body::Frame;
use hyper::header::LOCATION;

use super::*;
use crate::budget::Budget;
use crate::session::Claimed;
use crate::sessions::Sessions;

const EXPIRY: Duration = Duration::from_secs(600);

fn api(root: &Path) -> Arc<Api> {
    let sessions = Sessions::new(Budget::new(64 << 20, 4), 8, EXPIRY);
    Arc::new(Api::folder(sessions, root.to_owned(), None, Duration::from_secs(60)))
}

fn wait<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

fn creation(len: usize) -> hyper::http::request::Builder {
    Request::post("/files").header("upload-length", len).header("upload-metadata", "filename YQ==")
}

async fn create(api: &Arc<Api>) -> (StatusCode, String) {
    let request = creation(5000).header("tus-resumable", "1.0.0").body(Full::<Bytes>::default()).unwrap();
    let answer = answer(api, At::Folder, Dialect::Tus, request).await;
    let location = answer.headers().get(LOCATION).map(|path| path.to_str().unwrap().to_owned());
    (answer.status(), location.unwrap_or_default().trim_start_matches("/files/").to_owned())
}

#[test]
fn what_nothing_happens_to_expires() {
    let dir = tempfile::tempdir().unwrap();
    let api = api(dir.path());
    wait(async {
        let now = Instant::now();
        let (code, secret) = create(&api).await;
        assert_eq!(code, StatusCode::CREATED);
        let session = api.sessions.find(&secret).unwrap();
        let mut writer = session.writer(Claimed::Refuse).await.unwrap();
        writer.push(Bytes::from(vec![1; 4096])).await.unwrap();
        // Not while somebody sends.
        api.sessions.sweep(now + 2 * EXPIRY);
        drop(writer);
        api.sessions.sweep(Instant::now() + EXPIRY / 2);
        assert_eq!(session.status().offset, 4096);
        assert_eq!(create(&api).await.0, StatusCode::CONFLICT);
        api.sessions.sweep(Instant::now() + 2 * EXPIRY);
        assert_eq!(api.sessions.find(&secret).unwrap_err().status, 404);
        session.ended().await;
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        assert_eq!(create(&api).await.0, StatusCode::CREATED);
    });
}

#[test]
fn an_upload_nobody_was_told_of_is_given_up() {
    let dir = tempfile::tempdir().unwrap();
    let api = api(dir.path());
    wait(async {
        let body = Begun(Some(Bytes::from(vec![1; 4096])));
        let request = creation(5000).header("tus-resumable", "1.0.0");
        let request = request.header("content-type", "application/offset+octet-stream").body(body).unwrap();
        let mut answering = Box::pin(answer(&api, At::Folder, Dialect::Tus, request));
        let waiting = tokio::time::timeout(Duration::ZERO, answering.as_mut()).await;
        assert!(waiting.is_err() && create(&api).await.0 == StatusCode::CONFLICT);
        // What hyper does with it then.
        drop(answering);
        assert_eq!(create(&api).await.0, StatusCode::CREATED);
    });
}

/// A body that begins and does not go on, as that of a client that is gone.
struct Begun(Option<Bytes>);

impl Body for Begun {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.take().map_or(Poll::Pending, |bytes| Poll::Ready(Some(Ok(Frame::data(bytes)))))
    }
}
