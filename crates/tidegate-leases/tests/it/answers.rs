//! Answers to a request for a lease that are not an ordinary grant.

use std::time::Duration;

use tidegate::{Cost, Hold, Key, Leased, Op, ReservationError, ReservationId, StoreError, external_store};
use tidegate_leases::LeaseRequest;

use crate::node::Network;

const MILLISECOND: u64 = 1_000;

impl Network {
    /// Uses up what the node has, and decides requests by the store until the node wants a lease. Returns its request.
    fn request_for_lease(&self) -> LeaseRequest {
        let one = Cost::ONE;
        for _ in 0..1_000 {
            let now = self.now();
            let local = self.node.decide(now, Op::Check, &self.policy, &self.key, one);
            if local.decision.is_some() {
                continue;
            }
            let decision = self.shared.check(&self.policy, &self.key, one);
            let request = (Op::Check, &self.policy, &self.key, one);
            if self.node.note_direct(now, now, request, local.fingerprint, &decision) {
                return self.node.begin_lease(now, local.fingerprint).expect("the key is hot");
            }
            self.advance(MILLISECOND);
        }
        panic!("the node wants no lease");
    }

    /// The same after the node has used up a lease, which the request settles.
    fn request_that_settles(&self) -> LeaseRequest {
        self.heat_up();
        let request = self.request_for_lease();
        assert!(request.lease.settle.is_some());
        request
    }

    /// Units in open leases in the shared store.
    fn leased(&self) -> u64 {
        let state = self.shared.inspect(&self.policy, &self.key).expect("a state");
        state.reservations.iter().filter(|open| open.is_lease).map(|open| open.units).sum()
    }

    /// Whether the node decides a request by itself.
    fn decides(&self) -> bool {
        let local = self.node.decide(self.now(), Op::Check, &self.policy, &self.key, Cost::ONE);
        local.decision.is_some()
    }
}

/// What a service answers under `open` while its own store is away.
fn uncounted(request: &LeaseRequest, settled: Option<bool>) -> Leased {
    let id = ReservationId::never_granted(&request.policy, [7; 16]);
    let decision = external_store::without_store(&request.policy, true);
    Leased::new(decision, Some(id), request.lease.asked.get(), settled)
}

#[test]
fn a_node_admits_nothing_from_a_lease_that_the_store_did_not_count() {
    let network = Network::new("10000/1m");
    let request = network.request_for_lease();
    let answer = uncounted(&request, None);
    network.settle(network.node.end_lease(network.now(), request, Ok(&answer)));
    assert!(!network.decides(), "no window holds units that nobody counts");
    let stats = network.node.stats(network.now());
    assert_eq!((stats.leases, stats.leased, stats.unanswered), (0, 0, 1));
}

#[test]
fn the_units_of_a_degraded_lease_that_may_be_counted_are_returned() {
    let network = Network::new("10000/1m");
    let request = network.request_for_lease();
    let used = network.used();
    let mut answer = network.shared.lease(&request.policy, &request.key, &request.lease).expect("a lease");
    assert!(network.used() > used);
    answer.decision = external_store::degraded(answer.decision);
    network.settle(network.node.end_lease(network.now(), request, Ok(&answer)));
    assert!(!network.decides());
    assert_eq!(network.used(), used);
}

#[test]
fn a_lease_that_an_answer_left_unsettled_is_settled_later() {
    for settled in [None, Some(false)] {
        let network = Network::new("10000/1m");
        let request = network.request_that_settles();
        let leased = network.leased();
        assert!(leased > 0, "the lease is open");
        let answer = uncounted(&request, settled);
        network.settle(network.node.end_lease(network.now(), request, Ok(&answer)));
        network.advance(101 * MILLISECOND);
        network.settle(network.node.sweep(network.now()));
        assert_eq!(network.leased(), 0, "{settled:?}");
    }
}

#[test]
fn a_store_grants_no_more_than_the_node_asked_for() {
    let network = Network::new("10000/1m");
    let request = network.request_for_lease();
    let asked = request.lease.asked.get();
    let mut answer = network.shared.lease(&request.policy, &request.key, &request.lease).expect("a lease");
    answer.granted = 5_000;
    network.settle(network.node.end_lease(network.now(), request, Ok(&answer)));
    assert_eq!(network.node.stats(network.now()).left, asked);
}

#[test]
fn a_key_with_too_many_reservations_for_a_lease_is_not_denied() {
    let mut network = Network::new("10000/1m");
    let bounds = network.policy.reservation_bounds().with_max_reservations(1).expect("a bound");
    network.policy = network.policy.clone().with_reservation_bounds(bounds);
    let hold = Hold::new(Duration::from_secs(30));
    assert!(network.shared.reserve(&network.policy, &network.key, Cost::ONE, hold).expect("a hold").id.is_some());
    for _ in 0..100 {
        network.advance(MILLISECOND);
        assert!(network.check().0.is_allowed(), "the store has units");
    }
}

#[test]
fn an_earlier_lease_is_settled_alone_if_the_request_for_the_next_one_is_refused() {
    let network = Network::new("10000/1m");
    let request = network.request_that_settles();
    let refused = StoreError::from(ReservationError::OtherKey);
    network.settle(network.node.end_lease(network.now(), request, Err(&refused)));
    assert_eq!(network.leased(), 0);
    assert_eq!(network.node.stats(network.now()).unanswered, 0, "it was answered");
}

#[test]
fn keys_of_clients_leave_room_for_keys_that_are_requested_often() {
    let network = Network::new("10000/1m");
    let node = tidegate_leases::Node::new(64 * 4);
    let grant = |number: u32| {
        let key = Key::from(number);
        let lease = tidegate::Lease::new(Cost::ONE, Duration::from_millis(200));
        let fingerprint = node.lease_out(network.now(), &network.policy, &key, &lease).fingerprint;
        let leased = network.shared.lease(&network.policy, &key, &lease).expect("a lease");
        node.note_client_lease(network.now(), &network.policy, &key, fingerprint, &leased);
    };
    (0..5_000).for_each(grant);
    let stats = node.stats(network.now());
    assert!(stats.no_room > 0);
    assert_eq!(stats.keys, 64 * 2, "half of the room is for other keys");
}
