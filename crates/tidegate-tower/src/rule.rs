//! [`Rule`]: a policy, who is counted under it, and what a request costs.

use std::{fmt, sync::Arc};

use tidegate::{Cost, Key, Policy};

use crate::{
    headers::Labels,
    incoming::{Incoming, Outgoing},
    key::{ClientAddress, Found, KeyExtractor, NoKey, WithoutKey},
};

/// What a request is decided by: a policy (or several, of which each request falls under one), who is counted, and what it costs.
///
/// A [`Policy`] alone is a rule, by which each client's address is counted and a request costs 1.
///
/// ```
/// use tidegate::Policy;
/// use tidegate_tower::{KeyExtractor, Rule};
///
/// let free = Policy::new("free", ["60/1m".parse()?])?;
/// let paid = Policy::new("paid", ["6000/1m".parse()?])?;
/// // What the layer that checks API keys has found: a header would be the client's own word for it.
/// struct Account { id: String, pays: bool }
///
/// let by_account = Rule::tiers([free, paid], |request| match request.extension::<Account>() {
///     Some(account) if account.pays => 1,
///     _ => 0,
/// })
/// .by(KeyExtractor::extension(|account: &Account| &account.id))
/// .cost(|request| if request.method() == "POST" { 5 } else { 1 });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Rule {
    tiers: Arc<[Tier]>,
    choose: Option<Arc<Choose>>,
    by: KeyExtractor,
    without_key: WithoutKey,
    allowed_keys: Vec<Key<'static>>,
    cost: Costing,
    pub(crate) settle: Option<Settle>,
}

type Choose = dyn for<'r> Fn(&Incoming<'r>) -> usize + Send + Sync;
type PriceOf = dyn for<'r> Fn(&Incoming<'r>) -> u64 + Send + Sync;
type Final = dyn for<'r> Fn(&Outgoing<'r>) -> Option<u64> + Send + Sync;

/// One of a rule's policies.
#[derive(Debug)]
pub(crate) struct Tier {
    pub(crate) policy: Policy,
    pub(crate) labels: Labels,
}

#[derive(Clone)]
enum Costing {
    Same(Cost),
    Each(Arc<PriceOf>),
}

/// What becomes of a cost once the response is there.
#[derive(Clone)]
pub(crate) enum Settle {
    /// The whole cost, if the response tells it.
    Final(Arc<Final>),
    /// One unit for so many bytes of the response's body, begun ones included.
    Bytes(u64),
}

/// A request as it is put to the store, by one rule.
pub(crate) struct Ask<'r> {
    /// Which of the rule's policies it falls under.
    pub(crate) tier: usize,
    pub(crate) key: Found<'r>,
    pub(crate) cost: Cost,
}

impl Rule {
    /// Counts each client's address under `policy`, 1 for a request.
    pub fn new(policy: Policy) -> Self {
        Self::of(Arc::new([Tier::new(policy)]), None)
    }

