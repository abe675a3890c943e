//! Trying again, within a budget that progress renews.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

use crate::error::{Error, Kind};

/// How often and how patiently something is tried again.
///
/// The number counts attempts since the last progress, not those of a whole transfer: a link that breaks every minute
/// but brings something each time finishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    /// How many attempts may fail one after the other. 1 never tries again.
    pub attempts: u32,
    /// The wait after the first failure. It doubles with each further one.
    pub first: Duration,
    /// The longest wait that is chosen here. A server may ask for more, up to [`PATIENCE`].
    pub longest: Duration,
}

impl Default for Retry {
    /// Ten attempts, which with waits of 0.25 s to 30 s is about a minute and a half.
    fn default() -> Self {
        Self { attempts: 10, first: Duration::from_millis(250), longest: Duration::from_secs(30) }
    }
}

/// What is left of a [`Retry`].
#[derive(Clone, Debug)]
pub struct Budget {
    retry: Retry,
    failures: u32,
    /// Whether it was told that there is nothing but failures.
    told: bool,
    /// Bytes since the last failure.
    progress: u64,
}

impl Budget {
    /// All of it.
    #[must_use]
    pub fn new(retry: Retry) -> Self {
        Self { retry, failures: 0, told: false, progress: 0 }
    }

    /// New bytes came. A server that sends a few and breaks has not made progress.
    pub fn progress(&mut self, bytes: u64) {
        self.progress = self.progress.saturating_add(bytes);
        if self.progress >= RENEWS {
            self.failures = 0;
            self.told = false;
        }
    }

    /// How long to wait before the next attempt.
    ///
    /// # Errors
    ///
    /// The error back when there is none, with how many were made.
    pub fn failed(&mut self, error: Error) -> Result<Duration, Error> {
        let renewed = std::mem::take(&mut self.progress) >= RENEWS;
        self.failures += 1;
        let allowed = match error.kind() {
            // "No such name" may be a resolver that has just started, but hardly for long.
            Kind::Dns if !error.is_transient() => self.retry.attempts.min(DNS_ATTEMPTS),
            _ if !error.is_transient() || error.kind() == Kind::Changed => 1,
            _ => self.retry.attempts,
        };
        if self.failures >= allowed {
            return Err(if allowed > 1 { error.after(self.failures) } else { error });
        }
        // One that breaks now and then brings something all the same; the next failure without progress is told.
        if !renewed && !std::mem::replace(&mut self.told, true) {
            tracing::info!(target: WAITING, "{error}");
        }
        // A connection that brought much is worth another one at once.
        let first = if renewed { self.retry.first / 16 } else { self.retry.first };
        let doubled = first.saturating_mul(1 << (self.failures - 1).min(20));
        let wait = jittered(doubled.min(self.retry.longest));
        match error.retry_after() {
            Some(asked) if asked > PATIENCE => Err(error),
            Some(asked) => Ok(wait.max(asked)),
            None => Ok(wait),
        }
    }
}

/// Between half of it and all of it, so that many clients don't come back at once.
fn jittered(wait: Duration) -> Duration {
    let random = RandomState::new().build_hasher().finish() >> 32;
    let share = u32::try_from(random).unwrap_or(0);
    wait / 2 + (wait / 2).mul_f64(f64::from(share) / f64::from(u32::MAX))
}

/// The target of an event of the level `INFO`, whose message is an error: after it something is tried again, with no
/// progress so far.
pub const WAITING: &str = "dvcr_transport::waiting";

/// The longest wait that a server may ask for.
pub const PATIENCE: Duration = Duration::from_secs(600);

/// This many bytes without a failure are progress.
const RENEWS: u64 = 64 << 10;
const DNS_ATTEMPTS: u32 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    fn cut() -> Error {
        Error::new(Kind::Cut, "cut")
    }

    #[test]
    fn waits_double_up_to_the_longest_and_end() {
        let retry = Retry { attempts: 6, first: Duration::from_secs(1), longest: Duration::from_secs(5) };
        let mut budget = Budget::new(retry);
        for longest in [1, 2, 4, 5, 5] {
            let wait = budget.failed(cut()).unwrap();
            let longest = Duration::from_secs(longest);
            assert!(wait >= longest / 2 && wait <= longest, "{wait:?} of {longest:?}");
        }
        let error = budget.failed(cut()).unwrap_err();
        assert_eq!(error.to_string(), "cut (after 6 attempts)");
    }

    /// HT13.
    #[test]
    fn progress_renews_the_budget_and_a_trickle_does_not() {
        let retry = Retry { attempts: 3, ..Retry::default() };
        let mut budget = Budget::new(retry);
        for _ in 0..100 {
            assert!(budget.failed(cut()).unwrap() <= retry.first);
            budget.progress(RENEWS - 1);
            budget.progress(1);
        }
        budget.failed(cut()).unwrap();
        budget.progress(RENEWS - 1);
        budget.failed(cut()).unwrap();
        budget.progress(RENEWS - 1);
        budget.failed(cut()).unwrap_err();
    }

    #[test]
    fn what_is_final_is_not_tried_again() {
        for kind in [Kind::Status(404), Kind::Tls, Kind::Redirect, Kind::Protocol, Kind::Changed, Kind::Forbidden] {
            let error = Budget::new(Retry::default()).failed(Error::new(kind, "no")).unwrap_err();
            assert_eq!(error.to_string(), "no");
        }
        let mut budget = Budget::new(Retry::default());
        let unknown = || Error::new(Kind::Dns, "no such name");
        budget.failed(unknown()).unwrap();
        budget.failed(unknown()).unwrap();
        assert_eq!(budget.failed(unknown()).unwrap_err().to_string(), "no such name (after 3 attempts)");
    }

    /// HT33.
    #[test]
    fn the_server_says_when() {
        let busy = |wait| Error::new(Kind::Status(503), "busy").when(Some(Duration::from_secs(wait)));
        let mut budget = Budget::new(Retry::default());
        assert_eq!(budget.failed(busy(7)).unwrap(), Duration::from_secs(7));
        assert!(budget.failed(busy(0)).unwrap() >= Duration::from_millis(250));
        budget.failed(busy(3600)).unwrap_err();
    }
}
