//! All uploads of a server.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::budget::Budget;
use crate::refusal::Refusal;
use crate::session::{Phase, Session, Wish};
use crate::token::Token;

/// All uploads of a server, by what is kept of their tokens.
#[derive(Debug)]
pub struct Sessions {
    budget: Arc<Budget>,
    most: usize,
    expiry: Duration,
    all: Mutex<All>,
}

#[derive(Debug, Default)]
struct All {
    next: u64,
    by_token: HashMap<Token, Arc<Session>>,
}

impl Sessions {
    /// None yet. There may be `most`; one in which nothing happens for `expiry` is given up.
    #[must_use]
    pub fn new(budget: Arc<Budget>, most: usize, expiry: Duration) -> Self {
        Self { budget, most, expiry, all: Mutex::default() }
    }

    /// The memory that all imports share.
    #[must_use]
    pub fn budget(&self) -> &Budget {
        &self.budget
    }

    /// How long an upload may do nothing.
    #[must_use]
    pub fn expiry(&self) -> Duration {
        self.expiry
    }

    /// An upload whose secret somebody else has chosen.
    ///
    /// # Errors
    ///
    /// 409 when an upload to the same target is not over, 503 when there are too many.
    pub fn add(&self, token: Token, wish: Wish, now: Instant) -> Result<Arc<Session>, Refusal> {
        let mut all = self.lock();
        if all.by_token.len() >= self.most {
            let message = format!("there are {} uploads, which is all this server takes: try again later", self.most);
            return Err(Refusal::later(30, message));
        }
        let target = wish.target.to_string();
        let is_over = |phase| matches!(phase, Phase::Succeeded | Phase::Failed | Phase::Cancelled);
        // One that is over may be kept beside one that is not, for the same target.
        if all.by_token.values().any(|other| !is_over(other.phase()) && other.wish().target.to_string() == target) {
            return Err(Refusal::busy());
        }
        all.next += 1;
        let session = Session::new(all.next, wish, Arc::clone(&self.budget), now);
        all.by_token.insert(token, Arc::clone(&session));
        Ok(session)
    }

    /// A new upload, and its secret.
    ///
    /// # Errors
    ///
    /// As [`add`](Self::add).
    pub fn create(&self, wish: Wish, now: Instant) -> Result<(String, Arc<Session>), Refusal> {
        let random = |_| Refusal::later(5, "this server has no random numbers");
        let (secret, token) = Token::generate().map_err(random)?;
        Ok((secret, self.add(token, wish, now)?))
    }

    /// The upload with this secret.
    ///
    /// # Errors
    ///
    /// 404, whatever the reason is.
    pub fn find(&self, secret: &str) -> Result<Arc<Session>, Refusal> {
        self.lock().by_token.get(&Token::of(secret)).cloned().ok_or_else(Refusal::not_found)
    }

    /// Forgets an upload, and gives it up if it is not over.
    pub fn remove(&self, secret: &str) {
        let removed = self.lock().by_token.remove(&Token::of(secret));
        if let Some(session) = removed {
            session.cancel();
        }
    }

    /// Gives up what has done nothing for too long.
    pub fn sweep(&self, now: Instant) {
        let mut expired = Vec::new();
        self.lock().by_token.retain(|_, session| {
            let keep = session.idle(now) < self.expiry;
            if !keep {
                expired.push(Arc::clone(session));
            }
            keep
        });
        for session in expired {
            tracing::info!(upload = session.id(), "an upload has expired");
            session.cancel();
        }
    }

    /// Ends all imports because the server ends, and waits a while for them. Another process goes on with those of which
    /// something was kept.
    pub async fn leave(&self) {
        let all: Vec<_> = self.lock().by_token.values().cloned().collect();
        for session in &all {
            session.leave();
        }
        for session in all {
            if tokio::time::timeout(LEAVE, session.ended()).await.is_err() {
                tracing::warn!(upload = session.id(), "an import did not end in time");
            }
        }
    }

    /// How far all of them are.
    #[must_use]
    pub fn phases(&self) -> Vec<Phase> {
        self.lock().by_token.values().map(|session| session.phase()).collect()
    }

    fn lock(&self) -> MutexGuard<'_, All> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How long an import may take to notice that it is over: it waits for a disk.
const LEAVE: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use std::path::Path;

    use importer_flow::sink::Options;

    use super::*;
    use crate::target::Target;

    #[test]
    fn a_target_has_one_upload_however_many_were_given_up() {
        let sessions = Sessions::new(Budget::new(64 << 20, 4), 100, Duration::from_secs(60));
        let now = Instant::now();
        let add = |secret: String| {
            let target = Target::path(Path::new("/disks/a"), Options::default());
            let wish = Wish { name: "a".into(), target, len: None, checksums: Vec::new(), state: None };
            sessions.add(Token::of(&secret), wish, now)
        };
        // Which one comes first in a map is chance.
        for number in 0..20 {
            add(format!("given up {number}")).unwrap().cancel();
        }
        add("this one".into()).unwrap();
        assert_eq!(add("another".into()).unwrap_err().status, 409);
    }
}
