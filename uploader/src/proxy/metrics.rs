//! What is counted.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Request, Response, StatusCode};

use crate::answer;
use crate::server::Service;

/// What a proxy has done.
#[derive(Debug, Default)]
pub struct Counters {
    answers: Mutex<BTreeMap<u16, u64>>,
    bytes: AtomicU64,
    under_way: AtomicU64,
}

/// A request that is passed on, until it is dropped.
pub(super) struct UnderWay<'a>(&'a Counters);

impl Counters {
    pub(super) fn answered(&self, status: StatusCode) {
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        *answers.entry(status.as_u16()).or_default() += 1;
    }

    pub(super) fn passed(&self, bytes: usize) {
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(super) fn under_way(&self) -> UnderWay<'_> {
        self.under_way.fetch_add(1, Ordering::Relaxed);
        UnderWay(self)
    }

    /// How many bytes were passed on.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// All of it in the text format of Prometheus, 0.0.4.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        let head = |name, kind, help| format!("# HELP {name} {help}\n# TYPE {name} {kind}\n");
        text.push_str(&head("uploader_proxy_requests_total", "counter", "Requests that were answered."));
        for (code, count) in self.answers.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            // Writing to a string does not fail.
            let _ = writeln!(text, "uploader_proxy_requests_total{{code=\"{code}\"}} {count}");
        }
        text.push_str(&head("uploader_proxy_bytes_total", "counter", "Bytes of uploads that were passed on."));
        let _ = writeln!(text, "uploader_proxy_bytes_total {}", self.bytes());
        text.push_str(&head("uploader_proxy_under_way", "gauge", "Requests that are passed on now."));
        let _ = writeln!(text, "uploader_proxy_under_way {}", self.under_way.load(Ordering::Relaxed));
        text
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Tells the counters at `/metrics`, on an address of its own: they are nothing for those who upload.
#[derive(Debug)]
pub struct Metrics(pub Arc<Counters>);

impl Service for Metrics {
    type Body = Full<Bytes>;

    async fn answer(self: Arc<Self>, request: Request<Incoming>) -> Response<Self::Body> {
        match request.uri().path() {
            "/metrics" => {
                let mut answer = Response::new(Full::new(Bytes::from(self.0.text())));
                let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
                answer.headers_mut().insert(CONTENT_TYPE, kind);
                answer
            }
            "/healthz" => answer::text(StatusCode::OK, "OK"),
            _ => answer::text(StatusCode::NOT_FOUND, "nothing is here but /metrics and /healthz"),
        }
    }

    fn sweep(&self, _: Instant) -> Duration {
        Duration::from_secs(3600)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page() {
        let counters = Counters::default();
        for status in [StatusCode::OK, StatusCode::OK, StatusCode::UNAUTHORIZED] {
            counters.answered(status);
        }
        counters.passed(5);
        let under_way = counters.under_way();
        let text = counters.text();
        for line in [
            "uploader_proxy_requests_total{code=\"200\"} 2",
            "uploader_proxy_requests_total{code=\"401\"} 1",
            "uploader_proxy_bytes_total 5",
            "uploader_proxy_under_way 1",
        ] {
            assert!(text.lines().any(|it| it == line), "{line}\n{text}");
        }
        drop(under_way);
        assert!(counters.text().ends_with("uploader_proxy_under_way 0\n"));
    }
}
