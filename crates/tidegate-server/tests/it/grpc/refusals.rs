//! Requests that get no decision.

use prost::Message as _;
use tonic::{
    Code,
    body::Body,
    codegen::{Service as _, http},
};

use super::{
    GrpcClient, METHOD, channel, codes, descriptor,
    proto::{Fine, OverLimit, RateLimitRequest},
    refund, request, user, user_policy,
};
use crate::http::client as http_client;

#[test]
fn a_malformed_request_is_an_invalid_argument() {
    let client = GrpcClient::start(&user_policy("[\"3/1h\"]", ""));
    let many = vec![user("a"); 65];
    let long = descriptor(&[("a", "b"); 65]);
    for (request, expected) in [
        (RateLimitRequest { domain: String::new(), ..request(&[user("a")]) }, "the domain is empty"),
        (request(&[]), "the request has 0 descriptors: send 1 to 64"),
        (request(&many), "65 descriptors"),
        (request(&[user("a"), long]), "descriptor 1 has 65 entries"),
    ] {
        let status = client.send(request).expect_err("the request is malformed");
        assert_eq!(status.code(), Code::InvalidArgument, "{expected}");
        assert!(status.message().contains(expected), "{} instead of {expected}", status.message());
    }
    assert_eq!(codes(&client.check(&many[..64])), [OverLimit; 64], "64 are one decision");
    assert_eq!(client.used("user", &["user", "a"]), [0_u64; 0], "nothing was charged");
}

const TOKENS: &str = "[server]\ntoken = \"usage-token\"\nadmin_token = \"admin-token\"\n";

#[test]
fn a_configured_token_is_required() {
    let client = GrpcClient::start(&format!("{TOKENS}{}", user_policy("[\"9/1h\"]", "")));
    let descriptors = [user("a")];
    assert_eq!(client.send(request(&descriptors)).expect_err("no token").code(), Code::Unauthenticated);
    assert_eq!(client.check_with_token("another", &descriptors).expect_err("wrong").code(), Code::Unauthenticated);
    for token in ["usage-token", "admin-token"] {
        assert_eq!(
            codes(&client.check_with_token(token, &descriptors).expect("the token is known")),
            [Fine],
            "{token}"
        );
    }
    assert_eq!(client.used("user", &["user", "a"]), [2], "refused requests were not charged");
}

#[test]
fn a_refund_requires_the_admin_token() {
    let client = GrpcClient::start(&format!("{TOKENS}{}", user_policy("[\"9/1h\"]", "")));
    let descriptors = [refund(1, user("a"))];
    assert_eq!(client.send(request(&descriptors)).expect_err("no token").code(), Code::Unauthenticated);
    assert_eq!(
        client.check_with_token("usage-token", &descriptors).expect_err("the admin token is required").code(),
        Code::PermissionDenied
    );
    assert_eq!(codes(&client.check_with_token("admin-token", &descriptors).expect("the admin token")), [Fine]);
}

#[test]
fn health_needs_no_token() {
    let client = GrpcClient::start(TOKENS);
    let mut health = tonic_health::pb::health_client::HealthClient::new(channel(&client.running));
    let request = tonic_health::pb::HealthCheckRequest::default();
    let response = client.running.block_on(health.check(request)).expect("health needs no token");
    assert_eq!(response.into_inner().status(), tonic_health::pb::health_check_response::ServingStatus::Serving);
}

/// Returns the HTTP status of an empty HTTP/2 request with these headers.
fn status_of(client: &GrpcClient, headers: &[(&str, &str)]) -> http::StatusCode {
    let mut request = http::Request::post(format!("http://{}{METHOD}", client.running.grpc));
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Body::empty()).expect("a valid HTTP request");
    let mut channel = channel(&client.running);
    client.running.block_on(async {
        std::future::poll_fn(|context| channel.poll_ready(context)).await.expect("the service listens");
        channel.call(request).await.expect("a response").status()
    })
}

#[test]
fn requests_that_are_not_grpc_are_rejected() {
    let client = GrpcClient::start(&user_policy("[\"9/1h\"]", ""));
    assert_eq!(status_of(&client, &[("content-type", "application/grpc")]), 200);
    assert_eq!(status_of(&client, &[("content-type", "application/grpc+proto")]), 200);
    let before = client.refused();
    assert_eq!(status_of(&client, &[("content-type", "text/plain")]), 415);
    assert_eq!(status_of(&client, &[]), 415);
    assert_eq!(client.refused() - before, 2, "they are counted");
}

#[test]
fn requests_from_web_pages_are_rejected_even_if_they_look_like_grpc() {
    let client = GrpcClient::start(&user_policy("[\"9/1h\"]", ""));
    for origin in ["http://rebound.example:8081", "http://127.0.0.1:8081", "null", ""] {
        assert_eq!(status_of(&client, &[("content-type", "application/grpc"), ("origin", origin)]), 403, "{origin}");
    }
    // A page whose name resolves to this address has the same origin, and some of its requests have no `origin` header. But they
    // use HTTP/1.
    let message = request(&[user("a")]).encode_to_vec();
    let body = [&[0, 0, 0, 0, u8::try_from(message.len()).expect("a short message")], &*message].concat();
    let body = std::str::from_utf8(&body).expect("the message is valid UTF-8");
    for host in ["rebound.example:8081", "localhost"] {
        let headers = [("host", host), ("content-type", "application/grpc")];
        assert_eq!(http_client::request(client.running.grpc, "POST", METHOD, &headers, body).status, 505, "{host}");
    }
    assert_eq!(client.refused(), 6, "they are counted");
    assert_eq!(client.used("user", &["user", "a"]), [0_u64; 0]);
}

#[test]
fn an_unknown_method_is_unimplemented() {
    let client = GrpcClient::start("");
    let mut health = tonic_health::pb::health_client::HealthClient::with_origin(
        channel(&client.running),
        "http://localhost/elsewhere".parse().expect("a valid address"),
    );
    let request = tonic_health::pb::HealthCheckRequest::default();
    let status = client.running.block_on(health.check(request)).expect_err("the method does not exist");
    assert_eq!(status.code(), Code::Unimplemented);
}
