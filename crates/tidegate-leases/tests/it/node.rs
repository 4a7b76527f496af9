//! What a node decides by itself, at times that the tests set.

use std::time::Duration;

use tidegate::{Cost, Decision, Key, Limiter, ManualClock, Mode, Op, Override, Policy, PolicyError, Reason, Timestamp};
use tidegate_leases::{Node, SettleRequest};

const MILLISECOND: u64 = 1_000;
const TERM: u64 = 200 * MILLISECOND;
/// Requests after which a key is hot.
const HEATING: u64 = 20;

fn policy(limit: &str) -> Policy {
    let policy = Policy::new("hot", [limit.parse().expect("a limit")]).expect("a policy");
    policy.with_lease(Duration::from_micros(TERM)).expect("a term")
}

fn cost(units: u64) -> Cost {
    Cost::new(units).expect("in range")
}

/// A node beside the store that it leases from. Both have the same clock, and a message takes no time.
pub(crate) struct Network {
    pub(crate) node: Node,
    pub(crate) shared: Limiter,
    pub(crate) time: ManualClock,
    pub(crate) policy: Policy,
    pub(crate) key: Key<'static>,
}

impl Network {
    pub(crate) fn new(limit: &str) -> Self {
        let time = ManualClock::at(Timestamp::from_micros(1_000_000));
        let shared = Limiter::default().with_clock(time.clock());
        Self { node: Node::default(), shared, time, policy: policy(limit), key: Key::from(7_u8) }
    }

    pub(crate) fn now(&self) -> u64 {
        self.time.clock().now().as_micros()
    }

    pub(crate) fn advance(&self, micros: u64) {
        self.time.advance(Duration::from_micros(micros));
    }

    /// Decides a request. Returns whether the node decided it by itself.
    fn decide(&self, op: Op, units: u64) -> (Decision, bool) {
        let (now, units) = (self.now(), cost(units));
        let local = self.node.decide(now, op, &self.policy, &self.key, units);
        let mut wants_lease = local.wants_lease;
        let decision = local.decision.unwrap_or_else(|| {
            let decision = match op {
                Op::Check => self.shared.check(&self.policy, &self.key, units),
                Op::Peek => self.shared.peek(&self.policy, &self.key, units),
                Op::Charge => self.shared.charge(&self.policy, &self.key, units),
            };
            let request = (op, &self.policy, &self.key, units);
            wants_lease = self.node.note_direct(now, now, request, local.fingerprint, &decision);
            decision
        });
        if wants_lease {
            self.lease(local.fingerprint);
        }
        (decision, local.decision.is_some())
    }

    pub(crate) fn lease(&self, fingerprint: u128) {
        if let Some(request) = self.node.begin_lease(self.now(), fingerprint) {
            let leased = self.shared.lease(&request.policy, &request.key, &request.lease).expect("a valid lease");
            let settles = self.node.end_lease(self.now(), request, Ok(&leased));
            self.settle(settles);
        }
    }

    pub(crate) fn settle(&self, requests: Vec<SettleRequest>) {
        for request in requests {
            let settled = self.shared.settle(request.id(), request.spent(), &self.policy).expect("a valid settle");
            self.node.end_settle(request, Some(settled.known));
        }
    }

    pub(crate) fn check(&self) -> (Decision, bool) {
        self.decide(Op::Check, 1)
    }

    /// Sends requests until the node has a lease.
    pub(crate) fn heat_up(&self) {
        for _ in 0..HEATING {
            self.advance(MILLISECOND);
            assert!(self.check().0.is_allowed());
        }
        assert!(self.node.stats(self.now()).open >= 1, "the key is hot");
    }

    /// Units in use in the shared store.
    pub(crate) fn used(&self) -> u64 {
        self.shared.peek(&self.policy, &self.key, Cost::ONE).used()
    }
}

#[test]
fn a_hot_key_is_decided_by_the_node_and_a_cold_one_by_the_store() {
    let network = Network::new("1000/1m");
    let cold: Vec<bool> = (0..5)
        .map(|_| {
            network.advance(TERM);
            network.check().1
        })
        .collect();
    assert_eq!(cold, [false; 5]);
    network.heat_up();
    let (decision, by_node) = network.check();
    assert!(by_node && decision.is_leased() && decision.is_allowed() && !decision.is_degraded());
    assert!(decision.charged_at().is_some());
}

#[test]
fn what_remains_is_never_more_than_what_remains_in_truth() {
    let network = Network::new("1000/1m");
    network.heat_up();
    for admitted in HEATING + 1..=900 {
        let (decision, _) = network.check();
        assert!(decision.is_allowed());
        assert!(decision.remaining() <= 1000 - admitted, "{decision:?} after {admitted}");
        network.advance(17);
    }
}

