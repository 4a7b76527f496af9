//! How a decision is written.

use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_response::{
    Code::OverLimit, RateLimit, rate_limit::Unit,
};

use super::{Asked, code, hits, of_user, user};

fn told(limit: &str, algorithm: &str) -> RateLimit {
    let config = of_user(&format!("[\"{limit}\"]"), &format!("algorithm = \"{algorithm}\""));
    Asked::start(&config).one(user("a")).current_limit.expect("there is a limit")
}

#[test]
fn a_window_is_told_as_envoys_unit_where_there_is_one() {
    for (window, unit) in [
        ("1s", Unit::Second),
        ("60s", Unit::Minute),
        ("1h", Unit::Hour),
        ("24h", Unit::Day),
        ("1w", Unit::Week),
        ("30d", Unit::Month),
        ("365d", Unit::Year),
    ] {
        let limit = told(&format!("5/{window}"), "sliding_log");
        assert_eq!((limit.unit, limit.requests_per_unit, &*limit.name), (unit.into(), 5, "user"), "{window}");
    }
}

#[test]
fn another_window_is_unknown_with_the_limits_text_as_its_name() {
    for text in ["5/1m30s", "5/250ms", "5/2d", "5/366d"] {
        let limit = told(text, "sliding_log");
        assert_eq!((limit.unit, &*limit.name), (Unit::Unknown.into(), text));
    }
}

#[test]
fn the_number_told_is_what_can_be_in_use_at_once() {
    assert_eq!(told("60/1m", "gcra:20").requests_per_unit, 20);
}

#[test]
fn numbers_beyond_32_bits_saturate() {
    let mut asked = Asked::start(&of_user("[\"1_000_000_000_000/1d\"]", ""));
    let status = asked.one(user("a"));
    assert_eq!(status.limit_remaining, u32::MAX);
    assert_eq!(status.current_limit.map(|limit| limit.requests_per_unit), Some(u32::MAX));
    let status = asked.one(hits(1_000_000_000_000, user("a")));
    assert_eq!((code(&status), status.limit_remaining), (OverLimit, u32::MAX));
}

#[test]
fn the_limit_that_bound_is_told_of_several() {
    let mut asked = Asked::start(&of_user("[\"100/1h\", \"2/1d\"]", ""));
    let status = asked.one(user("a"));
    let limit = status.current_limit.expect("there is a limit");
    assert_eq!((limit.requests_per_unit, limit.unit, status.limit_remaining), (2, Unit::Day.into(), 1));
}

#[test]
fn the_time_until_reset_is_rounded_up_to_whole_seconds() {
    // Envoy cuts off what is less than a second, and a caller would come back too early.
    let mut asked = Asked::start(&of_user("[\"2/1500ms\"]", ""));
    let wait = asked.one(user("a")).duration_until_reset.expect("it is filled");
    assert_eq!((wait.seconds, wait.nanos), (2, 0), "until nothing is in use");
}

#[test]
fn who_is_over_the_limit_is_told_when_it_fits_again() {
    let mut asked = Asked::start(&of_user("[\"4/365d\"]", "algorithm = \"gcra\""));
    let wait = |status: super::DescriptorStatus| status.duration_until_reset.expect("it is filled").seconds;
    let quarter = 365 * 86_400 / 4;
    assert_eq!(wait(asked.one(hits(4, user("a")))), 4 * quarter, "allowed: until nothing is in use");
    let denied = asked.one(user("a"));
    assert_eq!(code(&denied), OverLimit);
    assert!(wait(denied) <= quarter, "denied: until one fits");
}
