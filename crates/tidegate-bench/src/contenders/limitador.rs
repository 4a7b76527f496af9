//! limitador: one limit qualified by a variable, counters in memory.

use std::collections::HashMap;

use limitador::RateLimiter;
use limitador::limit::{Context, Limit, Namespace};

use super::ContenderEntry;

const NAMESPACE: &str = "bench";
const VARIABLE: &str = "user";
/// Room for all keys: counters beyond it would be evicted.
const CACHE_SIZE: u64 = 4_000_000;

pub(super) const ENTRY: ContenderEntry = ContenderEntry {
    project: "limitador",
    name: "limitador 0.14 in memory",
    like: Some("tidegate fixed_window"),
    build: |limit| {
        let limiter = RateLimiter::new(CACHE_SIZE);
        let variable = VARIABLE.try_into().expect("a valid expression");
        limiter.add_limit(Limit::new(NAMESPACE, limit.max(), limit.window().as_secs(), Vec::new(), [variable]));
        let namespace = Namespace::from(NAMESPACE);
        Box::new(move |key: &String| {
            // A context belongs to one request, so building it is part of a decision.
            let context = Context::from(HashMap::from([(VARIABLE.to_owned(), key.clone())]));
            let result = limiter.check_rate_limited_and_update(&namespace, &context, 1);
            !result.expect("memory does not fail").limited
        })
    },
};
