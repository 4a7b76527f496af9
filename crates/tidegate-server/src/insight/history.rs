//! [`History`]: what was decided in each of the last seconds, by policy.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use super::latency::Counts;
use crate::metrics::OUTCOMES;

/// How many seconds are kept.
pub(crate) const SECONDS: usize = 600;

/// The most policies that one second tells apart; of more, those with the fewest decisions are told together.
const APART: usize = 200;

/// What those are told under.
const OTHERS: &str = "(others)";

/// Over how many seconds the latest figures are taken.
pub(crate) const LATELY: usize = 10;

/// Decisions by outcome, in the order of the metrics.
pub(crate) type Outcomes = [u64; OUTCOMES];

/// What was decided lately.
#[derive(Debug, Default)]
pub(crate) struct History {
    seconds: VecDeque<Second>,
    /// What had been counted of each policy at the last tick.
    counted: HashMap<Arc<str>, Outcomes>,
    /// Durations as counted at the ends of the last seconds.
    durations: VecDeque<Counts>,
}

/// One second.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Second {
    /// Since the epoch.
    pub(crate) at: u64,
    pub(crate) p50_ns: Option<u64>,
    pub(crate) p99_ns: Option<u64>,
    /// Of policies that decided anything.
    pub(crate) policies: Vec<(Arc<str>, [u32; OUTCOMES])>,
}

impl History {
    /// Ends a second: what has been counted of each policy since the service began, and all durations. A clock that has not moved on adds to the
    /// second that is there; one that has skipped some leaves them empty.
    pub(crate) fn tick(&mut self, at: u64, counted: impl Iterator<Item = (Arc<str>, Outcomes)>, durations: &Counts) {
        let mut policies = Vec::new();
        let mut known = HashMap::with_capacity(self.counted.len());
        for (name, now) in counted {
            let before = self.counted.get(&name).copied().unwrap_or_default();
            let new: Outcomes = std::array::from_fn(|i| now[i].saturating_sub(before[i]));
            if new.iter().any(|count| *count > 0) {
                policies.push((Arc::clone(&name), new.map(|count| u32::try_from(count).unwrap_or(u32::MAX))));
            }
            known.insert(name, now);
        }
        self.counted = known;
        let before = self.durations.back().copied().unwrap_or_default();
        let fresh = durations.since(&before);
        let second =
            Second { at, p50_ns: fresh.quantile(0.5), p99_ns: fresh.quantile(0.99), policies: apart(policies) };
        self.durations.push_back(*durations);
        if self.durations.len() > LATELY + 1 {
            self.durations.pop_front();
        }
        self.push(second);
    }

    fn push(&mut self, second: Second) {
        match self.seconds.back_mut() {
            Some(last) if second.at <= last.at => return last.add(second),
            Some(last) => {
                // A machine that was asleep: the time has passed, and nothing was decided.
                let gap = (second.at - last.at - 1).min(SECONDS as u64);
                let skipped = second.at - gap..second.at;
                self.seconds.extend(skipped.map(|at| Second { at, ..Second::default() }));
            }
            None => {}
        }
        self.seconds.push_back(second);
        while self.seconds.len() > SECONDS {
            self.seconds.pop_front();
        }
    }

    /// The last seconds, oldest first.
    pub(crate) fn last(&self, seconds: usize) -> impl Iterator<Item = &Second> + Clone {
        self.seconds.iter().skip(self.seconds.len().saturating_sub(seconds))
    }

    /// How long decisions took lately.
    pub(crate) fn durations(&self) -> Counts {
        match (self.durations.front(), self.durations.back()) {
            (Some(first), Some(last)) => last.since(first),
            _ => Counts::default(),
        }
    }

    /// What was decided lately, by policy.
    pub(crate) fn lately(&self) -> HashMap<Arc<str>, Outcomes> {
        let mut sums = HashMap::<Arc<str>, Outcomes>::new();
        for (name, counts) in self.last(LATELY).flat_map(|second| &second.policies) {
            let sum = sums.entry(Arc::clone(name)).or_default();
            sum.iter_mut().zip(counts).for_each(|(sum, count)| *sum += u64::from(*count));
        }
        sums
    }
}

