//! [`RequestDecision`]: the decision on a request, and [`ResponseUpdate`]: what it means for the response.

use tidegate::{Cost, Decision, Key, Policy};

use crate::{charge::PendingCharge, head::RequestHead, key::ExtractedKey};

/// A policy of a layer, by the index of its rule and the index of its tier within the rule.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PolicyIndex {
    pub(crate) rule: usize,
    pub(crate) tier: usize,
}

/// What a request spends under one policy.
#[derive(Debug, Clone)]
pub(crate) struct PolicySpend<K> {
    pub(crate) policy: PolicyIndex,
    pub(crate) key: K,
    pub(crate) cost: Cost,
}

impl PolicySpend<ExtractedKey<'_>> {
    #[inline]
    pub(crate) fn borrowed(&self) -> PolicySpend<Key<'_>> {
        PolicySpend { policy: self.policy, key: self.key.key(), cost: self.cost }
    }
}

impl PolicySpend<Key<'_>> {
    pub(crate) fn into_owned(self) -> PolicySpend<Key<'static>> {
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

/// A decision with its request and its policy, for metrics and logs.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct DecisionEvent<'r> {
    /// The request.
    pub request: RequestHead<'r>,
    /// The decision; the overall one, if several rules apply.
    pub decision: &'r Decision,
    /// The policy that decided.
    pub policy: &'r Policy,
}
