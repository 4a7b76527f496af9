//! [`Rule`]: a policy, the key that a request is counted by, and the cost of a request.

use std::{fmt, sync::Arc};

use tidegate::{Cost, Key, Policy};

use crate::{
    decision::{PolicyIndex, PolicySpend},
    head::{RequestHead, ResponseHead},
    headers::Labels,
    key::{ClientAddress, CountError, ExtractedKey, KeyExtractor, OnMissingKey},
};

/// How to count a request: by which policy, by which key, and at which cost.
///
/// A [`Policy`] converts into a rule that counts each client's address, at a cost of 1.
///
/// ```
/// use tidegate::Policy;
/// use tidegate_tower::{KeyExtractor, Rule};
///
/// let free = Policy::new("free", ["60/1m".parse()?])?;
/// let paid = Policy::new("paid", ["6000/1m".parse()?])?;
/// // The layer that checks API keys inserts this extension. Clients can forge a header, but not an extension.
/// struct Account { id: String, pays: bool }
///
/// let by_account = Rule::tiers([free, paid], |request| match request.extension::<Account>() {
///     Some(account) if account.pays => 1,
///     _ => 0,
/// })
/// .key(KeyExtractor::extension(|account: &Account| &account.id))
/// .cost(|request| if request.method() == "POST" { 5 } else { 1 });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Rule {
    pub(crate) tiers: Arc<[Tier]>,
    choose_tier: Option<Arc<TierFn>>,
    key: KeyExtractor,
    on_missing_key: OnMissingKey,
    allowed_keys: Vec<Key<'static>>,
    /// The cost is 1 if there is none.
    cost: Option<Arc<CostFn>>,
    pub(crate) settlement: Option<Settlement>,
}