    /// Counts each request under one of `policies`: the one whose number `choose` gives, or the first if it has no such number.
    /// What was spent under one is not held against another, unless they have the same name: then a key that changes its
    /// tier keeps what it has spent.
    ///
    /// # Panics
    /// If there are none.
    pub fn tiers<F>(policies: impl IntoIterator<Item = Policy>, choose: F) -> Self
    where
        F: for<'r> Fn(&Incoming<'r>) -> usize + Send + Sync + 'static,
    {
        let tiers: Arc<[Tier]> = policies.into_iter().map(Tier::new).collect();
        assert!(!tiers.is_empty(), "a rule without a policy would limit nobody: give it at least one");
        Self::of(tiers, Some(Arc::new(choose)))
    }

    fn of(tiers: Arc<[Tier]>, choose: Option<Arc<Choose>>) -> Self {
        Self {
            tiers,
            choose,
            by: KeyExtractor::client_ip(),
            without_key: WithoutKey::default(),
            allowed_keys: Vec::new(),
            cost: Costing::Same(Cost::ONE),
            settle: None,
        }
    }

    /// Who is counted; the client's address if unsaid.
    #[must_use]
    pub fn by(mut self, by: impl Into<KeyExtractor>) -> Self {
        self.by = by.into();
        self
    }

    /// What a request gets that has no key; it is counted by its address, apart from others, if unsaid.
    #[must_use]
    pub fn without_key(mut self, without_key: WithoutKey) -> Self {
        self.without_key = without_key;
        self
    }

    /// Lets these keys through, uncounted. A few; for many, see [`RateLimitLayer::skip`](crate::RateLimitLayer::skip).
    #[must_use]
    pub fn allow_keys(mut self, keys: impl IntoIterator<Item = Key<'static>>) -> Self {
        self.allowed_keys.extend(keys);
        self
    }

    /// What a request costs, if not 1. A cost of 0 is not limited by this rule, and not settled either; more than 10^12 is read as that.
    ///
    /// By the size of its body: `|request| request.body_size().map_or(16, |bytes| bytes.div_ceil(1024))`.
    #[must_use]
    pub fn cost<F>(mut self, cost: F) -> Self
    where
        F: for<'r> Fn(&Incoming<'r>) -> u64 + Send + Sync + 'static,
    {
        self.cost = Costing::Each(Arc::new(cost));
        self
    }

    /// What a request has cost in the end, once its response is there: the difference is charged, even past the limit, or given
    /// back to the moment it was charged at. `None` leaves it as it is, 0 gives all of it back.
    ///
    /// By a header that the service sets: `|response| response.number("x-tokens-used")`.
    #[must_use]
    pub fn settle<F>(mut self, cost: F) -> Self
    where
        F: for<'r> Fn(&Outgoing<'r>) -> Option<u64> + Send + Sync + 'static,
    {
        self.settle = Some(Settle::Final(Arc::new(cost)));
        self
    }

    /// A request costs, in the end, one unit for each `bytes` of its response's body, begun ones included. Where the size is not known
    /// beforehand it is counted as it is sent, and settled when all of it is, or when the client has gone. What has no body is free: a rule
    /// for requests beside this one limits those.
    #[must_use]
    pub fn settle_by_size(mut self, bytes: u64) -> Self {
        self.settle = Some(Settle::Bytes(bytes.max(1)));
        self
    }

    fn allows(&self, key: &Found<'_>) -> bool {
        !self.allowed_keys.is_empty() && {
            let key = key.key();
            self.allowed_keys.contains(&key)
        }
    }

    /// One of its policies.
    pub(crate) fn tier(&self, number: usize) -> &Tier {
        &self.tiers[number]
    }

    /// What is asked of the store, if this rule limits the request.
    #[inline]
    pub(crate) fn ask<'r>(&self, request: &Incoming<'r>, client: &ClientAddress) -> Result<Option<Ask<'r>>, NoKey> {
        let cost = match &self.cost {
            Costing::Same(cost) => *cost,
            Costing::Each(of) => match of(request) {
                0 => return Ok(None),
                units => units_of(units),
            },
        };
        let chosen = self.choose.as_ref().map_or(0, |choose| choose(request));
        let tier = if chosen < self.tiers.len() { chosen } else { 0 };
        match self.by.find(request, client, self.without_key) {
            Ok(key) if self.allows(&key) => Ok(None),
            Ok(key) => Ok(Some(Ask { tier, key, cost })),
            Err(NoKey::Unlimited) => Ok(None),
            Err(no_key) => Err(no_key),
        }
    }
}

/// A cost of so many units, or the largest there is.
pub(crate) fn units_of(units: u64) -> Cost {
    Cost::new(units.max(1)).unwrap_or(Cost::MAX)
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
        f.debug_struct("Rule").field("tiers", &self.tiers).field("by", &self.by).finish_non_exhaustive()
    }
}
