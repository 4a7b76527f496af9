//! Refunds by negative hits.

use super::{
    GrpcClient, code, codes, hits,
    proto::{Fine, OverLimit},
    refund, user, user_policy,
};

#[test]
fn a_refund_never_exceeds_the_units_in_use() {
    let algorithms = ["sliding_log", "sliding_buckets:10", "gcra"];
    for algorithm in algorithms {
        let client = GrpcClient::start(&user_policy("[\"5/1d\"]", &format!("algorithm = \"{algorithm}\"")));
        let untouched = client.check_one(refund(3, user("a")));
        assert_eq!((code(&untouched), untouched.limit_remaining), (Fine, 5), "{algorithm}");
        client.check_one(hits(3, user("a")));
        let refunded = client.check_one(refund(2, user("a")));
        assert_eq!((code(&refunded), refunded.limit_remaining), (Fine, 4), "{algorithm}");
        assert!(refunded.current_limit.is_some(), "{algorithm}");
        let all = client.check_one(refund(u64::MAX, user("a")));
        assert_eq!((code(&all), all.limit_remaining), (Fine, 5), "{algorithm}");
    }
}

#[test]
fn the_oldest_units_are_refunded_first() {
    let client = GrpcClient::start(&user_policy("[\"9/1d\"]", ""));
    let mut charged = Vec::new();
    for units in [2, 3, 4] {
        client.check_one(hits(units, user("a")));
        charged.push(client.inspect("user", &["user", "a"]).expect("the key was charged").newest_charge);
    }
    client.check_one(refund(4, user("a")));
    let found = client.inspect("user", &["user", "a"]).expect("units are left");
    let left: Vec<_> = found.limits[0].entries.iter().map(|entry| (entry.first, entry.units)).collect();
    assert_eq!(left, [(charged[1], 1), (charged[2], 4)]);
}

#[test]
fn redis_refunds_like_memory() {
    let redis = tidegate_testbed::Server::start();
    let store = format!("[store]\nurl = \"{}\"\ntimeout = \"10s\"\n", redis.url());
    let client = GrpcClient::start(&(store + &user_policy("[\"90/1d\"]", "on_store_failure = \"closed\"")));
    for _ in 0..80 {
        assert_eq!(code(&client.check_one(user("a"))), Fine);
    }
    let newest = client.inspect("user", &["user", "a"]).expect("the key was charged").newest_charge;
    assert_eq!(client.check_one(refund(79, user("a"))).limit_remaining, 89);
    let found = client.inspect("user", &["user", "a"]).expect("units are left");
    let left: Vec<_> = found.limits[0].entries.iter().map(|entry| (entry.first, entry.units)).collect();
    assert_eq!(left, [(newest, 1)]);
    assert_eq!(codes(&client.check(&[hits(0, user("a")), hits(0, user("b")), hits(89, user("a"))])), [Fine; 3]);
    assert_eq!(codes(&client.check(&[hits(0, user("a")), hits(0, user("b")), user("c")])), [OverLimit, Fine, Fine]);
    assert_eq!(client.inspect("user", &["user", "c"]), None);
}

#[test]
fn a_refund_applies_to_every_limit_of_a_policy() {
    let client = GrpcClient::start(&user_policy("[\"5/1h\", \"20/1d\"]", ""));
    client.check_one(hits(2, user("a")));
    client.check_one(hits(2, user("a")));
    client.check_one(refund(3, user("a")));
    assert_eq!(client.used("user", &["user", "a"]), [1, 1]);
}

#[test]
fn a_refund_to_a_key_over_its_limit_is_ok() {
    let client = GrpcClient::start(&user_policy("[\"2/1h\"]", ""));
    client.check_one(hits(2, user("a")));
    let response = client.check(&[user("a"), refund(1, user("a"))]);
    assert_eq!(codes(&response), [OverLimit, Fine], "a refund does not help its own request");
    assert_eq!(response.statuses[1].limit_remaining, 1);
    assert_eq!(code(&client.check_one(user("a"))), Fine);
}

#[test]
fn refunds_work_beyond_the_charges_that_a_log_lists() {
    let client = GrpcClient::start(&user_policy("[\"1500/1d\"]", ""));
    for _ in 0..1_200 {
        client.check_one(user("a"));
    }
    assert_eq!(client.check_one(refund(900, user("a"))).limit_remaining, 1_200);
    assert_eq!(client.check_one(refund(900, user("a"))).limit_remaining, 1_500);
}

#[test]
fn zero_negative_hits_check_without_refunding() {
    let client = GrpcClient::start(&user_policy("[\"2/1h\"]", ""));
    client.check_one(user("a"));
    assert_eq!(client.check_one(refund(0, user("a"))).limit_remaining, 1);
}
