//! What holds for one key in place of its policy's limits, until a time or for good.

use super::answer::{Ruled, Standing, Verdict, bisect, bound, verdict};
use super::{CEILING, Micros, Part, Rule, Subject, Units, World};
use crate::gate::{Held, Overrides};

/// What an override says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Overrule {
    Limits(Rule),
    Ban,
    Exempt,
}

/// An override: what it says, and until when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Overruling {
    pub(crate) rule: Overrule,
    pub(crate) until: Option<Micros>,
}

impl Overruling {
    fn told(&self) -> Held {
        let kind = match self.rule {
            Overrule::Limits(_) => "limits",
            Overrule::Ban => "ban",
            Overrule::Exempt => "exempt",
        };
        Held { kind, until: self.until }
    }

    /// The limits that a state is kept by.
    fn kept_by(&self, own: &Rule) -> Rule {
        match &self.rule {
            Overrule::Limits(rule) => rule.clone(),
            Overrule::Ban | Overrule::Exempt => own.clone(),
        }
    }

    /// Whether it holds at a time as it is read.
    fn holds(&self, at: Micros) -> bool {
        self.until.is_none_or(|end| at < end)
    }

    /// Whether a request is let through at `now`, if nobody spends until then.
    fn admits(&self, own: &Rule, subject: &Subject, cost: Units, now: Micros) -> bool {
        let fits =
            |rule: &Rule| (0..rule.caps.len()).all(|i| subject.used(rule, i, now) + cost <= rule.caps[i].capacity);
        match &self.rule {
            _ if !self.holds(subject.reads(now)) => fits(own),
            Overrule::Limits(rule) => fits(rule),
            Overrule::Ban => false,
            Overrule::Exempt => true,
        }
    }

    /// The least wait after which a request is let through: in the time of the override, or else after it.
    fn wait(&self, own: &Rule, subject: &Subject, cost: Units, now: Micros) -> Option<Micros> {
        let ends_after = self.until.map_or(CEILING, |end| end - now);
        let admits = |d: Micros| self.admits(own, subject, cost, now + d);
        let found = bisect(0, ends_after - 1, &admits).or_else(|| bisect(ends_after, CEILING, &admits))?;
        assert!(found == 0 || !admits(found - 1), "admitted a microsecond earlier");
        Some(found)
    }
}

impl World {
    /// The override that holds for a key at `now`.
    pub(crate) fn overruling(&self, part: &Part, now: Micros) -> Option<&Overruling> {
        let overruling = self.overrides.get(&part.name)?;
        let subject = self.subject(part.name);
        let believed = subject.lags_far(&overruling.kept_by(&part.rule), now);
        overruling.holds(if believed { now } else { subject.reads(now) }).then_some(overruling)
    }

    /// The limits that a key's state is kept by at `now`.
    pub(crate) fn kept_by(&self, part: &Part, now: Micros) -> Rule {
        self.overruling(part, now).map_or_else(|| part.rule.clone(), |by| by.kept_by(&part.rule))
    }

    pub(crate) fn exempts(&self, part: &Part, now: Micros) -> bool {
        self.overruling(part, now).is_some_and(|by| by.rule == Overrule::Exempt)
    }

    /// What remains of what would.
    pub(crate) fn left(&self, part: &Part, now: Micros, remaining: Units) -> Units {
        match self.overruling(part, now) {
            Some(Overruling { rule: Overrule::Ban, .. }) => 0,
            _ => remaining,
        }
    }

    /// How each limit in force stands towards a request, which is not charged.
    pub(crate) fn standings(&self, part: &Part, subject: &Subject, cost: Units, now: Micros) -> Vec<Standing> {
        let plain = |rule: &Rule| subject.standings(rule, 0, cost, now);
        let Some(by) = self.overruling(part, now) else { return plain(&part.rule) };
        match &by.rule {
            Overrule::Exempt => {
                let exempt = |standing| Standing { ruled: Ruled::Exempt, retry_after: 0, ..standing };
                Subject::default().standings(&part.rule, 0, cost, now).into_iter().map(exempt).collect()
            }
            Overrule::Ban => {
                let banned = |standing| Standing {
                    retry_after: by.until.map_or(0, |end| end - now),
                    ruled: Ruled::Banned { forever: by.until.is_none() },
                    ..standing
                };
                plain(&part.rule).into_iter().map(banned).collect()
            }
            Overrule::Limits(rule) => {
                let standings = plain(rule);
                let verdict = verdict(&standings);
                if verdict == Verdict::Allowed {
                    return standings;
                }
                let whole = by.wait(&part.rule, subject, cost, now);
                let bound = bound(verdict, &standings);
                let denied = |standing: Standing| Standing {
                    retry_after: whole.unwrap_or(0),
                    ruled: Ruled::Denied { forever: whole.is_none(), aside: standing.cap != bound.cap },
                    ..standing
                };
                standings.into_iter().map(denied).collect()
            }
        }
    }

    /// How each limit in force stands once a request is charged.
    pub(crate) fn standings_charged(&self, part: &Part, subject: &Subject, cost: Units, now: Micros) -> Vec<Standing> {
        let banned = self.overruling(part, now).is_some_and(|by| by.rule == Overrule::Ban);
        let ruled = if banned { Ruled::Banned { forever: false } } else { Ruled::No };
        let standings = subject.standings(&self.kept_by(part, now), 0, cost, now);
        standings.into_iter().map(|standing| Standing { ruled, ..standing }).collect()
    }
}

impl Overrides for World {
    fn set_override(&mut self, part: &Part, by: &Overruling, now: Micros) -> Option<Held> {
        let old = self.override_of(part, now);
        self.overrides.insert(part.name, by.clone());
        old
    }

    fn remove_override(&mut self, part: &Part, now: Micros) -> Option<Held> {
        let old = self.override_of(part, now);
        self.overrides.remove(&part.name);
        old
    }

    fn override_of(&mut self, part: &Part, now: Micros) -> Option<Held> {
        self.overruling(part, now).map(Overruling::told)
    }
}