impl Second {
    fn add(&mut self, other: Self) {
        self.p50_ns = other.p50_ns.or(self.p50_ns);
        self.p99_ns = self.p99_ns.max(other.p99_ns);
        for (name, counts) in other.policies {
            match self.policies.iter_mut().find(|(known, _)| *known == name) {
                Some((_, sum)) => sum.iter_mut().zip(counts).for_each(|(sum, count)| *sum = sum.saturating_add(count)),
                None => self.policies.push((name, counts)),
            }
        }
    }
}

/// At most so many policies, and the rest together.
fn apart(mut policies: Vec<(Arc<str>, [u32; OUTCOMES])>) -> Vec<(Arc<str>, [u32; OUTCOMES])> {
    if policies.len() <= APART {
        return policies;
    }
    let decisions = |counts: &[u32; OUTCOMES]| counts.iter().map(|count| u64::from(*count)).sum::<u64>();
    policies.sort_by_key(|(_, counts)| std::cmp::Reverse(decisions(counts)));
    let rest = policies.split_off(APART);
    let sum = rest
        .iter()
        .fold([0_u32; OUTCOMES], |sum, (_, counts)| std::array::from_fn(|i| sum[i].saturating_add(counts[i])));
    policies.push((OTHERS.into(), sum));
    policies
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{APART, History, LATELY, OTHERS, Outcomes, SECONDS};
    use crate::insight::latency::Latency;

    fn tick(history: &mut History, at: u64, counted: &[(&str, Outcomes)]) {
        let counted = counted.iter().map(|(name, counts)| (Arc::from(*name), *counts));
        history.tick(at, counted, &Latency::default().counts());
    }

    #[test]
    fn each_second_has_what_was_decided_in_it() {
        let mut history = History::default();
        tick(&mut history, 100, &[("a", [5, 1, 0, 0, 0, 0])]);
        tick(&mut history, 101, &[("a", [5, 1, 0, 0, 0, 0])]);
        tick(&mut history, 102, &[("a", [9, 1, 0, 0, 2, 0]), ("b", [1, 0, 0, 0, 0, 0])]);
        let told: Vec<_> = history.last(9).map(|second| (second.at, second.policies.len())).collect();
        assert_eq!(told, [(100, 1), (101, 0), (102, 2)]);
        assert_eq!(history.lately()["a"], [9, 1, 0, 0, 2, 0]);
        assert_eq!(history.last(1).next().unwrap().policies[0].1, [4, 0, 0, 0, 2, 0]);
    }

    #[test]
    fn a_clock_that_skips_leaves_empty_seconds_and_one_that_stands_adds() {
        let mut history = History::default();
        tick(&mut history, 100, &[("a", [1, 0, 0, 0, 0, 0])]);
        tick(&mut history, 100, &[("a", [3, 0, 0, 0, 0, 0])]);
        assert_eq!(history.last(9).map(|second| second.policies[0].1[0]).collect::<Vec<_>>(), [3]);
        tick(&mut history, 103, &[("a", [4, 0, 0, 0, 0, 0])]);
        assert_eq!(history.last(9).map(|second| second.at).collect::<Vec<_>>(), [100, 101, 102, 103]);
        tick(&mut history, 1_000_000, &[("a", [4, 0, 0, 0, 0, 0])]);
        assert_eq!(history.last(usize::MAX).count(), SECONDS);
        assert!(history.last(usize::MAX).all(|second| second.policies.is_empty()));
    }

    #[test]
    fn it_is_bounded_in_seconds_and_in_policies() {
        let mut history = History::default();
        for at in 0..SECONDS as u64 + 50 {
            tick(&mut history, at, &[("a", [at, 0, 0, 0, 0, 0])]);
        }
        assert_eq!(history.last(usize::MAX).count(), SECONDS);
        assert_eq!(history.lately()["a"][0], LATELY as u64);
        let names: Vec<String> = (0..APART + 3).map(|i| format!("p{i:03}")).collect();
        let many: Vec<_> = names.iter().map(|name| (name.as_str(), [1, 0, 0, 0, 0, 0])).collect();
        tick(&mut history, 10_000, &many);
        let last = history.last(1).next().unwrap();
        assert_eq!(last.policies.len(), APART + 1);
        assert_eq!(last.policies[APART], (OTHERS.into(), [3, 0, 0, 0, 0, 0]));
    }
}