type TierFn = dyn Fn(&RequestHead<'_>) -> usize + Send + Sync;
type CostFn = dyn Fn(&RequestHead<'_>) -> u64 + Send + Sync;
type FinalCostFn = dyn Fn(&ResponseHead<'_>) -> Option<u64> + Send + Sync;

/// One of a rule's policies.
#[derive(Debug)]
pub(crate) struct Tier {
    pub(crate) policy: Policy,
    pub(crate) labels: Labels,
}

/// How the response corrects the cost.
#[derive(Clone)]
pub(crate) enum Settlement {
    /// The closure returns the final cost, if the response has one.
    FinalCost(Arc<FinalCostFn>),
    /// One unit pays for this number of bytes of the response's body. A part of a unit costs a whole unit.
    BytesPerUnit(u64),
}

impl Rule {
    /// Counts each client's address under `policy`, at a cost of 1 for a request.
    pub fn new(policy: Policy) -> Self {
        Self::with_tiers(Arc::new([Tier::new(policy)]), None)
    }

    /// Counts each request under one of `policies`: the one whose index `choose` returns, or the first if that index is
    /// out of range.
    ///
    /// Policies with different names have separate states. If they have the same name, a key that changes its tier
    /// keeps its history.
    ///
    /// # Panics
    /// If there are no policies.
    pub fn tiers(
        policies: impl IntoIterator<Item = Policy>,
        choose: impl Fn(&RequestHead<'_>) -> usize + Send + Sync + 'static,
    ) -> Self {
        let tiers: Arc<[Tier]> = policies.into_iter().map(Tier::new).collect();
        assert!(!tiers.is_empty(), "a rule needs at least one policy");
        Self::with_tiers(tiers, Some(Arc::new(choose)))
    }

    fn with_tiers(tiers: Arc<[Tier]>, choose_tier: Option<Arc<TierFn>>) -> Self {
        Self {
            tiers,
            choose_tier,
            key: KeyExtractor::client_ip(),
            on_missing_key: OnMissingKey::default(),
            allowed_keys: Vec::new(),
            cost: None,
            settlement: None,
        }
    }

    /// Sets the key that requests are counted by; the client's address by default.
    #[must_use]
    pub fn key(mut self, key: impl Into<KeyExtractor>) -> Self {
        self.key = key.into();
        self
    }

    /// Sets what happens to a request without the key; [`OnMissingKey::UseAddress`] by default.
    #[must_use]
    pub fn on_missing_key(mut self, on_missing_key: OnMissingKey) -> Self {
        self.on_missing_key = on_missing_key;
        self
    }

    /// Admits requests with these keys, without counting them. Meant for a few keys. For many, use
    /// [`RateLimitLayer::skip`](crate::RateLimitLayer::skip).
    #[must_use]
    pub fn allow_keys(mut self, keys: impl IntoIterator<Item = Key<'static>>) -> Self {
        self.allowed_keys.extend(keys);
        self
    }

    /// Sets the cost of a request; 1 by default. This rule neither limits nor settles a request with a cost of 0. A
    /// cost of more than 10^12 is 10^12.
    ///
    /// By the size of the body: `|request| request.body_size().map_or(16, |bytes| bytes.div_ceil(1024))`.
    #[must_use]
    pub fn cost(mut self, cost: impl Fn(&RequestHead<'_>) -> u64 + Send + Sync + 'static) -> Self {
        self.cost = Some(Arc::new(cost));
        self
    }

    /// Sets the final cost of a request by its response. The difference is charged, even past the limit, or given back
    /// to the moment it was charged at. `None` keeps the charge, and 0 gives all of it back.
    ///
    /// By a header that the service sets: `|response| response.number("x-tokens-used")`.
    #[must_use]
    pub fn settle(mut self, cost: impl Fn(&ResponseHead<'_>) -> Option<u64> + Send + Sync + 'static) -> Self {
        self.settlement = Some(Settlement::FinalCost(Arc::new(cost)));
        self
    }

    /// Sets the final cost of a request to one unit for each `bytes` of its response's body, rounded up.
    ///
    /// If the size is not known in advance, the bytes are counted while they are sent. The request is settled when the
    /// body has been sent or the client has disconnected. A response without a body is free. To limit those requests,
    /// add a second rule.
    #[must_use]
    pub fn settle_by_size(mut self, bytes: u64) -> Self {
        self.settlement = Some(Settlement::BytesPerUnit(bytes.max(1)));
        self
    }

    fn allows(&self, key: &ExtractedKey<'_>) -> bool {
        !self.allowed_keys.is_empty() && {
            let key = key.key();
            self.allowed_keys.contains(&key)
        }
    }

    /// What the request spends under this rule; `None` if the rule does not limit it. `rule` is the rule's own index.
    #[inline]
    pub(crate) fn spend<'r>(
        &self,
        rule: usize,
        request: &RequestHead<'r>,
        client: &ClientAddress,
    ) -> Result<Option<PolicySpend<ExtractedKey<'r>>>, CountError> {
        let cost = match self.cost.as_ref().map_or(1, |cost| cost(request)) {
            0 => return Ok(None),
            units => clamped_cost(units),
        };
        let chosen = self.choose_tier.as_ref().map_or(0, |choose| choose(request));
        let tier = if chosen < self.tiers.len() { chosen } else { 0 };
        let key = self.key.extract(request, client, self.on_missing_key)?.filter(|key| !self.allows(key));
        Ok(key.map(|key| PolicySpend { policy: PolicyIndex { rule, tier }, key, cost }))
    }
}

/// A cost of `units`, or the nearest valid cost.
pub(crate) fn clamped_cost(units: u64) -> Cost {
    Cost::new(units.clamp(1, Cost::MAX.get())).unwrap_or(Cost::ONE)
}

impl Tier {
    fn new(policy: Policy) -> Self {
        Self { labels: Labels::new(&policy), policy }
    }
}

impl From<Policy> for Rule {
    fn from(policy: Policy) -> Self {
        Self::new(policy)
    }
}

impl fmt::Debug for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rule").field("tiers", &self.tiers).field("key", &self.key).finish_non_exhaustive()
    }
}
