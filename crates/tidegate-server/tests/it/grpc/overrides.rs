//! Limits that Envoy brings along.

use envoy_types::pb::envoy::{
    extensions::common::ratelimit::v3::{RateLimitDescriptor, rate_limit_descriptor::RateLimitOverride},
    service::ratelimit::v3::rate_limit_response::{
        Code::{Ok as Fine, OverLimit},
        rate_limit::Unit,
    },
};

use super::{Asked, code, codes, descriptor, of_user, user};

fn at_most(requests_per_unit: u32, unit: Unit, descriptor: RateLimitDescriptor) -> RateLimitDescriptor {
    RateLimitDescriptor { limit: Some(RateLimitOverride { requests_per_unit, unit: unit.into() }), ..descriptor }
}

#[test]
fn an_override_is_honoured_even_where_callers_may_bring_no_limits() {
    let mut asked = Asked::start("[server]\ncaller_limits = false\n");
    let one = at_most(2, Unit::Year, descriptor(&[("anything", "x")]));
    let status = asked.one(one.clone());
    let limit = status.current_limit.expect("the limit is told");
    assert_eq!((limit.requests_per_unit, limit.unit, status.limit_remaining), (2, Unit::Year.into(), 1));
    assert_eq!([code(&asked.one(one.clone())), code(&asked.one(one))], [Fine, OverLimit]);
}

#[test]
fn an_override_counts_by_itself_and_leaves_the_policy_alone() {
    let mut asked = Asked::start(&of_user("[\"1/1h\"]", "mode = \"shadow\""));
    let one = at_most(2, Unit::Day, user("a"));
    let seen = [(); 3].map(|()| code(&asked.one(one.clone())));
    assert_eq!(seen, [Fine, Fine, OverLimit], "it is enforced where the policy watches");
    assert_eq!(asked.used("user", &["user", "a"]), [0_u64; 0]);
}

#[test]
fn an_override_is_counted_by_the_algorithm_of_the_policy_in_its_place() {
    let mut asked = Asked::start(&of_user("[\"10/1h\"]", "algorithm = \"gcra:2\""));
    let one = at_most(4, Unit::Day, user("a"));
    let status = asked.one(one);
    assert_eq!(status.limit_remaining, 3, "the burst was for the policy's own limit");
    // By the log, nothing is in use only after a day; the debt of one of four units is gone after a quarter of it.
    assert_eq!(status.duration_until_reset.map(|wait| wait.seconds), Some(6 * 3_600));
}

#[test]
fn an_override_of_nothing_lets_nothing_through() {
    let mut asked = Asked::start(&of_user("[\"10/1h\"]", ""));
    let answer = asked.ask(&[at_most(0, Unit::Minute, user("a")), user("b")]);
    assert_eq!(codes(&answer), [OverLimit, Fine]);
    let limit = answer.statuses[0].current_limit.as_ref().expect("the limit is told");
    assert_eq!((limit.requests_per_unit, limit.unit), (0, Unit::Minute.into()));
    assert_eq!(asked.used("user", &["user", "b"]), [0_u64; 0], "nobody else is charged");
}

#[test]
fn every_unit_can_be_brought_and_an_unknown_one_is_malformed() {
    let mut asked = Asked::start("");
    for unit in [Unit::Second, Unit::Minute, Unit::Hour, Unit::Day, Unit::Week, Unit::Month, Unit::Year] {
        let status = asked.one(at_most(7, unit, descriptor(&[("x", "y")])));
        assert_eq!(status.current_limit.map(|limit| limit.unit), Some(unit.into()));
    }
    let error = asked.send(super::request(&[at_most(7, Unit::Unknown, user("a"))])).expect_err("no unit");
    assert_eq!(error.code(), tonic::Code::InvalidArgument);
}

#[test]
fn two_overrides_of_one_descriptor_that_disagree_are_malformed() {
    let mut asked = Asked::start("");
    let both = [at_most(1, Unit::Day, user("a")), at_most(2, Unit::Day, user("a"))];
    let error = asked.send(super::request(&both)).expect_err("which of them?");
    assert_eq!(error.code(), tonic::Code::InvalidArgument);
}

#[test]
fn a_flood_of_overrides_leaves_the_keys_of_policies_alone() {
    let mut asked = Asked::start(&format!("[store]\nmax_keys = 2_000\n{}", of_user("[\"5/1h\"]", "")));
    for number in 0..6_000 {
        asked.one(at_most(1, Unit::Year, descriptor(&[("flood", &number.to_string())])));
    }
    let counted = asked.metric("tidegate_caller_no_room_total ");
    assert!(counted >= 4_000, "{counted} of 6,000 found no room in the callers' half");
    for number in 0..200 {
        let seen = [(); 6].map(|()| code(&asked.one(user(&number.to_string()))));
        assert_eq!(seen, [Fine, Fine, Fine, Fine, Fine, OverLimit], "user {number}");
    }
}
