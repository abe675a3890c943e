//! Reading an object, whatever the network does.

use std::collections::VecDeque;
use std::iter::once;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use tokio::time::Instant;

use crate::ahead::Ahead;
use crate::error::{Kind, Result};
use crate::object::Object;
use crate::resource::{Request, Resource, Response};
use crate::retry::Budget;
use crate::tail::Tail;

/// The bytes of an object, or of ranges of it, in order.
///
/// What fails is tried again, within [`Config::retry`](crate::Config::retry), and goes on where it was, if it is provably
/// the same object; otherwise it is an error of `Kind::Changed`. Where the object has ranges, up to
/// [`Config::connections`](crate::Config::connections) connections read ahead while the reader waits for the network.
/// Dropping it closes them.
pub struct Transfer {
    resource: Resource,
    object: Arc<Object>,
    /// What is still to be given.
    wanted: VecDeque<Range<u64>>,
    from: From,
}

enum From {
    Ahead(Box<Ahead>),
    /// One connection, from the first wanted byte on, with all that lies between.
    Alone {
        tail: Box<Tail>,
        /// What came and was not given yet; it ends at the offset of `tail`.
        rest: Bytes,
    },
}

impl Resource {
    /// Asks for the first bytes, until there is an answer, and reads on from there.
    ///
    /// The first request is for a short range, so that whoever wants only the start costs little. A server without
    /// ranges answers with the whole, which is read as it comes; one that answers with a refusal is asked once without a
    /// range before that is believed. HEAD is never sent.
    ///
    /// # Errors
    ///
    /// As [`get`](Self::get), after the budget of attempts.
    pub async fn open(&self) -> Result<(Arc<Object>, Transfer)> {
        let mut budget = Budget::new(self.retry());
        let begin = Instant::now();
        let mut whole = false;
        let response = match self.ask(&Request::from(0..FIRST), &mut budget).await {
            // Whoever can't answer to a range may still have the whole.
            Err(error) if matches!(error.kind(), Kind::Protocol | Kind::Mismatch) => {
                tracing::debug!(%error, "asked without a range");
                whole = true;
                self.ask(&Request::default(), &mut budget).await?
            }
            // And so may whoever refuses. A real refusal costs one request more, and is told as it was.
            Err(error) if may_mean_the_range(error.kind()) => {
                tracing::debug!(%error, "asked once without a range");
                whole = true;
                self.once(&Request::default()).await.map_err(|_| error)?
            }
            response => response?,
        };
        self.pace().answered(begin.elapsed());
        let end = response.range.map(|part| part.end);
        let object = Object::of(&response);
        let (response, end, ranges) = match (end, response.len) {
            (Some(end), Some(len)) if object.ranges || end >= len => (response, Some(end), object.ranges),
            // A part of something that can't be recognised is worth nothing.
            (Some(_), _) => {
                drop(response);
                let response = self.ask(&Request::default(), &mut budget).await?;
                let len = response.len;
                (response, len, false)
            }
            (None, len) => (response, len, false),
        };
        let object = Arc::new(Object { ranges, ..Object::of(&response) });
        let tail = Tail::new(self.clone(), Arc::clone(&object), 0, end).with(response.body);
        let tail = if whole { tail.whole() } else { tail };
        let transfer = match (end, object.len) {
            (Some(end), Some(len)) if ranges => {
                let rest = (end < len).then_some(end..len);
                let ahead = Ahead::new(self.clone(), Arc::clone(&object), rest).after(tail, end);
                Transfer::new(self, &object, once(0..len), From::Ahead(Box::new(ahead)))
            }
            _ => {
                let alone = From::Alone { tail: Box::new(tail), rest: Bytes::new() };
                Transfer::new(self, &object, once(0..end.unwrap_or(u64::MAX)), alone)
            }
        };
        Ok((object, transfer))
    }

