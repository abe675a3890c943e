//! How many connections an object is read with.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::error::{Error, Kind};

/// How many connections are worth their cost.
///
/// As long as the reader waits for the network, their number is doubled and kept if it brought half as much again, which
/// it does where a connection is slow by its latency or by a limit of its own. Where the network or the reader is the limit
/// it goes back, and is tried again much later. A server that refuses gets fewer, for good.
#[derive(Debug)]
pub(crate) struct Pace(Mutex<State>);

#[derive(Debug)]
struct State {
    width: usize,
    most: usize,
    /// How many there were before, and the bytes per second with them; nothing before the first measurement.
    before: Option<(usize, f64)>,
    /// How long nothing is tried.
    rest: Duration,
    /// What was measured since the width has changed.
    parts: usize,
    bytes: u64,
    elapsed: Duration,
    waited: Duration,
}

impl Pace {
    /// Begins with one connection; there are never more than `most`.
    pub(crate) fn new(most: usize) -> Self {
        Self(Mutex::new(State {
            width: 1,
            most: most.max(1),
            before: None,
            rest: Duration::ZERO,
            parts: 0,
            bytes: 0,
            elapsed: Duration::ZERO,
            waited: Duration::ZERO,
        }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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
        if state.parts >= 2 * state.width && state.elapsed >= WINDOW {
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
        if self.waited < self.elapsed / 4 {
            // The reader is slower: nothing to be gained.
            return self.restart();
        }
        #[expect(clippy::cast_precision_loss, reason = "a rate")]
        let rate = self.bytes as f64 / self.elapsed.as_secs_f64().max(1e-9);
        let (width, before, rest) = match self.before {
            // What came besides did not bring half of what it could have.
            Some((width, before)) if rate < before * f64::midpoint(1.0, ratio(self.width, width)) => {
                (width, None, LATER)
            }
            _ if rate >= FAST || self.width == self.most => (self.width, None, LATER),
            _ => ((self.width * 2).min(self.most), Some((self.width, rate)), Duration::ZERO),
        };
        (self.width, self.before, self.rest) = (width, before, rest);
        tracing::debug!(width = self.width, rate, "connections");
        self.restart();
    }

    fn restart(&mut self) {
        (self.parts, self.bytes) = (0, 0);
        (self.elapsed, self.waited) = (Duration::ZERO, Duration::ZERO);
    }
}

/// How many times as many.
#[expect(clippy::cast_precision_loss, reason = "they are few")]
fn ratio(now: usize, before: usize) -> f64 {
    now as f64 / before as f64
}

/// How long it is measured at least.
const WINDOW: Duration = Duration::from_millis(100);

/// Bytes per second with which nobody waits for the network for long.
const FAST: f64 = 400e6;

/// When it is tried again.
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
        assert_eq!(widths(&Pace::new(8), 10_000, |width| as_float(width) * 250.0), [1, 2]);
    }

    #[test]
    fn a_slow_connection_gets_company() {
        assert_eq!(widths(&Pace::new(8), 100, as_float), [1, 2, 4, 8]);
        assert_eq!(widths(&Pace::new(6), 100, as_float), [1, 2, 4, 6]);
        assert_eq!(widths(&Pace::new(1), 100, as_float), [1]);
        assert_eq!(widths(&Pace::new(0), 100, as_float), [1]);
    }

    #[test]
    fn a_full_network_gets_none_but_is_tried_again() {
        let pace = Pace::new(8);
        assert_eq!(widths(&pace, 900, |_| 100.0), [1, 2, 1]);
        assert_eq!(widths(&pace, 1000, |_| 100.0), [1, 2, 1]);
        assert_eq!(widths(&pace, 1200, |width| 50.0 * as_float(width)), [1, 2, 4, 8]);
        // Enough for three.
        assert_eq!(widths(&Pace::new(8), 60, |width| as_float(width.min(3))), [1, 2, 4, 8, 4]);
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
        assert_eq!(widths(&pace, 50, as_float), [1, 2, 4]);
        pace.failed(&Error::new(Kind::Cut, "cut"));
        assert_eq!(pace.width(), 4);
        for width in [3, 2, 1, 1] {
            pace.failed(&Error::new(Kind::Status(429), "slow down"));
            assert_eq!(pace.width(), width);
        }
        assert_eq!(widths(&pace, 500, as_float), [1]);
    }
}
