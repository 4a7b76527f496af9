//! What gets no decision, and why.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
};

use envoy_types::pb::envoy::service::ratelimit::v3::{
    RateLimitRequest,
    rate_limit_response::Code::{Ok as Fine, OverLimit},
};
use tonic::Code;

use super::{Asked, back, channel, codes, descriptor, of_user, request, user, with_token};

#[test]
fn what_can_not_be_understood_is_an_invalid_argument() {
    let mut asked = Asked::start(&of_user("[\"3/1h\"]", ""));
    let many = vec![user("a"); 65];
    let long = descriptor(&[("a", "b"); 65]);
    for (request, expected) in [
        (RateLimitRequest { domain: String::new(), ..request(&[user("a")]) }, "the domain is empty"),
        (request(&[]), "0 descriptors: use 1 to 64"),
        (request(&many), "65 descriptors"),
        (request(&[user("a"), descriptor(&[])]), "descriptor 1 has 0 entries"),
        (request(&[long]), "descriptor 0 has 65 entries"),
    ] {
        let status = asked.send(request).expect_err("it is wrong");
        assert_eq!(status.code(), Code::InvalidArgument, "{expected}");
        assert!(status.message().contains(expected), "{} instead of {expected}", status.message());
    }
    assert_eq!(codes(&asked.ask(&many[..64])), [OverLimit; 64], "64 are one decision");
    assert_eq!(asked.used("user", &["user", "a"]), [0_u64; 0], "nothing was charged");
}

#[test]
fn a_message_beyond_the_bound_is_refused_and_the_connection_lives_on() {
    let mut asked = Asked::start(&format!("[server]\nmax_body = \"2KB\"\n{}", of_user("[\"3/1h\"]", "")));
    let status = asked.send(request(&[user(&"x".repeat(3_000))])).expect_err("it is too long");
    assert_eq!(status.code(), Code::OutOfRange);
    assert_eq!(codes(&asked.ask(&[user("a")])), [Fine]);
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

#[test]
fn what_is_not_grpc_is_turned_away_unread() {
    let asked = Asked::start(&of_user("[\"9/1h\"]", ""));
    let mut stream = TcpStream::connect(asked.running.grpc).expect("it listens");
    let path = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\nContent-Length: 5\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(&[head.as_bytes(), &[0, 0, 0, 0, 0]].concat()).expect("it is read");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    assert!(answer.starts_with("HTTP/1.1 415 "), "{answer}");
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
