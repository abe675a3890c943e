//! The right to send.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use importer_flow::source::upload::Gone;
use tokio::sync::{OwnedMutexGuard, watch};

use super::run::Run;
use super::{Announced, End, HAND_OVER, Session};
use crate::refusal::Refusal;

/// The right to send to an upload, until it is dropped or somebody newer takes over.
#[derive(Debug)]
pub struct Writer {
    session: Arc<Session>,
    newest: watch::Receiver<u64>,
    mine: u64,
    _turn: OwnedMutexGuard<()>,
}

impl Writer {
    pub(super) fn new(session: Arc<Session>, turn: OwnedMutexGuard<()>, mine: u64) -> Self {
        let newest = session.newest.subscribe();
        Self { session, newest, mine, _turn: turn }
    }

    /// Where the next byte goes. Waits for the import where it has to say that first.
    pub async fn offset(&self) -> u64 {
        self.session.offset().await
    }

    /// How the import has ended, if it has.
    #[must_use]
    pub fn ended(&self) -> Option<Arc<End>> {
        self.session.lock().run.as_ref().and_then(Run::ended)
    }

    /// Forgets all that came so far; the next byte is the first.
    ///
    /// # Errors
    ///
    /// 503 while the import can't be ended, which may wait for a disk or a registry.
    pub async fn forget(&mut self) -> Result<(), Refusal> {
        let earlier = {
            let mut inner = self.session.lock();
            inner.announced = Announced::default();
            inner.run.take()
        };
        if let Some(run) = earlier {
            let mut end = run.end();
            // Dropped, it is given up; and the target is free only when its thread is done.
            drop(run);
            let ended = tokio::time::timeout(HAND_OVER, end.wait_for(Option::is_some)).await;
            ended.map(drop).map_err(|_| Refusal::later(5, "what was uploaded before is still being given up"))?;
        }
        self.session.wish.forget();
        Ok(())
    }

    /// Says what will come, before any of it has.
    pub fn announce(&mut self, announced: Announced) {
        self.session.lock().announced = announced;
    }

    /// Says how many bytes there will be, where nobody knew until now.
    ///
    /// # Errors
    ///
    /// 400 when another number was said before, or when more have come.
    pub fn announce_len(&mut self, len: u64) -> Result<(), Refusal> {
        let mut inner = self.session.lock();
        let known = self.session.wish.len.or(inner.announced.len);
        let fits =
            known.is_none_or(|known| known == len) && inner.run.as_ref().is_none_or(|run| run.feed().announce(len));
        if !fits {
            return Err(Refusal::bad("this upload was to have another length, or has more bytes than that already"));
        }
        inner.announced.len = Some(len);
        Ok(())
    }

    /// Begins the import, if none has begun. `len` is how many bytes there will be, where that is known.
    ///
    /// # Errors
    ///
    /// 503 when there are as many as this server takes.
    pub fn begin(&mut self, len: Option<u64>) -> Result<(), Refusal> {
        let mut inner = self.session.lock();
        if inner.cancelled {
            return Err(Refusal::gone());
        }
        if inner.run.is_none() {
            let mut wish = self.session.wish.clone();
            wish.len = wish.len.or(inner.announced.len).or(len);
            wish.checksums.extend_from_slice(&inner.announced.checksums);
            inner.run = Some(Run::start(&wish, self.session.budget.share()?, None)?);
            tracing::info!(upload = self.session.id, target = %wish.target, len = ?wish.len, "an upload has begun");
            self.session.begun.notify_waiters();
        }
        inner.active = Instant::now();
        Ok(())
    }

    /// Sends bytes behind those that are there; waits while the import has enough. What was handed over is counted by
    /// [`offset`](Self::offset); a call that is dropped has handed over nothing.
    ///
    /// # Errors
    ///
    /// What the import says if it has ended; 409 when another request has taken over.
    pub async fn push(&mut self, bytes: Bytes) -> Result<(), Refusal> {
        self.begin(None)?;
        let Some(feed) = self.session.lock().run.as_ref().map(Run::feed) else { return Err(Refusal::gone()) };
        let len = bytes.len() as u64;
        let pushed = tokio::select! {
            biased;
            () = self.superseded() => return Err(Refusal::busy()),
            pushed = feed.push(bytes) => pushed,
        };
        match pushed {
            Ok(()) => {
                self.session.budget.metrics().received(len);
                Ok(())
            }
            Err(Gone) => match self.session.ended().await.and_then(|end| end.refusal.clone()) {
                Some(refusal) => Err(refusal),
                // It has all it wanted: what comes behind the end of an image is nobody's.
                None => Ok(()),
            },
        }
    }

    /// Waits until the import has failed, which it may while nothing comes.
    pub async fn refused(&self) -> Refusal {
        match self.session.ended().await.and_then(|end| end.refusal.clone()) {
            Some(refusal) => refusal,
            None => std::future::pending().await,
        }
    }

    /// All bytes are there: from here on the import goes on by itself.
    ///
    /// # Errors
    ///
    /// 503 when none has begun and none can.
    pub fn finish(mut self) -> Result<(), Refusal> {
        self.begin(None)?;
        if let Some(run) = self.session.lock().run.as_mut() {
            run.finish();
        }
        Ok(())
    }

    /// Waits until somebody newer wants to send, or the upload is cancelled.
    pub async fn superseded(&self) {
        let mine = self.mine;
        // Without a session there is nobody newer.
        if self.newest.clone().wait_for(|newest| *newest != mine).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let mut inner = self.session.lock();
        inner.active = Instant::now();
        // A client that goes away between its last byte and our answer has sent everything.
        if let Some(run) = inner.run.as_mut().filter(|run| run.feed().len() == Some(run.feed().accepted())) {
            run.finish();
        }
    }
}
