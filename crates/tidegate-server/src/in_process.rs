//! [`InProcess`]: the HTTP API without a network, for commands that use a store themselves.

use std::sync::Arc;

use axum::{
    Router,
    body::Body,
    http::{Method, Request, StatusCode, header::CONTENT_TYPE},
};
use http_body_util::BodyExt as _;
use tower::ServiceExt as _;

use crate::{
    config::{Config, ConfigError, Tokens},
    context::Context,
    service::Service,
    transports::http,
};

/// A service that only its own process uses, so it needs no token.
#[derive(Debug)]
pub struct InProcess(Router);

impl InProcess {
    /// Creates a service without listeners. Must be called inside a tokio runtime.
    ///
    /// # Errors
    /// If the settings of the store are wrong.
    pub fn new(mut config: Config) -> Result<Self, ConfigError> {
        config.server.tokens = Tokens::default();
        let settings = Arc::new(config.server.clone());
        let service = Arc::new(Service::new(config)?);
        Ok(Self(http::router(&Context::new(service, settings, None, "tidegate".into()), None)))
    }

    /// Sends a request as over HTTP. Returns the status and the body of the response.
    pub async fn send(&self, method: Method, path: &str, body: Vec<u8>) -> (StatusCode, Vec<u8>) {
        let request = Request::builder().method(method).uri(path).header(CONTENT_TYPE, "application/json");
        let Ok(request) = request.body(Body::from(body)) else { return (StatusCode::BAD_REQUEST, Vec::new()) };
        let Ok(response) = self.0.clone().oneshot(request).await;
        let status = response.status();
        let body = response.into_body().collect().await.map(|collected| collected.to_bytes().to_vec());
        (status, body.unwrap_or_default())
    }
}
