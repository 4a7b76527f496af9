//! What gets no decision, and why.

use envoy_types::pb::envoy::service::ratelimit::v3::{
    RateLimitRequest,
    rate_limit_response::Code::{Ok as Fine, OverLimit},
};
use prost::Message as _;
use tonic::{
    Code,
    body::Body,
    codegen::{Service as _, http},
};

use super::{Asked, back, channel, codes, descriptor, of_user, request, user, with_token};
use crate::http::client as http_client;

#[test]
fn what_can_not_be_understood_is_an_invalid_argument() {
    let mut asked = Asked::start(&of_user("[\"3/1h\"]", ""));
    let many = vec![user("a"); 65];
    let long = descriptor(&[("a", "b"); 65]);
    for (request, expected) in [
        (RateLimitRequest { domain: String::new(), ..request(&[user("a")]) }, "the domain is empty"),
        (request(&[]), "0 descriptors: use 1 to 64"),
        (request(&many), "65 descriptors"),
        (request(&[user("a"), long]), "descriptor 1 has 65 entries"),
    ] {
        let status = asked.send(request).expect_err("it is wrong");
        assert_eq!(status.code(), Code::InvalidArgument, "{expected}");
        assert!(status.message().contains(expected), "{} instead of {expected}", status.message());
    }
    assert_eq!(codes(&asked.ask(&many[..64])), [OverLimit; 64], "64 are one decision");
    assert_eq!(asked.used("user", &["user", "a"]), [0_u64; 0], "nothing was charged");
}

const TOKENS: &str = "[server]\ntoken = \"usage-token\"\nadmin_token = \"admin-token\"\n";

#[test]
fn a_token_is_asked_for_where_one_is_configured() {
    let mut asked = Asked::start(&format!("{TOKENS}{}", of_user("[\"9/1h\"]", "")));
    let ask = || request(&[user("a")]);
    assert_eq!(asked.send(ask()).expect_err("no token").code(), Code::Unauthenticated);
    assert_eq!(asked.send(with_token(ask(), "another")).expect_err("wrong").code(), Code::Unauthenticated);
    for token in ["usage-token", "admin-token"] {
        assert_eq!(codes(&asked.send(with_token(ask(), token)).expect("it is known")), [Fine], "{token}");
    }
    assert_eq!(asked.used("user", &["user", "a"]), [2], "those who were refused were not charged");
}

#[test]
fn giving_back_needs_the_stronger_token() {
    let mut asked = Asked::start(&format!("{TOKENS}{}", of_user("[\"9/1h\"]", "")));
    let ask = || request(&[back(1, user("a"))]);
    assert_eq!(asked.send(ask()).expect_err("no token").code(), Code::Unauthenticated);
    assert_eq!(asked.send(with_token(ask(), "usage-token")).expect_err("too weak").code(), Code::PermissionDenied);
    assert_eq!(codes(&asked.send(with_token(ask(), "admin-token")).expect("it is strong")), [Fine]);
}

#[test]
fn health_needs_no_token() {
    let asked = Asked::start(TOKENS);
    let mut health = tonic_health::pb::health_client::HealthClient::new(channel(&asked.running));
    let request = tonic_health::pb::HealthCheckRequest::default();
    let answer = asked.running.block_on(health.check(request)).expect("health is open");
    assert_eq!(answer.into_inner().status(), tonic_health::pb::health_check_response::ServingStatus::Serving);
}

const METHOD: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";

/// The HTTP status of an empty request with these headers, over HTTP/2.
fn status_of(asked: &Asked, headers: &[(&str, &str)]) -> http::StatusCode {
    let mut request = http::Request::post(format!("http://{}{METHOD}", asked.running.grpc));
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Body::empty()).expect("it is a request");
    let mut channel = channel(&asked.running);
    asked.running.block_on(async {
        std::future::poll_fn(|context| channel.poll_ready(context)).await.expect("it listens");
        channel.call(request).await.expect("it answers").status()
    })
}

#[test]
fn what_is_not_grpc_is_turned_away_unread() {
    let asked = Asked::start(&of_user("[\"9/1h\"]", ""));
    assert_eq!(status_of(&asked, &[("content-type", "application/grpc")]), 200);
    assert_eq!(status_of(&asked, &[("content-type", "application/grpc+proto")]), 200);
    assert_eq!(status_of(&asked, &[("content-type", "text/plain")]), 415);
    assert_eq!(status_of(&asked, &[]), 415);
}

#[test]
fn what_a_web_page_sends_is_turned_away_even_if_it_looks_like_grpc() {
    let asked = Asked::start(&of_user("[\"9/1h\"]", ""));
    for origin in ["http://rebound.example:8081", "http://127.0.0.1:8081", "null", ""] {
        assert_eq!(status_of(&asked, &[("content-type", "application/grpc"), ("origin", origin)]), 403, "{origin}");
    }
    // A page whose name points here is of the same origin, and some requests do not say of which; but it speaks HTTP/1.
    let message = request(&[user("a")]).encode_to_vec();
    let body = [&[0, 0, 0, 0, u8::try_from(message.len()).expect("it is short")], &*message].concat();
    let body = std::str::from_utf8(&body).expect("it happens to be text");
    for host in ["rebound.example:8081", "localhost"] {
        let headers = [("host", host), ("content-type", "application/grpc")];
        assert_eq!(http_client::request(asked.running.grpc, "POST", METHOD, &headers, body).status, 505, "{host}");
    }
    assert_eq!(asked.used("user", &["user", "a"]), [0_u64; 0]);
}

#[test]
fn an_unknown_method_is_unimplemented() {
    let asked = Asked::start("");
    let mut client = tonic_health::pb::health_client::HealthClient::with_origin(
        channel(&asked.running),
        "http://localhost/elsewhere".parse().expect("it is an address"),
    );
    let request = tonic_health::pb::HealthCheckRequest::default();
    let status = asked.running.block_on(client.check(request)).expect_err("nothing is there");
    assert_eq!(status.code(), Code::Unimplemented);
}
