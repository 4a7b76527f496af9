//! Negative hits.

use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_response::Code::{Ok as Fine, OverLimit};

use super::{Asked, back, code, codes, hits, of_user, user};

#[test]
fn units_are_given_back_and_never_more_than_are_in_use() {
    let algorithms = ["sliding_log", "sliding_buckets:10", "gcra"];
    for algorithm in algorithms {
        let mut asked = Asked::start(&of_user("[\"5/1d\"]", &format!("algorithm = \"{algorithm}\"")));
        let untouched = asked.one(back(3, user("a")));
        assert_eq!((code(&untouched), untouched.limit_remaining), (Fine, 5), "{algorithm}");
        asked.one(hits(3, user("a")));
        let given = asked.one(back(2, user("a")));
        assert_eq!((code(&given), given.limit_remaining), (Fine, 4), "{algorithm}");
        assert!(given.current_limit.is_some(), "{algorithm}");
        let all = asked.one(back(u64::MAX, user("a")));
        assert_eq!((code(&all), all.limit_remaining), (Fine, 5), "{algorithm}");
    }
}

#[test]
fn the_oldest_units_are_given_back_first() {
    let mut asked = Asked::start(&of_user("[\"9/1d\"]", ""));
    let mut charged = Vec::new();
    for units in [2, 3, 4] {
        asked.one(hits(units, user("a")));
        charged.push(asked.inspect("user", &["user", "a"]).expect("it was charged").newest_charge);
    }
    asked.one(back(4, user("a")));
    let found = asked.inspect("user", &["user", "a"]).expect("there is more");
    let left: Vec<_> = found.limits[0].entries.iter().map(|entry| (entry.first, entry.units)).collect();
    assert_eq!(left, [(charged[1], 1), (charged[2], 4)]);
}

#[test]
fn it_is_the_same_with_redis() {
    let redis = tidegate_testbed::Server::start();
    let store = format!("[store]\nurl = \"{}\"\ntimeout = \"10s\"\n", redis.url());
    let mut asked = Asked::start(&(store + &of_user("[\"90/1d\"]", "on_store_failure = \"closed\"")));
    for _ in 0..80 {
        assert_eq!(code(&asked.one(user("a"))), Fine);
    }
    let newest = asked.inspect("user", &["user", "a"]).expect("it was charged").newest_charge;
    assert_eq!(asked.one(back(79, user("a"))).limit_remaining, 89);
    let found = asked.inspect("user", &["user", "a"]).expect("there is more");
    let left: Vec<_> = found.limits[0].entries.iter().map(|entry| (entry.first, entry.units)).collect();
    assert_eq!(left, [(newest, 1)]);
    assert_eq!(codes(&asked.ask(&[hits(0, user("a")), hits(0, user("b")), hits(89, user("a"))])), [Fine; 3]);
    assert_eq!(codes(&asked.ask(&[hits(0, user("a")), hits(0, user("b")), user("c")])), [OverLimit, Fine, Fine]);
    assert_eq!(asked.inspect("user", &["user", "c"]), None);
}

#[test]
fn every_limit_of_a_policy_has_so_many_less_in_use() {
    let mut asked = Asked::start(&of_user("[\"5/1h\", \"20/1d\"]", ""));
    asked.one(hits(2, user("a")));
    asked.one(hits(2, user("a")));
    asked.one(back(3, user("a")));
    assert_eq!(asked.used("user", &["user", "a"]), [1, 1]);
}

#[test]
fn giving_back_to_who_is_over_the_limit_is_fine() {
    let mut asked = Asked::start(&of_user("[\"2/1h\"]", ""));
    asked.one(hits(2, user("a")));
    let answer = asked.ask(&[user("a"), back(1, user("a"))]);
    assert_eq!(codes(&answer), [OverLimit, Fine], "what comes back does not help the request it comes with");
    assert_eq!(answer.statuses[1].limit_remaining, 1);
    assert_eq!(code(&asked.one(user("a"))), Fine);
}

#[test]
fn more_moments_than_are_listed_are_given_back_without_a_flaw() {
    let mut asked = Asked::start(&of_user("[\"1500/1d\"]", ""));
    for _ in 0..1_200 {
        asked.one(user("a"));
    }
    assert_eq!(asked.one(back(900, user("a"))).limit_remaining, 1_200);
    assert_eq!(asked.one(back(900, user("a"))).limit_remaining, 1_500);
}

#[test]
fn no_negative_hits_only_look() {
    let mut asked = Asked::start(&of_user("[\"2/1h\"]", ""));
    asked.one(user("a"));
    assert_eq!(asked.one(back(0, user("a"))).limit_remaining, 1);
}
