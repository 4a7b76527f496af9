//! Decisions and their costs.

use tidegate_server::config::{Config, SettingSources};

use super::{
    GrpcClient, code, codes, descriptor, hits,
    proto::{Fine, OverLimit, RateLimitRequest},
    request, user, user_policy,
};

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
fn a_request_is_one_hit_by_default() {
    let client = GrpcClient::start(&user_policy("[\"10/1h\"]", ""));
    for (hits_addend, used) in [(0, 1), (1, 2), (4, 6)] {
        let status = client.send(RateLimitRequest { hits_addend, ..request(&[user("a")]) }).expect("a valid request");
        assert_eq!(status.statuses[0].limit_remaining, 10 - used);
    }
    let refused = client.send(RateLimitRequest { hits_addend: 5, ..request(&[user("a")]) }).expect("a valid request");
    assert_eq!((codes(&refused), refused.statuses[0].limit_remaining), (vec![OverLimit], 4));
}

#[test]
fn the_hits_of_a_descriptor_take_precedence_over_those_of_the_request() {
    let client = GrpcClient::start(&user_policy("[\"10/1h\"]", ""));
    let both = [hits(3, user("a")), user("b")];
    let response = client.send(RateLimitRequest { hits_addend: 2, ..request(&both) }).expect("a valid request");
    let left: Vec<u32> = response.statuses.iter().map(|status| status.limit_remaining).collect();
    assert_eq!(left, [7, 8]);
}

#[test]
fn zero_hits_check_without_spending() {
    let client = GrpcClient::start(&user_policy("[\"1/1h\"]", ""));
    for _ in 0..3 {
        let peeked = client.check_one(hits(0, user("a")));
        assert_eq!((code(&peeked), peeked.limit_remaining), (Fine, 1));
    }
    assert_eq!(client.inspect("user", &["user", "a"]), None, "a check leaves no state");
    assert_eq!(code(&client.check_one(user("a"))), Fine);
    assert_eq!(code(&client.check_one(hits(0, user("a")))), OverLimit, "another hit would exceed the limit");
}

#[test]
fn a_denied_descriptor_leaves_the_others_uncharged() {
    let client = GrpcClient::start(TWO);
    let both = [user("a"), descriptor(&[("tenant", "t")])];
    for _ in 0..3 {
        assert_eq!(codes(&client.check(&both)), [Fine, Fine]);
    }
    for _ in 0..4 {
        let response = client.check(&both);
        assert_eq!((response.overall_code, codes(&response)), (OverLimit.into(), vec![OverLimit, Fine]));
        assert_eq!(response.statuses[1].limit_remaining, 2, "the tenant was not charged");
    }
}

#[test]
fn a_denied_check_leaves_the_others_uncharged() {
    let client = GrpcClient::start(TWO);
    assert_eq!(code(&client.check_one(hits(3, user("a")))), Fine);
    let response = client.check(&[hits(0, user("a")), descriptor(&[("tenant", "t")])]);
    assert_eq!(codes(&response), [OverLimit, Fine]);
    assert_eq!(client.used("tenant", &["tenant", "t"]), [0_u64; 0]);
}

#[test]
fn statuses_match_the_descriptors_in_number_and_order() {
    let client = GrpcClient::start(TWO);
    let all = [
        descriptor(&[("unknown", "x")]),
        descriptor(&[("tenant", "t")]),
        descriptor(&[("internal", "ldap")]),
        hits(0, user("a")),
        hits(2, user("a")),
    ];
    let response = client.check(&all);
    assert_eq!((response.overall_code, codes(&response)), (Fine.into(), vec![Fine; 5]));
    let [unknown, tenant, internal, peeked, spent] = &*response.statuses else { panic!("five statuses") };
    assert_eq!((unknown.current_limit.as_ref(), unknown.limit_remaining), (None, 0), "no rule, no limit");
    assert_eq!((internal.current_limit.as_ref(), internal.limit_remaining), (None, u32::MAX), "unlimited");
    assert_eq!([tenant, peeked, spent].map(|status| status.limit_remaining), [4, 3, 1]);
}

#[test]
fn a_rule_that_denies_is_over_limit_and_the_others_are_not_charged() {
    let client = GrpcClient::start(TWO);
    let response = client.check(&[user("a"), descriptor(&[("banned", "203.0.113.7")])]);
    assert_eq!((response.overall_code, codes(&response)), (OverLimit.into(), vec![Fine, OverLimit]));
    assert_eq!(response.statuses[1].current_limit.as_ref().map(|limit| limit.requests_per_unit), Some(0));
    assert_eq!(client.used("user", &["user", "a"]), [0_u64; 0]);
    assert_eq!(client.metric("tidegate_decisions_total{policy=\"(deny)\",reason=\"impossible\"} "), 1);
}

#[test]
fn a_repeated_descriptor_is_charged_twice_in_one_decision() {
    let client = GrpcClient::start(&user_policy("[\"3/1h\"]", ""));
    let twice = [user("a"), user("a")];
    assert_eq!(codes(&client.check(&twice)), [Fine, Fine]);
    assert_eq!(codes(&client.check(&twice)), [OverLimit, OverLimit]);
    assert_eq!(client.used("user", &["user", "a"]), [2]);
}

#[test]
fn a_policy_in_shadow_mode_never_denies_a_decision() {
    let client = GrpcClient::start(&TWO.replacen("limits = [\"3/1h\"]", "limits = [\"1/1h\"]\nmode = \"shadow\"", 1));
    for left in [4, 3, 2] {
        let response = client.check(&[user("a"), descriptor(&[("tenant", "t")])]);
        assert_eq!((response.overall_code, codes(&response)), (Fine.into(), vec![Fine, Fine]));
        assert_eq!(response.statuses[1].limit_remaining, left);
    }
}

#[test]
fn hits_above_the_capacity_are_over_limit() {
    let client = GrpcClient::start(&user_policy("[\"3/1h\"]", ""));
    for many in [4, 1_000_000_000_000, 1_000_000_000_001, u64::MAX] {
        let status = client.check_one(hits(many, user("a")));
        assert_eq!((code(&status), status.limit_remaining), (OverLimit, 3), "{many}");
    }
}

#[test]
fn a_store_failure_is_decided_by_the_policy_and_never_by_envoy() {
    for (choice, expected) in [("closed", OverLimit), ("open", Fine)] {
        let policy = user_policy("[\"3/1h\"]", &format!("on_store_failure = \"{choice}\""));
        let client = GrpcClient::start(&format!("[store]\nurl = \"redis://127.0.0.1:1\"\n{policy}"));
        assert_eq!(code(&client.check_one(user("a"))), expected, "{choice}");
        assert_eq!(codes(&client.check(&[user("a"), user("b")])), [expected; 2], "{choice}");
    }
}

#[test]
fn replaced_policies_decide_the_next_request() {
    let client = GrpcClient::start(&user_policy("[\"1/1h\"]", ""));
    assert_eq!([code(&client.check_one(user("a"))), code(&client.check_one(user("a")))], [Fine, OverLimit]);
    let text = user_policy("[\"5/1h\"]", "").replace("[\"user\"]", "[\"account\"]");
    let config = Config::parse("new.toml", &text, &SettingSources::default()).expect("a valid request");
    client.running.server().service().replace(config.policies);
    assert_eq!(client.check_one(user("a")).current_limit, None, "the rule was removed");
    assert_eq!(client.check_one(descriptor(&[("account", "a")])).limit_remaining, 4);
}
