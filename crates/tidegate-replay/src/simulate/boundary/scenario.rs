//! Runs a scenario: one client, some attempts, each algorithm on its own store.

use tidegate::{Algorithm, Cost, Key, Limit, MemoryStore, Op, Policy, Timestamp};

use super::{BoundaryResult, Scenario};
use crate::{
    formatting::ratio,
    simulate::{
        evaluation::audit::{Audit, policy, single_client_store},
        promised,
    },
};

/// Attempts to spend the whole limit at each of `moments_us`, in microseconds after the boundary.
pub(super) fn play(name: &str, limit: Limit, edge_us: u64, moments_us: &[i64], algorithms: &[Algorithm]) -> Scenario {
    Scenario {
        name: name.to_owned(),
        moments_us: moments_us.to_vec(),
        attempted: vec![limit.max(); moments_us.len()],
        algorithms: algorithms.iter().map(|algorithm| result(*algorithm, limit, edge_us, moments_us)).collect(),
    }
}

fn result(algorithm: Algorithm, limit: Limit, edge_us: u64, moments_us: &[i64]) -> BoundaryResult {
    let policy = policy(limit).with_algorithm(algorithm);
    let (store, mut audit) = (single_client_store(), Audit::new(single_client_store(), limit));
    let key = Key::new("client").expect("a key");
    let (mut admitted, mut in_window) = (Vec::new(), Vec::new());
    for at_us in moments_us {
        let now = Timestamp::from_micros(edge_us.saturating_add_signed(*at_us));
        let units = admit(&store, &policy, &key, limit.max(), now);
        admitted.push(units);
        in_window.push(match Cost::new(units) {
            Ok(cost) => audit.record(&key, cost, now),
            Err(_) => audit.used(&key, now),
        });
    }
    let sum = |before: bool| {
        moments_us.iter().zip(&admitted).filter(|(at_us, _)| (**at_us < 0) == before).map(|(_, units)| units).sum()
    };
    BoundaryResult {
        algorithm: algorithm.to_string(),
        admitted_before: sum(true),
        admitted_after: sum(false),
        worst_window_units: audit.worst(),
        worst_window_times: ratio(audit.worst(), limit.max()),
        promised_window_units: promised(algorithm, limit),
        admitted,
        in_window,
    }
}

/// Attempts `units` at a time. Returns the number of admitted units: a request that costs the remaining units spends as much as single
/// requests would.
fn admit(store: &MemoryStore, policy: &Policy, key: &Key<'_>, units: u64, now: Timestamp) -> u64 {
    let remaining = store.decide(Op::Peek, policy, key, Cost::ONE, now).remaining();
    match Cost::new(units.min(remaining)) {
        Ok(cost) if store.decide(Op::Check, policy, key, cost, now).is_allowed() => cost.get(),
        _ => 0,
    }
}
