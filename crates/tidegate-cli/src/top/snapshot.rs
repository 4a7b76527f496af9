//! [`Snapshot`]: the last known state of the service, updated by its events.

use std::collections::VecDeque;

use tidegate_server::dashboard::{
    CurrentState, DecisionHistory, JournalLine, OutcomeTotals, Overview, PolicyHistory, PolicyHits, PolicySummary,
    SecondSummary, Tick,
};

/// Number of seconds of the history.
const SECONDS: usize = 300;

/// Number of events that are kept.
const LINES: usize = 200;

/// The last known state of the service.
#[derive(Debug, Clone)]
pub(crate) struct Snapshot {
    pub(crate) version: String,
    pub(crate) started_ms: u64,
    /// The current state, with the policies in descending order of denials.
    pub(crate) now: CurrentState,
    /// The last seconds, oldest first.
    pub(crate) seconds: VecDeque<Second>,
    /// The newest events, oldest first.
    pub(crate) journal: VecDeque<JournalLine>,
    /// The most denied keys of the shown policy.
    pub(crate) hits: Option<PolicyHits>,
    /// The error about the shown policy.
    pub(crate) problem: Option<String>,
}

/// Decisions of each policy in one second.
#[derive(Debug, Clone)]
pub(crate) struct Second {
    pub(crate) at_ms: u64,
    pub(crate) policies: Vec<(String, OutcomeTotals)>,
}

impl Snapshot {
    pub(crate) fn new(overview: Overview) -> Self {
        let Overview { started_ms, version, now, history, journal, .. } = overview;
        let mut snapshot = Self {
            version,
            started_ms,
            now: sorted(now),
            seconds: seconds(&history),
            journal: VecDeque::new(),
            hits: None,
            problem: None,
        };
        snapshot.add_events(journal);
        snapshot
    }

    pub(crate) fn tick(&mut self, tick: Tick) {
        self.now = sorted(tick.now);
        self.add_events(tick.journal);
        if let Some(point) = tick.point {
            self.append(point);
        }
    }

    /// Adds a second, or replaces the last one if it is the same. Missed seconds are empty.
    fn append(&mut self, point: SecondSummary) {
        if self.seconds.back().is_some_and(|second| second.at_ms == point.at_ms) {
            self.seconds.pop_back();
        }
        let newest = self.seconds.back().map_or(0, |second| second.at_ms);
        if point.at_ms <= newest && newest > 0 {
            return;
        }
        let missed = if newest == 0 { 0 } else { (point.at_ms - newest).div_ceil(1_000).saturating_sub(1) };
        let missed = missed.min(SECONDS as u64);
        for back in (1..=missed).rev() {
            self.seconds.push_back(Second { at_ms: point.at_ms.saturating_sub(back * 1_000), policies: Vec::new() });
        }
        let policies = point.policies.into_iter().map(|policy| (policy.name, policy.counts)).collect();
        self.seconds.push_back(Second { at_ms: point.at_ms, policies });
        self.seconds.drain(..self.seconds.len().saturating_sub(SECONDS));
    }

    fn add_events(&mut self, lines: Vec<JournalLine>) {
        let newest = self.journal.back().map_or(0, |line| line.id);
        self.journal.extend(lines.into_iter().filter(|line| line.id > newest));
        self.journal.drain(..self.journal.len().saturating_sub(LINES));
    }

    /// Returns the recent decisions of a policy.
    pub(crate) fn policy(&self, name: &str) -> Option<&PolicySummary> {
        self.now.policies.iter().find(|policy| policy.name == name)
    }

    /// Returns a number for each of the last seconds, of one policy or of all.
    pub(crate) fn series(&self, policy: Option<&str>, count: impl Fn(OutcomeTotals) -> u64) -> Vec<u64> {
        let of_second = |second: &Second| {
            let counted = second.policies.iter().filter(|(name, _)| policy.is_none_or(|policy| policy == name));
            counted.map(|(_, counts)| count(*counts)).fold(0, u64::saturating_add)
        };
        self.seconds.iter().map(of_second).collect()
    }
}

