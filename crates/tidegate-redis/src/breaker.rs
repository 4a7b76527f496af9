//! [`Breaker`]: stops asking a server that doesn't answer.
//!
//! Closed, it lets requests through and counts failures in a row; so many open it, once the server has been silent for a
//! while: requests that wait together fail together, and one stall is no outage. Open, it refuses at once, and the node's
//! own task probes the server. A probe that is answered closes it. Requests themselves never probe, so none pays for it.
//!
//! A server that answers, but too late, opens the breaker, too (`pace` decides). Then the breaker closes only after
//! several probes in a row were answered well within the timeout.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering::Relaxed};

/// Where a breaker stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BreakerState {
    /// Requests go through.
    Closed,
    /// Requests are refused at once.
    Open,
    /// As open, while a probe is under way.
    HalfOpen,
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

#[derive(Debug)]
pub(crate) struct Breaker {
    state: AtomicU8,
    failures: AtomicU32,
    opens_after: u32,
    /// Whether it was opened because answers came too late.
    slow: AtomicBool,
    /// Whether the server has answered since, too late.
    answers: AtomicBool,
}

const CLOSED: u8 = 0;
const OPEN: u8 = 1;
const HALF_OPEN: u8 = 2;

impl Breaker {
    pub(crate) fn new(opens_after: u32) -> Self {
        Self {
            state: AtomicU8::new(CLOSED),
            failures: AtomicU32::new(0),
            opens_after,
            slow: AtomicBool::new(false),
            answers: AtomicBool::new(false),
        }
    }

    #[inline]
    pub(crate) fn lets_through(&self) -> bool {
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
    pub(crate) fn succeeded(&self) {
        if self.failures.load(Relaxed) > 0 {
            self.failures.store(0, Relaxed);
        }
    }

    /// Counts a failure; whether it is the one that opens the breaker, which only a silent server's does.
    pub(crate) fn failed(&self, silent: bool) -> bool {
        let failures = self.failures.fetch_add(1, Relaxed).saturating_add(1);
        // Requests that were under way when it opened say nothing new.
        silent && failures >= self.opens_after && self.lets_through() && self.open()
    }

    /// Opens it because the server does not answer. Returns whether it was closed.
    pub(crate) fn open(&self) -> bool {
        self.answers.store(false, Relaxed);
        self.state.swap(OPEN, Relaxed) == CLOSED
    }

    /// Opens it because answers come too late. Returns whether it was closed.
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

    /// Whether it is open although the server answers: too late.
    pub(crate) fn answers_late(&self) -> bool {
        self.is_slow() && self.answers.load(Relaxed)
    }

    /// Whether it was opened because answers came too late.
    pub(crate) fn is_slow(&self) -> bool {
        self.slow.load(Relaxed)
    }

    /// A probe begins, if it is open.
    pub(crate) fn probe(&self) {
        let _ = self.state.compare_exchange(OPEN, HALF_OPEN, Relaxed, Relaxed);
    }

    /// A probe was answered; whether it was open.
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
    fn so_many_failures_in_a_row_open_it_and_a_probe_closes_it() {
        let breaker = Breaker::new(3);
        assert!(!breaker.failed(true) && !breaker.failed(true));
        breaker.succeeded();
        assert!(!breaker.failed(true) && !breaker.failed(true), "a success in between begins anew");
        assert!(breaker.lets_through());
        assert!(!breaker.failed(false), "a server that has just answered is not silent");
        assert!(breaker.failed(true), "the next in a row opens it, and says so once");
        assert!(!breaker.failed(true));
        assert_eq!(breaker.state(), BreakerState::Open);
        breaker.probe();
        assert_eq!(breaker.state(), BreakerState::HalfOpen);
        assert!(!breaker.lets_through(), "nobody's request is the probe");
        assert!(breaker.close());
        assert!(breaker.lets_through() && !breaker.failed(true), "it counts from the beginning");
    }

    #[test]
    fn a_slow_server_that_is_lost_no_longer_answers() {
        let breaker = Breaker::new(1);
        assert!(breaker.open_slow() && breaker.answers_late());
        assert!(!breaker.failed(true) && breaker.answers_late(), "a request from before it opened");
        assert!(!breaker.open() && !breaker.answers_late() && breaker.is_slow(), "no connection can be made");
        breaker.mark_slow();
        assert!(breaker.answers_late(), "a probe was answered late");
        assert!(breaker.close() && !breaker.answers_late());
        assert!(breaker.failed(true) && !breaker.answers_late());
    }

    #[test]
    fn a_closed_breaker_has_nothing_to_probe() {
        let breaker = Breaker::new(1);
        breaker.probe();
        assert_eq!(breaker.state(), BreakerState::Closed);
        assert!(!breaker.close());
    }
}
