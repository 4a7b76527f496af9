//! The results of an evaluation equal a brute-force count.

use std::collections::HashMap;

use tidegate::{Algorithm, Cost, Key, Limit, MemoryStore, Op, Policy, Timestamp};

use super::limit;
use tidegate_replay::simulate::{
    approximations,
    evaluation::{self, AlgorithmResult, Evaluation},
    one_of_each,
    traffic::{SimulatedRequest, Traffic, TrafficShape},
};

/// Admitted requests of each client: times and units.
type History = HashMap<u32, Vec<(u64, u64)>>;

/// Returns the units in the window that ends at `now`.
fn used(history: &History, client: u32, now: u64, window: u64) -> u64 {
    let charges = history.get(&client).map_or(&[][..], Vec::as_slice);
    charges.iter().filter(|(time, _)| time + window > now).map(|(_, units)| units).sum()
}

/// Counts the admitted requests, the wrong decisions against `sliding_log` and by own history, and the worst window by brute force.
fn brute_force(limit: Limit, algorithm: Algorithm, requests: &[SimulatedRequest]) -> [u64; 6] {
    let window = u64::try_from(limit.window().as_micros()).unwrap();
    let policy = Policy::unnamed([limit]).unwrap().with_algorithm(algorithm);
    let store = MemoryStore::default();
    let (mut log, mut own) = (History::new(), History::new());
    let mut counts = [0; 6];
    for SimulatedRequest { time_us, client, cost, .. } in requests {
        let (client, now, cost) = (*client, *time_us, *cost);
        let fits = |history: &History| used(history, client, now, window) + cost <= limit.max();
        let (log_admits, own_fits) = (fits(&log), fits(&own));
        if log_admits {
            log.entry(client).or_default().push((now, cost));
        }
        let (name, units) = (client.to_string(), Cost::new(cost).unwrap());
        let key = Key::new(&name).unwrap();
        let admits = store.decide(Op::Check, &policy, &key, units, Timestamp::from_micros(now)).is_allowed();
        if admits {
            own.entry(client).or_default().push((now, cost));
        }
        counts[0] += u64::from(admits);
        counts[1] += u64::from(admits && !log_admits);
        counts[2] += u64::from(!admits && log_admits);
        counts[3] += u64::from(admits && !own_fits);
        counts[4] += u64::from(!admits && own_fits);
        counts[5] = counts[5].max(used(&own, client, now, window));
    }
    counts
}

fn counts(result: &AlgorithmResult) -> [u64; 6] {
    let AlgorithmResult { admitted, beside_log, by_own_history, worst_window_units, .. } = result;
    let (against, own) = (beside_log, by_own_history);
    [*admitted, against.admitted, against.denied, own.admitted, own.denied, *worst_window_units]
}

#[test]
fn results_equal_a_brute_force_count() {
    let algorithms = [one_of_each(), approximations(), vec!["gcra:3".parse().unwrap()]].concat();
    for (text, shape) in [
        ("10/1s", TrafficShape::Poisson),
        ("12/1m", TrafficShape::Bursty),
        ("5/1ms", TrafficShape::Diurnal),
        ("9/1h", TrafficShape::Adversarial),
        ("10/1d", TrafficShape::Adversarial),
    ] {
        let limit = limit(text);
        // A cost of 3 does not fill a limit of 10.
        let cost = if text == "10/1d" { 3 } else { 1 };
        let traffic = Traffic { cost, ..Traffic::for_limit(limit, shape, 8, 600, 0.9, 2).unwrap() };
        let requests: Vec<SimulatedRequest> = traffic.requests().unwrap().collect();
        let result = evaluation::run(&traffic, limit, &algorithms).unwrap();
        assert_eq!(result.summary.requests, requests.len() as u64);
        for algorithm_result in &result.algorithms {
            let algorithm = algorithm_result.algorithm.parse().unwrap();
            assert_eq!(
                counts(algorithm_result),
                brute_force(limit, algorithm, &requests),
                "{text} {shape} {algorithm}"
            );
        }
    }
}

