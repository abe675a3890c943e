//! A body on its way from a client to a server.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tokio::time::{Instant, Sleep};

use super::metrics::Counters;

/// The body of a request. Whoever passes it on keeps the other end, to hold it back, and to take it away.
pub(super) struct Passage {
    counters: Arc<Counters>,
    patience: Duration,
    state: Mutex<State>,
}

struct State {
    body: Option<Incoming>,
    /// The server wants it. Until then the client is not asked for it.
    open: bool,
    /// It has come to its end.
    over: bool,
    cut: Option<Cut>,
    /// Runs while the client sends nothing.
    idle: Pin<Box<Sleep>>,
    is_idle: bool,
    waker: Option<Waker>,
}

/// What hyper reads.
pub(super) struct Passed(Arc<Passage>);

/// Why a body has no end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cut {
    /// The client sent nothing for too long.
    Stalled,
    /// The client is gone.
    Gone,
    /// The server has answered.
    Taken,
}

impl Passage {
    pub(super) fn new(body: Incoming, open: bool, patience: Duration, counters: Arc<Counters>) -> Arc<Self> {
        let over = body.is_end_stream();
        let idle = Box::pin(tokio::time::sleep(patience));
        let state = State { body: Some(body), open, over, cut: None, idle, is_idle: false, waker: None };
        Arc::new(Self { counters, patience, state: Mutex::new(state) })
    }

    pub(super) fn passed(self: &Arc<Self>) -> Passed {
        Passed(Arc::clone(self))
    }

    /// Lets the body through.
    pub(super) fn open(&self) {
        let mut state = self.lock();
        state.open = true;
        state.wake();
    }

    /// Whether all of it was passed on.
    pub(super) fn is_over(&self) -> bool {
        let state = self.lock();
        state.over || state.body.as_ref().is_some_and(Body::is_end_stream)
    }

    /// Why it has no end, if that is why it was not passed on.
    pub(super) fn cut(&self) -> Option<Cut> {
        self.lock().cut
    }

    /// Takes it away from whoever reads it.
    pub(super) fn take(&self) -> Option<Incoming> {
        let mut state = self.lock();
        state.wake();
        state.body.take()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    fn poll(&mut self, patience: Duration, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, Cut>>> {
        self.waker = Some(context.waker().clone());
        if !self.open {
            return Poll::Pending;
        }
        loop {
            let Some(body) = self.body.as_mut() else { return Poll::Ready(Some(Err(Cut::Taken))) };
            match Pin::new(body).poll_frame(context) {
                Poll::Ready(None) => {
                    self.over = true;
                    return Poll::Ready(None);
                }
                Poll::Ready(Some(Err(_))) => return Poll::Ready(Some(Err(Cut::Gone))),
                Poll::Ready(Some(Ok(frame))) => {
                    self.is_idle = false;
                    // Trailers end here: nothing in an upload needs them.
                    if let Ok(bytes) = frame.into_data() {
                        return Poll::Ready(Some(Ok(bytes)));
                    }
                }
                Poll::Pending => {
                    if !self.is_idle {
                        self.is_idle = true;
                        self.idle.as_mut().reset(Instant::now() + patience);
                    }
                    std::task::ready!(self.idle.as_mut().poll(context));
                    return Poll::Ready(Some(Err(Cut::Stalled)));
                }
            }
        }
    }
}

impl Body for Passed {
    type Data = Bytes;
    type Error = Cut;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Cut>>> {
        let mut state = self.0.lock();
        if let Some(cut) = state.cut {
            return Poll::Ready(Some(Err(cut)));
        }
        let next = std::task::ready!(state.poll(self.0.patience, context));
        match &next {
            Some(Ok(bytes)) => self.0.counters.passed(bytes.len()),
            Some(Err(cut)) => state.cut = Some(*cut),
            None => {}
        }
        Poll::Ready(next.map(|next| next.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_over()
    }

    fn size_hint(&self) -> SizeHint {
        self.0.lock().body.as_ref().map(Body::size_hint).unwrap_or_default()
    }
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Stalled => "the client sends nothing",
            Self::Gone => "the client is gone",
            Self::Taken => "the server has answered",
        })
    }
}

impl std::error::Error for Cut {}
