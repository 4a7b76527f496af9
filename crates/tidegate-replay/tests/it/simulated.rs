//! Pages of real results: small simulations, and replays of simulated logs.

use std::{
    sync::{Arc, LazyLock},
    time::Duration,
};

use tidegate::{Algorithm, Cost, Key, Limit, Policy, Timestamp};
use tidegate_replay::{
    findings::Findings,
    logs::{LogReader, LogSource, ReadOptions},
    page,
    replay::{self, Candidate, DecisionLog, ReplayOptions},
    simulate::{
        accuracy, approximations, boundary,
        evaluation::{self, Evaluation},
        one_of_each,
        traffic::{Traffic, TrafficShape, access_log},
    },
};

/// Pages and their names, made once.
type Pages = LazyLock<Vec<(String, String)>>;

fn limit(text: &str) -> Limit {
    text.parse().unwrap()
}

fn all_algorithms() -> Vec<Algorithm> {
    let more = ["sliding_buckets:2", "sliding_buckets:60", "gcra:3"].map(|text| text.parse().unwrap());
    [one_of_each(), more.to_vec()].concat()
}

/// Both scenarios, for usual, small and large limits.
pub(crate) static BOUNDARIES: Pages = LazyLock::new(|| {
    let cases: [(&str, &str, Vec<Algorithm>); 6] = [
        ("boundary", "100/1m", one_of_each()),
        ("boundary_small", "1/1ms", one_of_each()),
        ("boundary_large", "1000000000000/366d", one_of_each()),
        ("boundary_all", "1500/1d", all_algorithms()),
        ("boundary_of_one", "10/1s", vec![Algorithm::SlidingLog]),
        ("boundary_of_none", "10/1s", Vec::new()),
    ];
    let page = |(name, text, algorithms): (&str, &str, Vec<Algorithm>)| {
        (name.to_owned(), page::boundary(&boundary::run(limit(text), &algorithms)))
    };
    cases.into_iter().map(page).collect()
});

/// Several shapes, one algorithm, an empty trace with a usual one, no trace at all.
pub(crate) static ACCURACIES: Pages = LazyLock::new(|| {
    let run = |text: &str, algorithms: Vec<Algorithm>, shapes: &[TrafficShape]| {
        let options = accuracy::Options::new(limit(text));
        let options =
            accuracy::Options { algorithms, shapes: shapes.to_vec(), clients: 40, requests: 3_000, ..options };
        accuracy::run(&options).unwrap()
    };
    let usual = accuracy::Options::new(limit("20/1s")).shapes;
    let mut with_an_empty_log = run("20/1s", all_algorithms(), &[TrafficShape::Poisson]);
    with_an_empty_log
        .traces
        .push(Evaluation::new(limit("20/1s"), &all_algorithms()).finish("/var/log/nginx/access.log.1.gz"));
    [
        ("accuracy", run("20/1s", approximations(), &usual)),
        ("accuracy_small", run("1/1ms", approximations(), &TrafficShape::ALL)),
        ("accuracy_large", run("1000000000000/366d", approximations(), &[TrafficShape::Adversarial])),
        ("accuracy_of_one", run("20/1s", vec![Algorithm::SlidingLog], &[TrafficShape::Bursty])),
        ("accuracy_of_a_log", with_an_empty_log),
        ("accuracy_of_nothing", run("20/1s", approximations(), &[])),
    ]
    .map(|(name, found)| (name.to_owned(), page::accuracy(&found)))
    .to_vec()
});

