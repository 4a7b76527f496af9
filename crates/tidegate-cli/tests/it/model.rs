//! The library's brute-force model, as far as one key under one policy needs it.

#![allow(dead_code, reason = "only checks are asked of it here")]

#[path = "../../../tidegate/tests/it/model/answer.rs"]
mod answer;
#[path = "../../../tidegate/tests/it/model/fraction.rs"]
mod fraction;
#[path = "../../../tidegate/tests/it/model/history.rs"]
mod history;
#[path = "../../../tidegate/tests/it/model/reshape.rs"]
mod reshape;
#[path = "../../../tidegate/tests/it/model/rule.rs"]
mod rule;
#[path = "../../../tidegate/tests/it/model/subject.rs"]
mod subject;

pub(crate) use answer::{Answer, Verdict};
pub(crate) use rule::{Algo, Cap, Micros, Rule, Units};
pub(crate) use subject::Subject;

/// Stored numbers and waits saturate here.
pub(crate) const CEILING: i128 = 9_000_000_000_000_000;

/// A `now` that lags by no more than this is never believed.
pub(crate) const MINUTE: Micros = 60_000_000;

/// Checks a request: what is answered, and what is written.
pub(crate) fn check(subject: &mut Subject, rule: &Rule, cost: Units, now: Micros) -> Answer {
    subject.believe(rule, now);
    let before = subject.standings(rule, 0, cost, now);
    let verdict = answer::verdict(&before);
    if verdict != Verdict::Allowed {
        return answer::answer(verdict, &before, None);
    }
    subject.charge(rule, cost, now);
    answer::answer(verdict, &subject.standings(rule, 0, cost, now), subject.newest)
}
