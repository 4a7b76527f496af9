//! Leases that a node grants to its own clients, as parts of a lease of its own.

use std::time::Duration;

use tidegate::{Cost, Key, Lease, Leased, ReservationError, ReservationId};

use crate::node::Network;

const MILLISECOND: u64 = 1_000;
/// The terms of the node and of its clients.
const TERM: u64 = 200 * MILLISECOND;

fn lease(units: u64, millis: u64) -> Lease {
    Lease::new(Cost::new(units).expect("in range"), Duration::from_millis(millis))
}

impl Network {
    /// Asks the node for a lease. `None` if the shared store has to grant it.
    fn lease_out(&self, lease: &Lease) -> Option<Leased> {
        let answer = self.node.lease_out(self.now(), &self.policy, &self.key, lease);
        if answer.wants_lease {
            self.lease(answer.fingerprint);
        }
        answer.leased
    }

    fn settle_client(&self, id: &ReservationId, spent: u64) -> Result<Option<bool>, ReservationError> {
        self.node.settle_client(self.now(), &self.policy, Some(&self.key), id, spent)
    }

    fn sweep(&self) {
        self.settle(self.node.sweep(self.now()));
    }

    /// The units that are left of the node's lease.
    fn left(&self) -> u64 {
        self.node.stats(self.now()).left
    }
}

/// A node with a lease, and a client with a part of it.
fn network_with_client() -> (Network, Leased) {
    let network = Network::new("10000/1m");
    network.heat_up();
    let leased = network.lease_out(&lease(4, 50)).expect("the node has units");
    (network, leased)
}

#[test]
fn a_client_gets_a_part_of_the_lease_and_returns_what_it_does_not_spend() {
    let network = Network::new("10000/1m");
    network.heat_up();
    let (left, used) = (network.left(), network.used());
    let leased = network.lease_out(&lease(4, 50)).expect("the node has units");
    assert_eq!((leased.granted, leased.ttl), (4, None));
    assert!(leased.decision.is_allowed() && leased.decision.is_leased());
    assert_eq!((network.left(), network.used()), (left - 4, used), "the store has counted them already");
    let id = leased.id.expect("an id");
    assert_eq!(network.settle_client(&id, 1), Ok(Some(true)));
    assert_eq!(network.left(), left - 1);
    assert_eq!(network.settle_client(&id, 1), Ok(Some(false)), "a lease is settled once");
    assert_eq!(network.left(), left - 1);
}

#[test]
fn a_clients_lease_ends_no_later_than_that_of_its_node() {
    let network = Network::new("10000/1m");
    // The leases grow until one has a unit for each client.
    (0..8).for_each(|_| network.heat_up());
    // The newest lease of the node was granted now, or before.
    let stops_at = network.now() + TERM - TERM / 100;
    let grant = |lease: &Lease| network.node.lease_out(network.now(), &network.policy, &network.key, lease).leased;
    let mut terms = Vec::new();
    while let Some(leased) = grant(&lease(1, 500).least_ttl(Duration::from_millis(1))) {
        let ttl = leased.ttl.expect("it is shorter than the client asked for");
        assert!(network.now() + u64::try_from(ttl.as_micros()).expect("a short time") <= stops_at, "{ttl:?}");
        assert_eq!(ttl.subsec_micros() % 1_000, 0, "the protocols have milliseconds");
        assert_eq!(grant(&lease(1, 300)), None, "a client that needs its whole term asks the store");
        terms.push(ttl);
        assert_eq!(network.settle_client(&leased.id.expect("an id"), 0), Ok(Some(true)), "so that units are left");
        network.advance(7 * MILLISECOND + 1);
    }
    assert!(terms.is_sorted_by(|one, next| one > next), "{terms:?}");
    assert!(terms.last().is_some_and(|last| *last < Duration::from_millis(14)), "{terms:?}");
}

#[test]
fn a_lease_is_not_settled_while_a_client_may_be_spending_units_of_it() {
    let (network, leased) = network_with_client();
    let id = leased.id.expect("an id");
    let used = network.used();
    // The client's lease has not ended yet when the node stops.
    network.settle(network.node.close());
    network.sweep();
    assert_eq!(network.used(), used, "the store still counts all of the lease");
    network.advance(10 * MILLISECOND);
    assert_eq!(network.settle_client(&id, 1), Ok(Some(true)));
    network.sweep();
    assert_eq!(network.used(), 21, "twenty requests before, and one unit of the client");
    assert!(network.lease_out(&lease(1, 50)).is_none(), "a node that ends grants nothing");
}

