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

    /// Returns the status of a service, if it is known.
    fn status_of(&self, name: &str) -> Option<ServingStatus> {
        let status = if self.stop.is_cancelled() { ServingStatus::NotServing } else { ServingStatus::Serving };
        (name.is_empty() || name == SERVICE_NAME).then_some(status)
    }
}

fn response(status: ServingStatus) -> HealthCheckResponse {
    HealthCheckResponse { status: status.into() }
}

#[tonic::async_trait]
impl health_server::Health for Health {
    async fn check(&self, request: Request<HealthCheckRequest>) -> Result<Response<HealthCheckResponse>, Status> {
        let status = self.status_of(&request.get_ref().service);
        let unknown = || Status::not_found(format!("unknown service: use `{SERVICE_NAME}` or an empty name"));
        Ok(Response::new(response(status.ok_or_else(unknown)?)))
    }

    type WatchStream = Pin<Box<dyn Stream<Item = Result<HealthCheckResponse, Status>> + Send>>;

    /// Sends the change when the service stops, and then ends the stream, so that a watcher does not delay the shutdown.
    async fn watch(&self, request: Request<HealthCheckRequest>) -> Result<Response<Self::WatchStream>, Status> {
        // For an unknown service, the protocol wants a status instead of an error.
        let now = self.status_of(&request.get_ref().service).unwrap_or(ServingStatus::ServiceUnknown);
        let changed = (now == ServingStatus::Serving).then_some(ServingStatus::NotServing);
        let stopped = stream::once(self.stop.clone().cancelled_owned()).flat_map(move |()| stream::iter(changed));
        Ok(Response::new(Box::pin(stream::iter([now]).chain(stopped).map(|status| Ok(response(status))))))
    }
}
