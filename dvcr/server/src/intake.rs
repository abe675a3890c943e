//! What a client sends with its request.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::header::EXPECT;
use hyper::{Request, Version};
use tokio::runtime::Handle;

/// The body of a request. What is left of it when whoever reads it has seen enough is read on for a while and thrown
/// away: a connection that is closed while bytes come is reset, and the answer that says why is lost with it.
///
/// Costs nothing for a body that is read to its end; else no memory, and up to [`LINGER_BYTES`] of the network.
pub(crate) struct Intake {
    /// Absent after the end.
    body: Option<Incoming>,
    /// Whether the client waits to be told before it sends anything.
    waits: bool,
    end: End,
}

/// Whether everything was read that a client sends.
#[derive(Clone)]
pub(crate) struct End(Arc<AtomicBool>);

impl Intake {
    /// The same request with its body in here, and what tells whether that was read.
    pub(crate) fn of(request: Request<Incoming>) -> (Request<Self>, End) {
        let end = End(Arc::new(AtomicBool::new(request.body().is_end_stream())));
        // //# RFC 9110, 10.1.1: "A server that receives a 100-continue expectation in an HTTP/1.0 request MUST ignore that
        // expectation."
        let waits = request.version() >= Version::HTTP_11 && request.headers().contains_key(EXPECT);
        let known = end.clone();
        (request.map(|body| Self { body: (!body.is_end_stream()).then_some(body), waits, end }), known)
    }

    fn finish(&mut self) {
        self.body = None;
        self.end.0.store(true, Ordering::Relaxed);
    }
}

impl End {
    /// Whether nothing is left that the client may still send.
    pub(crate) fn is_reached(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl Body for Intake {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        self.waits = false;
        let Some(body) = &mut self.body else { return Poll::Ready(None) };
        let frame = ready!(Pin::new(&mut *body).poll_frame(context));
        if body.is_end_stream() || !matches!(frame, Some(Ok(_))) {
            self.finish();
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(|| SizeHint::with_exact(0), Body::size_hint)
    }
}

impl Drop for Intake {
    fn drop(&mut self) {
        // Who waits is not asked to send: the answer comes instead.
        if let Some(body) = self.body.take().filter(|_| !self.waits)
            && let Ok(handle) = Handle::try_current()
        {
            handle.spawn(linger(body));
        }
    }
}

async fn linger(mut body: Incoming) {
    let mut left = LINGER_BYTES;
    let drain = async {
        while let Some(Ok(frame)) = body.frame().await {
            left = left.saturating_sub(frame.data_ref().map_or(0, Bytes::len));
            if left == 0 {
                return;
            }
        }
    };
    // Whoever still sends then does not read.
    let _ = tokio::time::timeout(LINGER, drain).await;
}

/// What is on its way when the answer is sent: clients that read look at it long before.
const LINGER_BYTES: usize = 256 << 20;
const LINGER: Duration = Duration::from_secs(10);
