//! `tidegate replay --decisions` against a brute-force model: every algorithm, one to three limits, memory and Redis.

use std::{fmt::Write as _, fs, path::Path};

use proptest::{prelude::*, sample::select, sample::subsequence, test_runner::TestRunner};
use tidegate::Op;
use tidegate_conformance::model::{Micros, Model, ModelAlgorithm, ModelLimit, ModelPolicy, ModelRequest, Units};
use tidegate_testbed::{Reply, Server};

use crate::process::{folder, run};

const SECOND: Micros = 1_000_000;

/// Windows and their text in a limit.
const WINDOWS: [(Micros, &str); 6] = [
    (1_000, "1ms"),
    (250_000, "250ms"),
    (SECOND, "1s"),
    (90 * SECOND, "1m30s"),
    (3_600 * SECOND, "1h"),
    (86_400 * SECOND, "1d"),
];

#[derive(Debug, Clone)]
struct Case {
    policy: ModelPolicy,
    limits: Vec<String>,
    algorithm: String,
    trace: Vec<(Micros, u8, Units)>,
}

fn algorithm() -> impl Strategy<Value = (ModelAlgorithm, String, Option<Units>)> {
    prop_oneof![
        Just((ModelAlgorithm::SlidingLog, "sliding_log".to_owned(), None)),
        Just((ModelAlgorithm::SlidingCounter, "sliding_counter".to_owned(), None)),
        select(vec![1, 2, 7, 10, 60]).prop_map(|n| (
            ModelAlgorithm::SlidingBuckets(n),
            format!("sliding_buckets:{n}"),
            None
        )),
        Just((ModelAlgorithm::FixedWindow, "fixed_window".to_owned(), None)),
        Just((ModelAlgorithm::Gcra, "gcra".to_owned(), None)),
        (1..=9_i128).prop_map(|burst| (ModelAlgorithm::Gcra, format!("gcra:{burst}"), Some(burst))),
    ]
}

/// Returns requests of a few clients: most are close together, some are a window apart, some are logged late.
fn trace(longest: Micros) -> impl Strategy<Value = Vec<(Micros, u8, Units)>> {
    let gap = prop_oneof![4 => 0..=longest / 8, 2 => 0..=longest + 1, 1 => Just(0), 1 => -(longest / 2)..=0];
    let cost = prop_oneof![5 => Just(1_i128), 2 => 2..=6_i128, 1 => select(vec![13, 1_000_000_000_000])];
    prop::collection::vec((gap, 0..3_u8, cost), 1..60).prop_map(|steps| {
        let mut now = 1_700_000_000 * SECOND;
        let step = |(gap, client, cost)| {
            now += gap;
            (now, client, cost)
        };
        steps.into_iter().map(step).collect()
    })
}

fn case() -> impl Strategy<Value = Case> {
    let windows =
        prop_oneof![2 => subsequence(WINDOWS.to_vec(), 1), 1 => subsequence(WINDOWS.to_vec(), 2..=3).prop_shuffle()];
    (algorithm(), windows, [1..=12_i128, 1..=12_i128, 1..=12_i128]).prop_flat_map(
        |((model_algorithm, algorithm, burst), windows, maxes)| {
            let model_limits: Vec<ModelLimit> = windows
                .iter()
                .zip(maxes)
                .map(|((window, _), max)| ModelLimit {
                    capacity: burst.unwrap_or(max),
                    ..ModelLimit::new(max, *window)
                })
                .collect();
            let limits =
                windows.iter().zip(maxes).map(|((_, window), max)| format!("{max}/{window}")).collect::<Vec<_>>();
            let shortest = windows.iter().map(|(window, _)| *window).min().unwrap_or(SECOND);
            let policy = ModelPolicy::new(model_algorithm, model_limits);
            trace(shortest).prop_map(move |trace| Case {
                policy: policy.clone(),
                limits: limits.clone(),
                algorithm: algorithm.clone(),
                trace,
            })
        },
    )
}

/// Returns the decisions of the model as CSV.
fn expected(case: &Case) -> String {
    let mut out = String::from("time_us,key,cost,reason,remaining,retry_after_us,reset_after_us\n");
    let mut model = Model::default();
    for (time, client, cost) in &case.trace {
        let request = ModelRequest { id: (0, *client), ..ModelRequest::new(&case.policy, *cost) };
        let decision = model.decide(Op::Check, &request, *time);
        let reason = decision.reason;
        let retry = decision.retry_after.map_or(String::new(), |wait| wait.to_string());
        let (remaining, reset) = (decision.remaining, decision.reset_after);
        let _ = writeln!(out, "{time},client {client},{cost},{reason},{remaining},{retry},{reset}");
    }
    out
}

fn replayed(case: &Case, folder: &Path, store: &[&str]) -> String {
    let (trace, out) = (folder.join("trace.csv"), folder.join("decisions.csv"));
    let mut text = String::from("time_us,key,cost\n");
    for (time, client, cost) in &case.trace {
        let _ = writeln!(text, "{time},client {client},{cost}");
    }
    fs::write(&trace, text).expect("the file is written");
    let mut arguments = vec!["replay", trace.to_str().expect("text"), "--algorithm", &case.algorithm];
    arguments.extend(case.limits.iter().flat_map(|limit| ["--limit", limit]));
    // A candidate must not change the decisions.
    arguments.extend(["--candidate", "3/1s sliding_counter", "--decisions", out.to_str().expect("text")]);
    arguments.extend(store);
    let output = run(&arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    fs::read_to_string(out).expect("decisions")
}

fn compare(cases: u32, store: &[&str], name: &str) {
    let folder = folder(name);
    let mut runner = TestRunner::new(ProptestConfig { cases, ..ProptestConfig::default() });
    let done = runner.run(&case(), |case| {
        prop_assert_eq!(expected(&case), replayed(&case, &folder, store));
        Ok(())
    });
    if let Err(error) = done {
        panic!("{error}");
    }
}

#[test]
fn decisions_equal_the_model() {
    compare(150, &[], "model-memory");
}

#[test]
fn decisions_through_redis_equal_the_model_and_leave_no_keys() {
    let redis = Server::start();
    compare(40, &["--store", &redis.url()], "model-redis");
    assert_eq!(redis.wire().command(["DBSIZE"]), Reply::Integer(0), "a replay deletes its keys");
}
