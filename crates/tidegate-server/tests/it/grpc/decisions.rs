//! What is decided, and what it costs.

use envoy_types::pb::envoy::service::ratelimit::v3::{
    RateLimitRequest,
    rate_limit_response::Code::{Ok as Fine, OverLimit},
};
use tidegate_server::config::{Config, SettingSources};

use super::{Asked, code, codes, descriptor, hits, of_user, request, user};

const TWO: &str = r#"
[policies.user]
limits = ["3/1h"]
[policies.tenant]
limits = ["5/1h"]
[[envoy]]
domain = "edge"
descriptors = [["user"]]
policy = "user"
[[envoy]]
domain = "edge"
descriptors = [["tenant"]]
policy = "tenant"
[[envoy]]
domain = "edge"
descriptors = [["internal"]]
unlimited = true
[[envoy]]
domain = "edge"
descriptors = [["banned"]]
deny = true
"#;

#[test]
fn a_request_is_one_hit_unless_it_says_more() {
    let mut asked = Asked::start(&of_user("[\"10/1h\"]", ""));
    for (hits_addend, used) in [(0, 1), (1, 2), (4, 6)] {
        let status = asked.send(RateLimitRequest { hits_addend, ..request(&[user("a")]) }).expect("it is right");
        assert_eq!(status.statuses[0].limit_remaining, 10 - used);
    }
    let refused = asked.send(RateLimitRequest { hits_addend: 5, ..request(&[user("a")]) }).expect("it is right");
    assert_eq!((codes(&refused), refused.statuses[0].limit_remaining), (vec![OverLimit], 4));
}

#[test]
fn a_descriptors_own_hits_win_over_the_requests() {
    let mut asked = Asked::start(&of_user("[\"10/1h\"]", ""));
    let both = [hits(3, user("a")), user("b")];
    let answer = asked.send(RateLimitRequest { hits_addend: 2, ..request(&both) }).expect("it is right");
    let left: Vec<u32> = answer.statuses.iter().map(|status| status.limit_remaining).collect();
    assert_eq!(left, [7, 8]);
}

#[test]
fn no_hits_only_look() {
    let mut asked = Asked::start(&of_user("[\"1/1h\"]", ""));
    for _ in 0..3 {
        let looked = asked.one(hits(0, user("a")));
        assert_eq!((code(&looked), looked.limit_remaining), (Fine, 1));
    }
    assert_eq!(asked.inspect("user", &["user", "a"]), None, "looking leaves no trace");
    assert_eq!(code(&asked.one(user("a"))), Fine);
    assert_eq!(code(&asked.one(hits(0, user("a")))), OverLimit, "another hit would not fit");
}

#[test]
fn when_one_descriptor_denies_those_that_fit_are_fine_and_not_charged() {
    let mut asked = Asked::start(TWO);
    let both = [user("a"), descriptor(&[("tenant", "t")])];
    for _ in 0..3 {
        assert_eq!(codes(&asked.ask(&both)), [Fine, Fine]);
    }
    for _ in 0..4 {
        let answer = asked.ask(&both);
        assert_eq!((answer.overall_code, codes(&answer)), (OverLimit.into(), vec![OverLimit, Fine]));
        assert_eq!(answer.statuses[1].limit_remaining, 2, "the tenant was not charged");
    }
}

#[test]
fn when_one_who_looks_is_denied_nobody_is_charged() {
    let mut asked = Asked::start(TWO);
    assert_eq!(code(&asked.one(hits(3, user("a")))), Fine);
    let answer = asked.ask(&[hits(0, user("a")), descriptor(&[("tenant", "t")])]);
    assert_eq!(codes(&answer), [OverLimit, Fine]);
    assert_eq!(asked.used("tenant", &["tenant", "t"]), [0_u64; 0]);
}

