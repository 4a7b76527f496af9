//! [`Conditions`]: the degraded states of one server.
//!
//! A state begins with the first affected request. It ends when no request was affected for [`QUIET`] while other
//! requests succeeded, or for [`FORGOTTEN`] if none succeeded. So an intermittent fault is one state. A state that is
//! held (an open breaker, a server that may evict) ends when it is released.

use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use parking_lot::Mutex;

use tidegate::Degradation;

use crate::{cause::Cause, log, stopwatch};

/// A state ends after so many microseconds without a failure, if requests succeed.
const QUIET: u64 = 2_000_000;
/// A state ends after so many microseconds without a failure in any case.
const FORGOTTEN: u64 = 30_000_000;
/// Maximum length of a detail in bytes: an error message may be long.
const LONGEST_DETAIL: usize = 300;

/// The degraded states of one server, by cause.
#[derive(Debug)]
pub(crate) struct Conditions {
    states: [State; Cause::ALL.len()],
    /// When a request last succeeded.
    succeeded_at: AtomicU64,
}

/// One state. Times are those of the stopwatch plus one; 0 means none.
#[derive(Debug, Default)]
struct State {
    since: AtomicU64,
    last: AtomicU64,
    held: AtomicBool,
    detail: Mutex<String>,
    /// The beginning of the state that was logged last; `None` if its end was logged, too.
    logged: Mutex<Option<u64>>,
}

impl Default for Conditions {
    fn default() -> Self {
        Self { states: std::array::from_fn(|_| State::default()), succeeded_at: AtomicU64::new(0) }
    }
}

impl Conditions {
    /// Records a request that was affected.
    pub(crate) fn note(&self, cause: Cause, detail: impl FnOnce() -> String) {
        let now = stopwatch::micros() + 1;
        let state = &self.states[cause.index()];
        self.end_if_over(cause, now);
        state.last.store(now, Relaxed);
        if state.since.load(Relaxed) == 0 {
            *state.detail.lock() = shortened(detail());
            let _ = state.since.compare_exchange(0, now, Relaxed, Relaxed);
        }
    }

    /// Begins a state that lasts until it is released.
    pub(crate) fn hold(&self, cause: Cause, detail: impl FnOnce() -> String) {
        self.states[cause.index()].held.store(true, Relaxed);
        self.note(cause, detail);
    }

    /// Ends a state that was held.
    pub(crate) fn release(&self, cause: Cause) {
        let state = &self.states[cause.index()];
        if state.held.swap(false, Relaxed) {
            state.since.store(0, Relaxed);
        }
    }

    /// Records a request that succeeded at this time.
    #[inline]
    pub(crate) fn succeeded(&self, now: u64) {
        self.succeeded_at.store(now + 1, Relaxed);
    }

    fn end_if_over(&self, cause: Cause, now: u64) {
        let state = &self.states[cause.index()];
        let (since, last) = (state.since.load(Relaxed), state.last.load(Relaxed));
        if since == 0 || state.held.load(Relaxed) {
            return;
        }
        let quiet = now.saturating_sub(last);
        let recovered = quiet >= QUIET && self.succeeded_at.load(Relaxed) > last;
        if recovered || quiet >= FORGOTTEN {
            let _ = state.since.compare_exchange(since, 0, Relaxed, Relaxed);
        }
    }

    /// The current states.
    pub(crate) fn list(&self, node: &str) -> Vec<Degradation> {
        let now = stopwatch::micros() + 1;
        let lasting = |cause: Cause| {
            self.end_if_over(cause, now);
            let state = &self.states[cause.index()];
            let since = state.since.load(Relaxed);
            (since > 0).then(|| Degradation {
                cause: cause.name(),
                node: Some(node.to_owned()),
                detail: state.detail.lock().clone(),
                cure: cause.cure().to_owned(),
                lasted: Duration::from_micros(now.saturating_sub(since)),
            })
        };
        Cause::ALL.into_iter().filter_map(lasting).collect()
    }

    /// Logs each state that has begun or ended since the last call.
    pub(crate) fn log_changes(&self, node: &str) {
        let now = stopwatch::micros() + 1;
        for cause in Cause::ALL {
            self.end_if_over(cause, now);
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
    if text.len() > LONGEST_DETAIL {
        let end = (0..=LONGEST_DETAIL).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        text.truncate(end);
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{Conditions, FORGOTTEN, QUIET};
    use crate::{cause::Cause, stopwatch};

    /// Whether a state still lasts `later` microseconds from now.
    fn lasts(conditions: &Conditions, cause: Cause, later: u64) -> bool {
        conditions.end_if_over(cause, stopwatch::micros() + later);
        conditions.list("n").iter().any(|one| one.cause == cause.name())
    }

    #[test]
    fn a_state_lasts_until_requests_have_succeeded_for_a_while_without_it() {
        let conditions = Conditions::default();
        conditions.note(Cause::OutOfMemory, || "full".to_owned());
        assert!(lasts(&conditions, Cause::OutOfMemory, QUIET + 10_000_000), "nothing has succeeded since");
        conditions.succeeded(stopwatch::micros() + 1);
        assert!(lasts(&conditions, Cause::OutOfMemory, 0), "not after one success");
        assert!(!lasts(&conditions, Cause::OutOfMemory, QUIET + 10_000_000));
    }

    #[test]
    fn a_state_without_requests_is_forgotten_and_a_held_one_is_not() {
        let conditions = Conditions::default();
        conditions.note(Cause::WrongType, String::new);
        conditions.hold(Cause::MayEvict, String::new);
        assert!(!lasts(&conditions, Cause::WrongType, FORGOTTEN + 10_000_000));
        assert!(lasts(&conditions, Cause::MayEvict, FORGOTTEN + 10_000_000));
        conditions.release(Cause::MayEvict);
        assert!(!lasts(&conditions, Cause::MayEvict, 0));
    }

    #[test]
    fn a_long_detail_is_cut() {
        let conditions = Conditions::default();
        conditions.note(Cause::Refused, || "é".repeat(10_000));
        assert!(conditions.list("n")[0].detail.len() < 400);
    }
}
