//! Waits found by search, the limit that bound, and the whole answer.

use super::{CEILING, Micros, Rule, Subject, Units};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Allowed,
    Limited,
    Impossible,
    Shadow,
}

/// What a Decision says, in the model's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) verdict: Verdict,
    /// Which part bound, and which of its policy's limits.
    pub(crate) part: usize,
    pub(crate) limit: usize,
    pub(crate) used: Units,
    pub(crate) remaining: Units,
    pub(crate) retry_after: Option<Micros>,
    pub(crate) reset_after: Micros,
    pub(crate) charged_at: Option<Micros>,
}

/// How one limit stands towards a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Standing {
    pub(crate) part: usize,
    pub(crate) limit: usize,
    pub(crate) cost: Units,
    pub(crate) capacity: Units,
    pub(crate) used: Units,
    /// Meaningless where the cost is above the capacity.
    pub(crate) retry_after: Micros,
    pub(crate) reset_after: Micros,
}

impl Standing {
    pub(crate) fn remaining(&self) -> Units {
        (self.capacity - self.used).max(0)
    }

    pub(crate) fn impossible(&self) -> bool {
        self.cost > self.capacity
    }

    pub(crate) fn fits(&self) -> bool {
        self.used + self.cost <= self.capacity
    }
}

/// The least d in `from..=to` at which `holds`, which once true stays true in that range.
fn bisect(from: Micros, to: Micros, holds: &dyn Fn(Micros) -> bool) -> Option<Micros> {
    if from > to || !holds(to) {
        return None;
    }
    let (mut low, mut high) = (from, to);
    while low < high {
        let middle = low + (high - low) / 2;
        if holds(middle) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    Some(low)
}

impl Subject {
    /// The least wait until `enough(units in use by limit i)`, counted from `now`.
    fn wait(&self, rule: &Rule, i: usize, now: Micros, enough: &dyn Fn(Units) -> bool) -> Micros {
        let settled = self.rule.as_ref().is_some_and(|stored| stored.same_shape(rule));
        if settled {
            let usage = self.limits[i].used(rule.algo, rule.caps[i]);
            return bisect(0, CEILING, &|d| enough(usage.at(self.reads(now + d)))).unwrap_or(CEILING);
        }
        bisect(0, CEILING, &|d| enough(self.used(rule, i, now + d))).unwrap_or(CEILING)
    }

    /// How each limit of the policy stands at `now`.
    pub(crate) fn standings(&self, rule: &Rule, part: usize, cost: Units, now: Micros) -> Vec<Standing> {
        let stand = |i: usize| {
            let capacity = rule.caps[i].capacity;
            Standing {
                part,
                limit: i,
                cost,
                capacity,
                used: self.used(rule, i, now),
                retry_after: self.wait(rule, i, now, &|used| used + cost <= capacity),
                reset_after: self.wait(rule, i, now, &|used| used == 0),
            }
        };
        (0..rule.caps.len()).map(stand).collect()
    }
}

/// The verdict on limits that are asked together.
pub(crate) fn verdict(standings: &[Standing]) -> Verdict {
    if standings.iter().any(Standing::impossible) {
        Verdict::Impossible
    } else if standings.iter().all(Standing::fits) {
        Verdict::Allowed
    } else {
        Verdict::Limited
    }
}

/// The limit that bound: of those that come first in the verdict's order, the first.
pub(crate) fn bound(verdict: Verdict, standings: &[Standing]) -> Standing {
    // Smaller keys bind before larger ones, and `min_by_key` takes the first of equals.
    let order = |s: &Standing| match verdict {
        Verdict::Impossible if s.impossible() => (s.capacity, 0),
        Verdict::Impossible => (Units::MAX, 0),
        Verdict::Limited => (-s.retry_after, s.remaining()),
        Verdict::Allowed | Verdict::Shadow => (s.remaining(), -s.reset_after),
    };
    *standings.iter().min_by_key(|s| order(s)).expect("a request has a limit")
}

/// The answer of a verdict on these limits.
pub(crate) fn answer(verdict: Verdict, standings: &[Standing], charged_at: Option<Micros>) -> Answer {
    let bound = bound(verdict, standings);
    let longest_retry = standings.iter().map(|s| s.retry_after).max();
    Answer {
        verdict,
        part: bound.part,
        limit: bound.limit,
        used: bound.used,
        remaining: standings.iter().map(Standing::remaining).min().expect("a request has a limit"),
        retry_after: longest_retry.filter(|_| verdict == Verdict::Limited),
        reset_after: standings.iter().map(|s| s.reset_after).max().expect("a request has a limit"),
        charged_at,
    }
}