#[test]
fn no_algorithm_exceeds_its_promise_on_any_traffic() {
    let algorithms = [one_of_each(), approximations()].concat();
    for text in ["1/1ms", "10/1s", "60/1m", "100000/1d"] {
        for shape in TrafficShape::ALL {
            let traffic =
                Traffic::for_limit(limit(text), shape, if text == "100000/1d" { 3 } else { 20 }, 1_500, 0.8, 4)
                    .unwrap();
            let result = evaluation::run(&traffic, limit(text), &algorithms).unwrap();
            for algorithm_result in &result.algorithms {
                assert!(
                    algorithm_result.worst_window_units <= algorithm_result.promised_window_units,
                    "{text} {shape} {algorithm_result:?}"
                );
                let exact = algorithm_result.promised_window_units == result.max;
                assert!(!exact || algorithm_result.by_own_history.admitted == 0, "{text} {shape} {algorithm_result:?}");
            }
            let log = &result.algorithms[0];
            assert_eq!((log.beside_log.share(), log.by_own_history.share()), (0.0, 0.0), "{text} {shape}");
        }
    }
}

#[test]
fn adversaries_reach_the_bounds_of_the_counter_and_of_fixed_windows() {
    let traffic = Traffic::for_limit(limit("50/1m"), TrafficShape::Adversarial, 20, 10_000, 1.0, 1).unwrap();
    let result = evaluation::run(&traffic, limit("50/1m"), &one_of_each()).unwrap();
    let worst = |name: &str| {
        let found = result.algorithms.iter().find(|found| found.algorithm == name).unwrap();
        found.worst_window_units
    };
    assert_eq!(["sliding_log", "sliding_counter", "fixed_window"].map(worst), [50, 100, 100]);
}

#[test]
fn results_and_memory_are_repeatable() {
    let traffic = Traffic::for_limit(limit("5/1s"), TrafficShape::Bursty, 200, 2_000, 0.5, 9).unwrap();
    let once = evaluation::run(&traffic, limit("5/1s"), &one_of_each()).unwrap();
    assert_eq!(once, evaluation::run(&traffic, limit("5/1s"), &one_of_each()).unwrap());
    let other = evaluation::run(&Traffic { seed: 10, ..traffic }, limit("5/1s"), &one_of_each()).unwrap();
    assert_ne!(once.algorithms, other.algorithms);
}

#[test]
fn counters_fit_a_slot_and_a_log_grows_with_the_limit() {
    let bytes = |text: &str| {
        let result = Evaluation::new(limit(text), &[Algorithm::SlidingCounter]).finish("nothing");
        [0, 1].map(|number: usize| result.algorithms[number].bytes_per_full_key)
    };
    let ([small, counter], [large, _]) = (bytes("10/1m"), bytes("1000/1m"));
    assert_eq!(counter, 32);
    assert!(small > 96 && small < 600, "{small}");
    assert!(large > 2_000 && large < 6_000, "{large}");
}

#[test]
fn a_trace_may_go_back_in_time_and_have_any_cost() {
    let mut evaluation = Evaluation::new(limit("5/1s"), &one_of_each());
    let key = Key::new("a").unwrap();
    for (time, cost) in [(9_000_000, 3), (8_500_000, 2), (1_000_000, 1), (9_100_000, 6), (20_000_000, 5)] {
        evaluation.decide(Timestamp::from_micros(time), &key, Cost::new(cost).unwrap());
    }
    let result = evaluation.finish("by hand");
    assert_eq!((result.summary.moved, result.summary.clients, result.summary.requests), (1, 1, 5));
    assert_eq!((result.algorithms[0].admitted, result.algorithms[0].admitted_units), (3, 10));
    assert_eq!(result.timeline.admitted_units[0].iter().sum::<u64>(), 10);
    assert!(result.algorithms.iter().all(|found| found.worst_window_units <= found.promised_window_units));
}
