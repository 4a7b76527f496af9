//! Limits supplied by Envoy.

use super::{
    GrpcClient, code, codes, descriptor,
    proto::{Fine, OverLimit, RateLimitDescriptor, RateLimitOverride, Unit},
    user, user_policy,
};

fn at_most(requests_per_unit: u32, unit: Unit, descriptor: RateLimitDescriptor) -> RateLimitDescriptor {
    RateLimitDescriptor { limit: Some(RateLimitOverride { requests_per_unit, unit: unit.into() }), ..descriptor }
}

#[test]
fn an_override_applies_even_if_caller_limits_are_disabled() {
    let client = GrpcClient::start("[server]\ncaller_limits = false\n");
    let one = at_most(2, Unit::Year, descriptor(&[("anything", "x")]));
    let status = client.check_one(one.clone());
    let limit = status.current_limit.expect("the limit is reported");
    assert_eq!((limit.requests_per_unit, limit.unit, status.limit_remaining), (2, Unit::Year.into(), 1));
    assert_eq!([code(&client.check_one(one.clone())), code(&client.check_one(one))], [Fine, OverLimit]);
}

#[test]
fn an_override_has_its_own_count_and_does_not_charge_the_policy() {
    let client = GrpcClient::start(&user_policy("[\"1/1h\"]", "mode = \"shadow\""));
    let one = at_most(2, Unit::Day, user("a"));
    let seen = [(); 3].map(|()| code(&client.check_one(one.clone())));
    assert_eq!(seen, [Fine, Fine, OverLimit], "it is enforced although the policy is in shadow mode");
    assert_eq!(client.used("user", &["user", "a"]), [0_u64; 0]);
}

#[test]
fn an_override_uses_the_algorithm_of_the_replaced_policy() {
    let client = GrpcClient::start(&user_policy("[\"10/1h\"]", "algorithm = \"gcra:2\""));
    let one = at_most(4, Unit::Day, user("a"));
    let status = client.check_one(one);
    assert_eq!(status.limit_remaining, 3, "the burst belongs to the policy's own limit");
    // A log would need a full day to reset. With `gcra`, one of four units takes a quarter of it.
    assert_eq!(status.duration_until_reset.map(|wait| wait.seconds), Some(6 * 3_600));
}

#[test]
fn an_override_of_zero_denies_everything() {
    let client = GrpcClient::start(&user_policy("[\"10/1h\"]", ""));
    let response = client.check(&[at_most(0, Unit::Minute, user("a")), user("b")]);
    assert_eq!(codes(&response), [OverLimit, Fine]);
    let limit = response.statuses[0].current_limit.as_ref().expect("the limit is reported");
    assert_eq!((limit.requests_per_unit, limit.unit), (0, Unit::Minute.into()));
    assert_eq!(client.used("user", &["user", "b"]), [0_u64; 0], "the other descriptor is not charged");
}

#[test]
fn every_unit_is_supported_and_an_unknown_one_is_invalid() {
    let client = GrpcClient::start("");
    for unit in [Unit::Second, Unit::Minute, Unit::Hour, Unit::Day, Unit::Week, Unit::Month, Unit::Year] {
        let status = client.check_one(at_most(7, unit, descriptor(&[("x", "y")])));
        assert_eq!(status.current_limit.map(|limit| limit.unit), Some(unit.into()));
    }
    let error = client.send(super::request(&[at_most(7, Unit::Unknown, user("a"))])).expect_err("the unit is unknown");
    assert_eq!(error.code(), tonic::Code::InvalidArgument);
}

#[test]
fn conflicting_overrides_of_one_descriptor_are_invalid() {
    let client = GrpcClient::start("");
    let both = [at_most(1, Unit::Day, user("a")), at_most(2, Unit::Day, user("a"))];
    let error = client.send(super::request(&both)).expect_err("the overrides conflict");
    assert_eq!(error.code(), tonic::Code::InvalidArgument);
}

#[test]
fn a_flood_of_overrides_does_not_evict_the_keys_of_policies() {
    let client = GrpcClient::start(&format!("[store]\nmax_keys = 2_000\n{}", user_policy("[\"5/1h\"]", "")));
    for number in 0..6_000 {
        client.check_one(at_most(1, Unit::Year, descriptor(&[("flood", &number.to_string())])));
    }
    let counted = client.metric("tidegate_caller_no_room_total ");
    assert!(counted >= 4_000, "{counted} of 6,000 exceeded the share of caller limits");
    for number in 0..200 {
        let seen = [(); 6].map(|()| code(&client.check_one(user(&number.to_string()))));
        assert_eq!(seen, [Fine, Fine, Fine, Fine, Fine, OverLimit], "user {number}");
    }
}
