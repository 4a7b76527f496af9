//! Two levels: regions lease from a root, and clients lease from their region. No window holds more units than the limit,
//! whatever fails. Regions whose clients' leases may outlive their own fail the same test.

use std::time::Duration;

use proptest::prelude::*;
use tidegate::{Algorithm, Limit, Policy};
use tidegate_leases::simulation::{self, RegionScenario, Scenario};

fn policy(limit: &str, algorithm: Algorithm, term: u64) -> Policy {
    let limit: Limit = limit.parse().expect("a limit");
    let policy = Policy::new("hot", [limit]).expect("a policy").with_algorithm(algorithm);
    policy.with_lease(Duration::from_millis(term)).expect("a term")
}

fn scenario() -> impl Strategy<Value = RegionScenario> {
    let limits = prop::sample::select(vec!["100/1s", "500/2s", "60/600ms"]);
    let buckets = "sliding_buckets:10".parse::<Algorithm>().expect("an algorithm");
    let algorithm = prop_oneof![3 => Just(Algorithm::SlidingLog), 1 => Just(buckets)];
    let terms = (10..100_u64, 20..280_u64);
    let nodes = (1..=3_usize, 1..=3_usize, 10.0..2_000.0_f64, 1..=5_u64);
    let network = (0..10_000_u64, 0..20_000_u64, 0..60_000_u64, 0.0..0.2_f64, 0.0..0.2_f64);
    let faults = (0.0..2_000.0_f64, 0.0..2_000.0_f64, 0.0..=0.0099_f64);
    (limits, algorithm, terms, nodes, network, faults, any::<u64>()).prop_map(
        |(limit, algorithm, terms, nodes, network, faults, seed)| {
            let clients = Scenario {
                duration: Duration::from_secs(6),
                requests_per_second: nodes.2,
                cost: nodes.3,
                latency: Duration::from_micros(network.0),
                jitter: Duration::from_micros(network.1),
                lost: network.3,
                repeated: network.4,
                crashes_per_hour: faults.0,
                pauses_per_hour: faults.1,
                longest_pause: Duration::from_secs(1),
                clock_deviation: faults.2,
                seed,
                ..Scenario::new(policy(limit, algorithm, terms.0), nodes.1)
            };
            let root_latency = Duration::from_micros(network.2);
            RegionScenario::new(clients, nodes.0, Duration::from_millis(terms.1), root_latency)
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn no_window_exceeds_the_limit_over_all_regions_and_clients(scenario in scenario()) {
        let outcome = simulation::run_regions(&scenario);
        prop_assert_eq!(outcome.exceeded, 0, "{:?}", outcome);
    }
}

/// Regions with short leases, and clients that ask for long ones and together request more than the limit.
fn short_leases_of_regions(seed: u64) -> RegionScenario {
    let clients = Scenario {
        duration: Duration::from_secs(20),
        requests_per_second: 40.0,
        seed,
        ..Scenario::new(policy("100/1s", Algorithm::SlidingLog, 450), 5)
    };
    RegionScenario::new(clients, 1, Duration::from_millis(60), Duration::from_millis(2))
}

#[test]
fn clients_leases_that_outlive_those_of_their_region_exceed_the_limit() {
    let defective = |seed| RegionScenario { clients_outlive_regions: true, ..short_leases_of_regions(seed) };
    let exceeds = |scenario: &RegionScenario| simulation::run_regions(scenario).exceeded > 0;
    let exceeded = (0..20).filter(|seed| exceeds(&defective(*seed))).count();
    println!("{exceeded} of 20 runs exceed the limit");
    assert!(exceeded > 0, "the test would not detect leases of clients that outlive those of their region");
    assert!((0..20).all(|seed| !exceeds(&short_leases_of_regions(seed))));
}

#[test]
fn clients_get_parts_of_their_regions_leases_and_return_what_they_do_not_spend() {
    let clients = Scenario {
        duration: Duration::from_secs(60),
        requests_per_second: 200.0,
        ..Scenario::new(policy("200000/1m", Algorithm::SlidingLog, 200), 3)
    };
    let scenario = RegionScenario::new(clients, 3, Duration::from_secs(2), Duration::from_millis(75));
    let outcome = simulation::run_regions(&scenario);
    let regions = &outcome.nodes[..3];
    println!("{outcome:?}");
    assert_eq!((outcome.exceeded, outcome.admitted), (0, outcome.exact));
    for region in regions {
        assert!(region.client_leases > 100 && region.client_returned > 0, "{region:?}");
    }
    assert!(outcome.waited * 50 < outcome.requests, "{} of {} requests waited", outcome.waited, outcome.requests);
}
