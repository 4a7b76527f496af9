//! Many processes spend from one key, and no window exceeds the limit.

use std::{
    process::{Command, Stdio},
    time::Duration,
};

use tidegate::{Algorithm, Buckets, Cost, Key, Policy, Store as _};
use tidegate_redis::RedisStore;
use tidegate_testbed::Server;

const PROCESSES: usize = 4;
const TASKS: usize = 16;
const LIMIT: u64 = 150;
const WINDOW_US: u64 = 200_000;

fn policy(algorithm: Algorithm) -> Policy {
    let limits = [format!("{LIMIT}/200ms").parse().expect("a limit"), "100000/1h".parse().expect("a limit")];
    Policy::new("shared", limits).expect("a policy").with_algorithm(algorithm)
}

fn algorithm(name: &str) -> Algorithm {
    match name {
        "sliding_log" => Algorithm::SlidingLog,
        _ => Algorithm::SlidingBuckets(Buckets::new(10).expect("in range")),
    }
}

/// One of the processes. The test below starts it.
#[test]
#[ignore = "a process of the test below"]
fn worker() {
    let Ok(url) = std::env::var("TIDEGATE_TEST_URL") else { return };
    let policy = policy(algorithm(&std::env::var("TIDEGATE_TEST_ALGORITHM").expect("an algorithm")));
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let store = RedisStore::builder(&url).timeout(Duration::from_secs(10)).connect().expect("a store");
        store.ready().await;
        let task = |number: u64| {
            let (store, policy) = (store.clone(), policy.clone());
            tokio::spawn(async move {
                let key = Key::new("everybody").expect("a key");
                let mut admitted = Vec::new();
                let mut first = None;
                loop {
                    let cost = Cost::new(1 + number % 3).expect("in range");
                    let decision = store.check(&policy, &key, cost).await.expect("a decision");
                    assert!(!decision.is_degraded(), "{decision:?}");
                    if let Some(at) = decision.charged_at() {
                        admitted.push((at.as_micros(), cost.get()));
                        // Until several windows have passed on the server's clock.
                        if at.as_micros() - *first.get_or_insert(at.as_micros()) > 6 * WINDOW_US {
                            return admitted;
                        }
                    } else if let Some(wait) = decision.retry_after() {
                        tokio::time::sleep(wait / 2).await;
                    }
                }
            })
        };
        let tasks: Vec<_> = (0..TASKS as u64).map(task).collect();
        for task in tasks {
            for (at, cost) in task.await.expect("a task ends") {
                println!("charged {at} {cost}");
            }
        }
    });
}

fn run(name: &str) {
    let server = Server::start();
    let worker = || {
        Command::new(std::env::current_exe().expect("this binary"))
            .args(["processes::worker", "--exact", "--ignored", "--nocapture"])
            .env("TIDEGATE_TEST_URL", server.url())
            .env("TIDEGATE_TEST_ALGORITHM", name)
            .stdout(Stdio::piped())
            .spawn()
            .expect("a process")
    };
    let workers: Vec<_> = (0..PROCESSES).map(|_| worker()).collect();
    let mut charges = Vec::new();
    for worker in workers {
        let output = worker.wait_with_output().expect("it ends");
        assert!(output.status.success());
        let text = String::from_utf8(output.stdout).expect("text");
        // The harness writes the test's name on the line of the first one.
        let output =
            text.lines().filter_map(|line| line.split_once("charged ")).filter_map(|(_, rest)| rest.split_once(' '));
        charges.extend(output.map(|(at, cost)| {
            let number = |text: &str| text.parse::<u64>().expect("a number");
            (number(at), number(cost))
        }));
    }
    charges.sort_unstable();
    let (mut oldest, mut in_window, mut fullest) = (0, 0, 0);
    for (at, cost) in &charges {
        in_window += cost;
        while charges[oldest].0 + WINDOW_US <= *at {
            in_window -= charges[oldest].1;
            oldest += 1;
        }
        fullest = fullest.max(in_window);
        assert!(in_window <= LIMIT, "{in_window} in the window that ends at {at}");
    }
    let spent: u64 = charges.iter().map(|charge| charge.1).sum();
    println!("{name}: {spent} units in {} requests, at most {fullest} of {LIMIT} in a window", charges.len());
    assert!(spent > 3 * LIMIT && fullest > LIMIT * 9 / 10, "the limit was never put to the test: {spent}, {fullest}");
}

#[test]
fn no_window_of_a_log_exceeds_the_limit_across_processes() {
    run("sliding_log");
}

#[test]
fn no_window_of_buckets_exceeds_the_limit_across_processes() {
    run("sliding_buckets");
}
