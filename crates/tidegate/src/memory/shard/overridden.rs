//! Operations on keys with an active [`Override`](crate::Override).

use std::sync::Arc;

use super::{
    KeyRequest, Shard, TableId,
    check::{CheckedRequest, StateLocation},
    commit::{charged, charged_states},
};
use crate::{
    algorithms::Recording,
    answer::{
        Fit, LimitAnswer, Outcome,
        fit::fits_after,
        limit_answers,
        overridden::{banned, exempt, limited, refund_exempt},
        wait,
    },
    decision::{Decision, Refund},
    inspect::Inspection,
    limit_states::{LimitStates, StateView},
    memory::bounds::Bounds,
    overrides::{Override, OverrideRule},
    policy::Policy,
    reservation::open::Grant,
};

/// The same request under the limits that the key's state is stored by: those of the override, if it has limits.
pub(super) fn stored_by<'a>(request: &KeyRequest<'a>, active: &'a Override) -> KeyRequest<'a> {
    match active.rule() {
        OverrideRule::Limits(limits) => KeyRequest { policy: limits, ..*request },
        OverrideRule::Ban | OverrideRule::Exempt => *request,
    }
}

impl Shard {
    /// Checks whether the cost fits under an active override.
    #[cold]
    pub(super) fn check_overridden(
        &mut self,
        request: &KeyRequest<'_>,
        active: &Override,
        bounds: &Bounds,
        peek: bool,
    ) -> CheckedRequest {
        let stored = stored_by(request, active);
        let location = StateLocation::Overridden;
        let mut checked = match (active.rule(), self.overridden_state(request.id)) {
            (OverrideRule::Limits(_) | OverrideRule::Ban, Some(address)) => {
                self.check_at(address, location, &stored, bounds, peek)
            }
            _ => CheckedRequest::of_unused(&stored, location),
        };
        match active.rule() {
            OverrideRule::Limits(_) => {}
            OverrideRule::Ban => checked.check.fit = Fit::Banned,
            OverrideRule::Exempt => checked.check.fit = Fit::Fits,
        }
        checked
    }

    /// Charges the request if the outcome is [`Outcome::Charged`], and answers by the override.
    #[cold]
    pub(super) fn commit_overridden(
        &mut self,
        request: &KeyRequest<'_>,
        checked: &mut CheckedRequest,
        outcome: Outcome,
        grant: Option<&Grant>,
        bounds: &Bounds,
    ) -> Decision {
        let Some(active) = self.override_of(request.id).map(Arc::clone) else {
            unreachable!("an override stays until the request that it was checked by is committed");
        };
        if let OverrideRule::Exempt = active.rule() {
            return exempt(request.policy);
        }
        let mut recording = Recording::Exact;
        if outcome == Outcome::Charged {
            recording = self.charge_overridden(&stored_by(request, &active), checked, grant, bounds);
        }
        let mut decision = self.answer_overridden(request, &active, checked, outcome);
        decision.degraded = recording == Recording::Joined;
        if let Some(address) = self.overridden_state(request.id) {
            self.restore(address, checked.before.take(), bounds);
        }
        decision
    }

    /// Charges a key with an override. There is always room for it.
    fn charge_overridden(
        &mut self,
        stored: &KeyRequest<'_>,
        checked: &CheckedRequest,
        grant: Option<&Grant>,
        bounds: &Bounds,
    ) -> Recording {
        let charged = charged(stored, grant);
        let (address, recording) = match self.overridden_state(stored.id) {
            Some(address) => (address, self.charge(address, &charged, checked.at, bounds)),
            None => {
                let states = charged_states(&charged, checked);
                self.grow_if_full(TableId::Overridden, bounds);
                let address = self.insert(TableId::Overridden, stored.id, stored.policy, states, checked.at, bounds);
                (address, Recording::Exact)
            }
        };
        self.record_reservation(address, stored.cost, checked.at, grant, bounds);
        recording
    }

    fn answer_overridden(
        &self,
        request: &KeyRequest<'_>,
        active: &Override,
        checked: &CheckedRequest,
        outcome: Outcome,
    ) -> Decision {
        let (moment, cost) = (checked.moment(request), request.cost);
        let charged_at = outcome.charged_at(moment);
        let until_end = active.end().map(|end| wait(end.as_micros().cast_signed(), moment.now));
        let stored = stored_by(request, active);
        let answers: Vec<LimitAnswer> = self.read_overridden(&stored, stored.policy, |view| {
            limit_answers(view, moment, cost, &checked.check, outcome).collect()
        });
        let OverrideRule::Limits(limits) = active.rule() else {
            return banned(request.policy, answers.into_iter(), outcome, until_end, charged_at);
        };
        let retry_after = || {
            let fits_after = |policy| self.read_overridden(request, policy, |view| fits_after(view, moment, cost));
            let before_end = fits_after(limits).filter(|wait| until_end.is_none_or(|end| *wait < end));
            before_end.or_else(|| Some(until_end?.max(fits_after(request.policy)?)))
        };
        let retry_after = if outcome == Outcome::Denied { retry_after() } else { None };
        limited(limits, answers.into_iter(), (outcome, checked.check.fit), retry_after, charged_at)
    }

    /// Passes the state of a key with an override, as `policy` reads it, to `with`; an empty one if it has no state.
    fn read_overridden<R>(
        &self,
        request: &KeyRequest<'_>,
        policy: &Policy,
        with: impl FnOnce(StateView<'_>) -> R,
    ) -> R {
        match self.overridden_state(request.id) {
            Some(address) => self.read(address, policy, with),
            None => {
                let empty = LimitStates::empty(policy.layout());
                with(empty.convert(policy.layout(), policy, request.now).view(policy))
            }
        }
    }

    /// Gives units back to a key with an active override.
    #[cold]
    pub(super) fn refund_overridden(
        &mut self,
        request: &KeyRequest<'_>,
        active: &Override,
        charged_at: i64,
        bounds: &Bounds,
    ) -> Refund {
        let address = self.overridden_state(request.id);
        let refund = self.refund_at(address, &stored_by(request, active), charged_at, bounds);
        match active.rule() {
            OverrideRule::Limits(_) => refund,
            OverrideRule::Ban => Refund { remaining: 0, ..refund },
            OverrideRule::Exempt => refund_exempt(request.policy, refund.returned),
        }
    }

    /// Shows the state of a key with an active override.
    #[cold]
    pub(super) fn inspect_overridden(
        &mut self,
        request: &KeyRequest<'_>,
        active: &Override,
        bounds: &Bounds,
    ) -> Option<Inspection> {
        let address = self.overridden_state(request.id)?;
        let mut inspection = self.inspect_at(address, &stored_by(request, active), bounds);
        if let OverrideRule::Ban = active.rule() {
            for in_use in &mut inspection.limits {
                in_use.remaining = 0;
            }
        }
        Some(inspection)
    }
}
