//! Clients that wait as they are told.

use std::{fmt::Write as _, fs, sync::Arc};

use proptest::prelude::*;
use tidegate::{Algorithm, Policy};
use tidegate_replay::{
    findings::{Findings, ObeyFindings},
    logs::{LogReader, LogSource, ReadOptions},
    replay::{self, Candidate, DecisionLog, ReplayOptions},
};

const SECOND: u64 = 1_000_000;

/// Requests: time, client, cost.
fn replayed(requests: &[(u64, u8, u64)], policy: Policy) -> Findings {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.csv");
    let mut text = String::from("time_us,key,cost\n");
    for (time, client, cost) in requests {
        writeln!(text, "{time},client {client},{cost}").unwrap();
    }
    fs::write(&path, text).unwrap();
    let candidates = vec![Candidate { name: "a policy".to_owned(), policy }];
    let options = ReplayOptions { candidates, obey: true, ..ReplayOptions::default() };
    let read_options = ReadOptions { sources: vec![LogSource::File(path)], ..ReadOptions::default() };
    let reader = LogReader::open(read_options, Arc::default()).unwrap();
    replay::run(options, reader, None::<DecisionLog<Vec<u8>>>, || {}).unwrap()
}

fn policy(limit: &str) -> Policy {
    Policy::unnamed([limit.parse().unwrap()]).unwrap()
}

fn obeyed(requests: &[(u64, u8, u64)], limit: &str) -> ObeyFindings {
    replayed(requests, policy(limit)).policies.remove(0).obey.expect("it is wanted")
}

#[test]
fn a_client_waits_and_its_later_requests_wait_behind() {
    // Two in ten seconds. The third request waits until 10 s, and the fourth one behind it until 11 s.
    let found = obeyed(&[(0, 1, 1), (SECOND, 1, 1), (2 * SECOND, 1, 1), (3 * SECOND, 1, 1)], "2/10s");
    assert_eq!((found.delayed, found.served, found.denials), (2, 4, 2));
    assert_eq!((found.waits.p50_s, found.waits.max_s), (8, 8));
    assert_eq!((found.waiting_at_end, found.clients_waiting_at_end, found.longest_queue), (2, 1, 2));
    assert_eq!(found.last_served_after_us, 8 * SECOND);
    assert_eq!(found.client_of_longest_queue.as_deref(), Some("client 1"));
}

#[test]
fn a_client_that_always_requests_too_much_has_a_growing_queue_up_to_a_bound() {
    // Two requests a second under a limit of one.
    let requests: Vec<(u64, u8, u64)> = (0..30_000).map(|i| (i * SECOND / 2, 1, 1)).collect();
    let found = obeyed(&requests, "1/1s");
    assert_eq!(found.longest_queue, 10_000);
    assert!(found.given_up > 4_000 && found.clients_given_up == 1, "{found:?}");
    assert_eq!(found.served + found.given_up, 30_000);
    assert!(found.last_served_after_us > 9_000 * SECOND, "the queue empties long after the end");
}

#[test]
fn an_impossible_request_is_not_sent_again() {
    let found = obeyed(&[(0, 1, 5), (SECOND, 1, 1)], "2/10s");
    assert_eq!((found.impossible, found.served, found.delayed), (1, 1, 0));
}

proptest! {
    /// Every request is served in the end. A policy that denies nothing delays nothing.
    #[test]
    fn all_possible_requests_are_served_in_the_end(
        gaps in prop::collection::vec((0..3 * SECOND, 0..4_u8, 1..3_u64), 1..120),
        max in 2..6_u64,
        algorithm in prop::sample::select(vec![Algorithm::SlidingLog, Algorithm::SlidingCounter, Algorithm::FixedWindow, Algorithm::Gcra(None)]),
    ) {
        let mut now = 1_700_000_000 * SECOND;
        let requests: Vec<(u64, u8, u64)> = gaps.iter().map(|(gap, client, cost)| { now += gap; (now, *client, *cost) }).collect();
        let found = replayed(&requests, policy(&format!("{max}/5s")).with_algorithm(algorithm));
        let (denied, found) = (found.policies[0].denied, found.policies[0].obey.as_ref().expect("it is wanted"));
        prop_assert_eq!(found.served, requests.len() as u64);
        prop_assert_eq!(denied == 0, found.delayed == 0);
        prop_assert_eq!(denied == 0, found.denials == 0);
        prop_assert!(found.denials <= 2 * found.delayed, "a client that waits is admitted");
        prop_assert!(found.clients_delayed <= 4 && found.waiting_at_end <= found.delayed);
    }
}
