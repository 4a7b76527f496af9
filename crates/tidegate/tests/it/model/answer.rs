//! Waits found by search, the limit that bound, and the whole answer.

use super::{CEILING, Cap, Micros, Rule, Subject, Units};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Allowed,
    Limited,
    Impossible,
    Shadow,
    Banned,
}

/// What a Decision says, in the model's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) verdict: Verdict,
    /// Which part bound, and which limit.
    pub(crate) part: usize,
    pub(crate) bound: Cap,
    pub(crate) used: Units,
    pub(crate) remaining: Units,
    pub(crate) retry_after: Option<Micros>,
    pub(crate) reset_after: Micros,
    pub(crate) charged_at: Option<Micros>,
    pub(crate) overridden: bool,
}

/// How one limit stands towards a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Standing {
    pub(crate) part: usize,
    pub(crate) cap: Cap,
    pub(crate) cost: Units,
    pub(crate) used: Units,
    /// Meaningless where the cost is above the capacity.
    pub(crate) retry_after: Micros,
    pub(crate) reset_after: Micros,
    pub(crate) ruled: Ruled,
}

/// What an override makes of how a limit stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ruled {
    /// Nothing: the numbers decide.
    No,
    /// Denied, for good or for a while. A limit `aside` is not the one to tell of.
    Denied { forever: bool, aside: bool },
    /// Denied, and nothing is left, for good or until a time that `retry_after` leads to.
    Banned { forever: bool },
    /// Everything fits.
    Exempt,
}

impl Standing {
    pub(crate) fn remaining(&self) -> Units {
        match self.ruled {
            Ruled::Banned { .. } => 0,
            _ => (self.cap.capacity - self.used).max(0),
        }
    }

    pub(crate) fn impossible(&self) -> bool {
        match self.ruled {
            Ruled::No => self.cost > self.cap.capacity,
            Ruled::Denied { forever, .. } => forever,
            Ruled::Banned { .. } | Ruled::Exempt => false,
        }
    }

    pub(crate) fn banned(&self) -> bool {
        matches!(self.ruled, Ruled::Banned { .. })
    }

    pub(crate) fn fits(&self) -> bool {
        match self.ruled {
            Ruled::No => self.used + self.cost <= self.cap.capacity,
            Ruled::Denied { .. } | Ruled::Banned { .. } => false,
            Ruled::Exempt => true,
        }
    }
}

/// The least d in `from..=to` at which `holds`, which once true stays true in that range.
pub(crate) fn bisect(from: Micros, to: Micros, holds: &dyn Fn(Micros) -> bool) -> Option<Micros> {
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
    pub(crate) fn wait(&self, rule: &Rule, i: usize, now: Micros, enough: &dyn Fn(Units) -> bool) -> Micros {
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
            let cap = rule.caps[i];
            Standing {
                part,
                cap,
                cost,
                used: self.used(rule, i, now),
                retry_after: self.wait(rule, i, now, &|used| used + cost <= cap.capacity),
                reset_after: self.wait(rule, i, now, &|used| used == 0),
                ruled: Ruled::No,
            }
        };
        (0..rule.caps.len()).map(stand).collect()
    }
}

/// The verdict on limits that are asked together.
pub(crate) fn verdict(standings: &[Standing]) -> Verdict {
    if standings.iter().any(Standing::banned) {
        Verdict::Banned
    } else if standings.iter().any(Standing::impossible) {
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
        Verdict::Banned => match s.ruled {
            Ruled::Banned { forever: true } => (0, 0, -s.reset_after),
            Ruled::Banned { forever: false } => (1, -s.retry_after, -s.reset_after),
            _ => (2, 0, 0),
        },
        Verdict::Impossible if s.impossible() => (0, s.cap.capacity, 0),
        Verdict::Impossible => (1, 0, 0),
        Verdict::Limited => (0, -s.retry_after, s.remaining()),
        Verdict::Allowed | Verdict::Shadow => (0, s.remaining(), -s.reset_after),
    };
    let told_of = standings.iter().filter(|s| !matches!(s.ruled, Ruled::Denied { aside: true, .. }));
    *told_of.min_by_key(|s| order(s)).expect("a request has a limit")
}

/// The answer of a verdict on these limits.
pub(crate) fn answer(verdict: Verdict, standings: &[Standing], charged_at: Option<Micros>) -> Answer {
    let bound = bound(verdict, standings);
    let longest_retry = || standings.iter().map(|s| s.retry_after).max();
    let retry_after = match verdict {
        Verdict::Limited => longest_retry(),
        Verdict::Banned => Some(bound.retry_after).filter(|_| bound.ruled == Ruled::Banned { forever: false }),
        Verdict::Allowed | Verdict::Impossible | Verdict::Shadow => None,
    };
    Answer {
        verdict,
        part: bound.part,
        bound: bound.cap,
        used: bound.used,
        remaining: standings.iter().map(Standing::remaining).min().expect("a request has a limit"),
        retry_after,
        reset_after: standings.iter().map(|s| s.reset_after).max().expect("a request has a limit"),
        charged_at,
        overridden: false,
    }
}
