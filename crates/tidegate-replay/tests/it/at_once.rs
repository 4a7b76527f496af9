//! Limits on requests at once: one pass gives what the engine denies under every limit.

use std::{fmt::Write as _, fs, sync::Arc, time::Duration};

use proptest::prelude::*;
use tidegate::{Limit, Policy};
use tidegate_replay::{
    findings::{AtOnceFindings, Findings},
    logs::{DurationSource, LogReader, LogSource, ReadOptions},
    replay::{self, Candidate, DecisionLog, ReplayOptions},
    simulate::traffic::{Traffic, TrafficShape},
};

/// Requests: microseconds since the one before, client, duration, cost.
type Trace = Vec<(i64, u8, u64, u64)>;

fn candidate(max: u64) -> Candidate {
    let limit = Limit::in_flight(max).unwrap();
    Candidate { name: limit.to_string(), policy: Policy::unnamed([limit]).unwrap() }
}

/// Replays a trace under each limit on requests at once from 1.
fn replayed(trace: &Trace, limits: u64) -> Findings {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.csv");
    let mut text = String::from("time_us,key,duration_us,cost\n");
    let mut now = 1_700_000_000_000_000_i64;
    for (gap, client, duration, cost) in trace {
        now += gap;
        writeln!(text, "{now},client {client},{duration},{cost}").unwrap();
    }
    fs::write(&path, text).unwrap();
    let options = ReplayOptions { candidates: (1..=limits).map(candidate).collect(), ..ReplayOptions::default() };
    let sources = vec![LogSource::File(path)];
    let read_options = ReadOptions { sources, duration: Some(DurationSource::default()), ..ReadOptions::default() };
    let reader = LogReader::open(read_options, Arc::default()).unwrap();
    replay::run(options, reader, None::<DecisionLog<Vec<u8>>>, || {}).unwrap()
}

fn at_once(found: &Findings) -> &AtOnceFindings {
    found.at_once.as_ref().unwrap()
}

fn trace(gap: impl Strategy<Value = i64>, cost: impl Strategy<Value = u64>) -> impl Strategy<Value = Trace> {
    let duration = prop_oneof![4 => 0..2_000_000_u64, 1 => 0..30_000_000_u64, 2 => prop::sample::select(vec![0, 999, 1_000, 100_000])];
    prop::collection::vec((gap, 0..3_u8, duration, cost), 1..120)
}

fn forwards() -> impl Strategy<Value = i64> {
    prop_oneof![6 => 0..300_000_i64, 1 => 0..3_000_000_i64, 3 => prop::sample::select(vec![0, 1_000, 100_000])]
}

/// Most lines are in order, some are late, and some clocks go far back.
fn with_late_lines() -> impl Strategy<Value = i64> {
    prop_oneof![12 => forwards(), 2 => -2_000_000..0_i64, 1 => prop::sample::select(vec![-60_000_000, -60_000_001, -90_000_000])]
}

proptest! {
    /// The engine agrees on the number of denied requests, and of affected clients, under every limit up to one that denies nothing.
    #[test]
    fn one_pass_gives_what_every_limit_denies(trace in trace(forwards(), Just(1))) {
        let found = replayed(&trace, 40);
        let limits = &at_once(&found).limits;
        for limit in limits.iter().filter(|limit| limit.max <= 40) {
            let engine = &found.policies[usize::try_from(limit.max - 1).unwrap()];
            prop_assert_eq!((limit.denied, limit.touched), (Some(engine.denied), engine.clients_denied), "{}", limit.max);
        }
        let [.., last] = &limits[..] else { panic!("no limits") };
        prop_assert_eq!((last.max, last.denied, last.touched), (at_once(&found).client_peak, Some(0), 0));
        prop_assert!(limits.iter().map(|limit| limit.max).eq(1..=last.max));
    }

    /// Whether a limit affects a client is exact whatever requests cost, and however late their lines are.
    #[test]
    fn a_limit_affects_a_client_if_and_only_if_the_peak_of_the_client_is_higher(
        trace in trace(with_late_lines(), 1..4_u64),
    ) {
        let found = replayed(&trace, 40);
        for (max, policy) in (1..).zip(&found.policies) {
            let limit = at_once(&found).limits.iter().rfind(|limit| limit.max <= max);
            let affected = limit.map_or(found.clients, |limit| limit.touched);
            prop_assert_eq!(affected, policy.clients_denied, "{}", max);
        }
    }

    /// Each suggestion is the smallest limit that denies at most its share.
    #[test]
    fn a_suggestion_is_the_smallest_limit_that_denies_at_most_its_share(trace in trace(forwards(), Just(1))) {
        let found = replayed(&trace, 0);
        let AtOnceFindings { limits, suggestions, .. } = at_once(&found);
        let shares = [("none", 0.0), ("0.1 %", 0.001), ("1 %", 0.01)];
        prop_assert!(suggestions.iter().map(|suggestion| suggestion.at.as_str()).eq(shares.map(|(at, _)| at)));
        for (suggestion, (_, share)) in suggestions.iter().zip(shares) {
            let smallest = limits.iter().find(|limit| limit.share_of_requests_denied <= Some(share));
            prop_assert_eq!(Some(&suggestion.effect), smallest);
            prop_assert_eq!(&suggestion.limit, &format!("{}/inflight", suggestion.effect.max));
        }
    }
}

