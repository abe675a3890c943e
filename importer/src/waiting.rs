//! Why nothing comes, as the network says it.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use importer_flow::source::WAITING;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

/// The last failure after which something was tried again.
static WHY: Mutex<Option<String>> = Mutex::new(None);

/// Hears of failures that are no end.
pub fn listener<S: Subscriber + for<'a> LookupSpan<'a>>() -> impl Layer<S> {
    Listener.with_filter(Targets::new().with_target(WAITING, LevelFilter::INFO))
}

/// Tells what is waited for, as long as nothing comes.
#[derive(Debug, Default)]
pub struct Waiting {
    received: u64,
}

impl Waiting {
    /// Why no more than `received` bytes have come; `None` if they still come.
    pub fn why(&mut self, received: u64) -> Option<String> {
        let mut why = lock();
        if received > self.received {
            self.received = received;
            *why = None;
        }
        why.clone()
    }
}

struct Listener;

impl<S: Subscriber> Layer<S> for Listener {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        event.record(&mut Message);
    }
}

struct Message;

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            *lock() = Some(importer_flow::report::line(&format!("{value:?}")));
        }
    }
}

fn lock() -> MutexGuard<'static, Option<String>> {
    WHY.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tracing_subscriber::layer::SubscriberExt;

    #[test]
    fn it_is_told_until_something_comes() {
        let subscriber = tracing_subscriber::registry().with(listener());
        tracing::subscriber::with_default(subscriber, || {
            let mut waiting = Waiting::default();
            assert_eq!(waiting.why(0), None);
            tracing::info!(target: "dvcr_transport", "something else");
            tracing::info!(target: WAITING, "http://h/x: connection\nrefused");
            for _ in 0..2 {
                assert_eq!(waiting.why(0).as_deref(), Some("http://h/x: connection refused"));
            }
            assert_eq!(waiting.why(1), None);
            tracing::info!(target: WAITING, "again");
            assert_eq!(waiting.why(1).as_deref(), Some("again"));
        });
    }
}