#[test]
fn the_units_of_a_client_that_never_settles_are_spent() {
    let (network, leased) = network_with_client();
    network.settle(network.node.close());
    // 1 % more than the term: the clock of the node may be the faster one.
    network.advance(50 * MILLISECOND);
    network.sweep();
    assert!(network.used() > 24, "the client may be spending until now");
    network.advance(MILLISECOND / 2);
    network.sweep();
    assert_eq!(network.used(), 24);
    assert_eq!(network.settle_client(&leased.id.expect("an id"), 0), Ok(Some(false)), "it is over");
    assert_eq!(network.node.stats(network.now()).client_expired, 1);
}

#[test]
fn a_request_for_more_than_the_node_has_goes_to_the_store() {
    let (network, _) = network_with_client();
    let too_many = Cost::new(network.left() + 1).expect("in range");
    assert!(network.lease_out(&lease(too_many.get(), 50).least(too_many)).is_none());
    let cold = Key::from(8_u8);
    let answer = network.node.lease_out(network.now(), &network.policy, &cold, &lease(1, 50));
    assert!(answer.leased.is_none());
    // The answer of the store tells the node that the key is hot, before any request.
    let granted = network.shared.lease(&network.policy, &cold, &lease(100, 50)).expect("a lease");
    let (now, policy) = (network.now() + MILLISECOND, &network.policy);
    assert!(network.node.note_client_lease(now, policy, &cold, answer.fingerprint, &granted));
    network.lease(answer.fingerprint);
    let answer = network.node.lease_out(network.now(), &network.policy, &cold, &lease(1, 50));
    assert!(answer.leased.is_some());
}

#[test]
fn an_id_works_only_for_its_key_its_units_and_the_node_that_granted_it() {
    let (network, leased) = network_with_client();
    let id = leased.id.expect("an id");
    assert_eq!(network.settle_client(&id, 5), Err(ReservationError::SpentTooMuch { spent: 5, units: 4 }));
    let other = Key::from(8_u8);
    let of_other = network.node.settle_client(network.now(), &network.policy, Some(&other), &id, 1);
    assert_eq!(of_other, Err(ReservationError::OtherKey));
    let stranger = Network::new("10000/1m");
    stranger.heat_up();
    assert_eq!(stranger.settle_client(&id, 1), Ok(None), "the shared store decides");
    let guessed = ReservationId::in_process(&network.policy, [7; 16], 7);
    assert_eq!(network.settle_client(&guessed, 0), Ok(None));
    let text: ReservationId = id.to_string().parse().expect("an id");
    assert_eq!(network.settle_client(&text, 1), Ok(Some(true)), "as text, it is the same id");
}

#[test]
fn the_number_of_clients_with_an_open_lease_is_bounded() {
    let mut network = Network::new("1000000/1m");
    let bounds = network.policy.reservation_bounds().with_max_reservations(3).expect("in range");
    network.policy = network.policy.clone().with_reservation_bounds(bounds);
    network.heat_up();
    let granted: Vec<bool> = (0..5).map(|_| network.lease_out(&lease(1, 50)).is_some()).collect();
    assert_eq!(granted, [true, true, true, false, false]);
    assert_eq!(network.node.stats(network.now()).clients, 3);
    network.advance(51 * MILLISECOND);
    network.sweep();
    assert_eq!(network.node.stats(network.now()).clients, 0);
}

#[test]
fn a_reset_forgets_the_leases_of_clients() {
    let (network, leased) = network_with_client();
    assert!(network.shared.reset(&network.policy, &network.key));
    network.node.forget(&network.policy, &network.key);
    assert_eq!(network.settle_client(&leased.id.expect("an id"), 1), Ok(Some(false)));
    assert_eq!(network.node.stats(network.now()).clients, 0);
    network.sweep();
    assert_eq!(network.used(), 0);
}

#[test]
fn the_open_leases_of_clients_of_one_key_are_bounded_over_all_leases_of_the_node() {
    let mut network = Network::new("10000/1m");
    let bounds = network.policy.reservation_bounds().with_max_reservations(3).expect("a bound");
    network.policy = network.policy.clone().with_reservation_bounds(bounds);
    network.heat_up();
    let grant = || usize::from(network.lease_out(&lease(1, 100)).is_some());
    assert_eq!((0..2).map(|_| grant()).sum::<usize>(), 2);
    // The lease stays open for its clients, and the node gets another one.
    network.settle(network.node.stop(&network.policy, &network.key));
    network.heat_up();
    assert_eq!((0..3).map(|_| grant()).sum::<usize>(), 1);
}
