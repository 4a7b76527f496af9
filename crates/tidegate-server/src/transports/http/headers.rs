//! The rate limit headers of responses, in the configured format.

use axum::http::HeaderMap;
use tidegate::{Decision, Reason};
use tidegate_tower::{Labels, QuotaStatus};

use crate::{
    context::Context,
    service::{PolicyDecision, PolicyDecisions, ResolvedPolicy},
};

/// Writes the headers for a decision by one policy.
pub(super) fn write(headers: &mut HeaderMap, context: &Context, decided: &PolicyDecision<'_>) {
    let labels = decided.policy.labels();
    write_labels(headers, context, [&*labels], &labels, &decided.decision);
}

/// Writes the headers for a decision over several policies: all policies, and the state of the one that decided.
pub(super) fn write_all(headers: &mut HeaderMap, context: &Context, decided: &PolicyDecisions<'_>) {
    let mut policies: Vec<&ResolvedPolicy<'_>> = Vec::new();
    for policy in decided.parts.iter().map(|part| &part.policy) {
        if !policies.iter().any(|known| known.name() == policy.name() && known.limits() == policy.limits()) {
            policies.push(policy);
        }
    }
    let labels: Vec<_> = policies.iter().map(|policy| policy.labels()).collect();
    let deciding = decided.parts[decided.overall.part()].policy.labels();
    write_labels(headers, context, labels.iter().map(|labels| &**labels), &deciding, &decided.overall);
}

fn write_labels<'a>(
    headers: &mut HeaderMap,
    context: &Context,
    policies: impl IntoIterator<Item = &'a Labels, IntoIter: Clone>,
    deciding: &Labels,
    decision: &Decision,
) {
    let retry_after = decision.retry_after().filter(|_| matches!(decision.reason(), Reason::Limited | Reason::Banned));
    let status = QuotaStatus { labels: deciding, decision, retry_after, clock: context.service.clock() };
    context.settings.headers.write(headers, policies, &status);
}
