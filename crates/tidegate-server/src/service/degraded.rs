//! [`Degraded`]: the current degraded states of the service, by cause. Each check is compared with the previous one, so
//! that the beginning and the end of a state are each reported once.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tidegate::{Degradation, EventCount};
use utoipa::ToSchema;

/// A state that is detected by a rising counter lasts until the counter has not risen for this long.
const HOLD: Duration = Duration::from_secs(10);

/// Causes that every service reports, with 0 while there is no such state.
pub(crate) const CAUSES: [&str; 7] = [
    "accept_errors",
    "certificate_refused",
    "clock_ahead",
    "configuration_refused",
    "log_lines_dropped",
    "no_room",
    "no_room_for_callers",
];

/// A current degraded state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[non_exhaustive]
pub struct DegradedState {
    /// Short name of the cause, as in the metric `tidegate_degraded`.
    #[schema(example = "out_of_memory", value_type = String)]
    pub cause: Cow<'static, str>,
    /// The affected Redis server; left out if the state does not concern one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// When the state began, in milliseconds since the epoch.
    pub since_ms: u64,
    /// What happened.
    pub detail: String,
    /// What can be done about it.
    pub cure: String,
    /// Whether the store does not answer at all.
    #[serde(skip)]
    pub(crate) is_outage: bool,
}

/// The states that have begun and ended since the last check.
#[derive(Debug)]
pub(crate) struct Changes {
    pub(crate) begun: Vec<DegradedState>,
    pub(crate) ended: Vec<DegradedState>,
}

/// The current states.
#[derive(Debug, Default)]
pub(crate) struct Degraded(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    states: Vec<DegradedState>,
    seen: BTreeSet<Cow<'static, str>>,
    rising: BTreeMap<&'static str, RisingCounter>,
}

/// A counter that is watched.
#[derive(Debug, Default, Clone, Copy)]
struct RisingCounter {
    count: u64,
    /// When the counter began to rise, its value before that, and when it rose last.
    lasts: Option<(u64, u64, u64)>,
}

impl Degraded {
    /// Records the states found now. Returns those that have begun and ended.
    pub(crate) fn update(&self, now_ms: u64, mut found: Vec<Degradation>, counted: &[EventCount]) -> Changes {
        let mut inner = self.0.lock();
        for counter in counted {
            let rising = inner.rising.entry(counter.cause).or_default();
            found.extend(rising.state(counter, now_ms));
        }
        let before = std::mem::take(&mut inner.states);
        let mut begun = Vec::new();
        for Degradation { cause, node, detail, cure, lasted, is_outage } in found {
            let is_same = |state: &&DegradedState| state.cause == cause && state.node == node;
            // One state for each cause and node.
            if inner.states.iter().find(is_same).is_some() {
                continue;
            }
            let known = before.iter().find(is_same);
            let since_ms = known.map_or_else(|| now_ms.saturating_sub(millis(lasted)), |known| known.since_ms);
            let is_new = known.is_none();
            let state = DegradedState { cause: cause.into(), node, since_ms, detail, cure, is_outage };
            begun.extend(is_new.then(|| state.clone()));
            inner.seen.insert(state.cause.clone());
            inner.states.push(state);
        }
        let lasts = |old: &DegradedState| inner.states.iter().any(|new| new.cause == old.cause && new.node == old.node);
        Changes { begun, ended: before.into_iter().filter(|old| !lasts(old)).collect() }
    }

    /// The current states.
    pub(crate) fn states(&self) -> Vec<DegradedState> {
        self.0.lock().states.clone()
    }

    /// The number of current states, by each cause that has occurred or is always reported.
    pub(crate) fn by_cause(&self) -> BTreeMap<Cow<'static, str>, u64> {
        let inner = self.0.lock();
        let causes = CAUSES.iter().map(|cause| Cow::Borrowed(*cause)).chain(inner.seen.iter().cloned());
        let mut counts: BTreeMap<_, _> = causes.map(|cause| (cause, 0)).collect();
        for state in &inner.states {
            *counts.entry(state.cause.clone()).or_default() += 1;
        }
        counts
    }
}

impl RisingCounter {
    fn state(&mut self, counter: &EventCount, now_ms: u64) -> Option<Degradation> {
        if counter.count > self.count {
            let (since, before) = self.lasts.map_or((now_ms, self.count), |(since, before, _)| (since, before));
            self.lasts = Some((since, before, now_ms));
        } else if self.lasts.is_some_and(|(.., last)| now_ms >= last.saturating_add(millis(HOLD))) {
            self.lasts = None;
        }
        self.count = counter.count;
        let (since, before, _) = self.lasts?;
        let detail = format!("{} {}", counter.count.saturating_sub(before), counter.what);
        let lasted = Duration::from_millis(now_ms.saturating_sub(since));
        Some(Degradation { lasted, ..degradation(counter.cause, detail, counter.cure) })
    }
}

/// Returns a state of the service that begins now.
pub(super) fn degradation(cause: &'static str, detail: String, cure: &str) -> Degradation {
    Degradation { cause, node: None, detail, cure: cure.to_owned(), lasted: Duration::ZERO, is_outage: false }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Degradation, Degraded, EventCount, degradation};

    fn found(cause: &'static str, node: Option<&str>) -> Degradation {
        let (node, lasted) = (node.map(str::to_owned), Duration::from_millis(100));
        Degradation { node, lasted, ..degradation(cause, "it happened".to_owned(), "do something") }
    }

    #[test]
    fn the_begin_and_the_end_of_a_state_are_reported_once() {
        let degraded = Degraded::default();
        let changes =
            degraded.update(1_000, vec![found("unreachable", Some("a")), found("unreachable", Some("b"))], &[]);
        assert_eq!((changes.begun.len(), changes.ended.len()), (2, 0));
        assert_eq!(degraded.states()[0].since_ms, 900, "it began before it was reported");
        let changes =
            degraded.update(2_000, vec![found("unreachable", Some("b")), found("unreachable", Some("b"))], &[]);
        assert_eq!((changes.begun.len(), changes.ended[0].node.as_deref()), (0, Some("a")));
        assert_eq!((degraded.states().len(), degraded.states()[0].since_ms), (1, 900));
        assert_eq!(degraded.by_cause()["unreachable"], 1);
        assert_eq!(degraded.update(3_000, Vec::new(), &[]).ended.len(), 1);
        assert_eq!(degraded.by_cause()["unreachable"], 0, "a cause that has occurred stays in the metrics");
    }

    #[test]
    fn a_counted_state_ends_ten_seconds_after_the_last_increase() {
        let degraded = Degraded::default();
        let update = |now, count| {
            let counter = EventCount { cause: "no_room", count, what: "were refused".into(), cure: "" };
            degraded.update(now, Vec::new(), &[counter])
        };
        assert!(update(0, 0).begun.is_empty());
        assert_eq!(update(1_000, 3).begun[0].detail, "3 were refused");
        assert!(update(9_000, 3).ended.is_empty());
        assert!(update(10_000, 5).begun.is_empty(), "it is the same state");
        assert_eq!(degraded.states()[0].detail, "5 were refused");
        assert!(update(19_999, 5).ended.is_empty());
        assert_eq!(update(20_000, 5).ended.len(), 1);
        assert_eq!(update(21_000, 6).begun[0].detail, "1 were refused");
    }
}
