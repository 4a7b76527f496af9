//! The findings of a replay are consistent: sums agree, and the curve agrees with the engine for every limit.

use std::{fmt::Write as _, fs, sync::Arc, time::Duration};

use proptest::prelude::*;
use tidegate::{Algorithm, Limit, Policy};
use tidegate_replay::{
    findings::{Curve, Findings},
    logs::{LogReader, LogSource, ReadOptions},
    replay::{self, Candidate, DecisionLog, ReplayOptions},
};

/// Requests: microseconds since the one before, client, cost.
type Trace = Vec<(i64, u8, u64)>;

fn replayed(trace: &Trace, policies: Vec<Policy>) -> Findings {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.csv");
    let mut text = String::from("time_us,key,cost\n");
    let mut now = 1_700_000_000_000_000_i64;
    for (gap, client, cost) in trace {
        now += gap;
        writeln!(text, "{now},client {client},{cost}").unwrap();
    }
    fs::write(&path, text).unwrap();
    let candidates = policies.into_iter().map(|policy| Candidate { name: "a policy".to_owned(), policy }).collect();
    let options =
        ReplayOptions { candidates, windows: vec![Duration::from_secs(1)], top: 100, ..ReplayOptions::default() };
    let read_options = ReadOptions { sources: vec![LogSource::File(path)], ..ReadOptions::default() };
    let reader = LogReader::open(read_options, Arc::default()).unwrap();
    replay::run(options, reader, None::<DecisionLog<Vec<u8>>>, || {}).unwrap()
}

fn trace() -> impl Strategy<Value = Trace> {
    let gap = prop_oneof![6 => 0..300_000_i64, 1 => 900_000..3_000_000_i64, 1 => -400_000..0_i64, 2 => prop::sample::select(vec![0, 250_000, 500_000, 1_000_000])];
    prop::collection::vec((gap, 0..5_u8, prop_oneof![3 => Just(1_u64), 1 => 1..4_u64]), 1..150)
}

fn policy(max: u64, algorithm: Algorithm) -> Policy {
    Policy::unnamed([Limit::new(max, Duration::from_secs(1)).unwrap()]).unwrap().with_algorithm(algorithm)
}

/// Returns the number of clients that a limit affects by the curve.
fn affected(curve: &Curve, max: u64, clients: u64) -> u64 {
    curve.points.iter().rfind(|point| point.max <= max).map_or(clients, |point| point.touched)
}

proptest! {
    /// One pass gives the clients that `sliding_log` denies for every limit.
    #[test]
    fn curve_and_suggestions_agree_with_sliding_log_for_every_limit(trace in trace(), max in 4..25_u64) {
        let found = replayed(&trace, vec![policy(max, Algorithm::SlidingLog)]);
        let curve = &found.curves[0];
        prop_assert_eq!(affected(curve, max, found.clients), found.policies[0].clients_denied);
        prop_assert_eq!(curve.points.last().map(|point| point.touched), Some(0));
        for suggestion in &curve.suggestions {
            let other = replayed(&trace, vec![policy(suggestion.max, Algorithm::SlidingLog)]);
            // A request that costs more than the limit is denied, and is in the peak.
            prop_assert_eq!(other.policies[0].clients_denied, suggestion.touched, "{}", suggestion.at);
            prop_assert_eq!(other.policies[0].denied, suggestion.denied, "{}", suggestion.at);
            prop_assert!(!suggestion.is_minimum);
        }
        prop_assert!(curve.suggestions.is_sorted_by_key(|suggestion| suggestion.touched), "few clients first");
    }

    /// Every total is the sum of its parts.
    #[test]
    fn totals_are_the_sums_of_their_parts(trace in trace(), max in 1..8_u64) {
        let algorithms = [Algorithm::SlidingLog, Algorithm::SlidingCounter, Algorithm::FixedWindow, Algorithm::Gcra(None)];
        let found = replayed(&trace, algorithms.map(|algorithm| policy(max, algorithm)).to_vec());
        prop_assert_eq!(found.input.requests, trace.len() as u64);
        prop_assert_eq!(found.input.units, trace.iter().map(|(_, _, cost)| cost).sum::<u64>());
        prop_assert_eq!(found.timeline.requests.iter().sum::<u64>(), found.input.requests);
        for (policy, denied) in found.policies.iter().zip(&found.timeline.denied) {
            prop_assert_eq!(policy.allowed + policy.denied, found.input.requests);
            prop_assert_eq!(denied.iter().sum::<u64>(), policy.denied);
            prop_assert_eq!(policy.limits[0].bound, policy.denied);
            prop_assert_eq!(policy.retry_after.count, policy.denied - policy.impossible);
            prop_assert_eq!(policy.retry_after.steps.iter().map(|step| step.count).sum::<u64>(), policy.retry_after.count);
            prop_assert_eq!(policy.hardest_hit.len() as u64, policy.clients_denied);
            prop_assert_eq!(policy.hardest_hit.iter().map(|client| client.denied).sum::<u64>(), policy.denied);
            prop_assert!(policy.hardest_hit.is_sorted_by(|a, b| a.denied >= b.denied));
            for client in &policy.hardest_hit {
                let number = client.key.trim_start_matches("client ").parse::<u8>().unwrap();
                let own = || trace.iter().filter(|request| request.1 == number);
                prop_assert_eq!(client.requests, own().count() as u64);
                let history = client.history.as_ref().expect("a history of each of a few clients");
                let requested = history.requested.iter().sum::<u64>() + history.earlier;
                prop_assert_eq!(requested, own().map(|request| request.2).sum::<u64>());
                prop_assert!(history.peak.iter().max() <= Some(&client.peaks[0]));
                prop_assert!(history.denied.iter().zip(&history.requested).all(|(denied, requested)| denied <= requested));
            }
        }
    }
}

#[test]
fn suggestions_are_at_their_positions() {
    // A hundred clients request up to 40 at once, and one requests 500.
    let mut trace: Trace = (0..100_u64)
        .flat_map(|i| vec![(0, u8::try_from(i).unwrap(), 1); usize::try_from(1 + i % 40).unwrap()])
        .collect();
    trace.extend(vec![(0, 200, 1); 500]);
    let found = replayed(&trace, vec![]);
    let curve = &found.curves[0];
    let at = |name: &str| {
        curve.suggestions.iter().find(|suggestion| suggestion.at == name).map(|found| (found.max, found.touched))
    };
    assert_eq!(found.clients, 101);
    assert_eq!(at("p99"), Some((40, 1)), "one of 101 is less than a hundredth");
    assert_eq!(at("p99.9"), Some((500, 0)));
    assert_eq!(at("gap"), Some((40, 1)), "only the client with 500 requests is above it");
    let (knee, _) = at("knee").expect("there is one");
    assert!((20..=40).contains(&knee), "the curve falls until 40 and is flat from there: {knee}");
}
