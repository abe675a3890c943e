//! What is counted and what is logged.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::store::Store;
use crate::store::gc::Outcome;

/// The counters of a server.
#[derive(Default)]
pub(crate) struct Metrics {
    /// Requests by method and status; few of each, since others are refused before they are counted here.
    requests: Mutex<BTreeMap<(&'static str, u16), Requests>>,
    pub(crate) received: AtomicU64,
    pub(crate) sent: AtomicU64,
    pub(crate) connections: AtomicU64,
    pub(crate) pushes: AtomicU64,
    pub(crate) refused_full: AtomicU64,
    gc_runs: AtomicU64,
    gc_failures: AtomicU64,
    gc_bytes: AtomicU64,
    gc_millis: AtomicU64,
}

#[derive(Clone, Copy, Default)]
struct Requests {
    count: u64,
    time: Duration,
}

impl Metrics {
    pub(crate) fn collected(&self, outcome: Option<&Outcome>, time: Duration) {
        self.gc_runs.fetch_add(1, Ordering::Relaxed);
        match outcome {
            Some(outcome) => self.gc_bytes.fetch_add(outcome.bytes, Ordering::Relaxed),
            None => self.gc_failures.fetch_add(1, Ordering::Relaxed),
        };
        self.gc_millis.store(u64::try_from(time.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// All counters in the text format of Prometheus, 0.0.4.
    pub(crate) fn text(&self, store: &Store, pulls: u64) -> String {
        let mut text = String::new();
        let requests = self.requests.lock().map(|requests| requests.clone()).unwrap_or_default();
        head(&mut text, "dvcr_requests_total", "counter", "Requests that were answered.");
        for ((method, status), requests) in &requests {
            let _ = writeln!(text, "dvcr_requests_total{{method=\"{method}\",code=\"{status}\"}} {}", requests.count);
        }
        head(
            &mut text,
            "dvcr_request_seconds_total",
            "counter",
            "Time from the first byte of requests to the last of answers.",
        );
        for ((method, status), requests) in &requests {
            let seconds = requests.time.as_secs_f64();
            let _ = writeln!(text, "dvcr_request_seconds_total{{method=\"{method}\",code=\"{status}\"}} {seconds}");
        }
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let mut simple = |name: &str, kind: &str, help: &str, value: u64| {
            head(&mut text, name, kind, help);
            let _ = writeln!(text, "{name} {value}");
        };
        simple(
            "dvcr_received_bytes_total",
            "counter",
            "Bytes of blobs and manifests that came in.",
            of(&self.received),
        );
        simple("dvcr_sent_bytes_total", "counter", "Bytes of answers that went out.", of(&self.sent));
        simple("dvcr_connections", "gauge", "Connections that are open.", of(&self.connections));
        simple("dvcr_pulls", "gauge", "Blobs that are being read.", pulls);
        simple("dvcr_pushes", "gauge", "Uploads that are being written.", of(&self.pushes));
        simple(
            "dvcr_refused_full_total",
            "counter",
            "Requests refused because there was no room.",
            of(&self.refused_full),
        );
        simple("dvcr_gc_runs_total", "counter", "Garbage collections of this process.", of(&self.gc_runs));
        simple("dvcr_gc_failures_total", "counter", "Those of them that failed.", of(&self.gc_failures));
        simple("dvcr_gc_freed_bytes_total", "counter", "Bytes that they removed.", of(&self.gc_bytes));
        simple("dvcr_gc_last_milliseconds", "gauge", "How long the last of them took.", of(&self.gc_millis));
        if let Ok(room) = store.room() {
            simple("dvcr_store_size_bytes", "gauge", "What the file system of the store can hold.", room.total);
            simple("dvcr_store_free_bytes", "gauge", "What of it is free.", room.free);
            simple("dvcr_store_reserve_bytes", "gauge", "What of it stays free.", room.reserve);
            simple("dvcr_store_full", "gauge", "1 when nothing can be stored any more.", room.is_full().into());
            if let Some(quota) = room.quota {
                simple("dvcr_store_quota_bytes", "gauge", "How much may be stored.", quota);
            }
            if let Some(used) = room.used {
                simple("dvcr_store_used_bytes", "gauge", "What counts against the quota.", used);
            }
        }
        text
    }
}

fn head(text: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

/// A request from its head to the last byte of its answer. Counted and logged when it is dropped.
pub(crate) struct Request {
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) method: hyper::Method,
    pub(crate) path: String,
    pub(crate) peer: String,
    pub(crate) user: String,
    pub(crate) agent: String,
    pub(crate) status: u16,
    pub(crate) error: Option<String>,
    pub(crate) begun: Instant,
    pub(crate) sent: u64,
    /// How much the answer has.
    pub(crate) length: u64,
    /// It is none of those that people want to see.
    pub(crate) quiet: bool,
}

impl Request {
    pub(crate) fn sent(&mut self, bytes: u64) {
        self.sent += bytes;
        self.metrics.sent.fetch_add(bytes, Ordering::Relaxed);
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        let time = self.begun.elapsed();
        let method = match self.method.as_str() {
            "GET" => "GET",
            "HEAD" => "HEAD",
            "POST" => "POST",
            "PUT" => "PUT",
            "PATCH" => "PATCH",
            "DELETE" => "DELETE",
            _ => "other",
        };
        if let Ok(mut requests) = self.metrics.requests.lock() {
            let requests = requests.entry((method, self.status)).or_default();
            requests.count += 1;
            requests.time += time;
        }
        if self.quiet {
            return;
        }
        let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let cut = self.sent < self.length && method != "HEAD";
        tracing::info!(
            target: "dvcr::access",
            peer = %self.peer,
            user = %self.user,
            method,
            path = %self.path,
            status = self.status,
            bytes = self.sent,
            millis,
            agent = %self.agent,
            cut,
            error = self.error.as_deref(),
        );
    }
}