    /// Reads ranges of an object that has them, in this order. Asks for nothing yet. A piece never crosses the border of
    /// a range, so that their lengths tell where one ends.
    #[must_use]
    pub fn read(&self, object: &Arc<Object>, ranges: impl IntoIterator<Item = Range<u64>>) -> Transfer {
        let ranges: Vec<_> = ranges.into_iter().filter(|range| !range.is_empty()).collect();
        let ahead = Ahead::new(self.clone(), Arc::clone(object), ranges.iter().cloned());
        Transfer::new(self, object, ranges, From::Ahead(Box::new(ahead)))
    }

    async fn ask(&self, request: &Request, budget: &mut Budget) -> Result<Response> {
        loop {
            match self.get(request).await {
                Ok(response) => return Ok(response),
                Err(error) => {
                    tracing::debug!(%error, "a request failed");
                    tokio::time::sleep(budget.failed(error)?).await;
                }
            }
        }
    }
}

impl Transfer {
    fn new(
        resource: &Resource,
        object: &Arc<Object>,
        wanted: impl IntoIterator<Item = Range<u64>>,
        from: From,
    ) -> Self {
        let wanted = wanted.into_iter().filter(|range| !range.is_empty()).collect();
        Self { resource: resource.clone(), object: Arc::clone(object), wanted, from }
    }

    /// The next bytes, never empty; `None` after the last one.
    ///
    /// # Errors
    ///
    /// What remains after the budget of attempts, with the offset; final.
    pub async fn next(&mut self) -> Result<Option<Bytes>> {
        loop {
            let bytes = match &mut self.from {
                From::Ahead(ahead) => match ahead.next().await {
                    Err(error) if matches!(error.kind(), Kind::NoRanges | Kind::Protocol | Kind::Mismatch) => {
                        let Some(first) = self.wanted.front() else { return Ok(None) };
                        tracing::debug!(%error, "one connection reads the rest");
                        let tail =
                            Tail::new(self.resource.clone(), Arc::clone(&self.object), first.start, self.object.len)
                                .whole();
                        self.from = From::Alone { tail: Box::new(tail), rest: Bytes::new() };
                        continue;
                    }
                    next => next?,
                },
                From::Alone { tail, rest } => {
                    let Some(first) = self.wanted.front() else { return Ok(None) };
                    if rest.is_empty() {
                        match tail.next().await? {
                            Some(bytes) => *rest = bytes,
                            None => return Ok(None),
                        }
                    }
                    let at = tail.offset() - rest.len() as u64;
                    let before = usize::try_from(first.start.saturating_sub(at)).unwrap_or(usize::MAX);
                    drop(rest.split_to(before.min(rest.len())));
                    let len = usize::try_from(first.end - first.start).unwrap_or(usize::MAX).min(rest.len());
                    let bytes = rest.split_to(len);
                    if bytes.is_empty() {
                        continue;
                    }
                    Some(bytes)
                }
            };
            if let Some(bytes) = &bytes {
                self.gave(bytes.len() as u64);
            }
            return Ok(bytes);
        }
    }

    /// Whether all of the first answer was given and nothing more was asked for: the moment to stop for whoever wanted
    /// only the start.
    #[must_use]
    pub fn at_rest(&self) -> bool {
        matches!(&self.from, From::Ahead(ahead) if ahead.at_rest())
    }

    fn gave(&mut self, len: u64) {
        if let Some(first) = self.wanted.front_mut() {
            first.start = first.start.saturating_add(len);
            if first.is_empty() {
                self.wanted.pop_front();
            }
        }
    }
}

impl std::fmt::Debug for Transfer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Transfer").field("resource", &self.resource).field("wanted", &self.wanted).finish()
    }
}

/// Whether a failure may be that of a server, or of a guard before it, that takes no offence at the object but at the
/// range: "bad request", "forbidden", "not allowed", "not acceptable", "not implemented", a script that fails, a
/// connection that is closed without an answer. Not so where the server says that it is busy, wants to know who asks, or
/// has no such object.
fn may_mean_the_range(kind: Kind) -> bool {
    matches!(kind, Kind::Status(400 | 403 | 405 | 406 | 500 | 501) | Kind::Cut)
}

/// What the first request asks for: more than it takes to tell what an image is.
const FIRST: u64 = 512 << 10;
