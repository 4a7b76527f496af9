//! [`History`]: the decisions of each of the last seconds, by policy.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::Arc,
};

use crate::metrics::{DurationCounts, OUTCOMES, OutcomeCounts};

/// Number of seconds that are kept.
pub(crate) const SECONDS: usize = 600;

/// Maximum number of policies in one second. Beyond that, the policies with the fewest decisions are counted together.
const MAX_POLICIES: usize = 200;

/// The name under which they are counted.
const OTHERS: &str = "(others)";

/// Number of seconds of the recent figures.
pub(crate) const RECENT: usize = 10;

/// The decisions of the last seconds.
#[derive(Debug, Default)]
pub(crate) struct History {
    seconds: VecDeque<Second>,
    /// The counts of each policy at the last tick.
    counted: HashMap<Arc<str>, OutcomeCounts>,
    /// The counts of durations at the ends of the last seconds.
    durations: VecDeque<DurationCounts>,
}

/// One second.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Second {
    /// Seconds since the epoch.
    pub(crate) at: u64,
    pub(crate) p50_ns: Option<u64>,
    pub(crate) p99_ns: Option<u64>,
    /// The policies with decisions.
    pub(crate) policies: Vec<(Arc<str>, [u32; OUTCOMES])>,
}

impl History {
    /// Ends a second. `counted` are the decisions of each policy since the service started. If the clock has not advanced, they are
    /// added to the last second. If it has skipped seconds, those are empty.
    pub(crate) fn tick(&mut self, at: u64, counted: Vec<(Arc<str>, OutcomeCounts)>, durations: &DurationCounts) {
        let mut policies = Vec::new();
        let mut known = HashMap::with_capacity(self.counted.len());
        for (name, now) in counted {
            let before = self.counted.get(&name).copied().unwrap_or_default();
            let new: OutcomeCounts = std::array::from_fn(|i| now[i].saturating_sub(before[i]));
            if new.iter().any(|count| *count > 0) {
                policies.push((Arc::clone(&name), new.map(|count| u32::try_from(count).unwrap_or(u32::MAX))));
            }
            known.insert(name, now);
        }
        self.counted = known;
        let before = self.durations.back().copied().unwrap_or_default();
        let fresh = durations.since(&before);
        let second =
            Second { at, p50_ns: fresh.quantile(0.5), p99_ns: fresh.quantile(0.99), policies: bounded(policies) };
        self.durations.push_back(*durations);
        if self.durations.len() > RECENT + 1 {
            self.durations.pop_front();
        }
        self.push(second);
    }

    fn push(&mut self, second: Second) {
        match self.seconds.back_mut() {
            Some(last) if second.at <= last.at => return last.add(second),
            Some(last) => {
                // The machine may have been suspended: time has passed without decisions.
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

    /// Returns the last seconds, oldest first.
    pub(crate) fn last(&self, seconds: usize) -> impl Iterator<Item = &Second> + Clone {
        self.seconds.iter().skip(self.seconds.len().saturating_sub(seconds))
    }

    /// Returns the recent durations.
    pub(crate) fn durations(&self) -> DurationCounts {
        match (self.durations.front(), self.durations.back()) {
            (Some(first), Some(last)) => last.since(first),
            _ => DurationCounts::default(),
        }
    }

    /// Returns the recent decisions by policy.
    pub(crate) fn recent(&self) -> BTreeMap<Arc<str>, OutcomeCounts> {
        let mut sums = BTreeMap::<Arc<str>, OutcomeCounts>::new();
        for (name, counts) in self.last(RECENT).flat_map(|second| &second.policies) {
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

/// Keeps the policies with the most decisions, and counts the others together.
fn bounded(mut policies: Vec<(Arc<str>, [u32; OUTCOMES])>) -> Vec<(Arc<str>, [u32; OUTCOMES])> {
    if policies.len() <= MAX_POLICIES {
        return policies;
    }
    let decisions = |counts: &[u32; OUTCOMES]| counts.iter().map(|count| u64::from(*count)).sum::<u64>();
    policies.sort_by_key(|(_, counts)| std::cmp::Reverse(decisions(counts)));
    let rest = policies.split_off(MAX_POLICIES);
    let sum = rest
        .iter()
        .fold([0_u32; OUTCOMES], |sum, (_, counts)| std::array::from_fn(|i| sum[i].saturating_add(counts[i])));
    policies.push((OTHERS.into(), sum));
    policies
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{History, MAX_POLICIES, OTHERS, OutcomeCounts, RECENT, SECONDS};
    use crate::metrics::Latency;

    fn tick(history: &mut History, at: u64, counted: &[(&str, OutcomeCounts)]) {
        let counted = counted.iter().map(|(name, counts)| (Arc::from(*name), *counts)).collect();
        history.tick(at, counted, &Latency::default().counts());
    }

    #[test]
    fn each_second_has_its_own_decisions() {
        let mut history = History::default();
        tick(&mut history, 100, &[("a", [5, 1, 0, 0, 0, 0])]);
        tick(&mut history, 101, &[("a", [5, 1, 0, 0, 0, 0])]);
        tick(&mut history, 102, &[("a", [9, 1, 0, 0, 2, 0]), ("b", [1, 0, 0, 0, 0, 0])]);
        let seconds: Vec<_> = history.last(9).map(|second| (second.at, second.policies.len())).collect();
        assert_eq!(seconds, [(100, 1), (101, 0), (102, 2)]);
        assert_eq!(history.recent()["a"], [9, 1, 0, 0, 2, 0]);
        assert_eq!(history.last(1).next().unwrap().policies[0].1, [4, 0, 0, 0, 2, 0]);
    }

    #[test]
    fn skipped_seconds_are_empty_and_a_repeated_second_is_summed() {
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
    fn the_numbers_of_seconds_and_policies_are_bounded() {
        let mut history = History::default();
        for at in 0..SECONDS as u64 + 50 {
            tick(&mut history, at, &[("a", [at, 0, 0, 0, 0, 0])]);
        }
        assert_eq!(history.last(usize::MAX).count(), SECONDS);
        assert_eq!(history.recent()["a"][0], RECENT as u64);
        let names: Vec<String> = (0..MAX_POLICIES + 3).map(|i| format!("p{i:03}")).collect();
        let many: Vec<_> = names.iter().map(|name| (name.as_str(), [1, 0, 0, 0, 0, 0])).collect();
        tick(&mut history, 10_000, &many);
        let last = history.last(1).next().unwrap();
        assert_eq!(last.policies.len(), MAX_POLICIES + 1);
        assert_eq!(last.policies[MAX_POLICIES], (OTHERS.into(), [3, 0, 0, 0, 0, 0]));
    }
}
