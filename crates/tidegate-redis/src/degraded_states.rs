//! [`DegradedStates`]: the degraded states of one server.
//!
//! A state begins with the first affected request. It ends when no request was affected for [`QUIET`] while other
//! requests succeeded, or for [`EXPIRY`] if none succeeded. So an intermittent fault is one state. A lasting state (an
//! open breaker, a server that may evict) ends when its cause does.

use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use parking_lot::Mutex;

use tidegate::Degradation;

use crate::{cause::Cause, log, stopwatch};

/// A state ends after this many microseconds without a failure, if requests succeed.
const QUIET: u64 = 2_000_000;
/// A state ends after this many microseconds without a failure in any case.
const EXPIRY: u64 = 30_000_000;
/// Maximum length of a detail in bytes: an error message may be long.
const MAX_DETAIL: usize = 300;

/// The degraded states of one server, by cause.
#[derive(Debug, Default)]
pub(crate) struct DegradedStates {
    states: [State; Cause::ALL.len()],
    /// When a request last succeeded.
    succeeded_at: AtomicU64,
}

/// One state. Times are those of the stopwatch plus one; 0 means none.
#[derive(Debug, Default)]
struct State {
    since: AtomicU64,
    last: AtomicU64,
    is_lasting: AtomicBool,
    detail: Mutex<String>,
    /// The beginning of the state that was logged last; `None` if its end was also logged.
    logged: Mutex<Option<u64>>,
}

impl DegradedStates {
    /// Records a request that was affected.
    pub(crate) fn record(&self, cause: Cause, detail: impl FnOnce() -> String) {
        let now = stopwatch::micros() + 1;
        let state = &self.states[cause.index()];
        self.end_if_recovered(cause, now);
        state.last.store(now, Relaxed);
        if state.since.load(Relaxed) == 0 {
            *state.detail.lock() = shortened(detail());
            let _ = state.since.compare_exchange(0, now, Relaxed, Relaxed);
        }
    }

    /// Begins a state that lasts until [`end`](Self::end) is called.
    pub(crate) fn begin(&self, cause: Cause, detail: impl FnOnce() -> String) {
        self.states[cause.index()].is_lasting.store(true, Relaxed);
        self.record(cause, detail);
    }

    /// Ends a lasting state.
    pub(crate) fn end(&self, cause: Cause) {
        let state = &self.states[cause.index()];
        if state.is_lasting.swap(false, Relaxed) {
            state.since.store(0, Relaxed);
        }
    }

    /// Records a request that succeeded at this time.
    #[inline]
    pub(crate) fn record_success(&self, now: u64) {
        self.succeeded_at.store(now + 1, Relaxed);
    }

    fn end_if_recovered(&self, cause: Cause, now: u64) {
        let state = &self.states[cause.index()];
        let (since, last) = (state.since.load(Relaxed), state.last.load(Relaxed));
        if since == 0 || state.is_lasting.load(Relaxed) {
            return;
        }
        let quiet = now.saturating_sub(last);
        let recovered = quiet >= QUIET && self.succeeded_at.load(Relaxed) > last;
        if recovered || quiet >= EXPIRY {
            let _ = state.since.compare_exchange(since, 0, Relaxed, Relaxed);
        }
    }

    /// The current states.
    pub(crate) fn list(&self, node: &str) -> Vec<Degradation> {
        let now = stopwatch::micros() + 1;
        let lasting = |cause: Cause| {
            self.end_if_recovered(cause, now);
            let state = &self.states[cause.index()];
            let since = state.since.load(Relaxed);
            (since > 0).then(|| Degradation {
                cause: cause.name(),
                node: Some(node.to_owned()),
                detail: state.detail.lock().clone(),
                cure: cause.cure().to_owned(),
                lasted: Duration::from_micros(now.saturating_sub(since)),
                is_outage: cause.is_outage(),
            })
        };
        Cause::ALL.into_iter().filter_map(lasting).collect()
    }

    /// Logs each state that has begun or ended since the last call.
    pub(crate) fn log_changes(&self, node: &str) {
        let now = stopwatch::micros() + 1;
        for cause in Cause::ALL {
            self.end_if_recovered(cause, now);
            let state = &self.states[cause.index()];
            let since = Some(state.since.load(Relaxed)).filter(|since| *since > 0);
            let before = std::mem::replace(&mut *state.logged.lock(), since);
            if before == since {
                continue;
            }
            if let Some(before) = before {
                let lasted = Duration::from_micros(now.saturating_sub(before));
                log::guarded(|| {
                    tracing::info!(
                        node,
                        cause = cause.name(),
                        ?lasted,
                        "a degraded state of the redis store has ended"
                    );
                });
            }
            if since.is_some() {
                let detail = state.detail.lock().clone();
                let (cause, cure) = (cause.name(), cause.cure());
                log::guarded(|| {
                    tracing::warn!(node, cause, detail, cure, "the redis store is degraded");
                });
            }
        }
    }
}

fn shortened(mut text: String) -> String {
    if text.len() > MAX_DETAIL {
        let end = (0..=MAX_DETAIL).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        text.truncate(end);
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{DegradedStates, EXPIRY, QUIET};
    use crate::{cause::Cause, stopwatch};

    /// Whether a state still lasts `later` microseconds from now.
    fn lasts(degraded_states: &DegradedStates, cause: Cause, later: u64) -> bool {
        degraded_states.end_if_recovered(cause, stopwatch::micros() + later);
        degraded_states.list("n").iter().any(|one| one.cause == cause.name())
    }

    #[test]
    fn a_state_ends_after_requests_have_succeeded_for_a_while() {
        let degraded_states = DegradedStates::default();
        degraded_states.record(Cause::OutOfMemory, || "full".to_owned());
        assert!(lasts(&degraded_states, Cause::OutOfMemory, QUIET + 10_000_000), "nothing has succeeded since");
        degraded_states.record_success(stopwatch::micros() + 1);
        assert!(lasts(&degraded_states, Cause::OutOfMemory, 0), "not after one success");
        assert!(!lasts(&degraded_states, Cause::OutOfMemory, QUIET + 10_000_000));
    }

    #[test]
    fn a_state_without_requests_expires_and_a_lasting_state_does_not() {
        let degraded_states = DegradedStates::default();
        degraded_states.record(Cause::WrongType, String::new);
        degraded_states.begin(Cause::MayEvict, String::new);
        assert!(!lasts(&degraded_states, Cause::WrongType, EXPIRY + 10_000_000));
        assert!(lasts(&degraded_states, Cause::MayEvict, EXPIRY + 10_000_000));
        degraded_states.end(Cause::MayEvict);
        assert!(!lasts(&degraded_states, Cause::MayEvict, 0));
    }

    #[test]
    fn a_long_detail_is_cut() {
        let degraded_states = DegradedStates::default();
        degraded_states.record(Cause::Refused, || "é".repeat(10_000));
        assert!(degraded_states.list("n")[0].detail.len() < 400);
    }
}
