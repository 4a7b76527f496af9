//! [`DegradedStates`]: the degraded states of one server.
//!
//! A state begins with the first affected request. It ends when no request was affected for [`QUIET`] while other
//! requests succeeded, or for [`EXPIRY`] if none succeeded. So an intermittent fault is one state. A lasting state (an
//! open breaker, a server that may evict) ends when its cause does.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use parking_lot::{Mutex, MutexGuard};
use tidegate::Degradation;

use crate::{error::Cause, log, stopwatch};

/// A state ends after this many microseconds without a failure, if requests succeed.
const QUIET: u64 = 2_000_000;
/// A state ends after this many microseconds without a failure in any case.
const EXPIRY: u64 = 30_000_000;
/// Maximum length of a detail in bytes: an error message may be long.
const MAX_DETAIL: usize = 300;

/// The degraded states of one server, by cause.
#[derive(Debug, Default)]
pub(crate) struct DegradedStates {
    states: [Mutex<State>; Cause::ALL.len()],
    /// When a request last succeeded.
    succeeded_at: AtomicU64,
}

/// One state. Times are those of the stopwatch.
#[derive(Debug, Default)]
struct State {
    /// When it began, if it has not ended.
    since: Option<u64>,
    last: u64,
    is_lasting: bool,
    detail: String,
    /// The beginning of the state that was logged last; `None` if its end was also logged.
    logged: Option<u64>,
}

impl DegradedStates {
    /// The state of a cause, which may have ended by `now`.
    fn state(&self, cause: Cause, now: u64) -> MutexGuard<'_, State> {
        let mut state = self.states[cause as usize].lock();
        let quiet = now.saturating_sub(state.last);
        let recovered = quiet >= QUIET && self.succeeded_at.load(Relaxed) > state.last;
        if !state.is_lasting && (recovered || quiet >= EXPIRY) {
            state.since = None;
        }
        state
    }

    /// Records a request that was affected.
    pub(crate) fn record(&self, cause: Cause, detail: impl FnOnce() -> String) {
        let now = stopwatch::micros();
        let mut state = self.state(cause, now);
        state.last = now;
        if state.since.is_none() {
            state.detail = shortened(detail());
            state.since = Some(now);
        }
    }

    /// Begins a state that lasts until [`end`](Self::end) is called.
    pub(crate) fn begin(&self, cause: Cause, detail: impl FnOnce() -> String) {
        self.states[cause as usize].lock().is_lasting = true;
        self.record(cause, detail);
    }

    /// Ends a lasting state.
    pub(crate) fn end(&self, cause: Cause) {
        let mut state = self.states[cause as usize].lock();
        if std::mem::take(&mut state.is_lasting) {
            state.since = None;
        }
    }

    /// Records a request that succeeded at this time.
    #[inline]
    pub(crate) fn record_success(&self, now: u64) {
        self.succeeded_at.store(now, Relaxed);
    }

    /// The current states.
    pub(crate) fn list(&self, node: &str) -> Vec<Degradation> {
        let now = stopwatch::micros();
        let degradation = |cause: Cause| {
            let state = self.state(cause, now);
            state.since.map(|since| Degradation {
                cause: cause.name(),
                node: Some(node.to_owned()),
                detail: state.detail.clone(),
                cure: cause.cure().to_owned(),
                lasted: Duration::from_micros(now.saturating_sub(since)),
                is_outage: cause.is_silence(),
            })
        };
        Cause::ALL.into_iter().filter_map(degradation).collect()
    }

    /// Logs each state that has begun or ended since the last call.
    pub(crate) fn log_changes(&self, node: &str) {
        let now = stopwatch::micros();
        for cause in Cause::ALL {
            let mut state = self.state(cause, now);
            let (before, since, detail) = (state.logged, state.since, state.detail.clone());
            state.logged = since;
            drop(state);
            let (cause, cure) = (cause.name(), cause.cure());
            if let Some(before) = before.filter(|_| before != since) {
                let lasted = Duration::from_micros(now.saturating_sub(before));
                log::guarded(|| {
                    tracing::info!(node, cause, ?lasted, "a degraded state of the redis store has ended");
                });
            }
            if since.is_some() && before != since {
                log::guarded(|| tracing::warn!(node, cause, detail, cure, "the redis store is degraded"));
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
    use crate::{error::Cause, stopwatch};

    /// Whether a state still lasts `later` microseconds from now.
    fn lasts(degraded_states: &DegradedStates, cause: Cause, later: u64) -> bool {
        drop(degraded_states.state(cause, stopwatch::micros() + later));
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
