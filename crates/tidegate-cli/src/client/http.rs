//! Sends a request to a service over HTTP.

use std::{sync::Arc, time::Duration};

use anyhow::Context as _;
use serde_json::{Value, json};
use ureq::{
    Agent, Body, RequestBuilder,
    http::Response,
    tls::{RootCerts, TlsConfig},
};

use super::{ApiRequest, certificates, failure::ConnectionFailure};
use crate::arguments::ServiceArguments;

/// A service and the token for it.
#[derive(Debug, Clone)]
pub(crate) struct Endpoint {
    /// Its address, without a slash at the end.
    pub(crate) server: String,
    bearer: Option<String>,
    /// How long a response may take.
    timeout: Duration,
    agent: Agent,
}

impl Endpoint {
    pub(crate) fn new(ServiceArguments { server, token, ca, timeout }: &ServiceArguments) -> anyhow::Result<Self> {
        let uses_tls = server.starts_with("https://");
        anyhow::ensure!(
            uses_tls || server.starts_with("http://"),
            "`{server}` is not the URL of a service: write it as http://127.0.0.1:8080"
        );
        let mut config = Agent::config_builder().proxy(None).http_status_as_error(false);
        if uses_tls {
            let trusted = certificates::trusted(ca.as_deref())?;
            let provider = Arc::new(rustls::crypto::ring::default_provider());
            let tls = TlsConfig::builder().root_certs(RootCerts::new_with_certs(&trusted));
            config = config.tls_config(tls.unversioned_rustls_crypto_provider(provider).build());
        }
        Ok(Self {
            server: server.trim_end_matches('/').to_owned(),
            bearer: token.as_ref().map(|token| format!("Bearer {token}")),
            timeout: *timeout,
            agent: config.build().into(),
        })
    }

    /// Sends a GET request. Reading its response may take as long as `longest`, or as long as the timeout.
    pub(crate) fn get(&self, path: &str, longest: Option<Duration>) -> Result<Response<Body>, ConnectionFailure> {
        let request = self.authorized(self.agent.get(format!("{}{path}", self.server)));
        let request = request.config().timeout_connect(Some(self.timeout)).timeout_recv_response(Some(self.timeout));
        let request = request.timeout_recv_body(Some(longest.unwrap_or(self.timeout))).build();
        request.call().map_err(|error| ConnectionFailure::new(&self.server, &error))
    }

    fn post(&self, path: &str, body: &Value) -> Result<Response<Body>, ConnectionFailure> {
        let request = self.authorized(self.agent.post(format!("{}{path}", self.server)));
        let request = request.config().timeout_global(Some(self.timeout)).build();
        request.send_json(body).map_err(|error| ConnectionFailure::new(&self.server, &error))
    }

    /// Adds the token to a request.
    fn authorized<B>(&self, request: RequestBuilder<B>) -> RequestBuilder<B> {
        match &self.bearer {
            Some(bearer) => request.header("authorization", bearer),
            None => request,
        }
    }
}

/// Returns the response of the service. A service that does not answer counts as a failed store (503).
pub(crate) fn send(request: &ApiRequest, endpoint: &Endpoint) -> anyhow::Result<(u16, Value)> {
    let sent = match &request.body {
        Some(body) => endpoint.post(&request.path, body),
        None => endpoint.get(&request.path, None),
    };
    let server = &endpoint.server;
    let mut response = match sent {
        Ok(response) => response,
        Err(failure) => return Ok((503, json!({ "error": failure.text }))),
    };
    let status = response.status().as_u16();
    let body = response.body_mut().read_json();
    Ok((
        status,
        body.with_context(|| {
            format!("{server} returned {status}, but not a response of Tidegate: use the address of the HTTP listener")
        })?,
    ))
}