#[test]
fn statuses_match_the_descriptors_in_number_and_order() {
    let mut asked = Asked::start(TWO);
    let all = [
        descriptor(&[("unknown", "x")]),
        descriptor(&[("tenant", "t")]),
        descriptor(&[("internal", "ldap")]),
        hits(0, user("a")),
        hits(2, user("a")),
    ];
    let answer = asked.ask(&all);
    assert_eq!((answer.overall_code, codes(&answer)), (Fine.into(), vec![Fine; 5]));
    let [unknown, tenant, internal, looked, spent] = &*answer.statuses else { panic!("five statuses") };
    assert_eq!((unknown.current_limit.as_ref(), unknown.limit_remaining), (None, 0), "no rule, no limit");
    assert_eq!((internal.current_limit.as_ref(), internal.limit_remaining), (None, u32::MAX), "unlimited");
    assert_eq!([tenant, looked, spent].map(|status| status.limit_remaining), [4, 3, 1]);
}

#[test]
fn what_a_rule_denies_is_over_limit_and_nobody_else_is_charged() {
    let mut asked = Asked::start(TWO);
    let answer = asked.ask(&[user("a"), descriptor(&[("banned", "203.0.113.7")])]);
    assert_eq!((answer.overall_code, codes(&answer)), (OverLimit.into(), vec![Fine, OverLimit]));
    assert_eq!(answer.statuses[1].current_limit.as_ref().map(|limit| limit.requests_per_unit), Some(0));
    assert_eq!(asked.used("user", &["user", "a"]), [0_u64; 0]);
    assert_eq!(asked.metric("tidegate_decisions_total{policy=\"(deny)\",reason=\"impossible\"} "), 1);
}

#[test]
fn the_same_descriptor_twice_is_one_check_of_both() {
    let mut asked = Asked::start(&of_user("[\"3/1h\"]", ""));
    let twice = [user("a"), user("a")];
    assert_eq!(codes(&asked.ask(&twice)), [Fine, Fine]);
    assert_eq!(codes(&asked.ask(&twice)), [OverLimit, OverLimit]);
    assert_eq!(asked.used("user", &["user", "a"]), [2]);
}

#[test]
fn a_shadowed_policy_never_denies_nor_spoils_a_decision() {
    let mut asked = Asked::start(&TWO.replacen("limits = [\"3/1h\"]", "limits = [\"1/1h\"]\nmode = \"shadow\"", 1));
    for left in [4, 3, 2] {
        let answer = asked.ask(&[user("a"), descriptor(&[("tenant", "t")])]);
        assert_eq!((answer.overall_code, codes(&answer)), (Fine.into(), vec![Fine, Fine]));
        assert_eq!(answer.statuses[1].limit_remaining, left);
    }
}

#[test]
fn more_hits_than_a_limit_ever_allows_are_over_limit() {
    let mut asked = Asked::start(&of_user("[\"3/1h\"]", ""));
    for many in [4, 1_000_000_000_000, 1_000_000_000_001, u64::MAX] {
        let status = asked.one(hits(many, user("a")));
        assert_eq!((code(&status), status.limit_remaining), (OverLimit, 3), "{many}");
    }
}

#[test]
fn a_store_that_fails_is_answered_as_the_policy_says_and_never_left_to_envoy() {
    for (choice, expected) in [("closed", OverLimit), ("open", Fine)] {
        let policy = of_user("[\"3/1h\"]", &format!("on_store_failure = \"{choice}\""));
        let mut asked = Asked::start(&format!("[store]\nurl = \"redis://127.0.0.1:1\"\n{policy}"));
        assert_eq!(code(&asked.one(user("a"))), expected, "{choice}");
        assert_eq!(codes(&asked.ask(&[user("a"), user("b")])), [expected; 2], "{choice}");
    }
}

#[test]
fn a_new_file_of_policies_decides_from_then_on() {
    let mut asked = Asked::start(&of_user("[\"1/1h\"]", ""));
    assert_eq!([code(&asked.one(user("a"))), code(&asked.one(user("a")))], [Fine, OverLimit]);
    let text = of_user("[\"5/1h\"]", "").replace("[\"user\"]", "[\"account\"]");
    let config = Config::parse("new.toml", &text, &SettingSources::default()).expect("it is right");
    asked.running.server().service().replace(config.policies);
    assert_eq!(asked.one(user("a")).current_limit, None, "the rule is gone");
    assert_eq!(asked.one(descriptor(&[("account", "a")])).limit_remaining, 4);
}
