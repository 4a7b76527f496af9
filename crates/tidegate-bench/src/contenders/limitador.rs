//! limitador: one limit qualified by a variable, counters in memory.

use std::collections::HashMap;

use limitador::RateLimiter;
use limitador::limit::{Context, Limit, Namespace};

use super::{Contender, ContenderEntry, Quota};

pub(super) const ENTRY: ContenderEntry = ContenderEntry {
    project: "limitador",
    name: "limitador 0.14 in memory",
    like: Some("tidegate fixed_window"),
    build: |quota| Box::new(Limitador::new(quota)),
};

const NAMESPACE: &str = "bench";
const VARIABLE: &str = "user";
/// Room for all keys: counters beyond it would be evicted.
const CACHE_SIZE: u64 = 4_000_000;

struct Limitador {
    limiter: RateLimiter,
    namespace: Namespace,
}

impl Limitador {
    fn new(quota: Quota) -> Self {
        let limiter = RateLimiter::new(CACHE_SIZE);
        let variable = VARIABLE.try_into().expect("a valid expression");
        limiter.add_limit(Limit::new(
            NAMESPACE,
            u64::from(quota.max.get()),
            quota.window.as_secs(),
            Vec::new(),
            [variable],
        ));
        Self { limiter, namespace: NAMESPACE.into() }
    }
}

impl Contender for Limitador {
    fn decide(&self, key: &String) -> bool {
        // A context belongs to one request, so building it is part of a decision.
        let context = Context::from(HashMap::from([(VARIABLE.to_owned(), key.clone())]));
        let result = self.limiter.check_rate_limited_and_update(&self.namespace, &context, 1);
        !result.expect("memory does not fail").limited
    }
}
