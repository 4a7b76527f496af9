//! The headers that tell a client where it stands, in the dialect of the settings.

use axum::http::HeaderMap;
use tidegate::{Decision, Reason};
use tidegate_tower::{Labels, QuotaStatus};

use crate::{
    door::House,
    service::{Answer, Answers, Ruling},
};

/// Tells of a decision under one policy.
pub(super) fn of_one(headers: &mut HeaderMap, house: &House, answer: &Answer<'_>) {
    let labels = answer.ruling.labels();
    tell(headers, house, [&*labels], &labels, &answer.decision);
}

/// Tells of a decision over several: all their policies, and where the one that bound stands.
pub(super) fn of_several(headers: &mut HeaderMap, house: &House, answers: &Answers<'_>) {
    let mut rulings: Vec<&Ruling<'_>> = Vec::new();
    for ruling in answers.parts.iter().map(|answer| &answer.ruling) {
        let is_same = |known: &&Ruling<'_>| {
            let (known, policy) = (known.policy(), ruling.policy());
            known.name() == policy.name() && known.limits() == policy.limits()
        };
        if !rulings.iter().any(is_same) {
            rulings.push(ruling);
        }
    }
    let labels: Vec<_> = rulings.iter().map(|ruling| ruling.labels()).collect();
    let bound = answers.parts[answers.overall.part()].ruling.labels();
    tell(headers, house, labels.iter().map(|labels| &**labels), &bound, &answers.overall);
}

fn tell<'a>(
    headers: &mut HeaderMap,
    house: &House,
    policies: impl IntoIterator<Item = &'a Labels, IntoIter: Clone>,
    bound: &Labels,
    decision: &Decision,
) {
    let retry_after = decision.retry_after().filter(|_| matches!(decision.reason(), Reason::Limited | Reason::Banned));
    let status = QuotaStatus { labels: bound, decision, retry_after, clock: house.service.clock() };
    house.settings.headers.write(headers, policies, &status);
}
