//! `grpc.health.v1`.

use tidegate_server::{
    Server, Transport,
    config::{Config, SettingSources},
};
use tonic::{Code, transport::Channel};
use tonic_health::pb::{
    HealthCheckRequest,
    health_check_response::ServingStatus::{NotServing, ServiceUnknown, Serving},
    health_client::HealthClient,
};

fn about(service: &str) -> HealthCheckRequest {
    HealthCheckRequest { service: service.to_owned() }
}

async fn start() -> (Server, HealthClient<Channel>) {
    let overrides =
        ["http", "resp", "grpc"].iter().fold(SettingSources::default(), |all, key| all.server(key, key, "127.0.0.1:0"));
    let config = Config::parse("test.toml", "", &overrides).expect("a valid configuration");
    let server = Server::start(config, overrides).await.expect("the server starts");
    let address = server.address(Transport::Grpc).expect("the listener is enabled");
    let endpoint = Channel::from_shared(format!("http://{address}")).expect("a valid address");
    (server, HealthClient::new(endpoint.connect().await.expect("the service listens")))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_server_and_the_named_service_are_serving() {
    let (server, mut client) = start().await;
    for name in ["", "envoy.service.ratelimit.v3.RateLimitService"] {
        assert_eq!(client.check(about(name)).await.expect("a response").into_inner().status(), Serving);
    }
    assert_eq!(client.check(about("another")).await.expect_err("unknown").code(), Code::NotFound);
    let mut unknown = client.watch(about("another")).await.expect("a response").into_inner();
    let update = unknown.message().await.expect("a response").expect("a message");
    assert_eq!(update.status(), ServiceUnknown);
    drop(unknown);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watcher_sees_the_shutdown_and_does_not_delay_it() {
    let (server, mut client) = start().await;
    let mut watched = client.watch(about("")).await.expect("a response").into_inner();
    let mut next = async || watched.message().await.expect("a response").map(|update| update.status());
    assert_eq!(next().await, Some(Serving));
    let stopping = tokio::spawn(server.stop());
    assert_eq!(next().await, Some(NotServing));
    assert_eq!(next().await, None);
    assert_eq!(stopping.await.expect("the server stops"), 0, "no connection was cut off");
}