/// Usual, small and large limits, more algorithms than one plot holds, one, one request and none.
pub(crate) static COMPARISONS: Pages = LazyLock::new(|| {
    let run = |text: &str, shape: TrafficShape, algorithms: Vec<Algorithm>| {
        let traffic = Traffic::for_limit(limit(text), shape, 40, 3_000, 0.25, 1).unwrap();
        evaluation::run(&traffic, limit(text), &algorithms).unwrap()
    };
    let mut one_request = Evaluation::new(limit("100/1m"), &one_of_each());
    one_request.decide(Timestamp::from_micros(1_767_603_600_000_000), &Key::new("alice").unwrap(), Cost::ONE);
    [
        ("comparison", run("20/1m", TrafficShape::Bursty, one_of_each())),
        ("comparison_small", run("1/1ms", TrafficShape::Adversarial, one_of_each())),
        ("comparison_large", run("1000000000000/366d", TrafficShape::Bursty, one_of_each())),
        ("comparison_all", run("100/1h", TrafficShape::Diurnal, all_algorithms())),
        ("comparison_of_one", run("20/1m", TrafficShape::Bursty, vec![Algorithm::SlidingLog])),
        ("comparison_of_one_request", one_request.finish("by hand")),
        ("comparison_of_nothing", Evaluation::new(limit("100/1m"), &one_of_each()).finish("empty.csv")),
    ]
    .map(|(name, found)| (name.to_owned(), page::comparison(&found)))
    .to_vec()
});

/// Replays of simulated logs: an hour of a site, one request, and none.
pub(crate) static REPLAYS: Pages = LazyLock::new(|| {
    let policies = ["60/1m", "100/1m", "20/10s"];
    [
        ("replay", replayed(usize::MAX, &policies, 10)),
        ("replay_without_policies", replayed(usize::MAX, &[], 10)),
        ("replay_of_close_limits", replayed(usize::MAX, &["60/1m", "70/1m", "75/1m", "80/1m", "33/1m"], 10)),
        ("replay_of_few", replayed(40, &policies[..1], 10)),
        ("replay_of_one_request", replayed(1, &policies[..1], 10)),
        ("replay_of_nothing", replayed(0, &policies[..1], 10)),
    ]
    .into_iter()
    .chain([("requests_at_once", at_once(4, 6_000)), ("requests_never_at_once", at_once(1, 1))])
    .map(|(name, found)| (name.to_owned(), page::replay(&found)))
    .collect()
});

/// Simulated traffic under two limits on requests at once.
fn at_once(max: u64, requests: u64) -> Findings {
    let candidate = |max: u64| {
        let limit = Limit::in_flight(max).unwrap();
        Candidate { name: limit.to_string(), policy: Policy::unnamed([limit]).unwrap() }
    };
    let options =
        ReplayOptions { candidates: vec![candidate(max), candidate(2 * max)], top: 10, ..ReplayOptions::default() };
    let amount = (if requests == 1 { 1 } else { 40 }, requests, if requests == 1 { 0.001 } else { 0.25 });
    let mean = Duration::from_millis(200);
    let traffic = Traffic::for_requests_at_once(max, mean, TrafficShape::Poisson, amount, 1).unwrap();
    replay::run_traffic(options, &traffic).unwrap()
}

fn replayed(requests: usize, policies: &[&str], top: usize) -> Findings {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("access.log");
    let traffic = Traffic { clients: 200, ..Traffic::default() };
    let mut log = Vec::new();
    access_log::write(&traffic, traffic.requests().unwrap().take(requests), &mut log).unwrap();
    std::fs::write(&path, log).unwrap();

    let candidate = |text: &&str| Candidate {
        name: format!("{text} sliding_log"),
        policy: Policy::unnamed([limit(text)]).unwrap(),
    };
    let candidates = policies.iter().map(candidate).collect();
    let options = ReplayOptions { candidates, windows: vec![Duration::from_secs(60)], top, ..ReplayOptions::default() };
    let read_options = ReadOptions { sources: vec![LogSource::File(path)], ..ReadOptions::default() };
    let reader = LogReader::open(read_options, Arc::default()).unwrap();
    let mut findings = replay::run(options, reader, None::<DecisionLog<Vec<u8>>>, || {}).unwrap();
    findings.input.files = vec!["access.log".to_owned()];
    findings
}
