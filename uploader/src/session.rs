//! One upload, from its first byte to its end.

mod announced;
mod run;
mod status;
mod writer;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hyper::StatusCode;
use importer_flow::Checksum;
use tokio::sync::{Mutex as Turn, Notify, SemaphorePermit, watch};

use crate::budget::Budget;
use crate::refusal::Refusal;
use crate::state::State;
use crate::target::Target;
pub use announced::Announced;
pub use run::End;
use run::Run;
pub use status::{Phase, Status};
pub use writer::Writer;

/// What is to become of an upload.
#[derive(Clone, Debug)]
pub struct Wish {
    /// How people know it: the name of a file. Never trusted, never a path.
    pub name: String,
    /// Where it goes.
    pub target: Target,
    /// How many bytes there will be, where that is known.
    pub len: Option<u64>,
    /// What the bytes must hash to.
    pub checksums: Vec<Checksum>,
    /// Where something is kept for the case that the server starts again. The target has to keep its part, too.
    pub state: Option<State>,
}

/// One upload. The bytes go into one import, whichever requests bring them; a request that is cut leaves the import
/// waiting for the next. Nothing but the import decides when it is over, and it ends without anybody listening.
#[derive(Debug)]
pub struct Session {
    /// What logs call it; no secret.
    id: u64,
    wish: Wish,
    budget: Arc<Budget>,
    /// Whoever has it may send.
    turn: Arc<Turn<()>>,
    /// Counts those who wanted to send: the newest counts.
    newest: watch::Sender<u64>,
    /// An import has begun.
    begun: Notify,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    run: Option<Run>,
    /// What a client has said of it before it was sent.
    announced: Announced,
    /// Somebody has given the upload up.
    cancelled: bool,
    /// When something last came.
    active: Instant,
}

impl Wish {
    /// No other process goes on with it.
    fn forget(&self) {
        if let Some(state) = &self.state {
            state.forget();
        }
    }
}

/// What to do when another request sends already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claimed {
    /// This one is refused.
    Refuse,
    /// The other ends where it is: a client that goes on after a cut is often faster than the news of the cut.
    TakeOver,
}

impl Session {
    /// A session that waits for its first byte. Until then it costs less than a KiB.
    #[must_use]
    pub fn new(id: u64, wish: Wish, budget: Arc<Budget>, now: Instant) -> Arc<Self> {
        let inner = Inner { run: None, announced: Announced::default(), cancelled: false, active: now };
        let (newest, _) = watch::channel(0);
        let (turn, begun, inner) = (Arc::default(), Notify::new(), Mutex::new(inner));
        Arc::new(Self { id, wish, budget, turn, newest, begun, inner })
    }

    /// Goes on with what an earlier process has begun, if it has: until somebody sends more, the import waits.
    ///
    /// # Errors
    ///
    /// 503 when there are as many imports as this server takes.
    pub fn restore(&self) -> Result<(), Refusal> {
        let Some(state) = &self.wish.state else { return Ok(()) };
        let Some(record) = state.load() else { return Ok(()) };
        let wished: Vec<String> = self.wish.checksums.iter().map(ToString::to_string).collect();
        let whole = state.front().is_ok_and(|front| front.is_kept());
        // Behind what was wished, there is what a client has announced.
        let announced = record.checksums.strip_prefix(&*wished);
        let announced =
            announced.and_then(|more| more.iter().map(|text| text.parse().ok()).collect::<Option<Vec<_>>>());
        let Some(checksums) = announced.filter(|_| whole) else { return Ok(()) };
        tracing::info!(upload = self.id, target = %self.wish.target, "an upload goes on");
        let mut wish = Wish { len: Some(record.length), ..self.wish.clone() };
        wish.checksums.extend_from_slice(&checksums);
        let mut inner = self.lock();
        if inner.run.is_none() {
            inner.announced = Announced { len: Some(record.length), checksums, note: String::new() };
            inner.run = Some(Run::start(&wish, self.budget.share()?, Some(record.identity))?);
        }
        Ok(())
    }

    /// Where the next byte goes. Waits for the import where it has to say that first.
    pub async fn offset(&self) -> u64 {
        let feed = self.lock().run.as_ref().map(Run::feed);
        match feed {
            Some(feed) => feed.offset().await.unwrap_or_else(|_| feed.accepted()),
            None => 0,
        }
    }

