//! Headers that a client makes up are no way past a limit, for Envoy lets through what its service has an error for.

use envoy_types::pb::envoy::service::ratelimit::v3::{
    RateLimitResponse,
    rate_limit_response::Code::{Ok as Fine, OverLimit},
};
use tonic::{Request, Status, client::Grpc, codegen::http::uri::PathAndQuery};
use tonic_prost::ProstCodec;

use super::{Asked, channel, code, codes, descriptor, of_user, request, user};

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

/// A request with whatever bytes for names and values; Envoy writes them like that.
#[derive(Clone, PartialEq, prost::Message)]
struct Raw {
    #[prost(string, tag = "1")]
    domain: String,
    #[prost(message, repeated, tag = "2")]
    descriptors: Vec<RawDescriptor>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct RawDescriptor {
    #[prost(message, repeated, tag = "1")]
    entries: Vec<RawEntry>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct RawEntry {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
}

impl RawDescriptor {
    fn new(key: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) -> Self {
        Self { entries: vec![RawEntry { key: key.into(), value: value.into() }] }
    }
}

/// Sends any message to the service.
fn send<M: prost::Message + Send + Sync + 'static>(asked: &Asked, message: M) -> Result<RateLimitResponse, Status> {
    let mut grpc = Grpc::new(channel(&asked.running));
    let path = PathAndQuery::from_static("/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit");
    asked.running.block_on(async {
        grpc.ready().await.expect("it listens");
        Ok(grpc.unary(Request::new(message), path, ProstCodec::default()).await?.into_inner())
    })
}

fn raw(asked: &Asked, descriptors: &[RawDescriptor]) -> RateLimitResponse {
    let request = Raw { domain: "edge".to_owned(), descriptors: descriptors.to_vec() };
    send(asked, request).expect("bytes that are no text are no error")
}

#[test]
fn a_value_that_is_no_text_is_limited_like_any_other_and_counted_by_itself() {
    let mut asked = Asked::start(RULES);
    for value in [&b"al\xffce"[..], b"al\xfece", b"al\xff\xffce", b"\xff", b"al\xc3", b"\xed\xa0\x80"] {
        let seen = [(); 3].map(|()| codes(&raw(&asked, &[RawDescriptor::new("user", value)]))[0]);
        assert_eq!(seen, [Fine, Fine, OverLimit], "{value:?}");
    }
    // What stands for such bytes in text is somebody else.
    for value in ["al\u{fffd}ce", "alce", "al\\xffce", "\u{ff}"] {
        assert_eq!(asked.one(user(value)).limit_remaining, 1, "{value}");
    }
    assert_eq!(asked.refused(), 0);
}

#[test]
fn a_value_that_is_no_text_and_too_long_for_a_key_is_limited_too() {
    let asked = Asked::start(RULES);
    for last in [0xfe, 0xff] {
        let long = [vec![b'x'; 5_000], vec![last]].concat();
        let seen = [(); 3].map(|()| codes(&raw(&asked, &[RawDescriptor::new("user", long.clone())]))[0]);
        assert_eq!(seen, [Fine, Fine, OverLimit], "{last}");
    }
}

#[test]
fn what_is_no_text_falls_under_the_prefix_that_it_begins_with() {
    let asked = Asked::start(RULES);
    let ask = |key: &[u8], value: &[u8]| raw(&asked, &[RawDescriptor::new(key, value)]).statuses.remove(0);
    assert_eq!([(); 2].map(|()| code(&ask(b"path", b"/v1/\xff"))), [Fine, OverLimit]);
    assert_eq!(ask(b"path", b"/v2/\xff").current_limit, None, "there is no rule");
    assert_eq!(ask(b"us\xffer", b"a").current_limit, None, "nor for a name that is no text");
}

#[test]
fn one_value_that_is_no_text_does_not_void_the_other_descriptors() {
    let mut asked = Asked::start(RULES);
    let both = [RawDescriptor::new("user", "ann"), RawDescriptor::new("unknown", *b"\xff")];
    assert_eq!([(); 3].map(|()| codes(&raw(&asked, &both))[0]), [Fine, Fine, OverLimit]);
    assert_eq!(code(&asked.one(user("ann"))), OverLimit, "text is counted as it always was");
}

#[test]
fn as_much_as_envoy_takes_for_headers_is_decided_in_every_descriptor() {
    // However little HTTP takes for a body.
    let mut asked = Asked::start(&format!("[server]\nmax_body = \"1KB\"\n{}", of_user("[\"64/1h\"]", "")));
    let long = vec![user(&"x".repeat(60 << 10)); 64];
    assert_eq!(codes(&asked.ask(&long)), [Fine; 64]);
    assert_eq!(codes(&asked.ask(&long)), [OverLimit; 64]);
}

#[test]
fn what_can_not_be_read_is_counted_as_refused_and_the_connection_lives_on() {
    let mut asked = Asked::start(RULES);
    let status = asked.send(request(&[user(&"x".repeat(4 << 20))])).expect_err("it is too long");
    assert_eq!((status.code(), asked.refused()), (tonic::Code::OutOfRange, 1));
    // A descriptor in place of a request reads as a domain without descriptors; a number is no domain.
    let status = send(&asked, user("a")).expect_err("there are no descriptors");
    assert_eq!((status.code(), asked.refused()), (tonic::Code::InvalidArgument, 2));
    let number = envoy_types::pb::google::protobuf::UInt64Value { value: 7 };
    let status = send(&asked, number).expect_err("it can't be read");
    assert_eq!((status.code(), asked.refused()), (tonic::Code::Internal, 3));
    assert_eq!(codes(&asked.ask(&[user("a")])), [Fine]);
}

#[test]
fn equal_descriptors_whose_hits_add_up_beyond_every_limit_are_over_it() {
    const MOST: u64 = 1_000_000_000_000;
    let mut asked = Asked::start(&of_user("[\"999_999_999_999/1h\"]", ""));
    let many = |count: u64| super::hits(count, user("a"));
    for hits in [[MOST, MOST], [MOST, 1], [1, MOST], [u64::MAX, u64::MAX], [MOST / 2, MOST / 2 + 1]] {
        assert_eq!(codes(&asked.ask(&hits.map(many))), [OverLimit; 2], "{hits:?}");
    }
    assert_eq!(codes(&asked.ask(&vec![many(MOST); 64])), [OverLimit; 64]);
    let others = [many(MOST), super::hits(7, user("b")), many(MOST)];
    assert_eq!(codes(&asked.ask(&others)), [OverLimit, Fine, OverLimit]);
    // Different ones do not add up.
    let two = [super::hits(MOST - 1, user("c")), super::hits(MOST - 1, user("d"))];
    assert_eq!(codes(&asked.ask(&two)), [Fine; 2]);
    assert_eq!(asked.used("user", &["user", "c"]), [MOST - 1]);
    assert_eq!(asked.used("user", &["user", "a"]), [0_u64; 0]);
}

#[test]
fn a_descriptor_without_entries_has_no_limit_and_does_not_void_the_others() {
    let mut asked = Asked::start(RULES);
    for expected in [Fine, Fine, OverLimit] {
        let answer = asked.ask(&[descriptor(&[]), user("a")]);
        assert_eq!(codes(&answer), [Fine, expected]);
        assert_eq!(answer.statuses[0].current_limit, None);
    }
}
