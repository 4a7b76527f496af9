//! A trial's figures are those of a count by hand.

use std::collections::HashMap;

use tidegate::{Algorithm, Cost, Key, Limit, MemoryStore, Op, Policy, Timestamp};

use super::limit;
use crate::simulate::{
    approximations, one_of_each,
    traffic::{Sent, Shape, Traffic, window_us},
    trial::{self, Trial, Tried},
};

/// What was let through to each client: times and units.
type History = HashMap<u32, Vec<(u64, u64)>>;

/// Units in the window that ends at `now`.
fn used(history: &History, client: u32, now: u64, window: u64) -> u64 {
    let charges = history.get(&client).map_or(&[][..], Vec::as_slice);
    charges.iter().filter(|(time, _)| time + window > now).map(|(_, units)| units).sum()
}

/// Admitted, wrongly admitted and denied beside the log and by its own history, and the worst window: all by hand, but for
/// the algorithm's own decisions.
fn by_hand(limit: Limit, algorithm: Algorithm, sent: &[Sent]) -> [u64; 6] {
    let window = window_us(limit);
    let policy = Policy::unnamed([limit]).unwrap().with_algorithm(algorithm);
    let store = MemoryStore::default();
    let (mut log, mut own) = (History::new(), History::new());
    let mut figures = [0; 6];
    for Sent { time_us, client, cost, .. } in sent {
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
        figures[0] += u64::from(admits);
        figures[1] += u64::from(admits && !log_admits);
        figures[2] += u64::from(!admits && log_admits);
        figures[3] += u64::from(admits && !own_fits);
        figures[4] += u64::from(!admits && own_fits);
        figures[5] = figures[5].max(used(&own, client, now, window));
    }
    figures
}

fn figures(tried: &Tried) -> [u64; 6] {
    let Tried { admitted, beside_log, by_own_history, worst_window_units, .. } = tried;
    let (beside, own) = (beside_log, by_own_history);
    [*admitted, beside.admitted, beside.denied, own.admitted, own.denied, *worst_window_units]
}

#[test]
fn figures_are_those_of_a_count_by_hand() {
    let algorithms = [one_of_each(), approximations(), vec!["gcra:3".parse().unwrap()]].concat();
    for (text, shape) in [
        ("10/1s", Shape::Poisson),
        ("12/1m", Shape::Bursty),
        ("5/1ms", Shape::Diurnal),
        ("9/1h", Shape::Adversarial),
        ("10/1d", Shape::Adversarial),
    ] {
        let limit = limit(text);
        // What costs 3 does not fill a limit of 10.
        let cost = if text == "10/1d" { 3 } else { 1 };
        let traffic = Traffic { cost, ..Traffic::around(limit, shape, 8, 600, 0.9, 2) };
        let sent: Vec<Sent> = traffic.requests().unwrap().collect();
        let trialled = trial::run(&traffic, limit, &algorithms).unwrap();
        assert_eq!(trialled.asked.requests, sent.len() as u64);
        for tried in &trialled.algorithms {
            let algorithm = tried.algorithm.parse().unwrap();
            assert_eq!(figures(tried), by_hand(limit, algorithm, &sent), "{text} {shape} {algorithm}");
        }
    }
}

#[test]
fn no_algorithm_exceeds_its_promise_whatever_the_traffic() {
    let algorithms = [one_of_each(), approximations()].concat();
    for text in ["1/1ms", "10/1s", "60/1m", "100000/1d"] {
        for shape in Shape::ALL {
            let traffic = Traffic::around(limit(text), shape, if text == "100000/1d" { 3 } else { 20 }, 1_500, 0.8, 4);
            let trialled = trial::run(&traffic, limit(text), &algorithms).unwrap();
            for tried in &trialled.algorithms {
                assert!(tried.worst_window_units <= tried.promised_window_units, "{text} {shape} {tried:?}");
                let exact = tried.promised_window_units == trialled.max;
                assert!(!exact || tried.by_own_history.admitted == 0, "{text} {shape} {tried:?}");
            }
            let log = &trialled.algorithms[0];
            assert_eq!((log.beside_log.share(), log.by_own_history.share()), (0.0, 0.0), "{text} {shape}");
        }
    }
}

#[test]
fn adversaries_bring_the_counter_and_fixed_windows_to_their_bounds() {
    let traffic = Traffic::around(limit("50/1m"), Shape::Adversarial, 20, 10_000, 1.0, 1);
    let trialled = trial::run(&traffic, limit("50/1m"), &one_of_each()).unwrap();
    let worst = |name: &str| {
        let tried = trialled.algorithms.iter().find(|tried| tried.algorithm == name).unwrap();
        tried.worst_window_units
    };
    assert_eq!(["sliding_log", "sliding_counter", "fixed_window"].map(worst), [50, 100, 100]);
}

#[test]
fn figures_are_the_same_every_time_memory_included() {
    let traffic = Traffic::around(limit("5/1s"), Shape::Bursty, 200, 2_000, 0.5, 9);
    let once = trial::run(&traffic, limit("5/1s"), &one_of_each()).unwrap();
    assert_eq!(once, trial::run(&traffic, limit("5/1s"), &one_of_each()).unwrap());
    let other = trial::run(&Traffic { seed: 10, ..traffic }, limit("5/1s"), &one_of_each()).unwrap();
    assert_ne!(once.algorithms, other.algorithms);
}

#[test]
fn counters_take_a_slot_and_a_log_grows_with_the_limit() {
    let bytes = |text: &str| {
        let trialled = Trial::new(limit(text), &[Algorithm::SlidingCounter]).finish("nothing");
        [0, 1].map(|place: usize| trialled.algorithms[place].bytes_per_full_key)
    };
    let ([small, counter], [large, _]) = (bytes("10/1m"), bytes("1000/1m"));
    assert_eq!(counter, 32);
    assert!(small > 96 && small < 600, "{small}");
    assert!(large > 2_000 && large < 6_000, "{large}");
}

#[test]
fn a_given_trace_may_go_back_and_have_any_cost() {
    let mut trial = Trial::new(limit("5/1s"), &one_of_each());
    let key = Key::new("a").unwrap();
    for (time, cost) in [(9_000_000, 3), (8_500_000, 2), (1_000_000, 1), (9_100_000, 6), (20_000_000, 5)] {
        trial.request(Timestamp::from_micros(time), &key, Cost::new(cost).unwrap());
    }
    let trialled = trial.finish("by hand");
    assert_eq!((trialled.asked.moved, trialled.asked.clients, trialled.asked.requests), (1, 1, 5));
    assert_eq!((trialled.algorithms[0].admitted, trialled.algorithms[0].admitted_units), (3, 10));
    assert_eq!(trialled.timeline.admitted_units[0].iter().sum::<u64>(), 10);
    assert!(trialled.algorithms.iter().all(|tried| tried.worst_window_units <= tried.promised_window_units));
}