    /// What logs call it.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.id
    }

    /// What is to become of it.
    #[must_use]
    pub fn wish(&self) -> &Wish {
        &self.wish
    }

    /// The right to send, for one at a time.
    ///
    /// # Errors
    ///
    /// 409 while somebody else has it, 410 when the upload was given up.
    pub async fn writer(self: &Arc<Self>, claimed: Claimed) -> Result<Writer, Refusal> {
        let turn = Arc::clone(&self.turn);
        let (turn, mine) = match claimed {
            Claimed::Refuse => {
                let turn = turn.try_lock_owned().map_err(|_| Refusal::busy())?;
                (turn, *self.newest.borrow())
            }
            Claimed::TakeOver => {
                let mut mine = 0;
                self.newest.send_modify(|newest| {
                    *newest += 1;
                    mine = *newest;
                });
                let turn = tokio::time::timeout(HAND_OVER, turn.lock_owned()).await;
                (turn.map_err(|_| Refusal::busy())?, mine)
            }
        };
        if self.lock().cancelled {
            return Err(Refusal::gone());
        }
        Ok(Writer::new(Arc::clone(self), turn, mine))
    }

    /// The right to send an image from its first byte. What an earlier request has left of one is forgotten.
    ///
    /// # Errors
    ///
    /// As those of [`writer`](Self::writer), [`wants_bytes`](Self::wants_bytes) and [`Writer::forget`].
    pub async fn anew(self: &Arc<Self>) -> Result<Writer, Refusal> {
        let mut writer = self.writer(Claimed::Refuse).await?;
        self.wants_bytes()?;
        writer.forget().await?;
        Ok(writer)
    }

    /// Whether bytes may come still.
    ///
    /// # Errors
    ///
    /// 409 when all of them are there, whether the disk is complete or not.
    pub fn wants_bytes(&self) -> Result<(), Refusal> {
        match self.phase() {
            Phase::Succeeded => {
                let message = "the disk is complete: there is nothing more to upload";
                Err(Refusal::new(StatusCode::CONFLICT, "Completed", message))
            }
            Phase::Finishing => {
                let message = "an image was uploaded, and is verified and stored now: wait for that to end";
                Err(Refusal::new(StatusCode::CONFLICT, "Busy", message))
            }
            _ => Ok(()),
        }
    }

    /// Where it is.
    #[must_use]
    pub fn phase(&self) -> Phase {
        let inner = self.lock();
        let run = inner.run.as_ref();
        Phase::of(run, run.and_then(Run::ended).as_deref(), inner.cancelled)
    }

    /// How far it is.
    #[must_use]
    pub fn status(&self) -> Status {
        let inner = self.lock();
        let len = self.wish.len.or(inner.announced.len);
        Status::of(&self.wish.target, len, inner.run.as_ref(), inner.cancelled)
    }

    /// What a client has said of it before it was sent.
    #[must_use]
    pub fn announced(&self) -> Announced {
        self.lock().announced.clone()
    }

    /// Room for bytes that must be seen whole before the import may have them.
    pub async fn hold(&self, bytes: usize) -> Option<SemaphorePermit<'_>> {
        self.budget.hold(bytes).await
    }

    /// Why the import has failed, if it has.
    #[must_use]
    pub fn failure(&self) -> Option<Refusal> {
        self.lock().run.as_ref().and_then(Run::ended).and_then(|end| end.refusal.clone())
    }

    /// Waits for the end of the import that is under way; `None` when none was begun.
    pub async fn ended(&self) -> Option<Arc<End>> {
        let mut end = self.lock().run.as_ref()?.end();
        let ended = end.wait_for(Option::is_some).await;
        ended.ok().and_then(|end| end.clone())
    }

    /// Waits until it is known that the target can have the disk, or until the import has ended; then it tells how.
    pub async fn accepted(&self) -> Option<Arc<End>> {
        let progress = self.lock().run.as_ref().map(Run::progress)?;
        tokio::select! {
            biased;
            end = self.ended() => end,
            () = progress.accepted() => None,
        }
    }

    /// Waits until an import after that one has ended by itself: one that is given up for another does not count.
    pub async fn decided(&self, before: Option<&Arc<End>>) -> Arc<End> {
        loop {
            let begun = self.begun.notified();
            let new = |end: &Arc<End>| !end.given_up && before.is_none_or(|before| !Arc::ptr_eq(before, end));
            if let Some(end) = self.ended().await.filter(new) {
                return end;
            }
            begun.await;
        }
    }

    /// Waits until the upload is given up.
    pub async fn cancelled(&self) {
        let mut newest = self.newest.subscribe();
        // The sender is here, so this ends only with what is waited for.
        let _ = newest.wait_for(|_| self.lock().cancelled).await;
    }

    /// Forgets what came so far, so that the upload waits for its first byte again. Whoever sends is stopped.
    ///
    /// # Errors
    ///
    /// As those of [`writer`](Self::writer) and [`Writer::forget`].
    pub async fn reset(self: &Arc<Self>) -> Result<(), Refusal> {
        self.writer(Claimed::TakeOver).await?.forget().await
    }

    /// Gives the upload up: whoever sends is stopped, and nothing of it stays. A disk that is complete stays.
    pub fn cancel(&self) {
        let mut inner = self.lock();
        inner.cancelled = true;
        if let Some(run) = &inner.run {
            run.give_up("the upload was cancelled");
        }
        drop(inner);
        self.wish.forget();
        self.newest.send_modify(|newest| *newest += 1);
    }

    /// Ends the import because the server ends; another process goes on where that is possible.
    pub fn leave(&self) {
        if let Some(run) = &self.lock().run {
            run.leave();
        }
        self.newest.send_modify(|newest| *newest += 1);
    }

    /// For how long nothing has come while something could.
    #[must_use]
    pub fn idle(&self, now: Instant) -> Duration {
        let inner = self.lock();
        // The turn is shared with whoever has it or waits for it.
        if inner.run.as_ref().is_some_and(Run::is_finishing) || Arc::strong_count(&self.turn) > 1 {
            return Duration::ZERO;
        }
        now.saturating_duration_since(inner.active)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How long a request has to make place for a newer one. It waits for a disk at most.
const HAND_OVER: Duration = Duration::from_secs(15);

#[cfg(test)]
mod tests;
