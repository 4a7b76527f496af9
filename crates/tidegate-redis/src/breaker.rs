//! [`Breaker`]: stops sending requests to a server that does not answer.
//!
//! A closed breaker passes requests and counts failures in a row. It opens after a number of them, but only if the server has
//! not answered for a while: requests that wait together fail together, and one stall is not an outage. An open breaker refuses
//! requests at once, and the node's task probes the server. An answered probe closes the breaker. Requests never probe.
//!
//! A server that answers too late also opens the breaker (see `response_times`). Then the breaker closes only after several
//! probes in a row were answered well within the timeout.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering::Relaxed};

/// The state of a breaker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BreakerState {
    /// Requests pass.
    Closed,
    /// Requests are refused at once, and a probe is under way.
    HalfOpen,
    /// Requests are refused at once.
    Open,
}

impl BreakerState {
    /// The name in status pages.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Open => "open",
            Self::HalfOpen => "half_open",
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Breaker {
    state: AtomicU8,
    failures: AtomicU32,
    opens_after: u32,
    /// Whether it was opened because answers came too late.
    slow: AtomicBool,
    /// Whether the server has answered since then, but too late.
    answers: AtomicBool,
}

const CLOSED: u8 = BreakerState::Closed as u8;
const HALF_OPEN: u8 = BreakerState::HalfOpen as u8;
const OPEN: u8 = BreakerState::Open as u8;

impl Breaker {
    pub(crate) fn new(opens_after: u32) -> Self {
        Self { opens_after, ..Self::default() }
    }

    #[inline]
    pub(crate) fn is_closed(&self) -> bool {
        self.state.load(Relaxed) == CLOSED
    }

    pub(crate) fn state(&self) -> BreakerState {
        match self.state.load(Relaxed) {
            CLOSED => BreakerState::Closed,
            HALF_OPEN => BreakerState::HalfOpen,
            _ => BreakerState::Open,
        }
    }

    #[inline]
    pub(crate) fn record_success(&self) {
        if self.failures.load(Relaxed) > 0 {
            self.failures.store(0, Relaxed);
        }
    }

    /// Counts a failure. Returns whether it opened the breaker, which happens only if the server is silent.
    pub(crate) fn record_failure(&self, silent: bool) -> bool {
        let failures = self.failures.fetch_add(1, Relaxed).saturating_add(1);
        // An open breaker is not opened again by requests that were under way.
        silent && failures >= self.opens_after && self.is_closed() && self.open()
    }

    /// Opens the breaker because the server does not answer. Returns whether it was closed.
    pub(crate) fn open(&self) -> bool {
        self.answers.store(false, Relaxed);
        self.state.swap(OPEN, Relaxed) == CLOSED
    }

    /// Opens the breaker because answers come too late. Returns whether it was closed.
    pub(crate) fn open_slow(&self) -> bool {
        let was_closed = self.open();
        if was_closed {
            self.slow.store(true, Relaxed);
        }
        self.answers.store(true, Relaxed);
        was_closed
    }

    /// Marks an open breaker, so that it closes only when answers come in time again.
    pub(crate) fn mark_slow(&self) {
        self.slow.store(true, Relaxed);
        self.answers.store(true, Relaxed);
    }

    /// Whether it is open although the server answers, because it answers too late.
    pub(crate) fn answers_late(&self) -> bool {
        self.is_slow() && self.answers.load(Relaxed)
    }

    /// Whether it was opened because answers came too late.
    pub(crate) fn is_slow(&self) -> bool {
        self.slow.load(Relaxed)
    }

    /// Records that a probe begins, if the breaker is open.
    pub(crate) fn probe(&self) {
        let _ = self.state.compare_exchange(OPEN, HALF_OPEN, Relaxed, Relaxed);
    }

    /// Closes the breaker because a probe was answered. Returns whether it was open.
    pub(crate) fn close(&self) -> bool {
        self.failures.store(0, Relaxed);
        self.slow.store(false, Relaxed);
        self.state.swap(CLOSED, Relaxed) != CLOSED
    }
}

#[cfg(test)]
mod tests {
    use super::{Breaker, BreakerState};

    #[test]
    fn failures_in_a_row_open_the_breaker_and_a_probe_closes_it() {
        let breaker = Breaker::new(3);
        assert!(!breaker.record_failure(true) && !breaker.record_failure(true));
        breaker.record_success();
        assert!(
            !breaker.record_failure(true) && !breaker.record_failure(true),
            "a success in between resets the count"
        );
        assert!(breaker.is_closed());
        assert!(!breaker.record_failure(false), "a server that has just answered is not silent");
        assert!(breaker.record_failure(true), "the next failure in a row opens it, and only one call reports that");
        assert!(!breaker.record_failure(true));
        assert_eq!(breaker.state(), BreakerState::Open);
        breaker.probe();
        assert_eq!(breaker.state(), BreakerState::HalfOpen);
        assert!(!breaker.is_closed(), "a request is never the probe");
        assert!(breaker.close());
        assert!(breaker.is_closed() && !breaker.record_failure(true), "the count starts at zero");
    }

    #[test]
    fn a_slow_server_that_is_lost_does_not_count_as_answering() {
        let breaker = Breaker::new(1);
        assert!(breaker.open_slow() && breaker.answers_late());
        assert!(!breaker.record_failure(true) && breaker.answers_late(), "a request from before it opened");
        assert!(!breaker.open() && !breaker.answers_late() && breaker.is_slow(), "no connection can be made");
        breaker.mark_slow();
        assert!(breaker.answers_late(), "a probe was answered late");
        assert!(breaker.close() && !breaker.answers_late());
        assert!(breaker.record_failure(true) && !breaker.answers_late());
    }

    #[test]
    fn a_closed_breaker_ignores_a_probe() {
        let breaker = Breaker::new(1);
        breaker.probe();
        assert_eq!(breaker.state(), BreakerState::Closed);
        assert!(!breaker.close());
    }
}