#[test]
fn denials_are_unknown_if_requests_have_different_costs() {
    let found = replayed(&vec![(0, 0, 5_000_000, 3), (0, 0, 5_000_000, 2), (0, 1, 5_000_000, 1)], 0);
    let AtOnceFindings { limits, suggestions, client_peak, .. } = at_once(&found);
    assert_eq!(*client_peak, 5);
    assert!(limits.iter().all(|limit| limit.denied.is_none() && limit.share_of_requests_denied.is_none()));
    let suggested: Vec<(&str, &str)> = suggestions.iter().map(|s| (s.at.as_str(), s.limit.as_str())).collect();
    assert_eq!(suggested, [("none", "5/inflight")]);
}

/// One client whose requests arrive at random: the share of denied requests is that of Erlang's formula.
#[test]
fn simulated_requests_at_once_follow_erlangs_formula() {
    let amount = (1, 400_000, 0.5);
    let mean = Duration::from_millis(200);
    let traffic = Traffic::for_requests_at_once(8, mean, TrafficShape::Poisson, amount, 3).unwrap();
    let options = ReplayOptions { candidates: vec![candidate(8)], ..ReplayOptions::default() };
    let found = replay::run_traffic(options, &traffic).unwrap();
    // Half of eight at once on average.
    let mut blocked = 1.0_f64;
    for limit in &at_once(&found).limits[..10] {
        let n = f64::from(u32::try_from(limit.max).unwrap());
        blocked = 4.0 * blocked / (n + 4.0 * blocked);
        let share = limit.share_of_requests_denied.unwrap();
        assert!((share / blocked - 1.0).abs() < 0.06, "{} denies {share}, and by the formula {blocked}", limit.max);
    }
    assert_eq!(Some(found.policies[0].denied), at_once(&found).limits[7].denied);
}

#[test]
fn durations_change_nothing_else_in_the_traffic() {
    let plain = Traffic { clients: 20, ..Traffic::default() };
    let timed = Traffic { mean_request_us: 300_000, ..plain.clone() };
    let mut total = 0;
    for (plain, timed) in plain.requests().unwrap().zip(timed.requests().unwrap()) {
        let facts = |request: &tidegate_replay::simulate::traffic::SimulatedRequest| {
            (request.time_us, request.client, request.cost, request.kind)
        };
        assert_eq!((facts(&plain), plain.duration_us), (facts(&timed), 0));
        assert!(timed.duration_us >= 1_000);
        total += timed.duration_us;
    }
    let mean = total / u64::try_from(timed.requests().unwrap().count()).unwrap();
    assert!((280_000..320_000).contains(&mean), "{mean}");
}

#[test]
fn what_can_not_be_simulated_is_an_error() {
    let make = |max, mean| Traffic::for_requests_at_once(max, mean, TrafficShape::Bursty, (10, 1_000, 0.25), 1);
    let second = Duration::from_secs(1);
    for (made, expected) in [
        (make(0, second), "a limit of 0 requests at once can't be simulated: use 1 to 10000"),
        (make(10_001, second), "a limit of 10001 requests at once can't be simulated: use 1 to 10000"),
        (make(4, Duration::from_micros(999)), "the mean duration of requests is out of range: use 1ms to 1d"),
        (make(4, second * 86_401), "the mean duration of requests is out of range: use 1ms to 1d"),
    ] {
        assert_eq!(made.unwrap_err().to_string(), expected);
    }
    let odd = Traffic { mean_request_us: 999, ..Traffic::default() };
    assert!(odd.requests().is_err());
    assert!(make(10_000, second * 86_400).is_ok() && make(1, Duration::from_millis(1)).is_ok());
}
