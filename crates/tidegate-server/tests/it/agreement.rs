//! All three transports give the same decisions for the same requests, on both stores.

use serde_json::json;
use tidegate_testbed::Server;

use crate::{
    grpc::{GrpcClient, descriptor, hits},
    http::client::post,
    resp::client::{Client, Reply},
};

const ALGORITHMS: [&str; 6] = ["sliding_log", "sliding_counter", "sliding_buckets:6", "fixed_window", "gcra", "gcra:7"];

/// The numbers of a decision that every transport reports and that do not depend on the time.
#[derive(Debug, PartialEq, Eq)]
struct DecisionNumbers {
    allowed: bool,
    capacity: u64,
    remaining: u64,
}

fn config(store: &str) -> String {
    use std::fmt::Write as _;
    let mut text = format!("[store]\nurl = \"{store}\"\ntimeout = \"10s\"\n");
    for (number, algorithm) in ALGORITHMS.iter().enumerate() {
        let _ = write!(
            text,
            "[policies.p{number}]\nlimits = [\"10/366d\"]\nalgorithm = \"{algorithm}\"\non_store_failure = \"closed\"\n\
             [[envoy]]\ndomain = \"edge\"\ndescriptors = [[\"p{number}\"]]\npolicy = \"p{number}\"\n"
        );
    }
    text
}

/// Sends the same checks over all transports with separate keys, and then with a shared key.
fn agree(store: &str) {
    let service = GrpcClient::start(&config(store));
    let mut client = Client::connect(service.running.resp);
    let http = service.running.http;
    let over_http = |policy: &str, key: &[&str], cost: u64| {
        let body = post(http, "/v1/check", &json!({ "policy": policy, "key": key, "cost": cost })).json();
        assert_eq!(body["degraded"], false, "{body}");
        let number = |field: &str| body[field].as_u64().expect("a number");
        DecisionNumbers {
            allowed: body["allowed"] == true,
            capacity: number("remaining") + number("used"),
            remaining: number("remaining"),
        }
    };
    let mut over_resp = |policy: &str, key: &str, cost: u64| {
        let reply = client.call(&format!("TG.CHECK {policy} {key} COST {cost}"));
        let Reply::List(numbers) = reply else { panic!("{reply:?}") };
        let number = |at: usize| match numbers[at] {
            Reply::Int(number) => u64::try_from(number).expect("not negative"),
            ref other => panic!("{other:?}"),
        };
        DecisionNumbers { allowed: number(0) == 1, capacity: number(1), remaining: number(2) }
    };
    let over_grpc = |policy: &str, key: &str, cost: u64| {
        let status = service.check_one(hits(cost, descriptor(&[(policy, key)])));
        let limit = status.current_limit.expect("a policy matches");
        DecisionNumbers {
            allowed: status.code == 1,
            capacity: limit.requests_per_unit.into(),
            remaining: status.limit_remaining.into(),
        }
    };
    for (number, algorithm) in ALGORITHMS.iter().enumerate() {
        let policy = format!("p{number}");
        for (step, cost) in [1, 4, 11, 3, 3, 2, 1, 1].into_iter().enumerate() {
            let expected = over_http(&policy, &["own"], cost);
            assert_eq!(expected, over_resp(&policy, "own", cost), "{algorithm} step {step}");
            assert_eq!(expected, over_grpc(&policy, "own", cost), "{algorithm} step {step}");
        }
        // The key of a descriptor is the list of its names and values.
        let first = over_grpc(&policy, "alice", 2);
        let second = over_http(&policy, &[&policy, "alice"], 2);
        assert_eq!(second.remaining + 2, first.remaining, "{algorithm}");
    }
}

#[test]
fn transports_agree_in_memory() {
    agree("memory");
}

#[test]
fn transports_agree_through_redis() {
    let redis = Server::start();
    agree(&redis.url());
}