#[test]
fn all_units_of_the_limit_are_admitted_and_none_more() {
    let network = Network::new("500/1m");
    let admitted = (0..2_000)
        .filter(|_| {
            network.advance(50);
            network.check().0.is_allowed()
        })
        .count();
    assert_eq!(admitted, 500);
}

#[test]
fn a_denial_is_repeated_until_its_retry_time_and_at_most_for_the_deny_cache() {
    let network = Network::new("30/1m");
    while network.check().0.is_allowed() {
        network.advance(MILLISECOND);
    }
    let (first, _) = network.check();
    network.advance(300 * MILLISECOND);
    let (second, by_node) = network.check();
    assert!(by_node && second.reason() == Reason::Limited && !second.is_leased());
    let exact = network.shared.peek(&network.policy, &network.key, Cost::ONE);
    assert_eq!(second.retry_after(), exact.retry_after(), "{first:?}");
    assert!(!network.decide(Op::Check, 2).1, "another cost has another wait");
    network.advance(701 * MILLISECOND);
    assert!(!network.check().1, "the node asks again after a second");
}

#[test]
fn a_deny_cache_of_zero_asks_for_each_request() {
    let mut network = Network::new("30/1m");
    network.policy = network.policy.with_deny_cache(Duration::ZERO);
    while network.check().0.is_allowed() {
        network.advance(MILLISECOND);
    }
    assert!((0..5).all(|_| !network.check().1));
}

#[test]
fn a_denial_ends_with_a_refund_of_this_node() {
    let network = Network::new("30/1m");
    let charged_at = network.check().0.charged_at().expect("charged");
    while network.check().0.is_allowed() {
        network.advance(MILLISECOND);
    }
    assert!(network.check().1);
    assert_eq!(network.node.refund(network.now(), &network.policy, &network.key, Cost::ONE, charged_at), None);
    assert!(network.shared.refund(&network.policy, &network.key, Cost::ONE, charged_at).is_returned());
    assert!(network.check().0.is_allowed());
}

#[test]
fn an_idle_lease_is_settled_soon_and_its_units_are_free_again() {
    let network = Network::new("1000/1m");
    network.heat_up();
    let admitted = HEATING;
    assert!(network.used() > admitted, "the lease is in use");
    network.advance(TERM / 2);
    network.settle(network.node.sweep(network.now()));
    assert_eq!(network.used(), admitted);
    let stats = network.node.stats(network.now());
    assert_eq!((stats.open, stats.stranded), (0, 0));
}

#[test]
fn closing_settles_every_lease_and_leases_no_more() {
    let network = Network::new("1000/1m");
    network.heat_up();
    network.settle(network.node.close());
    assert_eq!(network.used(), HEATING);
    for _ in 0..HEATING {
        network.advance(MILLISECOND);
        assert!(!network.check().1);
    }
    assert_eq!(network.used(), 2 * HEATING);
}

#[test]
fn a_node_that_stood_still_longer_than_its_term_admits_nothing() {
    let network = Network::new("1000/1m");
    network.heat_up();
    let (_, by_node) = network.check();
    assert!(by_node);
    network.advance(TERM);
    let local = network.node.decide(network.now(), Op::Check, &network.policy, &network.key, Cost::ONE);
    assert!(local.decision.is_none());
}

#[test]
fn a_refund_goes_back_to_the_open_lease_and_is_dropped_after_its_end() {
    let network = Network::new("1000/1m");
    network.heat_up();
    let refund = |units, at| network.node.refund(network.now(), &network.policy, &network.key, cost(units), at);
    // The node remembers charges once it has seen a refund.
    assert_eq!(refund(1, Timestamp::from_micros(1)), None);
    network.advance(MILLISECOND);
    let (decision, by_node) = network.decide(Op::Check, 3);
    assert!(by_node);
    let charged_at = decision.charged_at().expect("charged");
    let left = |network: &Network| network.decide(Op::Peek, 1).0.remaining();
    let before = left(&network);
    assert_eq!(refund(2, charged_at), Some(true));
    assert_eq!(left(&network), before + 2);
    assert_eq!(refund(5, charged_at), Some(true), "at most what was charged");
    assert_eq!(left(&network), before + 3);
    assert_eq!(refund(1, charged_at), Some(false), "nothing is left of the charge");
    network.advance(TERM);
    network.settle(network.node.sweep(network.now()));
    assert_eq!(refund(1, charged_at), Some(false));
    assert_eq!(network.node.stats(network.now()).refunds_dropped, 2);
}

#[test]
fn a_changed_policy_ends_the_lease() {
    let mut network = Network::new("1000/1m");
    network.heat_up();
    network.policy = policy("22/1m");
    let admitted = (0..100)
        .filter(|_| {
            network.advance(10);
            network.check().0.is_allowed()
        })
        .count();
    network.settle(network.node.sweep(network.now()));
    assert!(admitted <= 2, "20 of 22 were admitted before: {admitted}");
}

