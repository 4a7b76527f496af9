//! A tonic service with a rate limit. A denied call gets `RESOURCE_EXHAUSTED` with the time to wait.
//!
//! `cargo run -p tidegate-tower --example grpc`

use tidegate::Policy;
use tidegate_tower::RateLimitLayer;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{
    Code,
    transport::{Channel, Server},
};
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};
use tonic_types::StatusExt as _;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;

    let policy = Policy::new("calls", ["3/1m".parse()?])?;
    // Any generated service works. This one comes with tonic.
    let (_, service) = tonic_health::server::health_reporter();
    let server = Server::builder().layer(RateLimitLayer::new(policy)).add_service(service);
    tokio::spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));

    let mut client = HealthClient::new(Channel::from_shared(format!("http://{address}"))?.connect().await?);
    for number in 1..=3 {
        let response = client.check(HealthCheckRequest::default()).await?;
        println!(
            "call {number}: {:?}, ratelimit: {:?}",
            response.get_ref().status(),
            response.metadata().get("ratelimit")
        );
    }
    let denied = client.check(HealthCheckRequest::default()).await.expect_err("the fourth call is over the limit");
    let retry = denied.get_details_retry_info().and_then(|info| info.retry_delay);
    println!("call 4: {:?}, {}, try again in {retry:?}", denied.code(), denied.message());
    anyhow::ensure!(denied.code() == Code::ResourceExhausted && retry.is_some(), "{denied:?}");
    Ok(())
}
