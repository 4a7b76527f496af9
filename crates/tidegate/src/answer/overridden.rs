//! The decision for a key with an [`Override`](crate::Override).

use super::{Fit, LimitAnswer, Outcome, decision};
use crate::{
    decision::{DecidedBy, Decision, Reason, Refund},
    policy::Policy,
    timestamp::Timestamp,
};

/// The decision under the limits of an override. `retry_after` is the whole wait of a denial, which may go beyond the end
/// of the override; `None` if waiting does not help.
///
/// The decision describes the limit that decided among `limits`, even if the wait is for another limit.
pub(crate) fn limited(
    limits: &Policy,
    answers: impl Iterator<Item = LimitAnswer>,
    (outcome, fit): (Outcome, Fit),
    retry_after: Option<u64>,
    charged_at: Option<Timestamp>,
) -> Decision {
    let mut decision = decision(limits.limits(), answers, outcome.reason(fit), charged_at);
    decision.under = DecidedBy::Limits;
    if outcome == Outcome::Denied {
        decision.reason = if retry_after.is_some() { Reason::Limited } else { Reason::Impossible };
        decision.retry_after_us = retry_after;
    }
    decision
}

/// The decision under a ban. `until_end` is the time until the ban ends; `None` if it has no end.
pub(crate) fn banned(
    policy: &Policy,
    answers: impl Iterator<Item = LimitAnswer>,
    outcome: Outcome,
    until_end: Option<u64>,
    charged_at: Option<Timestamp>,
) -> Decision {
    let answers = answers.map(|answer| LimitAnswer { remaining: 0, retry_after: until_end, ..answer });
    let mut decision = decision(policy.limits(), answers, outcome.reason(Fit::Banned), charged_at);
    decision.under = DecidedBy::Ban;
    decision
}

/// The decision for an exempt key: that of an empty state, not charged.
pub(crate) fn exempt(policy: &Policy) -> Decision {
    let unused = policy.specs().iter().map(|spec| LimitAnswer::with_used(spec, 0));
    let mut decision = decision(policy.limits(), unused, Reason::Allowed, None);
    decision.under = DecidedBy::Exempt;
    decision
}

/// The answer to a refund for an exempt key, for which no units are in use.
pub(crate) fn refund_exempt(policy: &Policy, returned: bool) -> Refund {
    let Decision { remaining, reset_after_us, .. } = exempt(policy);
    Refund { returned, remaining, reset_after_us }
}
