//! What is counted, for Prometheus.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::session::Phase;

/// The counters of a server. They only go up.
#[derive(Debug, Default)]
pub struct Metrics {
    received: AtomicU64,
    answers: Mutex<BTreeMap<u16, u64>>,
    imports: Mutex<BTreeMap<&'static str, Imports>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Imports {
    count: u64,
    time: Duration,
}

impl Metrics {
    /// So many bytes came that an import has taken.
    pub fn received(&self, bytes: u64) {
        self.received.fetch_add(bytes, Ordering::Relaxed);
    }

    /// A request was answered.
    pub fn answered(&self, status: u16) {
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        *answers.entry(status).or_default() += 1;
    }

    /// An import has ended with this reason, so long after its first byte.
    pub fn ended(&self, reason: &'static str, time: Duration) {
        let mut imports = self.imports.lock().unwrap_or_else(PoisonError::into_inner);
        let imports = imports.entry(reason).or_default();
        imports.count += 1;
        imports.time += time;
    }

    /// All counters in the text format of Prometheus, 0.0.4. Nothing in it tells one upload from another.
    #[must_use]
    pub fn text(&self, phases: &[Phase], active: usize) -> String {
        let mut text = String::new();
        // A string takes all that is written, here and below.
        let name = "uploader_received_bytes_total";
        head(&mut text, name, "counter", "Bytes of images that came in.");
        let _ = writeln!(text, "{name} {}", self.received.load(Ordering::Relaxed));
        let name = "uploader_uploads";
        head(&mut text, name, "gauge", "Uploads that the server knows, by what they do.");
        for phase in Phase::ALL {
            let count = phases.iter().filter(|other| **other == phase).count();
            let _ = writeln!(text, "{name}{{phase=\"{phase:?}\"}} {count}");
        }
        let name = "uploader_imports_active";
        head(&mut text, name, "gauge", "Imports that are under way.");
        let _ = writeln!(text, "{name} {active}");
        let imports = self.imports.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let name = "uploader_imports_total";
        head(&mut text, name, "counter", "Imports that have ended, by the reason in their reports.");
        for (reason, Imports { count, .. }) in &imports {
            let _ = writeln!(text, "{name}{{reason=\"{reason}\"}} {count}");
        }
        let name = "uploader_import_seconds_total";
        head(&mut text, name, "counter", "Time from the first byte of those imports to their end.");
        for (reason, Imports { time, .. }) in &imports {
            let _ = writeln!(text, "{name}{{reason=\"{reason}\"}} {}", time.as_secs_f64());
        }
        let answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let name = "uploader_requests_total";
        head(&mut text, name, "counter", "Requests that were answered.");
        for (status, count) in &answers {
            let _ = writeln!(text, "{name}{{code=\"{status}\"}} {count}");
        }
        text
    }
}

fn head(text: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_told_as_prometheus_reads_them() {
        let metrics = Metrics::default();
        metrics.received(5);
        metrics.received(7);
        metrics.answered(200);
        metrics.answered(404);
        metrics.answered(200);
        metrics.ended("Completed", Duration::from_millis(1500));
        metrics.ended("Completed", Duration::from_secs(1));
        let text = metrics.text(&[Phase::Receiving, Phase::Waiting, Phase::Receiving], 2);
        for line in [
            "uploader_received_bytes_total 12",
            "uploader_uploads{phase=\"Receiving\"} 2",
            "uploader_uploads{phase=\"Waiting\"} 1",
            "uploader_uploads{phase=\"Failed\"} 0",
            "uploader_imports_active 2",
            "uploader_imports_total{reason=\"Completed\"} 2",
            "uploader_import_seconds_total{reason=\"Completed\"} 2.5",
            "uploader_requests_total{code=\"200\"} 2",
            "# TYPE uploader_requests_total counter",
        ] {
            assert!(text.lines().any(|other| other == line), "{line}\n{text}");
        }
    }
}
