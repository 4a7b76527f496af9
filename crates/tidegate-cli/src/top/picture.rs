//! [`Picture`]: what is known of the service, kept up to date by what it tells.

use std::collections::VecDeque;

use tidegate_server::dashboard::{
    CurrentState, DecisionHistory, JournalLine, OutcomeTotals, Overview, PolicyHistory, PolicyHits, PolicySummary,
    SecondSummary, Tick,
};

/// How many seconds of the past are kept.
const SECONDS: usize = 300;

/// How many lines of the journal are kept.
const LINES: usize = 200;

/// What is known of the service.
#[derive(Debug, Clone)]
pub(crate) struct Picture {
    pub(crate) version: String,
    pub(crate) started_ms: u64,
    /// How it is; the policies that decide most first.
    pub(crate) now: CurrentState,
    /// The last seconds, the newest last.
    pub(crate) seconds: VecDeque<Second>,
    /// The newest lines, the newest last.
    pub(crate) journal: VecDeque<JournalLine>,
    /// Whom the policy hits that is looked at.
    pub(crate) hits: Option<PolicyHits>,
    /// Why that could not be told.
    pub(crate) problem: Option<String>,
}

/// Decisions of each policy in one second.
#[derive(Debug, Clone)]
pub(crate) struct Second {
    pub(crate) at_ms: u64,
    pub(crate) policies: Vec<(String, OutcomeTotals)>,
}

impl Picture {
    pub(crate) fn new(overview: Overview) -> Self {
        let Overview { started_ms, version, now, history, journal, .. } = overview;
        let mut picture = Self {
            version,
            started_ms,
            now: sorted(now),
            seconds: seconds(&history),
            journal: VecDeque::new(),
            hits: None,
            problem: None,
        };
        picture.write_down(journal);
        picture
    }

    pub(crate) fn tick(&mut self, tick: Tick) {
        self.now = sorted(tick.now);
        self.write_down(tick.journal);
        if let Some(point) = tick.point {
            self.append(point);
        }
    }

    /// Adds a second, or puts the newest in place of what was told of it before; those that were missed had nothing, as far as is known.
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

    fn write_down(&mut self, lines: Vec<JournalLine>) {
        let newest = self.journal.back().map_or(0, |line| line.id);
        self.journal.extend(lines.into_iter().filter(|line| line.id > newest));
        self.journal.drain(..self.journal.len().saturating_sub(LINES));
    }

    /// What a policy has decided lately.
    pub(crate) fn policy(&self, name: &str) -> Option<&PolicySummary> {
        self.now.policies.iter().find(|policy| policy.name == name)
    }

    /// A number of each of the last seconds, of one policy or of all.
    pub(crate) fn series(&self, policy: Option<&str>, count: impl Fn(OutcomeTotals) -> u64) -> Vec<u64> {
        let of_second = |second: &Second| {
            let counted = second.policies.iter().filter(|(name, _)| policy.is_none_or(|policy| policy == name));
            counted.map(|(_, counts)| count(*counts)).fold(0, u64::saturating_add)
        };
        self.seconds.iter().map(of_second).collect()
    }
}

fn sorted(mut now: CurrentState) -> CurrentState {
    now.policies.sort_by(|a, b| b.counts.all().cmp(&a.counts.all()).then_with(|| a.name.cmp(&b.name)));
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

    use super::{LINES, Picture, SECONDS, Tick};
    use crate::top::samples;

    fn tick(at_ms: u64, allowed: u64, id: u64) -> Tick {
        let mut now = samples::overview();
        now["point"] = json!({"at_ms": at_ms, "policies": [{"name": "public-api", "allowed": allowed}]});
        now["journal"] = json!([{"id": id, "at_ms": at_ms, "kind": "reload", "text": "again", "by": null}]);
        serde_json::from_value(now).expect("a tick")
    }

    fn picture() -> Picture {
        Picture::new(serde_json::from_value(samples::overview()).expect("an overview"))
    }

    #[test]
    fn seconds_come_once_and_in_order_and_missed_ones_are_empty() {
        let mut picture = picture();
        let newest = picture.seconds.back().expect("a past").at_ms;
        assert_eq!(picture.seconds.len(), SECONDS);
        picture.tick(tick(newest, 9, 100));
        assert!(
            picture.series(None, |counts| counts.allowed).ends_with(&[9]),
            "what was told later of a second counts"
        );
        picture.tick(tick(newest - 1_000, 5, 100));
        assert_eq!(picture.seconds.back().map(|second| second.at_ms), Some(newest), "what is past is not told again");
        picture.tick(tick(newest + 3_000, 7, 101));
        let series = picture.series(Some("public-api"), |counts| counts.allowed);
        assert!(series.ends_with(&[9, 0, 0, 7]), "{series:?}");
        assert_eq!(picture.seconds.back().map(|second| second.at_ms), Some(newest + 3_000));
        picture.tick(tick(newest + 9_000_000_000, 1, 102));
        assert_eq!(picture.seconds.len(), SECONDS, "however long nothing was heard");
    }

    #[test]
    fn the_journal_is_bounded_and_has_no_line_twice() {
        let mut picture = picture();
        for id in [100, 100].into_iter().chain(101..500) {
            picture.tick(tick(1, 0, id));
        }
        assert_eq!(picture.journal.len(), LINES);
        assert_eq!(picture.journal.back().map(|line| line.id), Some(499));
    }

    #[test]
    fn policies_are_sorted_by_what_they_decide() {
        let picture = picture();
        let names: Vec<_> = picture.now.policies.iter().map(|policy| policy.name.as_str()).collect();
        assert_eq!(names, ["public-api", "login", "(limits)", "batch"]);
    }
}
