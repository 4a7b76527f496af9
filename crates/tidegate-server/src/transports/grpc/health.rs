//! [`Health`]: serving, until the service stops.

use std::pin::Pin;

use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_service_server::SERVICE_NAME;
use futures_util::{Stream, StreamExt as _, stream};
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status};
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse, health_check_response::ServingStatus, health_server};

/// `grpc.health.v1`. It tells of the service as a whole, which has no name, and of Envoy's.
#[derive(Debug)]
pub(super) struct Health {
    stop: CancellationToken,
}

impl Health {
    pub(super) fn new(stop: CancellationToken) -> Self {
        Self { stop }
    }

    fn is_known(name: &str) -> Result<(), Status> {
        match name {
            "" | SERVICE_NAME => Ok(()),
            _ => Err(Status::not_found(format!("no such service here: ask for `{SERVICE_NAME}` or for none"))),
        }
    }
}

fn told(status: ServingStatus) -> HealthCheckResponse {
    HealthCheckResponse { status: status.into() }
}

#[tonic::async_trait]
impl health_server::Health for Health {
    async fn check(&self, request: Request<HealthCheckRequest>) -> Result<Response<HealthCheckResponse>, Status> {
        Self::is_known(&request.get_ref().service)?;
        let stopping = self.stop.is_cancelled();
        Ok(Response::new(told(if stopping { ServingStatus::NotServing } else { ServingStatus::Serving })))
    }

    type WatchStream = Pin<Box<dyn Stream<Item = Result<HealthCheckResponse, Status>> + Send>>;

    /// Tells when the service stops, and ends: a watcher does not keep a stopping service waiting.
    async fn watch(&self, request: Request<HealthCheckRequest>) -> Result<Response<Self::WatchStream>, Status> {
        let name = &request.get_ref().service;
        if Self::is_known(name).is_err() {
            // The protocol wants a watcher to be told that, not to be sent away.
            let unknown = stream::iter([Ok(told(ServingStatus::ServiceUnknown))]);
            return Ok(Response::new(Box::pin(
                unknown.chain(stream::pending().take_until(self.stop.clone().cancelled_owned())),
            )));
        }
        let stopped = stream::once(self.stop.clone().cancelled_owned()).map(|()| Ok(told(ServingStatus::NotServing)));
        let now = stream::iter((!self.stop.is_cancelled()).then(|| Ok(told(ServingStatus::Serving))));
        Ok(Response::new(Box::pin(now.chain(stopped))))
    }
}
