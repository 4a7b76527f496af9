//! The encoding of a decision.

use prost::Message as _;
use prost_reflect::{DescriptorPool, DynamicMessage};

use super::{
    GrpcClient, code, descriptor, hits,
    proto::{
        DESCRIPTORS, DescriptorStatus, OverLimit, RateLimit, RateLimitDescriptor, RateLimitOverride, RateLimitRequest,
        RateLimitResponse, Unit,
    },
    user, user_policy,
};

#[test]
fn messages_have_the_field_numbers_and_types_of_envoys_protocol() {
    let descriptor = RateLimitDescriptor {
        limit: Some(RateLimitOverride { requests_per_unit: 7, unit: 4 }),
        hits_addend: Some(5),
        is_negative_hits: true,
        ..descriptor(&[("k", "v")])
    };
    let request = RateLimitRequest { domain: "d".to_owned(), descriptors: vec![descriptor], hits_addend: 3 };
    let encoded =
        b"\x0a\x01d\x12\x14\x0a\x06\x0a\x01k\x12\x01v\x12\x04\x08\x07\x10\x04\x1a\x02\x08\x05\x20\x01\x18\x03";
    assert_eq!(request.encode_to_vec(), encoded);

    let status = DescriptorStatus {
        code: OverLimit.into(),
        current_limit: Some(RateLimit { name: "n".to_owned(), requests_per_unit: 5, unit: Unit::Second.into() }),
        limit_remaining: 9,
        duration_until_reset: Some(prost_types::Duration { seconds: 3, nanos: 0 }),
    };
    let response = RateLimitResponse { overall_code: OverLimit.into(), statuses: vec![status] };
    let encoded = b"\x08\x02\x12\x11\x08\x02\x12\x07\x08\x05\x10\x01\x1a\x01n\x18\x09\x22\x02\x08\x03";
    assert_eq!(response.encode_to_vec(), encoded);

    // The descriptors that reflection shows describe the same messages.
    let pool = DescriptorPool::decode(DESCRIPTORS).expect("the descriptors are valid");
    let described = |name: &str, message: &[u8]| {
        let descriptor = pool.get_message_by_name(&format!("envoy.service.ratelimit.v3.{name}"));
        let message = DynamicMessage::decode(descriptor.expect("the message is described"), message);
        message.expect("it has the described types").to_text_format()
    };
    assert_eq!(
        described("RateLimitRequest", &request.encode_to_vec()),
        "domain:\"d\",descriptors:[{entries:[{key:\"k\",value:\"v\"}],limit{requests_per_unit:7,unit:DAY},\
         hits_addend{value:5},is_negative_hits:true}],hits_addend:3"
    );
    assert_eq!(
        described("RateLimitResponse", &response.encode_to_vec()),
        "overall_code:OVER_LIMIT,statuses:[{code:OVER_LIMIT,current_limit{requests_per_unit:5,unit:SECOND,name:\"n\"},\
         limit_remaining:9,duration_until_reset{seconds:3}}]"
    );
    for name in ["service.ratelimit.v3.RateLimitResponse.RateLimit.Unit", "type.v3.RateLimitUnit"] {
        let units = pool.get_enum_by_name(&format!("envoy.{name}")).expect("the enum is described");
        for value in units.values() {
            let unit = Unit::try_from(value.number()).expect("a known unit");
            assert_eq!(format!("{unit:?}").to_uppercase(), value.name(), "{name}");
        }
    }
}

fn reported_limit(limit: &str, algorithm: &str) -> RateLimit {
    let config = user_policy(&format!("[\"{limit}\"]"), &format!("algorithm = \"{algorithm}\""));
    GrpcClient::start(&config).check_one(user("a")).current_limit.expect("there is a limit")
}

#[test]
fn a_window_with_the_length_of_a_unit_is_reported_as_that_unit() {
    for (window, unit) in [
        ("1s", Unit::Second),
        ("60s", Unit::Minute),
        ("1h", Unit::Hour),
        ("24h", Unit::Day),
        ("1w", Unit::Week),
        ("30d", Unit::Month),
        ("365d", Unit::Year),
    ] {
        let limit = reported_limit(&format!("5/{window}"), "sliding_log");
        assert_eq!((limit.unit, limit.requests_per_unit, &*limit.name), (unit.into(), 5, "user"), "{window}");
    }
}

#[test]
fn any_other_window_is_unknown_and_named_after_its_limit() {
    for text in ["5/1m30s", "5/250ms", "5/2d", "5/366d"] {
        let limit = reported_limit(text, "sliding_log");
        assert_eq!((limit.unit, &*limit.name), (Unit::Unknown.into(), text));
    }
}

#[test]
fn the_reported_number_is_the_capacity() {
    assert_eq!(reported_limit("60/1m", "gcra:20").requests_per_unit, 20);
}

#[test]
fn numbers_beyond_32_bits_saturate() {
    let client = GrpcClient::start(&user_policy("[\"1_000_000_000_000/1d\"]", ""));
    let status = client.check_one(user("a"));
    assert_eq!(status.limit_remaining, u32::MAX);
    assert_eq!(status.current_limit.map(|limit| limit.requests_per_unit), Some(u32::MAX));
    let status = client.check_one(hits(1_000_000_000_000, user("a")));
    assert_eq!((code(&status), status.limit_remaining), (OverLimit, u32::MAX));
}

#[test]
fn the_limit_that_decided_is_reported() {
    let client = GrpcClient::start(&user_policy("[\"100/1h\", \"2/1d\"]", ""));
    let status = client.check_one(user("a"));
    let limit = status.current_limit.expect("there is a limit");
    assert_eq!((limit.requests_per_unit, limit.unit, status.limit_remaining), (2, Unit::Day.into(), 1));
}

#[test]
fn the_time_until_reset_is_rounded_up_to_whole_seconds() {
    // Envoy ignores fractions of a second, so a caller would retry too early.
    let client = GrpcClient::start(&user_policy("[\"2/1500ms\"]", ""));
    let wait = client.check_one(user("a")).duration_until_reset.expect("the field is set");
    assert_eq!((wait.seconds, wait.nanos), (2, 0), "until no unit is in use");
}

#[test]
fn a_denied_descriptor_reports_when_a_retry_is_admitted() {
    let client = GrpcClient::start(&user_policy("[\"4/365d\"]", "algorithm = \"gcra\""));
    let wait = |status: DescriptorStatus| status.duration_until_reset.expect("the field is set").seconds;
    let quarter = 365 * 86_400 / 4;
    assert_eq!(wait(client.check_one(hits(4, user("a")))), 4 * quarter, "allowed: until no unit is in use");
    let denied = client.check_one(user("a"));
    assert_eq!(code(&denied), OverLimit);
    assert!(wait(denied) <= quarter, "denied: until one hit is admitted");
}
