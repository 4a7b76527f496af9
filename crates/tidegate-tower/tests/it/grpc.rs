//! A tonic server with the layer, and the responses of its clients.

use std::{convert::Infallible, net::SocketAddr, time::Duration};

use tidegate::{Limiter, ManualClock};
use tidegate_tower::{
    OnMissingKey, RateLimitLayer, Rule,
    key::{Global, Header},
};
use tokio::net::TcpListener;
use tonic::{
    Code, Request, Response, Status,
    body::Body,
    metadata::MetadataMap,
    transport::{Channel, Endpoint, Server, server::TcpIncoming},
};
use tonic_health::pb::{
    HealthCheckRequest, HealthCheckResponse, health_client::HealthClient, health_server::HealthServer,
};
use tonic_types::StatusExt as _;
use tower::{Layer as _, ServiceExt as _};

use crate::test_server::{limiter, policy};

/// A health check service, the clock of its layer, and a client. The client chooses the status of a response.
struct Served {
    time: ManualClock,
    limiter: std::sync::Arc<Limiter>,
    address: SocketAddr,
    client: HealthClient<Channel>,
}

impl Served {
    async fn behind(layer: RateLimitLayer) -> Self {
        let (time, limiter) = limiter();
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let service = HealthServer::with_interceptor(
            tonic_health::server::HealthService::from_health_reporter(tonic_health::server::HealthReporter::new()),
            fail_if_asked,
        );
        let server = Server::builder().layer(layer.in_store(limiter.clone())).add_service(service);
        tokio::spawn(server.serve_with_incoming(TcpIncoming::from(listener)));
        Self { time, limiter, address, client: client(address, "127.0.0.1").await }
    }

    async fn check(&mut self) -> Result<Response<HealthCheckResponse>, Status> {
        self.client.check(HealthCheckRequest::default()).await
    }

    async fn check_with(&mut self, name: &'static str, value: &str) -> Result<Response<HealthCheckResponse>, Status> {
        let mut request = Request::new(HealthCheckRequest::default());
        request.metadata_mut().insert(name, value.parse().expect("a value"));
        self.client.check(request).await
    }
}

async fn client(server: SocketAddr, own: &str) -> HealthClient<Channel> {
    let endpoint = Endpoint::from_shared(format!("http://{server}")).expect("an address");
    let own = own.parse().expect("an address");
    HealthClient::new(endpoint.local_address(Some(own)).connect().await.expect("it listens"))
}

fn fail_if_asked(request: Request<()>) -> Result<Request<()>, Status> {
    let code = request.metadata().get("x-fail").and_then(|code| code.to_str().ok()).and_then(|code| code.parse().ok());
    match code {
        Some(code) => Err(Status::new(Code::from_i32(code), "as you wish")),
        None => Ok(request),
    }
}

fn metadata_text<'a>(metadata: &'a MetadataMap, name: &str) -> Option<&'a str> {
    metadata.get(name).map(|value| value.to_str().expect("text"))
}

