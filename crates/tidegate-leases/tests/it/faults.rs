//! No window holds more units than the limit, whichever messages are lost, late or repeated, whichever nodes crash or stand
//! still, and however fast their clocks run. A store that dates leases at their grant fails the same test.

use std::time::Duration;

use proptest::prelude::*;
use tidegate::{
    Algorithm, Cost, Decision, Key, Lease, Leased, Limit, Limiter, ManualClock, Op, Policy, ReservationId, Timestamp,
};
use tidegate_leases::simulation::{self, Scenario, Shared, SharedMemory};

fn scenario() -> impl Strategy<Value = Scenario> {
    let limits = prop::sample::select(vec!["20/1s", "100/1s", "500/2s", "30/300ms"]);
    let algorithm = prop_oneof![3 => Just(Algorithm::SlidingLog), 1 => Just(buckets())];
    let nodes = (1..=5_usize, 10.0..2_000.0_f64, 1..=7_u64);
    let network = (0..60_000_u64, 0..60_000_u64, 0.0..0.2_f64, 0.0..0.2_f64);
    let faults = (0.0..2_000.0_f64, 0.0..2_000.0_f64, 0.0..=0.0099_f64);
    (limits, algorithm, 10..150_u64, nodes, network, faults, any::<u64>()).prop_map(
        |(limit, algorithm, term, nodes, network, faults, seed)| {
            let limit: Limit = limit.parse().expect("a limit");
            let policy = Policy::new("hot", [limit]).expect("a policy").with_algorithm(algorithm);
            let policy = policy.with_lease(Duration::from_millis(term)).expect("a term");
            Scenario {
                duration: Duration::from_secs(6),
                requests_per_second: nodes.1,
                cost: nodes.2,
                latency: Duration::from_micros(network.0),
                jitter: Duration::from_micros(network.1),
                lost: network.2,
                repeated: network.3,
                crashes_per_hour: faults.0,
                pauses_per_hour: faults.1,
                longest_pause: Duration::from_secs(1),
                clock_deviation: faults.2,
                seed,
                ..Scenario::new(policy, nodes.0)
            }
        },
    )
}

fn buckets() -> Algorithm {
    "sliding_buckets:10".parse().expect("an algorithm")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn no_window_exceeds_the_limit_whatever_fails(scenario in scenario()) {
        let outcome = simulation::run(&scenario);
        prop_assert_eq!(outcome.exceeded, 0, "{:?}", outcome);
    }
}

/// A store that charges a lease at its grant, and refunds what is not spent to that time.
struct DatedAtGrant {
    limiter: Limiter,
    time: ManualClock,
    policy: Policy,
    /// The time and the units of each open lease.
    open: Vec<(ReservationId, Timestamp, u64)>,
    /// Grants the leases, so that they have the size of real ones.
    sizes: SharedMemory,
}

fn key() -> Key<'static> {
    Key::from(1_u8)
}

impl Shared for DatedAtGrant {
    fn decide(&mut self, now: Timestamp, op: Op, cost: Cost) -> Decision {
        self.time.set(now);
        assert_eq!(op, Op::Check);
        let decision = self.limiter.check(&self.policy, &key(), cost);
        if decision.is_allowed() {
            let _ = self.sizes.decide(now, op, cost);
        }
        decision
    }

    fn lease(&mut self, now: Timestamp, lease: &Lease) -> Option<Leased> {
        self.time.set(now);
        if let Some((id, spent)) = &lease.settle {
            self.settle(now, id, *spent);
        }
        let used = self.limiter.peek(&self.policy, &key(), Cost::ONE);
        let units = lease.asked.get().min(used.remaining().div_ceil(2)).max(lease.least.get());
        let cost = Cost::new(units).expect("in range");
        let decision = self.limiter.check(&self.policy, &key(), cost);
        let Some(charged_at) = decision.charged_at() else { return Some(Leased::new(decision, None, 0, None)) };
        let id = self.sizes.lease(now, &Lease::new(Cost::ONE, lease.ttl))?.id?;
        self.open.push((id.clone(), charged_at, units));
        Some(Leased::new(decision, Some(id), units, None))
    }

    fn settle(&mut self, now: Timestamp, id: &ReservationId, spent: u64) -> bool {
        self.time.set(now);
        let Some(at) = self.open.iter().position(|(open, ..)| open == id) else { return false };
        let (_, charged_at, units) = self.open.swap_remove(at);
        if let Ok(unspent) = Cost::new(units - spent) {
            let _ = self.limiter.refund(&self.policy, &key(), unspent, charged_at);
        }
        true
    }
}

#[test]
fn leases_that_are_dated_at_their_grant_exceed_the_limit() {
    let policy = Policy::new("hot", ["100/1s".parse().expect("a limit")]).expect("a policy");
    let policy = policy.with_lease(Duration::from_millis(400)).expect("a term");
    let scenario = |seed| Scenario {
        duration: Duration::from_secs(20),
        requests_per_second: 60.0,
        seed,
        ..Scenario::new(policy.clone(), 3)
    };
    let dated_at_grant = || {
        let time = ManualClock::at(Timestamp::from_micros(0));
        // It grants as many leases as are asked for.
        let ids = Policy::new("ids", ["1_000_000_000/1s".parse().expect("a limit")]).expect("a policy");
        DatedAtGrant {
            limiter: Limiter::default().with_clock(time.clock()),
            time,
            policy: policy.clone(),
            open: Vec::new(),
            sizes: SharedMemory::new(&ids),
        }
    };
    let exceeded = |seed: &u64| simulation::run_with(&scenario(*seed), dated_at_grant()).exceeded > 0;
    assert!((0..20).filter(exceeded).count() > 0, "the test would not detect leases that are dated at their grant");
    assert!((0..20).all(|seed| simulation::run(&scenario(seed)).exceeded == 0));
}

#[test]
fn demand_above_the_limit_gets_nearly_all_of_it() {
    let policy = Policy::new("hot", ["10000/1m".parse().expect("a limit")]).expect("a policy");
    let policy = policy.with_lease(Duration::from_millis(200)).expect("a term");
    let scenario = Scenario {
        duration: Duration::from_secs(300),
        requests_per_second: 10_000.0 * 1.5 / 60.0 / 4.0,
        ..Scenario::new(policy, 4)
    };
    let outcome = simulation::run(&scenario);
    println!("{outcome:?} share {}", outcome.share());
    assert_eq!(outcome.exceeded, 0);
    assert!(outcome.share() >= 0.97, "{}", outcome.share());
}
