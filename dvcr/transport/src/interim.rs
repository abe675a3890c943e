//! Interim answers, 1xx: "wait, there is more to come".

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hyper::Request;
use hyper::ext::on_informational;
use tokio::sync::Notify;

use crate::error::{Error, Kind};

/// Counts the interim answers to a request. They are not an answer, and come in any number (RFC 9110, 15.2), so that a
/// server could keep us with them for ever: each is a sign of life, and none is progress.
///
/// hyper tells of those of HTTP/1 only. In HTTP/2 the idle timeout ends them, once: after it HTTP/1.1 is spoken.
#[derive(Clone, Default)]
pub(crate) struct Interim(Arc<State>);

#[derive(Default)]
struct State {
    seen: AtomicUsize,
    enough: Notify,
}

impl Interim {
    /// Those that answer `request`, which is to be sent.
    pub(crate) fn of<B>(request: &mut Request<B>) -> Self {
        let this = Self::default();
        let state = Arc::clone(&this.0);
        on_informational(request, move |_| {
            if state.seen.fetch_add(1, Ordering::Relaxed) >= MOST {
                state.enough.notify_one();
            }
        });
        this
    }

    /// The error of a server that has sent more than anybody needs. Never comes before.
    pub(crate) async fn too_many(&self) -> Error {
        self.0.enough.notified().await;
        let message = format!("the server sent more than {MOST} interim answers (1xx) and no other: check the address");
        Error::new(Kind::Protocol, message)
    }
}

/// Servers send one, or one for each of their hints; a slow one may send `102 Processing` every few seconds.
const MOST: usize = 100;
