//! [`Rule`]: a policy, the key that a request is counted by, and the cost of a request.

use std::{fmt, sync::Arc};

use tidegate::{Cost, Key, Policy};

use crate::{
    decision::{PolicyIndex, PolicySpend},
    final_cost::Settlement,
    head::{RequestHead, ResponseHead},
    key::{self, ClientIp, CountError, FnExtractor, KeyExtractor, OnMissingKey},
    tiers::{Tiers, TiersError},
};

/// How to count a request: by which policy, by which key, and at which cost.
///
/// A [`Policy`] converts into a rule that counts each client's address, at a cost of 1.
///
/// ```
/// use tidegate::Policy;
/// use tidegate_tower::{Rule, key::Header};
///
/// let policy = Policy::new("api", ["60/1m".parse()?])?;
/// let by_api_key = Rule::new(policy)
///     .key(Header::new("x-api-key")?)
///     .cost(|request| if request.method() == "POST" { 5 } else { 1 });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Rule {
    pub(crate) tiers: Tiers,
    key: Arc<dyn KeyExtractor>,
    on_missing_key: OnMissingKey,
    allowed_keys: Vec<Key<'static>>,
    /// The cost is 1 if there is none.
    cost: Option<Arc<CostFn>>,
    pub(crate) settlement: Option<Settlement>,
    reserves: bool,
}

type CostFn = dyn Fn(&RequestHead<'_>) -> u64 + Send + Sync;

impl Rule {
    /// Counts each client's address under `policy`, at a cost of 1 for a request.
    pub fn new(policy: Policy) -> Self {
        Self::with_tiers(Tiers::one(policy))
    }

    /// Counts each request under the policy of its tier. A tier is a value of your own type, such as the plan of an
    /// account.
    ///
    /// ```
    /// use tidegate::{Key, Policy};
    /// use tidegate_tower::{Rule, key::Extension};
    ///
    /// #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    /// enum Plan { Free, Paid }
    ///
    /// // The layer that checks API keys inserts this extension. Clients can forge a header, but not an extension.
    /// struct Account { id: u64, plan: Plan }
    ///
    /// let free = Policy::new("free", ["60/1m".parse()?])?;
    /// let paid = Policy::new("paid", ["6000/1m".parse()?])?;
    /// let by_account = Rule::tiers([(Plan::Free, free), (Plan::Paid, paid)], |request| {
    ///     request.extension::<Account>().map_or(Plan::Free, |account| account.plan)
    /// })?
    /// .key(Extension::<Account>::new(|account| Ok(account.id.into())));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// Policies with different names have separate states. If they have the same name, a key that changes its tier
    /// keeps its history.
    ///
    /// If `choose` returns a tier that has no policy, the request gets status 500 and is not counted. The layer logs
    /// each such tier once.
    ///
    /// # Errors
    /// If there are no tiers, or a tier has two policies.
    pub fn tiers<T: Eq + fmt::Debug + Send + Sync + 'static>(
        policies: impl IntoIterator<Item = (T, Policy)>,
        choose: impl Fn(&RequestHead<'_>) -> T + Send + Sync + 'static,
    ) -> Result<Self, TiersError> {
        Ok(Self::with_tiers(Tiers::new(policies, choose)?))
    }

    fn with_tiers(tiers: Tiers) -> Self {
        Self {
            tiers,
            key: Arc::new(ClientIp),
            on_missing_key: OnMissingKey::default(),
            allowed_keys: Vec::new(),
            cost: None,
            settlement: None,
            reserves: false,
        }
    }

    /// Sets the key that requests are counted by: an extractor of the module [`key`](crate::key), or one of your own.
    /// The client's address by default. For a closure, use [`key_fn`](Self::key_fn).
    #[must_use]
    pub fn key(mut self, extractor: impl KeyExtractor) -> Self {
        self.key = Arc::new(extractor);
        self
    }

    /// Sets the key that requests are counted by to the key that a closure returns; `None` if a request has none.
    ///
    /// ```
    /// use tidegate::{Key, Policy};
    /// use tidegate_tower::Rule;
    ///
    /// let search = Policy::new("search", ["60/1m".parse()?])?;
    /// let by_user_and_path = Rule::new(search).key_fn(|request| {
    ///     let user = request.header("x-user")?;
    ///     Key::join([user, request.uri().path().as_bytes()]).ok()
    /// });
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// The closure can return a key that it borrows from the request, or an owned key. [`Key::join`] makes a key of
    /// several values, and [`RequestHead::client_key`] is the key of the client's address.
    #[must_use]
    pub fn key_fn(self, key: impl for<'r> Fn(&'r RequestHead<'_>) -> Option<Key<'r>> + Send + Sync + 'static) -> Self {
        self.key(FnExtractor(key))
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

    /// Sets the final cost of a request to the last number that the service has reported when the response's body has been
    /// sent or the client has disconnected. For a cost that is known only at the end of a stream.
    ///
    /// The service inserts a [`CostReport`](crate::CostReport) into the extensions of the response. Without it, or
    /// without a number, the charge is kept.
    #[must_use]
    pub fn settle_by_report(mut self) -> Self {
        self.settlement = Some(Settlement::Report);
        self
    }

    /// Reserves the cost of a request, and commits its final cost when the response settles it. The
    /// [hold](crate::RateLimitLayer::hold) ends by itself if this process dies.
    ///
    /// A request is one decision. So if one rule reserves, all rules that apply to the request are reserved as one hold. A
    /// rule whose policy has a limit such as `4/inflight` always reserves.
    #[must_use]
    pub fn reserve(mut self) -> Self {
        self.reserves = true;
        self
    }

    /// Whether a request under the policy of this tier is reserved and not checked.
    #[inline]
    pub(crate) fn reserves(&self, tier: usize) -> bool {
        self.reserves || self.tiers.policy(tier).policy.has_in_flight_limit()
    }

    /// Whether a request under some tier is reserved.
    pub(crate) fn may_reserve(&self) -> bool {
        self.reserves || self.tiers.policies().any(Policy::has_in_flight_limit)
    }

    /// What the request spends under this rule; `None` if the rule does not limit it. `rule` is the rule's own index.
    #[inline]
    pub(crate) fn spend<'r>(
        &self,
        rule: usize,
        request: &'r RequestHead<'_>,
    ) -> Result<Option<PolicySpend<'r>>, CountError> {
        let cost = match self.cost.as_ref().map_or(1, |cost| cost(request)) {
            0 => return Ok(None),
            units => clamped_cost(units),
        };
        let key = match key::counted_key(&*self.key, request, self.on_missing_key)? {
            Some(key) if !self.allowed_keys.contains(&key) => key,
            _ => return Ok(None),
        };
        let tier = self.tiers.index(request)?;
        Ok(Some(PolicySpend { policy: PolicyIndex { rule, tier }, key, cost }))
    }
}

/// A cost of `units`, or the nearest valid cost.
pub(crate) fn clamped_cost(units: u64) -> Cost {
    Cost::new(units.clamp(1, Cost::MAX.get())).unwrap_or(Cost::ONE)
}

impl From<Policy> for Rule {
    fn from(policy: Policy) -> Self {
        Self::new(policy)
    }
}

impl fmt::Debug for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rule").field("tiers", &self.tiers).finish_non_exhaustive()
    }
}
