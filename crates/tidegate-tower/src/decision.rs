//! [`RequestDecision`]: the decision on a request. [`ResponseUpdate`]: what it means for the response. [`PendingCharge`]: a
//! charge that the response may correct.

use tidegate::{Cost, Decision, Key, Policy, Timestamp};

use crate::{
    head::{RequestHead, ResponseHead},
    limits::RequestLimits,
    rule::{Settlement, clamped_cost},
};

/// A policy of a layer, by the index of its rule and the index of its tier within the rule.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PolicyIndex {
    pub(crate) rule: usize,
    pub(crate) tier: usize,
}

/// What a request spends under one policy.
#[derive(Debug, Clone)]
pub(crate) struct PolicySpend<'k> {
    pub(crate) policy: PolicyIndex,
    pub(crate) key: Key<'k>,
    pub(crate) cost: Cost,
}

impl PolicySpend<'_> {
    pub(crate) fn into_owned(self) -> PolicySpend<'static> {
        PolicySpend { policy: self.policy, key: self.key.into_owned(), cost: self.cost }
    }
}

/// The decision on a request.
pub(crate) struct RequestDecision {
    /// The overall decision, if several rules apply.
    pub(crate) decision: Decision,
    /// The policy that decided.
    pub(crate) policy: PolicyIndex,
    pub(crate) update: ResponseUpdate,
}

/// The headers that the response gets, and the charges that it may correct.
#[derive(Debug, Default)]
pub(crate) struct ResponseUpdate {
    /// The decision that the headers report: the tightest of the enforced ones.
    pub(crate) reported: Option<(PolicyIndex, Decision)>,
    /// All policies of the decision, if there are several.
    pub(crate) policies: Box<[PolicyIndex]>,
    /// Empty if the layer never corrects charges.
    pub(crate) charges: Vec<PendingCharge>,
}

impl ResponseUpdate {
    /// Whether the response stays as it is.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.reported.is_none() && self.charges.is_empty()
    }
}

/// A charge under one policy, until the response confirms or corrects it.
#[derive(Debug, Clone)]
pub(crate) struct PendingCharge {
    pub(crate) spend: PolicySpend<'static>,
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
    pub(crate) fn new(spend: &PolicySpend<'_>, decision: &Decision) -> Option<Self> {
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

/// A decision with its request and its policy, for metrics and logs.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct DecisionEvent<'r> {
    /// The request.
    pub request: &'r RequestHead<'r>,
    /// The decision; the overall one, if several rules apply.
    pub decision: &'r Decision,
    /// The policy that decided.
    pub policy: &'r Policy,
}
