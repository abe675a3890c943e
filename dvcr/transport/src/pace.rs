//! How many connections an object is read with.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::error::{Error, Kind};

/// How many connections are worth their cost.
///
/// As long as the reader waits for the network and the network is not fast, their number is doubled: a connection is slow
/// by its latency or by a limit of its own. When that brings no more, it is taken back: each costs memory. Later it is
/// found out whether half of them do as well. A server that refuses gets fewer, for good.
#[derive(Debug)]
pub(crate) struct Pace(Mutex<State>);

#[derive(Debug)]
struct State {
    width: usize,
    most: usize,
    /// How many there were before half of them were tried, and the bytes per second they brought.
    before: Option<(usize, f64)>,
    /// The same before they were doubled.
    fewer: Option<(usize, f64)>,
    /// Whether it is known that no more are of use.
    grown: bool,
    /// How long nothing is measured.
    rest: Duration,
    /// How long to rest when half of them were found to be too few.
    later: Duration,
    /// What was measured since the width has changed.
    parts: usize,
    bytes: u64,
    elapsed: Duration,
    waited: Duration,
}

impl Pace {
    /// Begins with one connection; there are never more than `most`.
    pub(crate) fn new(most: usize) -> Self {
        let none = Duration::ZERO;
        Self(Mutex::new(State {
            width: 1,
            most: most.max(1),
            before: None,
            fewer: None,
            grown: false,
            rest: none,
            later: LATER,
            parts: 0,
            bytes: 0,
            elapsed: none,
            waited: none,
        }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The first answer took so long. From far away it begins with all there may be.
    pub(crate) fn answered(&self, elapsed: Duration) {
        if elapsed >= FAR {
            let mut state = self.state();
            state.width = state.most;
        }
    }

    /// How many to use now.
    pub(crate) fn width(&self) -> usize {
        self.state().width
    }

    /// How many there may be for a moment, where one ends and the next begins.
    pub(crate) fn most(&self) -> usize {
        self.state().most
    }

    /// A part of `bytes` was given, `elapsed` after the one before it, of which the reader has `waited`.
    pub(crate) fn gave(&self, bytes: u64, elapsed: Duration, waited: Duration) {
        let mut state = self.state();
        if !state.rest.is_zero() {
            state.rest = state.rest.saturating_sub(elapsed);
            return;
        }
        state.parts += 1;
        state.bytes = state.bytes.saturating_add(bytes);
        state.elapsed = state.elapsed.saturating_add(elapsed);
        state.waited = state.waited.saturating_add(waited);
        let enough = if state.grown { SURE } else { SOON };
        if state.parts >= 2 && state.elapsed >= enough {
            state.judge();
        }
    }

    /// An attempt failed. Some servers allow a client only so many connections.
    pub(crate) fn failed(&self, error: &Error) {
        if matches!(error.kind(), Kind::Status(429 | 503) | Kind::Connect) {
            let mut state = self.state();
            state.width = (state.width - 1).max(1);
            state.most = state.width;
            state.restart();
        }
    }
}

impl State {
    fn judge(&mut self) {
        #[expect(clippy::cast_precision_loss, reason = "a rate")]
        let rate = self.bytes as f64 / self.elapsed.as_secs_f64().max(1e-9);
        // Otherwise the reader is slower, and nothing can be told of the network.
        if self.waited >= self.elapsed / 4 {
            match self.before.take() {
                Some((width, before)) if rate < before * AS_WELL => {
                    (self.width, self.rest, self.later) = (width, self.later, self.later * 2);
                }
                _ if self.grown && self.width > 1 => {
                    self.before = Some((self.width, rate));
                    (self.width, self.rest) = (self.width / 2, SETTLE);
                }
                _ if self.fewer.is_some_and(|(_, before)| rate < before * MORE) => {
                    self.width = self.fewer.take().map_or(1, |(width, _)| width);
                    (self.grown, self.rest) = (true, self.later);
                }
                _ if rate < FAST && self.width < self.most && !self.grown => {
                    self.fewer = Some((self.width, rate));
                    self.width = (self.width * 2).min(self.most);
                }
                _ => (self.grown, self.rest, self.fewer) = (true, self.later, None),
            }
            tracing::debug!(width = self.width, rate, "connections");
        }
        self.restart();
    }

    fn restart(&mut self) {
        (self.parts, self.bytes) = (0, 0);
        (self.elapsed, self.waited) = (Duration::ZERO, Duration::ZERO);
    }
}

/// Bytes per second with which nobody waits for the network for long.
const FAST: f64 = 150e6;

/// Half as many connections do as well if they bring this share.
const AS_WELL: f64 = 0.9;

/// An answer that takes so long has a link in it that a connection fills slowly, or several.
const FAR: Duration = Duration::from_millis(20);

/// Twice as many are worth their memory if they bring this much more.
const MORE: f64 = 1.2;

/// How long it is measured before there are more: long enough for a new connection to a near server to become fast, and
/// for a machine that was busy with something else for a moment. From far away it begins with all.
const SOON: Duration = Duration::from_millis(250);

/// How long it is measured before there are fewer, and how long those that remain have to fill the link.
const SURE: Duration = Duration::from_secs(1);
const SETTLE: Duration = Duration::from_millis(500);

/// When it is tried with fewer.
const LATER: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives parts as a network does that brings `rate(width)` parts a second, and tells the widths.
    fn widths(pace: &Pace, parts: usize, rate: impl Fn(usize) -> f64) -> Vec<usize> {
        let mut widths = vec![pace.width()];
        for _ in 0..parts {
            let elapsed = Duration::from_secs_f64(1.0 / rate(pace.width()));
            pace.gave(1 << 20, elapsed, elapsed / 2);
            widths.push(pace.width());
        }
        widths.dedup();
        widths
    }

    fn as_float(width: usize) -> f64 {
        f64::from(u32::try_from(width).unwrap())
    }

    #[test]
    fn a_fast_connection_needs_none() {
        assert_eq!(widths(&Pace::new(8), 10_000, |width| as_float(width) * 500.0), [1]);
        assert_eq!(widths(&Pace::new(8), 500, |width| as_float(width) * 100.0), [1, 2]);
    }

    #[test]
    fn a_slow_connection_gets_company_and_keeps_it() {
        for (most, expected) in [(8, vec![1, 2, 4, 8]), (6, vec![1, 2, 4, 6]), (1, vec![1]), (0, vec![1])] {
            let pace = Pace::new(most);
            assert_eq!(widths(&pace, 500, |width| 10.0 * as_float(width)), expected);
            // Half of them are tried, less and less often.
            let tries = widths(&pace, 20_000, |width| 10.0 * as_float(width)).len() / 2;
            assert!(tries <= 6 && (most < 2 || tries > 1), "{tries}");
            assert_eq!(pace.width(), most.max(1));
        }
    }

    #[test]
    fn a_full_network_is_left_to_others_in_the_end() {
        let pace = Pace::new(8);
        assert_eq!(widths(&pace, 4000, |_| 100.0), [1, 2, 1]);
        let enough_for_two = widths(&Pace::new(8), 4000, |width| 50.0 * as_float(width.min(2)));
        assert!(enough_for_two.starts_with(&[1, 2, 4, 2, 1, 2]), "{enough_for_two:?}");
    }

    #[test]
    fn from_far_away_it_begins_with_all() {
        let pace = Pace::new(8);
        pace.answered(Duration::from_millis(2));
        assert_eq!(pace.width(), 1);
        pace.answered(Duration::from_millis(60));
        assert_eq!(pace.width(), 8);
        let pace = Pace::new(2);
        pace.answered(Duration::from_secs(1));
        assert_eq!(pace.width(), 2);
    }

    #[test]
    fn a_slow_reader_needs_one() {
        let pace = Pace::new(8);
        for _ in 0..100 {
            pace.gave(1 << 20, Duration::from_millis(10), Duration::from_millis(2));
        }
        assert_eq!(pace.width(), 1);
    }

    #[test]
    fn a_server_that_refuses_gets_fewer_for_good() {
        let pace = Pace::new(4);
        assert_eq!(widths(&pace, 50, |width| 10.0 * as_float(width)), [1, 2, 4]);
        pace.failed(&Error::new(Kind::Cut, "cut"));
        assert_eq!(pace.width(), 4);
        for width in [3, 2, 1, 1] {
            pace.failed(&Error::new(Kind::Status(429), "slow down"));
            assert_eq!(pace.width(), width);
        }
        assert_eq!(widths(&pace, 500, as_float), [1]);
    }
}
