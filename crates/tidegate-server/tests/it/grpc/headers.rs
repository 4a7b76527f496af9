//! A forged header does not bypass a limit. An error would, because Envoy admits a request after an error.

use super::{
    GrpcClient, code, codes, descriptor,
    proto::{Entry, Fine, OverLimit, RateLimitDescriptor},
    request, user, user_policy,
};

const RULES: &str = r#"
[policies.user]
limits = ["2/1h"]
[policies.path]
limits = ["1/1h"]
[[envoy]]
domain = "edge"
descriptors = [["user"]]
policy = "user"
[[envoy]]
domain = "edge"
descriptors = [["path=/v1/*"]]
policy = "path"
"#;

/// Returns a descriptor with arbitrary bytes, as Envoy sends them.
fn raw(key: &[u8], value: &[u8]) -> RateLimitDescriptor {
    let entry = Entry { key: key.to_vec(), value: value.to_vec() };
    RateLimitDescriptor { entries: vec![entry], ..RateLimitDescriptor::default() }
}

#[test]
fn a_value_that_is_not_utf_8_is_limited_and_has_its_own_key() {
    let client = GrpcClient::start(RULES);
    for value in [&b"al\xffce"[..], b"al\xfece", b"al\xff\xffce", b"\xff", b"al\xc3", b"\xed\xa0\x80"] {
        let seen = [(); 3].map(|()| code(&client.check_one(raw(b"user", value))));
        assert_eq!(seen, [Fine, Fine, OverLimit], "{value:?}");
    }
    // Text that represents such bytes is a different key.
    for value in ["al\u{fffd}ce", "alce", "al\\xffce", "\u{ff}"] {
        assert_eq!(client.check_one(user(value)).limit_remaining, 1, "{value}");
    }
    assert_eq!(client.refused(), 0);
}

#[test]
fn a_long_value_that_is_not_utf_8_is_limited() {
    let client = GrpcClient::start(RULES);
    for last in [0xfe, 0xff] {
        let long = [vec![b'x'; 5_000], vec![last]].concat();
        let seen = [(); 3].map(|()| code(&client.check_one(raw(b"user", &long))));
        assert_eq!(seen, [Fine, Fine, OverLimit], "{last}");
    }
}

#[test]
fn a_prefix_matches_values_that_are_not_utf_8() {
    let client = GrpcClient::start(RULES);
    let check = |key: &[u8], value: &[u8]| client.check_one(raw(key, value));
    assert_eq!([(); 2].map(|()| code(&check(b"path", b"/v1/\xff"))), [Fine, OverLimit]);
    assert_eq!(check(b"path", b"/v2/\xff").current_limit, None, "no rule matches");
    assert_eq!(check(b"us\xffer", b"a").current_limit, None, "no rule matches a name that is not UTF-8");
}

#[test]
fn a_value_that_is_not_utf_8_does_not_affect_the_other_descriptors() {
    let client = GrpcClient::start(RULES);
    let both = [user("ann"), raw(b"unknown", b"\xff")];
    assert_eq!([(); 3].map(|()| codes(&client.check(&both))[0]), [Fine, Fine, OverLimit]);
    assert_eq!(code(&client.check_one(user("ann"))), OverLimit, "text and bytes share a key");
}

#[test]
fn every_descriptor_may_be_as_long_as_the_headers_that_envoy_accepts() {
    // `max_body` limits HTTP bodies only.
    let client = GrpcClient::start(&format!("[server]\nmax_body = \"1KB\"\n{}", user_policy("[\"64/1h\"]", "")));
    let long = vec![user(&"x".repeat(60 << 10)); 64];
    assert_eq!(codes(&client.check(&long)), [Fine; 64]);
    assert_eq!(codes(&client.check(&long)), [OverLimit; 64]);
}

#[test]
fn an_unreadable_message_is_counted_as_refused_and_keeps_the_connection() {
    let client = GrpcClient::start(RULES);
    let status = client.send(request(&[user(&"x".repeat(4 << 20))])).expect_err("the message is too long");
    assert_eq!((status.code(), client.refused()), (tonic::Code::OutOfRange, 1));
    // A descriptor is read as a request with a domain and no descriptors. A number is not a valid domain.
    let status = client.send(user("a")).expect_err("there are no descriptors");
    assert_eq!((status.code(), client.refused()), (tonic::Code::InvalidArgument, 2));
    let status = client.send(7_u64).expect_err("the message is malformed");
    assert_eq!((status.code(), client.refused()), (tonic::Code::Internal, 3));
    assert_eq!(codes(&client.check(&[user("a")])), [Fine]);
}

#[test]
fn repeated_descriptors_with_too_many_hits_in_total_are_over_limit() {
    const MAX: u64 = 1_000_000_000_000;
    let client = GrpcClient::start(&user_policy("[\"999_999_999_999/1h\"]", ""));
    let many = |count: u64| super::hits(count, user("a"));
    for hits in [[MAX, MAX], [MAX, 1], [1, MAX], [u64::MAX, u64::MAX], [MAX / 2, MAX / 2 + 1]] {
        assert_eq!(codes(&client.check(&hits.map(many))), [OverLimit; 2], "{hits:?}");
    }
    assert_eq!(codes(&client.check(&vec![many(MAX); 64])), [OverLimit; 64]);
    let others = [many(MAX), super::hits(7, user("b")), many(MAX)];
    assert_eq!(codes(&client.check(&others)), [OverLimit, Fine, OverLimit]);
    // Different descriptors do not add up.
    let two = [super::hits(MAX - 1, user("c")), super::hits(MAX - 1, user("d"))];
    assert_eq!(codes(&client.check(&two)), [Fine; 2]);
    assert_eq!(client.used("user", &["user", "c"]), [MAX - 1]);
    assert_eq!(client.used("user", &["user", "a"]), [0_u64; 0]);
}

#[test]
fn a_descriptor_without_entries_is_ignored() {
    let client = GrpcClient::start(RULES);
    for expected in [Fine, Fine, OverLimit] {
        let response = client.check(&[descriptor(&[]), user("a")]);
        assert_eq!(codes(&response), [Fine, expected]);
        assert_eq!(response.statuses[0].current_limit, None);
    }
}
