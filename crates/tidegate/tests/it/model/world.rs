//! Several (policy, key, cost) in one decision, shadow and enforcing mixed.

use std::collections::BTreeMap;

use super::answer::{self, Answer, Standing, Verdict};
use super::{Micros, Overruling, Rule, Subject, Units};
use crate::gate::{Gate, Refunded, Shown};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    Check,
    Peek,
    Charge,
}

/// One (policy, key, cost): the policy's name and the key are `name`.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) name: (u8, u8),
    pub(crate) rule: Rule,
    pub(crate) cost: Units,
}

/// The answer to several at once, and to each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answers {
    pub(crate) overall: Answer,
    pub(crate) parts: Vec<Answer>,
}

/// Every (policy, key) there is.
#[derive(Clone, Debug, Default)]
pub(crate) struct World {
    subjects: BTreeMap<(u8, u8), Subject>,
    /// Those that have ended are still there.
    pub(crate) overrides: BTreeMap<(u8, u8), Overruling>,
}

impl World {
    pub(crate) fn subject(&self, name: (u8, u8)) -> Subject {
        self.subjects.get(&name).cloned().unwrap_or_default()
    }
}

impl Gate for World {
    fn reset(&mut self, part: &Part) -> bool {
        self.subjects.remove(&part.name).is_some_and(|subject| subject.newest.is_some())
    }

    fn inspect(&mut self, part: &Part, now: Micros) -> Option<Shown> {
        let mut subject = self.subject(part.name);
        let rule = self.kept_by(part, now);
        subject.believe(&rule, now);
        let standings = subject.standings(&rule, 0, 1, now);
        let next_free = |(i, standing): (usize, &Standing)| match standing.used {
            0 => 0,
            used => subject.wait(&rule, i, now, &|later| later < used),
        };
        Some(Shown {
            newest_charge: subject.newest?,
            used: standings.iter().map(|standing| standing.used).collect(),
            remaining: standings.iter().map(|standing| self.left(part, now, standing.remaining())).collect(),
            reset_after: standings.iter().map(|standing| standing.reset_after).collect(),
            next_free_after: standings.iter().enumerate().map(next_free).collect(),
        })
    }

    fn refund(&mut self, part: &Part, charged_at: Micros, now: Micros) -> Refunded {
        let mut subject = self.subject(part.name);
        let rule = self.kept_by(part, now);
        let returned = subject.refund(&rule, part.cost, charged_at, now);
        let in_force = if self.exempts(part, now) { Subject::default() } else { subject.clone() };
        let standings = in_force.standings(&rule, 0, 1, now);
        let left = |remaining| self.left(part, now, remaining);
        let told = answer::answer(Verdict::Allowed, &standings, None);
        let refunded = Refunded { returned, remaining: left(told.remaining), reset_after: told.reset_after };
        self.subjects.insert(part.name, subject);
        refunded
    }

    fn decide_all(&mut self, op: Op, parts: &[Part], now: Micros) -> Answers {
        let mut after = self.clone();
        for part in parts {
            let mut subject = self.subject(part.name);
            if !self.exempts(part, now) {
                subject.believe(&self.kept_by(part, now), now);
            }
            after.subjects.insert(part.name, subject);
        }
        // The same policy and key twice is one check of the summed cost.
        let same =
            |part: &Part| parts.iter().enumerate().filter(|(_, other)| other.name == part.name).collect::<Vec<_>>();
        let first = |part: &Part| same(part)[0].0;
        let summed = |part: &Part| same(part).iter().map(|(_, other)| other.cost).sum();
        let stand = |world: &Self, part: &Part| self.standings(part, &world.subject(part.name), summed(part), now);
        let placed = |part: &Part, standings: Vec<Standing>| {
            let at_first = |standing| Standing { part: first(part), ..standing };
            standings.into_iter().map(at_first).collect::<Vec<_>>()
        };

        let mut standings: Vec<Vec<Standing>> = parts.iter().map(|part| placed(part, stand(&after, part))).collect();
        let verdicts: Vec<Verdict> = standings.iter().map(|standings| answer::verdict(standings)).collect();
        let vetoed = parts.iter().zip(&verdicts).any(|(part, v)| !part.rule.shadow && *v != Verdict::Allowed);
        let mut times = vec![None; parts.len()];
        for (i, part) in parts.iter().enumerate() {
            let fits = !vetoed && verdicts[i] == Verdict::Allowed;
            if !self.exempts(part, now) && (op == Op::Charge || (op == Op::Check && fits)) {
                let mut subject = after.subject(part.name);
                if first(part) == i {
                    subject.charge(&self.kept_by(part, now), summed(part), now);
                }
                times[i] = subject.newest;
                after.subjects.insert(part.name, subject);
                let charged = self.standings_charged(part, &after.subject(part.name), summed(part), now);
                standings[i] = placed(part, charged);
            }
        }

        let one = |i: usize| match verdicts[i] {
            _ if op == Op::Charge => answer::answer(Verdict::Allowed, &standings[i], times[i]),
            denied @ (Verdict::Limited | Verdict::Impossible | Verdict::Banned) if parts[i].rule.shadow => {
                Answer { verdict: Verdict::Shadow, ..answer::answer(denied, &standings[i], times[i]) }
            }
            other => answer::answer(other, &standings[i], times[i]),
        };
        let overridden = |i: usize| self.overruling(&parts[i], now).is_some();
        let each: Vec<Answer> =
            (0..parts.len()).map(|i| Answer { part: i, overridden: overridden(i), ..one(i) }).collect();
        let overall = overall(&each, parts, &standings, &times);
        let overall = Answer { overridden: overridden(overall.part), ..overall };
        if op != Op::Peek {
            *self = after;
        }
        Answers { overall, parts: each }
    }
}

/// One answer to all. It tells of the enforcing parts, if there are any: a shadow has no say. Where they admit and a
/// shadow would not have, it tells of that shadow too, and that names the limit that bound.
fn overall(each: &[Answer], parts: &[Part], standings: &[Vec<Standing>], times: &[Option<Micros>]) -> Answer {
    let all = |wanted: &dyn Fn(usize) -> bool| -> Vec<Standing> {
        (0..parts.len()).filter(|i| wanted(*i)).flat_map(|i| standings[i].clone()).collect()
    };
    let denied =
        each.iter().any(|answer| matches!(answer.verdict, Verdict::Limited | Verdict::Impossible | Verdict::Banned));
    let shadowed = |i: usize| each[i].verdict == Verdict::Shadow;
    let only_shadows = parts.iter().all(|part| part.rule.shadow);
    let asked = |i: usize| !parts[i].rule.shadow || only_shadows;
    let charged_at = times.iter().flatten().max().copied();
    if denied {
        answer::answer(answer::verdict(&all(&asked)), &all(&asked), charged_at)
    } else if (0..parts.len()).any(shadowed) {
        let watched = all(&shadowed);
        let Answer { part, bound, used, retry_after, .. } = answer::answer(answer::verdict(&watched), &watched, None);
        let admitted = answer::answer(Verdict::Allowed, &all(&|i| asked(i) || shadowed(i)), charged_at);
        Answer { verdict: Verdict::Shadow, part, bound, used, retry_after, ..admitted }
    } else {
        answer::answer(Verdict::Allowed, &all(&asked), charged_at)
    }
}