fn sorted(mut now: CurrentState) -> CurrentState {
    // Older services sort their policies by name.
    let rank = |counts: OutcomeTotals| (counts.denied(), counts.shadow, counts.all());
    now.policies.sort_by(|a, b| rank(b.counts).cmp(&rank(a.counts)).then_with(|| a.name.cmp(&b.name)));
    now
}

fn seconds(history: &DecisionHistory) -> VecDeque<Second> {
    let length = history.p50_us.len();
    let second = |index: usize| {
        let counts = |policy: &PolicyHistory| {
            let PolicyHistory { allowed, limited, impossible, store_unavailable, shadow, banned, .. } = policy;
            let series = [allowed, limited, impossible, store_unavailable, shadow, banned];
            OutcomeTotals::new(series.map(|series| series.get(index).copied().map_or(0, u64::from)))
        };
        let counted = history.policies.iter().map(|policy| (policy.name.clone(), counts(policy)));
        Second {
            at_ms: history.from_ms.saturating_add(index as u64 * 1_000),
            policies: counted.filter(|(_, counts)| counts.all() > 0).collect(),
        }
    };
    (length.saturating_sub(SECONDS)..length).map(second).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{LINES, SECONDS, Snapshot, Tick};
    use crate::top::samples;

    fn tick(at_ms: u64, allowed: u64, id: u64) -> Tick {
        let mut now = samples::overview();
        now["point"] = json!({"at_ms": at_ms, "policies": [{"name": "public-api", "allowed": allowed}]});
        now["journal"] = json!([{"id": id, "at_ms": at_ms, "kind": "reload", "text": "again", "by": null}]);
        serde_json::from_value(now).expect("a tick")
    }

    fn snapshot() -> Snapshot {
        Snapshot::new(serde_json::from_value(samples::overview()).expect("an overview"))
    }

    #[test]
    fn seconds_are_unique_and_in_order_and_missed_ones_are_empty() {
        let mut snapshot = snapshot();
        let newest = snapshot.seconds.back().expect("a past").at_ms;
        assert_eq!(snapshot.seconds.len(), SECONDS);
        snapshot.tick(tick(newest, 9, 100));
        assert!(
            snapshot.series(None, |counts| counts.allowed).ends_with(&[9]),
            "a later update of a second replaces it"
        );
        snapshot.tick(tick(newest - 1_000, 5, 100));
        assert_eq!(snapshot.seconds.back().map(|second| second.at_ms), Some(newest), "an earlier second is ignored");
        snapshot.tick(tick(newest + 3_000, 7, 101));
        let series = snapshot.series(Some("public-api"), |counts| counts.allowed);
        assert!(series.ends_with(&[9, 0, 0, 7]), "{series:?}");
        assert_eq!(snapshot.seconds.back().map(|second| second.at_ms), Some(newest + 3_000));
        snapshot.tick(tick(newest + 9_000_000_000, 1, 102));
        assert_eq!(snapshot.seconds.len(), SECONDS, "after any gap");
    }

    #[test]
    fn the_journal_is_bounded_and_has_no_duplicates() {
        let mut snapshot = snapshot();
        for id in [100, 100].into_iter().chain(101..500) {
            snapshot.tick(tick(1, 0, id));
        }
        assert_eq!(snapshot.journal.len(), LINES);
        assert_eq!(snapshot.journal.back().map(|line| line.id), Some(499));
    }

    #[test]
    fn policies_with_the_most_denials_come_first() {
        let snapshot = snapshot();
        let names: Vec<_> = snapshot.now.policies.iter().map(|policy| policy.name.as_str()).collect();
        assert_eq!(names, ["public-api", "login", "(limits)", "batch"]);
    }
}
