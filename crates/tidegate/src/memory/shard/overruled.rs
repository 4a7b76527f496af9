//! Decisions about keys under an [`Override`](crate::Override): the same two steps, by what it says.

use std::sync::Arc;

use super::{
    Of, Part, Shard,
    weighing::{Place, Seen, seen_of_nothing},
};
use crate::{
    algorithms::{LimitState, Recording},
    decision::{Decision, Refund},
    inspect::Inspection,
    memory::bounds::Bounds,
    overrides::{Override, OverrideRule},
    policy::Policy,
    reshape::Held,
    ruling,
    shape::Rule,
    weigh::{self, Outcome, Standing},
};

/// The limits that a key's state is kept by: those of the override, if it brings any.
fn kept_by<'a>(part: &Part<'a>, by: &'a Override) -> Part<'a> {
    match by.rule() {
        OverrideRule::Limits(limits) => Part { policy: limits, ..*part },
        OverrideRule::Ban | OverrideRule::Exempt => *part,
    }
}

impl Shard {
    /// Looks whether the cost fits under an override that holds.
    #[cold]
    pub(super) fn weigh_overridden(&mut self, part: &Part<'_>, by: &Override, bounds: &Bounds, peek: bool) -> Seen {
        let kept = kept_by(part, by);
        let mut seen = match (by.rule(), self.overridden_state(part.id)) {
            (OverrideRule::Limits(_) | OverrideRule::Ban, Some(at)) => {
                self.weigh_at(Of::ActiveOverride, at, Place::ActiveOverride, &kept, bounds, peek)
            }
            _ => seen_of_nothing(&kept, Place::ActiveOverride),
        };
        seen.weighed.fit = match by.rule() {
            OverrideRule::Limits(_) => seen.weighed.fit,
            OverrideRule::Ban => weigh::Fit::Banned,
            OverrideRule::Exempt => weigh::Fit::Fits,
        };
        seen
    }

    /// Charges if the outcome says so, and answers by the override.
    #[cold]
    pub(super) fn conclude_overridden(
        &mut self,
        part: &Part<'_>,
        seen: &mut Seen,
        outcome: Outcome,
        bounds: &Bounds,
    ) -> Decision {
        let Some(by) = self.override_of(part.id).map(Arc::clone) else {
            unreachable!("what was weighed by an override has one until it is concluded");
        };
        if let OverrideRule::Exempt = by.rule() {
            return ruling::exempt(part.policy);
        }
        let kept = kept_by(part, &by);
        let mut recorded = Recording::Exact;
        if outcome == Outcome::Charged {
            recorded = self.charge_overridden(&kept, seen, bounds);
            seen.newest = seen.at;
        }
        let mut decision = self.tell_overridden(part, &by, seen, outcome);
        decision.degraded = recorded == Recording::Joined;
        if let Some(at) = self.overridden_state(part.id) {
            self.put_back(Of::ActiveOverride, at, seen.before.take(), bounds);
        }
        decision
    }

    /// Charges an overridden key. There is always room for it.
    fn charge_overridden(&mut self, kept: &Part<'_>, seen: &Seen, bounds: &Bounds) -> Recording {
        let to = seen.at;
        if let Some(at) = self.overridden_state(kept.id) {
            return self.charge(Of::ActiveOverride, at, kept, seen.newest, to, bounds);
        }
        let held = self.charged_state(kept, seen);
        self.make_place(Of::ActiveOverride, bounds);
        self.put_new(Of::ActiveOverride, kept.id, kept.policy, held, to, bounds);
        Recording::Exact
    }

    fn tell_overridden(&self, part: &Part<'_>, by: &Override, seen: &Seen, outcome: Outcome) -> Decision {
        let (newest, moment) = (seen.newest, seen.moment(part));
        let charged_at = (outcome == Outcome::Charged).then(|| moment.charged_at());
        let became = (outcome, seen.weighed.fit);
        let until_end = by.end().map(|end| weigh::wait(end.as_micros().cast_signed(), moment.now));
        let kept = kept_by(part, by);
        let standings: Vec<Standing> = self.read_overridden(&kept, |rules, states| {
            weigh::standings((rules, states), newest, moment, part.cost, &seen.weighed, outcome).collect()
        });
        if let OverrideRule::Limits(limits) = by.rule() {
            let fits_after = |policy: &Policy| {
                self.read_overridden(&Part { policy, ..*part }, |rules, states| {
                    let each = rules.iter().map(|rule| weigh::fits_after(rule, states, newest, moment, part.cost));
                    each.reduce(|one, other| Some(one?.max(other?))).flatten()
                })
            };
            let retry_after = || {
                let before_end = fits_after(limits).filter(|wait| until_end.is_none_or(|end| *wait < end));
                before_end.or_else(|| Some(until_end?.max(fits_after(part.policy)?)))
            };
            let retry_after = if outcome == Outcome::Denied { retry_after() } else { None };
            return ruling::limited(limits, standings.into_iter(), became, retry_after, charged_at);
        }
        ruling::banned(part.policy, standings.into_iter(), outcome, until_end, charged_at)
    }

    /// Lends the states of an overridden key as the policy of `part` sees them, empty ones if it has no state.
    fn read_overridden<R>(&self, part: &Part<'_>, with: impl FnOnce(&[Rule], &[LimitState]) -> R) -> R {
        match self.overridden_state(part.id) {
            Some(at) => self.read(Of::ActiveOverride, at, part.policy, with),
            None => {
                let empty = Held::empty(part.policy.shape());
                let reading = empty.read(part.policy.shape(), part.policy, part.now);
                with(reading.rules(part.policy), reading.states())
            }
        }
    }

    /// Gives units back to a key under an override that holds.
    #[cold]
    pub(super) fn refund_overridden(
        &mut self,
        part: &Part<'_>,
        by: &Override,
        charged_at: i64,
        bounds: &Bounds,
    ) -> Refund {
        let kept = kept_by(part, by);
        let found = self.overridden_state(part.id).map(|at| (Of::ActiveOverride, at));
        let refund = self.refund_at(found, &kept, charged_at, bounds);
        match by.rule() {
            OverrideRule::Limits(_) => refund,
            OverrideRule::Ban => Refund { remaining: 0, ..refund },
            OverrideRule::Exempt => {
                let Decision { remaining, reset_after_us, .. } = ruling::exempt(part.policy);
                Refund { remaining, reset_after_us, ..refund }
            }
        }
    }

    /// Shows the state of a key under an override that holds.
    #[cold]
    pub(super) fn inspect_overridden(&mut self, part: &Part<'_>, by: &Override, bounds: &Bounds) -> Option<Inspection> {
        let at = self.overridden_state(part.id)?;
        let mut inspection = self.inspect_at(Of::ActiveOverride, at, &kept_by(part, by), bounds);
        if let OverrideRule::Ban = by.rule() {
            for in_use in &mut inspection.limits {
                in_use.remaining = 0;
            }
        }
        Some(inspection)
    }
}