#[test]
fn an_override_of_this_node_ends_the_lease() {
    let network = Network::new("1000/1m");
    network.heat_up();
    network.shared.set_override(&network.policy, &network.key, Override::ban()).expect("a ban");
    network.settle(network.node.stop(&network.policy, &network.key));
    let (decision, _) = network.check();
    assert_eq!(decision.reason(), Reason::Banned);
    let (repeated, by_node) = network.check();
    assert!(by_node && repeated.reason() == Reason::Banned);
}

#[test]
fn a_policy_in_shadow_mode_and_one_without_a_term_are_not_leased() {
    assert!(Node::leases(&policy("10/1m")));
    assert!(!Node::leases(&policy("10/1m").with_mode(Mode::Shadow)));
    assert!(!Node::leases(&Policy::new("plain", ["10/1m".parse().expect("a limit")]).expect("a policy")));
}

#[test]
fn a_term_that_is_too_long_is_refused() {
    let plain = || Policy::new("p", ["10/1s".parse().expect("a limit")]).expect("a policy");
    assert!(plain().with_lease(Duration::from_millis(500)).is_ok());
    let too_long = plain().with_lease(Duration::from_millis(501)).expect_err("too long");
    assert_eq!(
        too_long.to_string(),
        "a lease of 501ms is longer than half of the shortest window: use at most 500ms, better a fifth of that"
    );
    assert!(matches!(plain().with_lease(Duration::ZERO), Err(PolicyError::LeaseRange { .. })));
    let jobs = Policy::new("jobs", ["4/inflight".parse().expect("a limit")]).expect("a policy");
    assert_eq!(jobs.with_lease(Duration::from_millis(5)).expect_err("in flight"), PolicyError::LeaseInFlight);
}

#[test]
fn a_node_that_has_no_room_for_a_key_asks_the_store() {
    let mut network = Network::new("1000/1m");
    network.node = Node::new(0);
    for _ in 0..20 {
        network.advance(MILLISECOND);
        let (decision, by_node) = network.check();
        assert!(decision.is_allowed() && !by_node);
    }
    assert!(network.node.stats(network.now()).no_room > 0);
}

#[test]
fn the_keys_that_the_node_decides_most_are_reported_first() {
    let mut network = Network::new("1000/1m");
    for (key, more) in [(1_u8, 10), (2, 30), (3, 20)] {
        network.key = Key::from(key);
        network.heat_up();
        (0..more).for_each(|_| assert!(network.check().1));
    }
    let keys = network.node.keys(network.now(), 2);
    let names: Vec<_> = keys.iter().map(|leased| leased.key.clone()).collect();
    assert_eq!(names, [Key::from(2_u8), Key::from(3_u8)], "the two with the most decisions");
    let first = &keys[0];
    assert_eq!(first.policy, "hot");
    assert!(first.units > first.left && first.admitted >= 30 && first.denied == 0, "{first:?}");
    assert!(first.ends_in.is_some_and(|wait| wait <= Duration::from_micros(TERM)));
    network.advance(TERM);
    let ended = &network.node.keys(network.now(), 2)[0];
    assert_eq!((ended.units, ended.left, ended.ends_in), (0, 0, None), "a lease that has ended is none");
}

#[test]
fn a_remembered_denial_is_reported_until_it_ends() {
    let network = Network::new("20/1m");
    while network.check().0.is_allowed() {
        network.advance(MILLISECOND);
    }
    (0..5).for_each(|_| assert!(network.check().1, "the denial is repeated"));
    let report = |network: &Network| network.node.keys(network.now(), 1).remove(0);
    let first = report(&network);
    assert!(first.denied >= 5 && first.denies_for.is_some(), "{first:?}");
    network.advance(1_000 * MILLISECOND);
    assert_eq!(report(&network).denies_for, None);
}

#[test]
fn every_leased_unit_is_admitted_returned_or_stranded() {
    let network = Network::new("1000/1m");
    network.heat_up();
    let settled = network.node.stats(network.now());
    network.advance(TERM * 3 / 4);
    network.settle(network.node.sweep(network.now()));
    let after = network.node.stats(network.now());
    assert_eq!((after.returned - settled.returned, after.open), (settled.left, 0), "an idle lease is returned");
    assert_eq!((after.expired, after.stranded), (0, 0));
    // This time, the sweep comes after the end of the lease.
    network.heat_up();
    let left = network.node.stats(network.now()).left;
    network.advance(3 * TERM);
    network.settle(network.node.sweep(network.now()));
    let end = network.node.stats(network.now());
    assert_eq!((end.expired, end.stranded), (1, left));
    assert_eq!(end.leased, end.admitted + end.returned + end.stranded, "each request takes one unit: {end:?}");
    assert_eq!(end.admitted + end.asked, 2 * HEATING);
}
