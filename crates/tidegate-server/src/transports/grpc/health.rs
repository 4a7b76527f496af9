//! [`Health`]: serving, until the service stops.

use std::pin::Pin;

use futures_util::{Stream, StreamExt as _, stream};
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status};
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse, health_check_response::ServingStatus, health_server};

use super::proto::SERVICE_NAME;

/// `grpc.health.v1`. It knows Envoy's rate limit service and, under the empty name, the server as a whole.
#[derive(Debug)]
pub(super) struct Health {
    stop: CancellationToken,
}

impl Health {
    pub(super) fn new(stop: CancellationToken) -> Self {
        Self { stop }
    }

    fn is_known(name: &str) -> bool {
        name.is_empty() || name == SERVICE_NAME
    }
}

fn response(status: ServingStatus) -> HealthCheckResponse {
    HealthCheckResponse { status: status.into() }
}

#[tonic::async_trait]
impl health_server::Health for Health {
    async fn check(&self, request: Request<HealthCheckRequest>) -> Result<Response<HealthCheckResponse>, Status> {
        if !Self::is_known(&request.get_ref().service) {
            return Err(Status::not_found(format!("unknown service: use `{SERVICE_NAME}` or an empty name")));
        }
        let stopping = self.stop.is_cancelled();
        Ok(Response::new(response(if stopping { ServingStatus::NotServing } else { ServingStatus::Serving })))
    }

    type WatchStream = Pin<Box<dyn Stream<Item = Result<HealthCheckResponse, Status>> + Send>>;

    /// Sends the change when the service stops, and then ends the stream, so that a watcher does not delay the shutdown.
    async fn watch(&self, request: Request<HealthCheckRequest>) -> Result<Response<Self::WatchStream>, Status> {
        if !Self::is_known(&request.get_ref().service) {
            // The protocol wants this status instead of an error.
            let unknown = stream::iter([Ok(response(ServingStatus::ServiceUnknown))]);
            return Ok(Response::new(Box::pin(
                unknown.chain(stream::pending().take_until(self.stop.clone().cancelled_owned())),
            )));
        }
        let stopped =
            stream::once(self.stop.clone().cancelled_owned()).map(|()| Ok(response(ServingStatus::NotServing)));
        let now = stream::iter((!self.stop.is_cancelled()).then(|| Ok(response(ServingStatus::Serving))));
        Ok(Response::new(Box::pin(now.chain(stopped))))
    }
}
