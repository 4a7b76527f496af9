//! The library's brute-force model of one key under one policy.

#![allow(dead_code, reason = "only checks are asked of it here")]

#[path = "../../tidegate/tests/it/model/answer.rs"]
mod answer;
#[path = "../../tidegate/tests/it/model/fraction.rs"]
mod fraction;
#[path = "../../tidegate/tests/it/model/history.rs"]
mod history;
#[path = "../../tidegate/tests/it/model/reshape.rs"]
mod reshape;
#[path = "../../tidegate/tests/it/model/rule.rs"]
mod rule;
#[path = "../../tidegate/tests/it/model/subject.rs"]
mod subject;

pub(crate) use answer::{Answer, Verdict};
pub(crate) use rule::{Algo, Cap, Micros, Rule, Units};
pub(crate) use subject::Subject;

/// Stored numbers and waits saturate here.
pub(crate) const CEILING: i128 = 9_000_000_000_000_000;

/// A `now` that lags by no more than this is read as the newest charge's time.
pub(crate) const MINUTE: Micros = 60_000_000;

/// Answers a request of `cost` at `now` and writes nothing.
pub(crate) fn peek(subject: &Subject, rule: &Rule, cost: Units, now: Micros) -> Answer {
    let standings = subject.clone().standings(rule, 0, cost, now);
    answer::answer(answer::verdict(&standings), &standings, None)
}

/// Charges `cost` at `now` and answers as a check that fits does.
pub(crate) fn charge(subject: &mut Subject, rule: &Rule, cost: Units, now: Micros) -> Answer {
    subject.charge(rule, cost, now);
    answer::answer(Verdict::Allowed, &subject.standings(rule, 0, cost, now), subject.newest)
}
