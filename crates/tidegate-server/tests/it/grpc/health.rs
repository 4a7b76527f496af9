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
    let config = Config::parse("test.toml", "", &overrides).expect("it is right");
    let server = Server::start(config, overrides).await.expect("it starts");
    let address = server.address(Transport::Grpc).expect("it is open");
    let endpoint = Channel::from_shared(format!("http://{address}")).expect("it is an address");
    (server, HealthClient::new(endpoint.connect().await.expect("it listens")))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_service_is_serving_as_a_whole_and_by_name() {
    let (server, mut client) = start().await;
    for name in ["", "envoy.service.ratelimit.v3.RateLimitService"] {
        assert_eq!(client.check(about(name)).await.expect("it answers").into_inner().status(), Serving);
    }
    assert_eq!(client.check(about("another")).await.expect_err("unknown").code(), Code::NotFound);
    let mut unknown = client.watch(about("another")).await.expect("it answers").into_inner();
    let told = unknown.message().await.expect("it answers").expect("it tells");
    assert_eq!(told.status(), ServiceUnknown);
    drop(unknown);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watcher_is_told_when_the_service_stops_and_does_not_keep_it() {
    let (server, mut client) = start().await;
    let mut watched = client.watch(about("")).await.expect("it answers").into_inner();
    let mut next = async || watched.message().await.expect("it answers").map(|told| told.status());
    assert_eq!(next().await, Some(Serving));
    let stopping = tokio::spawn(server.stop());
    assert_eq!(next().await, Some(NotServing));
    assert_eq!(next().await, None);
    assert_eq!(stopping.await.expect("it stops"), 0, "nobody is left inside");
}
