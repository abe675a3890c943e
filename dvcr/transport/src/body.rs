//! The bytes of a response, up to an end that is known to be the end.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body as _, Incoming};
use tokio::time::timeout;

use crate::connection::{Connection, Idle, Route};
use crate::error::{Error, Kind, Result};

/// The bytes of a response. Reading it to the end gives its connection back; dropping it earlier closes the connection.
pub struct Body {
    state: State,
    /// For messages.
    place: String,
    idle: Duration,
    start: u64,
    received: u64,
    /// How many bytes there are, where that is known.
    expected: Option<u64>,
}

enum State {
    Open(Box<Open>),
    Ended,
    Failed(Error),
}

/// What a body reads from.
pub(crate) struct Open {
    pub(crate) incoming: Incoming,
    pub(crate) connection: Connection,
    pub(crate) route: Route,
    pub(crate) pool: Arc<Idle>,
}

impl Body {
    pub(crate) fn new(open: Open, place: String, idle: Duration, start: u64, expected: Option<u64>) -> Self {
        Self { state: State::Open(Box::new(open)), place, idle, start, received: 0, expected }
    }

    /// The body of an object without bytes.
    pub(crate) fn empty() -> Self {
        let (place, idle) = (String::new(), Duration::ZERO);
        Self { state: State::Ended, place, idle, start: 0, received: 0, expected: Some(0) }
    }

    /// The next bytes, never empty; `None` after the last one. Data is handed on as it came from the connection, without
    /// a copy: up to 408 KiB at a time.
    ///
    /// Cancelling it loses nothing.
    ///
    /// # Errors
    ///
    /// `Kind::Stalled` after the idle timeout without a byte, `Kind::Cut` when the connection or the body ends early. Both
    /// name the offset. After an error the same error is given again.
    pub async fn next(&mut self) -> Result<Option<Bytes>> {
        let open = match &mut self.state {
            State::Open(open) => open,
            State::Ended => return Ok(None),
            State::Failed(error) => return Err(error.clone()),
        };
        let bytes = match timeout(self.idle, data(&mut open.incoming)).await {
            Ok(Ok(bytes)) => bytes,
            Ok(Err(error)) => {
                open.pool.failed(&open.route.origin, &open.connection);
                let error = Error::broken(&error, &format!("at offset {}{}", self.offset(), self.of_total()));
                return Err(self.fail(error));
            }
            Err(_) => {
                open.pool.failed(&open.route.origin, &open.connection);
                let (peer, idle) = (open.connection.peer().clone(), self.idle);
                let message = format!(
                    "no data from {peer} for {idle:?}, at offset {}{}: server or network stand still",
                    self.offset(),
                    self.of_total()
                );
                return Err(self.fail(Error::new(Kind::Stalled, message)));
            }
        };
        let last = open.incoming.is_end_stream();
        self.received = self.received.saturating_add(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64));
        if self.expected.is_some_and(|expected| self.received > expected) {
            let message = format!("the server sent more than it announced{}", self.of_total());
            return Err(self.fail(Error::new(Kind::Protocol, message)));
        }
        if last || bytes.is_none() {
            if self.remaining().is_some_and(|remaining| remaining > 0) {
                let message = format!("the answer ended at offset {}{}", self.offset(), self.of_total());
                let error = self.fail(Error::new(Kind::Cut, message));
                // The bytes that came are good.
                return if bytes.is_some() { Ok(bytes) } else { Err(error) };
            }
            if let State::Open(open) = std::mem::replace(&mut self.state, State::Ended) {
                open.pool.put(open.route, open.connection);
            }
        }
        Ok(bytes)
    }

    /// The offset in the object of the byte that comes next: where to go on after an error.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.start.saturating_add(self.received)
    }

    /// How many bytes are still to come, where that is known.
    #[must_use]
    pub fn remaining(&self) -> Option<u64> {
        self.expected.map(|expected| expected.saturating_sub(self.received))
    }

    fn fail(&mut self, error: Error) -> Error {
        let error = error.at(&self.place);
        self.state = State::Failed(error.clone());
        error
    }

    fn of_total(&self) -> String {
        let end = self.expected.map(|expected| self.start.saturating_add(expected));
        end.map(|end| format!(" of {end}")).unwrap_or_default()
    }
}

impl std::fmt::Debug for Body {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Body").field("offset", &self.offset()).field("remaining", &self.remaining()).finish()
    }
}

/// The next frame that holds data. Empty frames and trailers are no progress.
async fn data(incoming: &mut Incoming) -> hyper::Result<Option<Bytes>> {
    loop {
        match incoming.frame().await.transpose()?.map(hyper::body::Frame::into_data) {
            None => return Ok(None),
            Some(Ok(bytes)) if !bytes.is_empty() => return Ok(Some(bytes)),
            Some(_) => {}
        }
    }
}

#[cfg(test)]
mod tests;
