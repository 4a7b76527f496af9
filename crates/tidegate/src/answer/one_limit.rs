//! The decision of a policy of one limit in a single pass, for speed.

use super::{Moment, wait};
use crate::{
    algorithms::{Action, ChargeAt, Recording},
    decision::{DecidedBy, Decision, Reason},
    op::Op,
    policy::{Mode, OneLimit},
};

/// A request under a policy of one limit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OneLimitRequest {
    pub(crate) op: Op,
    pub(crate) cost: u64,
    pub(crate) capacity: u64,
    /// Whether a log may allocate memory.
    pub(crate) room: bool,
}

/// The answer of the limit. It is small enough to stay in registers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OneLimitAnswer {
    pub(crate) reason: Reason,
    pub(crate) charged: bool,
    pub(crate) joined: bool,
    pub(crate) used: u64,
    /// The time at which the cost fits, if it is limited.
    pub(crate) retry_at: i64,
    /// The time at which no units are in use, if any are.
    pub(crate) reset_at: i64,
}

impl Action for OneLimitRequest {
    type Output = OneLimitAnswer;

    #[inline(always)]
    #[expect(clippy::inline_always, reason = "the answer stays in registers")]
    fn apply<S: ChargeAt>(self, state: &mut S) -> (OneLimitAnswer, bool) {
        let Self { op, cost, capacity, room } = self;
        let before = state.used();
        let fits = before + cost <= capacity;
        let charged = op == Op::Charge || (fits && op == Op::Check);
        let reason = Reason::Allowed;
        let mut answer = OneLimitAnswer { reason, charged, joined: false, used: before, retry_at: 0, reset_at: 0 };
        if charged {
            answer.joined = state.charge(cost, room) == Recording::Joined;
            answer.used = state.used_after(before, cost);
        } else if cost > capacity {
            answer.reason = Reason::Impossible;
        } else if !fits {
            answer.reason = Reason::Limited;
            answer.retry_at = state.falls_to(capacity - cost);
        }
        if answer.used > 0 {
            answer.reset_at = state.falls_to(0);
        }
        (answer, charged)
    }
}

impl OneLimitAnswer {
    pub(crate) fn allows(&self, mode: Mode) -> bool {
        self.reason == Reason::Allowed || mode == Mode::Shadow
    }

    /// The decision of the policy.
    #[inline]
    pub(crate) fn decision(&self, policy: &OneLimit, moment: Moment) -> Decision {
        let reset = if self.used > 0 { wait(self.reset_at, moment.now) } else { 0 };
        let shadowed = policy.mode == Mode::Shadow && self.reason != Reason::Allowed;
        Decision {
            reason: if shadowed { Reason::Shadow } else { self.reason },
            degraded: self.joined,
            leased: false,
            part: 0,
            under: DecidedBy::Policy,
            limit: policy.limit,
            capacity: policy.spec.capacity,
            used: self.used,
            remaining: policy.spec.capacity.saturating_sub(self.used),
            retry_after_us: (self.reason == Reason::Limited).then(|| wait(self.retry_at, moment.now)),
            reset_after_us: reset,
            limit_reset_after_us: reset,
            charged_at: self.charged.then_some(moment.charged_at()),
        }
    }
}
