//! [`Tiers`]: the policies of a rule, and how to choose one for a request.

use std::{fmt, sync::Arc};

use tidegate::Policy;

use crate::{head::RequestHead, headers::Labels, key::CountError, once_set::OnceSet};

/// The policies of a rule. A rule without tiers has one policy.
#[derive(Clone)]
pub(crate) struct Tiers {
    policies: Arc<[TierPolicy]>,
    /// Returns the index of the policy; `None` if no policy is for the tier of the request.
    choose: Option<Arc<ChooseFn>>,
}

type ChooseFn = dyn Fn(&RequestHead<'_>) -> Option<usize> + Send + Sync;

/// One of a rule's policies.
#[derive(Debug)]
pub(crate) struct TierPolicy {
    pub(crate) policy: Policy,
    pub(crate) labels: Labels,
}

/// The reason why the tiers of a rule are invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TiersError {
    /// There are no tiers.
    #[error("the rule has no tiers: give it at least one tier with its policy")]
    NoTiers,
    /// A tier has two policies.
    #[error("the tier `{tier}` has two policies: give it one")]
    Repeated {
        /// The tier, as `Debug` formats it.
        tier: String,
    },
}

impl Tiers {
    pub(crate) fn one(policy: Policy) -> Self {
        Self { policies: Arc::new([TierPolicy::new(policy)]), choose: None }
    }

    pub(crate) fn new<T: Eq + fmt::Debug + Send + Sync + 'static>(
        policies: impl IntoIterator<Item = (T, Policy)>,
        choose: impl Fn(&RequestHead<'_>) -> T + Send + Sync + 'static,
    ) -> Result<Self, TiersError> {
        let (tiers, policies): (Vec<T>, Vec<Policy>) = policies.into_iter().unzip();
        if tiers.is_empty() {
            return Err(TiersError::NoTiers);
        }
        if let Some((_, tier)) = tiers.iter().enumerate().find(|(i, tier)| tiers[..*i].contains(tier)) {
            return Err(TiersError::Repeated { tier: format!("{tier:?}") });
        }
        let unknown = OnceSet::default();
        let choose = move |request: &RequestHead<'_>| {
            let chosen = choose(request);
            let index = tiers.iter().position(|tier| *tier == chosen);
            if index.is_none() {
                log_unknown(&unknown, chosen, &tiers);
            }
            index
        };
        Ok(Self { policies: policies.into_iter().map(TierPolicy::new).collect(), choose: Some(Arc::new(choose)) })
    }

    /// The index of the policy for a request.
    #[inline]
    pub(crate) fn index(&self, request: &RequestHead<'_>) -> Result<usize, CountError> {
        match &self.choose {
            None => Ok(0),
            Some(choose) => choose(request).ok_or(CountError::UnknownTier),
        }
    }

    /// The policies of all tiers.
    pub(crate) fn policies(&self) -> impl Iterator<Item = &Policy> {
        self.policies.iter().map(|tier| &tier.policy)
    }

    #[inline]
    pub(crate) fn policy(&self, index: usize) -> &TierPolicy {
        &self.policies[index]
    }
}

#[cold]
fn log_unknown<T: Eq + fmt::Debug>(logged: &OnceSet<T>, tier: T, tiers: &[T]) {
    if let Some(tier) = logged.insert(tier) {
        tracing::error!(
            "a rate limit can't count requests of the tier `{tier:?}`, because the rule has no policy for it: add one to \
             the tiers {tiers:?}, or choose one of them"
        );
    }
}

impl TierPolicy {
    fn new(policy: Policy) -> Self {
        Self { labels: Labels::new(&policy), policy }
    }
}

impl fmt::Debug for Tiers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.policies.iter()).finish()
    }
}
