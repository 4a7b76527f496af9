//! [`PendingCharge`]: a charge that the response may correct.

use tidegate::{Cost, Decision, Key, Timestamp};

use crate::{
    decision::PolicySpend,
    head::ResponseHead,
    limits::RequestLimits,
    rule::{Settlement, clamped_cost},
};

/// A charge under one policy, until the response confirms or corrects it.
#[derive(Debug, Clone)]
pub(crate) struct PendingCharge {
    pub(crate) spend: PolicySpend<Key<'static>>,
    pub(crate) at: Timestamp,
    /// Whether the charge is not in the key's own state: the store had no room for the key, or it failed and this
    /// process was charged.
    pub(crate) is_degraded: bool,
}

/// How to correct a charge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Correction {
    /// Give units back to the moment they were charged at.
    Refund(Cost),
    /// Charge more units, even past the limit.
    Charge(Cost),
    /// Count the bytes of the body first. One unit pays for this number of bytes.
    CountBytes(u64),
}

impl PendingCharge {
    /// The charge of a decision; `None` if the decision charged nothing.
    pub(crate) fn new(spend: &PolicySpend<Key<'_>>, decision: &Decision) -> Option<Self> {
        let (at, is_degraded) = (decision.charged_at()?, decision.is_degraded());
        Some(Self { spend: spend.clone().into_owned(), at, is_degraded })
    }

    /// How the response corrects the charge.
    pub(crate) fn correction(&self, limits: &RequestLimits, response: &ResponseHead<'_>) -> Option<Correction> {
        if limits.refund_if.as_ref().is_some_and(|refund_if| refund_if(response)) {
            return Some(Correction::Refund(self.spend.cost));
        }
        match limits.rules[self.spend.policy.rule].settlement.as_ref()? {
            Settlement::FinalCost(cost) => self.correction_to(cost(response)?),
            Settlement::BytesPerUnit(unit) => match response.body_size() {
                Some(bytes) => self.correction_to(bytes.div_ceil(*unit)),
                None => Some(Correction::CountBytes(*unit)),
            },
        }
    }

    /// The correction that makes the cost `units`.
    pub(crate) fn correction_to(&self, units: u64) -> Option<Correction> {
        let charged = self.spend.cost.get();
        match units.checked_sub(charged) {
            Some(0) => None,
            Some(more) => Some(Correction::Charge(clamped_cost(more))),
            None => Some(Correction::Refund(clamped_cost(charged - units))),
        }
    }
}
