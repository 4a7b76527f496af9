//! [`RequestDecision`]: the decision on a request. [`ResponseUpdate`]: what it means for the response. [`Settling`]: what
//! the response settles.

use tidegate::{Cost, Decision, Key, Policy, Timestamp};

use crate::{head::RequestHead, hold::keep::SharedHold};

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
    pub(crate) settling: Settling,
}

/// What the response settles.
pub(crate) enum Settling {
    /// Charges that it may correct. There are none if the layer never corrects charges.
    Charges(Vec<PendingCharge>),
    /// The hold of the request.
    Hold(SharedHold),
}

impl Settling {
    /// Whether the response settles nothing.
    #[inline]
    pub(crate) fn is_nothing(&self) -> bool {
        matches!(self, Self::Charges(charges) if charges.is_empty())
    }
}

/// The headers that the response gets.
#[derive(Debug, Default)]
pub(crate) struct ResponseUpdate {
    /// The decision that the headers report: the tightest of the enforced ones.
    pub(crate) reported: Option<(PolicyIndex, Decision)>,
    /// All policies of the decision, if there are several.
    pub(crate) policies: Box<[PolicyIndex]>,
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

impl PendingCharge {
    /// The charge of a decision; `None` if the decision charged nothing.
    pub(crate) fn new(spend: &PolicySpend<'_>, decision: &Decision) -> Option<Self> {
        let (at, is_degraded) = (decision.charged_at()?, decision.is_degraded());
        Some(Self { spend: spend.clone().into_owned(), at, is_degraded })
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
