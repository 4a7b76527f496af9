//! Plays a scene: one client, some moments, every algorithm on its own.

use tidegate::{Algorithm, Cost, Key, Limit, MemoryStore, Op, Policy, Timestamp};

use super::{AtEdge, Scene};
use crate::{
    figures::ratio,
    simulate::{
        promised,
        trial::audit::{Audit, for_one, policy},
    },
};

/// Units that are tried at a moment, in microseconds after the edge.
#[derive(Debug, Clone, Copy)]
pub(super) struct Offer {
    pub(super) at_us: i64,
    pub(super) units: u64,
}

pub(super) fn play(name: &str, limit: Limit, edge_us: u64, offers: &[Offer], algorithms: &[Algorithm]) -> Scene {
    Scene {
        scene: name.to_owned(),
        moments_us: offers.iter().map(|offer| offer.at_us).collect(),
        tried: offers.iter().map(|offer| offer.units).collect(),
        algorithms: algorithms.iter().map(|algorithm| at_edge(*algorithm, limit, edge_us, offers)).collect(),
    }
}

fn at_edge(algorithm: Algorithm, limit: Limit, edge_us: u64, offers: &[Offer]) -> AtEdge {
    let policy = policy(limit).with_algorithm(algorithm);
    let (store, mut audit) = (for_one(), Audit::of_one(limit));
    let key = Key::new("client").expect("a key");
    let (mut admitted, mut in_window) = (Vec::new(), Vec::new());
    for offer in offers {
        let now = Timestamp::from_micros(edge_us.saturating_add_signed(offer.at_us));
        let units = admit(&store, &policy, &key, offer.units, now);
        admitted.push(units);
        in_window.push(match Cost::new(units) {
            Ok(cost) => audit.note(&key, cost, now),
            Err(_) => audit.used(&key, now),
        });
    }
    let sum = |before: bool| {
        let part = offers.iter().zip(&admitted).filter(|(offer, _)| (offer.at_us < 0) == before);
        part.map(|(_, units)| units).sum()
    };
    AtEdge {
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

/// Tries `units` at a moment, one by one as it were; how many are let through. What is left is known from a look, and one
/// request that costs as much spends the same.
fn admit(store: &MemoryStore, policy: &Policy, key: &Key<'_>, units: u64, now: Timestamp) -> u64 {
    let left = store.decide(Op::Peek, policy, key, Cost::ONE, now).remaining();
    match Cost::new(units.min(left)) {
        Ok(cost) if store.decide(Op::Check, policy, key, cost, now).is_allowed() => cost.get(),
        _ => 0,
    }
}
