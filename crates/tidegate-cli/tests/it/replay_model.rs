//! `tidegate replay --decisions` against a brute-force model: every algorithm, one to three limits, memory and Redis.

use std::{collections::BTreeMap, fmt::Write as _, fs, path::Path};

use proptest::{prelude::*, sample::select, sample::subsequence, test_runner::TestRunner};
use tidegate_testbed::{Reply, Server};

use crate::{
    model::{self, Algo, Cap, Micros, Rule, Subject, Units, Verdict},
    process::{folder, run},
};

const SECOND: Micros = 1_000_000;

/// Windows, and how limits write them.
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
    rule: Rule,
    limits: Vec<String>,
    algorithm: String,
    trace: Vec<(Micros, u8, Units)>,
}

fn algorithm() -> impl Strategy<Value = (Algo, String, Option<Units>)> {
    prop_oneof![
        Just((Algo::Log, "sliding_log".to_owned(), None)),
        Just((Algo::Counter, "sliding_counter".to_owned(), None)),
        select(vec![1, 2, 7, 10, 60]).prop_map(|n| (Algo::Buckets(n), format!("sliding_buckets:{n}"), None)),
        Just((Algo::Fixed, "fixed_window".to_owned(), None)),
        Just((Algo::Gcra, "gcra".to_owned(), None)),
        (1..=9_i128).prop_map(|burst| (Algo::Gcra, format!("gcra:{burst}"), Some(burst))),
    ]
}

/// Requests of a few clients, most of them close together, some a window apart, some logged late.
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
        |((algo, algorithm, burst), windows, maxes)| {
            let caps: Vec<Cap> = windows
                .iter()
                .zip(maxes)
                .map(|((window, _), max)| Cap { capacity: burst.unwrap_or(max), ..Cap::new(max, *window) })
                .collect();
            let limits =
                windows.iter().zip(maxes).map(|((_, window), max)| format!("{max}/{window}")).collect::<Vec<_>>();
            let shortest = windows.iter().map(|(window, _)| *window).min().unwrap_or(SECOND);
            let rule = Rule::new(algo, caps);
            trace(shortest).prop_map(move |trace| Case {
                rule: rule.clone(),
                limits: limits.clone(),
                algorithm: algorithm.clone(),
                trace,
            })
        },
    )
}

/// Returns the decisions of the model as rows.
fn expected(case: &Case) -> String {
    let mut out = String::from("time_us,key,cost,reason,remaining,retry_after_us,reset_after_us\n");
    let mut subjects: BTreeMap<u8, Subject> = BTreeMap::new();
    for (time, client, cost) in &case.trace {
        let answer = model::check(subjects.entry(*client).or_default(), &case.rule, *cost, *time);
        let reason = match answer.verdict {
            Verdict::Allowed => "allowed",
            Verdict::Limited => "limited",
            Verdict::Impossible => "impossible",
            Verdict::Shadow => "shadow",
            Verdict::Banned => "banned",
        };
        let retry = answer.retry_after.map_or(String::new(), |wait| wait.to_string());
        let (remaining, reset) = (answer.remaining, answer.reset_after);
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
    fs::write(&trace, text).expect("it can be written");
    let mut arguments = vec!["replay", trace.to_str().expect("text"), "--algorithm", &case.algorithm];
    arguments.extend(case.limits.iter().flat_map(|limit| ["--limit", limit]));
    // A candidate beside it changes nothing about its decisions.
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
fn decisions_in_redis_equal_the_model_and_leave_no_keys() {
    let redis = Server::start();
    compare(40, &["--store", &redis.url()], "model-redis");
    assert_eq!(redis.wire().command(["DBSIZE"]), Reply::Integer(0), "a replay deletes its keys");
}
