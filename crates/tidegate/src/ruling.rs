//! What is told of a request that an [`Override`](crate::Override) decides.

use crate::{
    decision::{Decision, Reason, Under},
    policy::{Mode, Policy},
    weigh::{self, Fit, Outcome, Standing},
};

/// The answer under other limits, given how each of them stands and the whole wait of a denial: `None` if it never ends.
///
/// The limit that is told of is the one that bound among these, also where it is not the one to wait for.
pub(crate) fn limited(
    limits: &Policy,
    standings: impl Iterator<Item = Standing>,
    (outcome, fit): (Outcome, Fit),
    retry_after: Option<u64>,
    charged_at: Option<crate::Timestamp>,
) -> Decision {
    let mut decision = weigh::told(limits.limits(), standings, weigh::reason(outcome, fit), charged_at);
    decision.under = Under::Limits;
    if outcome == Outcome::Denied {
        decision.reason = if retry_after.is_some() { Reason::Limited } else { Reason::Impossible };
        decision.retry_after_us = retry_after;
    }
    decision
}

/// The answer under a ban, given the standing of each limit of the policy and the time until the ban ends, `None` if it
/// has no end.
pub(crate) fn banned(
    policy: &Policy,
    standings: impl Iterator<Item = Standing>,
    outcome: Outcome,
    until_end: Option<u64>,
    charged_at: Option<crate::Timestamp>,
) -> Decision {
    let nothing_left = standings.map(|standing| Standing { remaining: 0, retry_after: until_end, ..standing });
    let mut decision = weigh::told(policy.limits(), nothing_left, weigh::reason(outcome, Fit::Banned), charged_at);
    decision.under = Under::Ban;
    decision
}

/// The answer to who is exempt: that of an empty state, uncharged.
pub(crate) fn exempt(policy: &Policy) -> Decision {
    let mut decision = weigh::told(policy.limits(), untouched(policy), Reason::Allowed, None);
    decision.under = Under::Exempt;
    decision
}

/// How the limits of a policy stand if nothing is in use.
fn untouched(policy: &Policy) -> impl Iterator<Item = Standing> + '_ {
    policy.rules().iter().map(|rule| Standing {
        used: 0,
        remaining: rule.capacity,
        capacity: rule.capacity,
        retry_after: None,
        reset_after: 0,
    })
}

/// The same decision as a policy in `mode` tells it.
pub(crate) fn in_mode(mut decision: Decision, mode: Mode) -> Decision {
    if mode == Mode::Shadow && !decision.is_allowed() {
        decision.reason = Reason::Shadow;
    }
    decision
}