#[tokio::test]
async fn an_admitted_call_has_quota_headers() {
    let mut served = Served::behind(RateLimitLayer::new(policy("api", &["2/1m"]))).await;
    let response = served.check().await.expect("it fits");
    assert_eq!(metadata_text(response.metadata(), "ratelimit-policy"), Some(r#""api";q=2;w=60"#));
    assert_eq!(metadata_text(response.metadata(), "ratelimit"), Some(r#""api";r=1;t=60"#));
    let failed = served.check_with("x-fail", "5").await.expect_err("it was asked to fail");
    assert_eq!(
        (failed.code(), metadata_text(failed.metadata(), "ratelimit")),
        (Code::NotFound, Some(r#""api";r=0;t=60"#))
    );
}

#[tokio::test]
async fn a_denied_call_has_the_wait_in_details_and_headers() {
    let mut served = Served::behind(RateLimitLayer::new(policy("api", &["1/1m", "9/1h"]))).await;
    served.check().await.expect("it fits");
    served.time.advance(Duration::from_micros(10_000_001));
    let denied = served.check().await.expect_err("it was too soon");
    assert_eq!((denied.code(), denied.message()), (Code::ResourceExhausted, "the limit of 1/1m is used up"));
    let details = denied.get_error_details();
    let wait = Duration::from_micros(49_999_999);
    assert_eq!(details.retry_info().and_then(|info| info.retry_delay), Some(wait));
    let violations = &details.quota_failure().expect("a quota has failed").violations;
    let violations: Vec<_> = violations.iter().map(|one| (&*one.subject, &*one.description)).collect();
    assert_eq!(violations, [("api:1m", "the limit of 1/1m is used up")]);
    assert_eq!(metadata_text(denied.metadata(), "grpc-retry-pushback-ms"), Some("50000"), "rounded up");
    assert_eq!(metadata_text(denied.metadata(), "retry-after"), Some("50"));
    assert_eq!(metadata_text(denied.metadata(), "ratelimit"), Some(r#""api:1m";r=0;t=50"#));

    served.time.advance(Duration::from_micros(49_999_998));
    served.check().await.expect_err("a microsecond too soon");
    served.time.advance(Duration::from_micros(1));
    served.check().await.expect("the requested wait has passed");
}

#[tokio::test]
async fn a_call_that_never_fits_must_not_be_retried() {
    let mut served = Served::behind(RateLimitLayer::new(Rule::new(policy("api", &["1/1m"])).cost(|_| 2))).await;
    let denied = served.check().await.expect_err("2 is more than 1");
    assert_eq!(denied.code(), Code::ResourceExhausted);
    assert_eq!(denied.message(), "this call costs more than the limit of 1/1m ever allows");
    assert!(denied.get_error_details().retry_info().is_none());
    assert_eq!(metadata_text(denied.metadata(), "grpc-retry-pushback-ms"), Some("-1"));
    assert_eq!(metadata_text(denied.metadata(), "retry-after"), None);
}

#[tokio::test]
async fn a_call_of_a_banned_client_is_denied_until_the_ban_ends() {
    let api = policy("api", &["9/1m"]);
    let mut served = Served::behind(RateLimitLayer::new(api.clone())).await;
    let key = tidegate::Key::new("127.0.0.1").expect("a key");
    let end = served.limiter.clock().now().after(Duration::from_secs(5));
    served.limiter.set_override(&api, &key, tidegate::Override::ban().until(end)).expect("there is room");
    let denied = served.check().await.expect_err("it is banned");
    assert_eq!((denied.code(), denied.message()), (Code::PermissionDenied, "this client is banned"));
    let wait = denied.get_error_details().retry_info().and_then(|info| info.retry_delay);
    assert_eq!(wait, Some(Duration::from_secs(5)));
    assert_eq!(metadata_text(denied.metadata(), "grpc-retry-pushback-ms"), Some("5000"));
    assert_eq!(metadata_text(denied.metadata(), "ratelimit"), None, "a ban has no quota");
    served.time.advance(Duration::from_secs(5));
    served.check().await.expect("the ban has ended");

    served.limiter.set_override(&api, &key, tidegate::Override::ban()).expect("there is room");
    let denied = served.check().await.expect_err("it is banned permanently");
    assert_eq!((denied.code(), metadata_text(denied.metadata(), "retry-after")), (Code::PermissionDenied, None));
    assert_eq!(metadata_text(denied.metadata(), "grpc-retry-pushback-ms"), Some("-1"), "the client must not retry");
}

#[tokio::test]
async fn a_call_that_cannot_be_counted_is_an_invalid_argument() {
    let by_key = Rule::new(policy("api", &["1/1m"])).key(Header::new("x-api-key").expect("a header's name"));
    let mut served = Served::behind(RateLimitLayer::new(by_key.on_missing_key(OnMissingKey::Reject))).await;
    let refused = served.check().await.expect_err("there is no key");
    assert_eq!((refused.code(), refused.message()), (Code::InvalidArgument, "the request has no `x-api-key`"));
    let long = served.check_with("x-api-key", &"k".repeat(1025)).await.expect_err("no key is that long");
    assert_eq!(long.code(), Code::InvalidArgument);
    served.check_with("x-api-key", "k").await.expect("it fits");
}

#[tokio::test]
async fn a_server_without_peer_addresses_is_an_internal_error() {
    let page =
        tower::service_fn(async |_: http::Request<Body>| Ok::<_, Infallible>(http::Response::new(Body::empty())));
    let service = RateLimitLayer::new(policy("api", &["1/1m"])).layer(page);
    let request = http::Request::post("/a.Service/Call").header("content-type", "application/grpc");
    let refused = service.oneshot(request.body(Body::empty()).expect("a request")).await.expect("it answers");
    let status = Status::from_header_map(refused.headers()).expect("a status");
    assert_eq!((refused.status().as_u16(), status.code()), (200, Code::Internal));
    assert_eq!(status.message(), "the server could not process the request");
}

#[tokio::test]
async fn the_peer_address_is_found_in_tonics_connection_info() {
    let api = policy("api", &["1/1m"]);
    let mut served = Served::behind(RateLimitLayer::new(api.clone())).await;
    served.check().await.expect("it fits");
    served.check().await.expect_err("once a minute");
    client(served.address, "127.0.0.2").await.check(HealthCheckRequest::default()).await.expect("somebody else");
    for address in ["127.0.0.1", "127.0.0.2"] {
        let key = tidegate::Key::new(address).expect("a key");
        assert_eq!(served.limiter.peek(&api, &key, tidegate::Cost::ONE).used(), 1, "{address}");
    }
}

#[tokio::test]
async fn a_message_costs_by_its_size() {
    let api = policy("api", &["100/1m"]);
    let rule = Rule::new(api.clone()).key(Global).settle_by_size(1);
    let mut served = Served::behind(RateLimitLayer::new(rule)).await;
    served.check().await.expect("it fits");
    let everyone = tidegate::Key::new("everyone").expect("a key");
    let used = served.limiter.peek(&api, &everyone, tidegate::Cost::ONE).used();
    assert_eq!(used, 7, "a frame's head of 5 bytes and a message of 2");
}

#[tokio::test]
async fn a_call_with_a_server_error_is_refunded() {
    let mut served = Served::behind(RateLimitLayer::new(policy("api", &["2/1m"])).refund_server_errors()).await;
    for code in [Code::Unknown, Code::DeadlineExceeded, Code::Internal, Code::Unavailable, Code::DataLoss] {
        let failed = served.check_with("x-fail", &i32::from(code).to_string()).await.expect_err("as asked");
        assert_eq!(failed.code(), code);
    }
    for code in [Code::InvalidArgument, Code::PermissionDenied] {
        let failed = served.check_with("x-fail", &i32::from(code).to_string()).await.expect_err("as asked");
        assert_eq!(failed.code(), code, "the caller's own fault is charged");
    }
    assert_eq!(served.check().await.expect_err("2 were charged").code(), Code::ResourceExhausted);
}

#[tokio::test]
async fn several_values_of_the_key_metadata_are_an_invalid_argument() {
    let by = Header::new("x-api-key").expect("a header's name");
    let mut served = Served::behind(RateLimitLayer::new(Rule::new(policy("api", &["1/1m"])).key(by))).await;
    for values in [["alice", "x1"], ["x2", "alice"]] {
        let mut request = Request::new(HealthCheckRequest::default());
        for value in values {
            request.metadata_mut().append("x-api-key", value.parse().expect("a value"));
        }
        let refused = served.client.check(request).await.expect_err("it is refused");
        assert_eq!(refused.code(), Code::InvalidArgument, "{refused:?}");
    }
    assert!(served.check_with("x-api-key", "alice").await.is_ok(), "nothing was counted so far");
}
