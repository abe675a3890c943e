//! The bytes of a response, up to an end that is known to be the end.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body as _, Incoming};
use tokio::time::{Instant, timeout};

use crate::connection::{Connection, Idle, Route};
use crate::error::{Error, Kind, Result};

/// The bytes of a response. Reading it to the end gives its connection back; dropping it earlier closes the connection.
pub struct Body {
    state: State,
    /// For messages.
    place: String,
    idle: Duration,
    /// How long the network was waited for since the last progress, and what came since.
    waited: Duration,
    trickled: u64,
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
        let (waited, trickled) = (Duration::ZERO, 0);
        Self { state: State::Open(Box::new(open)), place, idle, waited, trickled, start, received: 0, expected }
    }

    /// The body of an object without bytes.
    pub(crate) fn empty() -> Self {
        let (place, idle, waited) = (String::new(), Duration::ZERO, Duration::ZERO);
        Self { state: State::Ended, place, idle, waited, trickled: 0, start: 0, received: 0, expected: Some(0) }
    }

    /// The next bytes, never empty; `None` after the last one. Data is handed on as it came from the connection, without
    /// a copy: up to 408 KiB at a time.
    ///
    /// Cancelling it loses nothing.
    ///
    /// # Errors
    ///
    /// `Kind::Stalled` after the idle timeout without progress: less than 4 KiB while we waited for so long, be it nothing
    /// or a byte now and then. There is no other limit on time. `Kind::Cut` when the connection or the body ends early. Both
    /// name the offset. After an error the same error is given again.
    pub async fn next(&mut self) -> Result<Option<Bytes>> {
        let open = match &mut self.state {
            State::Open(open) => open,
            State::Ended => return Ok(None),
            State::Failed(error) => return Err(error.clone()),
        };
        let begin = Instant::now();
        let bytes = match timeout(self.idle.saturating_sub(self.waited), data(&mut open.incoming)).await {
            Ok(Ok(bytes)) => bytes,
            Ok(Err(error)) => {
                open.pool.failed(&open.route.origin, &open.connection);
                let error = Error::broken(&error, &format!("at offset {}{}", self.offset(), self.of_total()));
                return Err(self.fail(error));
            }
            Err(_) => {
                open.pool.failed(&open.route.origin, &open.connection);
                let (peer, idle) = (open.connection.peer().clone(), self.idle);
                let what = match self.trickled {
                    few if self.waited > idle / 10 => format!("only {few} bytes from {peer} in {idle:?}"),
                    _ => format!("no data from {peer} for {idle:?}"),
                };
                let (offset, total) = (self.offset(), self.of_total());
                let message = format!("{what}, at offset {offset}{total}: server or network stand still");
                return Err(self.fail(Error::new(Kind::Stalled, message)));
            }
        };
        let last = open.incoming.is_end_stream();
        let len = bytes.as_ref().map_or(0, |bytes| bytes.len() as u64);
        self.received = self.received.saturating_add(len);
        self.waited = self.waited.saturating_add(begin.elapsed());
        self.trickled = self.trickled.saturating_add(len);
        if self.trickled >= PROGRESS {
            (self.waited, self.trickled) = (Duration::ZERO, 0);
        }
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

/// Less than this is none. At four KiB in each idle timeout of 30 s, a disk of a gigabyte takes three months.
const PROGRESS: u64 = 4 << 10;

#[cfg(test)]
mod tests;
