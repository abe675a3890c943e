//! The import that an upload feeds.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use importer_flow::report::Report;
use importer_flow::sink::Claim;
use importer_flow::source::upload::{Feed, UploadSource, resumable, upload};
use importer_flow::{Error, Kind, Progress, Result, import};
use tokio::sync::watch;

use super::Wish;
use crate::budget::Share;
use crate::refusal::Refusal;
use crate::state::Record;
use crate::target::Spool;
use crate::token::Token;

/// How an import ended.
#[derive(Debug)]
pub struct End {
    /// The same report as the importer's.
    pub report: Report,
    /// Why it failed, if it did.
    pub refusal: Option<Refusal>,
    /// It did not end by itself: another takes its place, or nobody wanted it any more.
    pub given_up: bool,
}

/// An import on a thread of its own, from its first byte to its end.
#[derive(Debug)]
pub(super) struct Run {
    feed: Arc<Feed>,
    progress: Arc<Progress>,
    claim: Arc<Mutex<Claim>>,
    given_up: Arc<AtomicBool>,
    end: watch::Receiver<Option<Arc<End>>>,
    finishing: bool,
}

impl Run {
    /// Starts the thread. `earlier` is the identity of the upload that an earlier process has begun.
    pub(super) fn start(wish: &Wish, share: Share, earlier: Option<String>) -> Result<Self, Refusal> {
        let (feed, source) = ends(wish, earlier).map_err(|error| {
            Refusal::later(5, format!("what is to be kept of the upload can't be written: {error}"))
        })?;
        let (tell, end) = watch::channel(None);
        let progress = Arc::<Progress>::default();
        let claim = Arc::<Mutex<Claim>>::default();
        let given_up = Arc::<AtomicBool>::default();
        let job = Job {
            wish: wish.clone(),
            source,
            share,
            progress: Arc::clone(&progress),
            claim: Arc::clone(&claim),
            given_up: Arc::clone(&given_up),
        };
        let thread = std::thread::Builder::new().name("import".into()).spawn(move || {
            let end = job.run();
            tell.send_replace(Some(Arc::new(end)));
        });
        thread.map_err(|error| Refusal::later(5, format!("this server can't start one more import now: {error}")))?;
        Ok(Self { feed: Arc::new(feed), progress, claim, given_up, end, finishing: false })
    }

    pub(super) fn feed(&self) -> Arc<Feed> {
        Arc::clone(&self.feed)
    }

    pub(super) fn progress(&self) -> Arc<Progress> {
        Arc::clone(&self.progress)
    }

    pub(super) fn end(&self) -> watch::Receiver<Option<Arc<End>>> {
        self.end.clone()
    }

    /// How it has ended, if it has.
    pub(super) fn ended(&self) -> Option<Arc<End>> {
        self.end.borrow().clone()
    }

    /// All bytes are there, and the import is not over.
    pub(super) fn is_finishing(&self) -> bool {
        self.finishing && self.end.borrow().is_none()
    }

    /// All bytes are there.
    pub(super) fn finish(&mut self) {
        self.finishing = true;
        self.feed.finish();
    }

    /// Ends it, and leaves what another process can go on with.
    pub(super) fn leave(&self) {
        self.feed.abort(Error::new(Kind::Transient, "the server has ended"));
        self.claim.lock().unwrap_or_else(PoisonError::into_inner).abandon();
    }

    /// Ends it, and leaves nothing of it. A disk that is complete stays.
    pub(super) fn give_up(&self, why: &str) {
        self.given_up.store(true, Ordering::Relaxed);
        self.feed.abort(Error::new(Kind::Refused, why));
        let claim = self.claim.lock().unwrap_or_else(PoisonError::into_inner);
        claim.discard();
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        if self.end.borrow().is_none() {
            self.give_up("the upload was given up");
        }
    }
}

/// The two ends of an upload: one that another process can go on with, where its length is known and there is a place to
/// keep what that needs.
fn ends(wish: &Wish, earlier: Option<String>) -> io::Result<(Feed, UploadSource)> {
    let (Some(state), Some(length)) = (&wish.state, wish.len) else { return Ok(upload(&wish.name, wish.len)) };
    let identity = match earlier {
        Some(identity) => identity,
        None => {
            let (identity, _) = Token::generate().map_err(|_| io::Error::other("there are no random numbers"))?;
            let checksums = wish.checksums.iter().map(ToString::to_string).collect();
            state.keep(&Record { identity: identity.clone(), name: wish.name.clone(), length, checksums })?;
            identity
        }
    };
    Ok(resumable(&wish.name, length, &identity, state.front()?))
}

/// What the thread does.
struct Job {
    wish: Wish,
    source: UploadSource,
    /// Given back when the import is over.
    share: Share,
    progress: Arc<Progress>,
    claim: Arc<Mutex<Claim>>,
    given_up: Arc<AtomicBool>,
}

impl Job {
    fn run(mut self) -> End {
        let begun = Instant::now();
        // A mistake of ours must not leave clients waiting.
        let done = catch_unwind(AssertUnwindSafe(|| self.import(begun)));
        let done = done.unwrap_or_else(|_| Err(Error::new(Kind::Ours, "the import ended by a mistake of ours")));
        let elapsed = begun.elapsed();
        let end = match done {
            Ok(report) => {
                self.wish.forget();
                End { report, refusal: None, given_up: false }
            }
            Err(error) => {
                // What another process goes on with stays if that can help.
                if !matches!(error.kind(), Kind::Transient | Kind::Target | Kind::Ours) {
                    self.claim.lock().unwrap_or_else(PoisonError::into_inner).discard();
                    self.wish.forget();
                }
                let report = Report::failed(&error, self.progress.received(), elapsed);
                let given_up = self.given_up.load(Ordering::Relaxed);
                End { report, refusal: Some(Refusal::of(&error)), given_up }
            }
        };
        let outcome = match &end {
            End { given_up: true, .. } => "GivenUp",
            end => end.report.reason(),
        };
        self.share.metrics().ended(outcome, elapsed);
        tracing::info!(target = %self.wish.target, outcome, "{}", end.report.message());
        end
    }

    fn import(&mut self, begun: Instant) -> Result<Report> {
        let wish = &self.wish;
        let mut settings = self.share.settings();
        settings.checksums.clone_from(&wish.checksums);
        if let Some(directory) = wish.target.spool_directory() {
            settings.spool_directory = directory.to_owned();
        }
        if let Some(Spool { directory, limit }) = wish.target.spool() {
            (settings.spool_whole, settings.spool_limit) = (*limit > 0, *limit);
            settings.spool_directory.clone_from(directory);
        }
        let (sink, receipt) = {
            // Whoever gives it up waits until it is known what there is to give up.
            let mut claim = self.claim.lock().unwrap_or_else(PoisonError::into_inner);
            let (sink, receipt) = wish.target.open()?;
            *claim = sink.claim();
            (sink, receipt)
        };
        let outcome = import(&mut self.source, sink, &settings, Arc::clone(&self.progress))?;
        let pushed = receipt.and_then(|receipt| receipt.get().cloned());
        Ok(Report::succeeded(&wish.target.to_string(), &outcome, pushed, begun.elapsed()))
    }
}
