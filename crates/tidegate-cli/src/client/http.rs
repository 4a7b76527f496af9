//! Sends a request to a service over HTTP.

use std::time::Duration;

use anyhow::Context as _;
use serde_json::{Value, json};
use ureq::{Agent, Body, http::Response};

use super::ApiRequest;
use crate::arguments::ServiceArguments;

/// How long a response may take.
const TIMEOUT: Duration = Duration::from_secs(10);

/// A service and the token for it.
#[derive(Debug, Clone)]
pub(crate) struct Endpoint {
    /// Its address, without a slash at the end.
    pub(crate) server: String,
    bearer: Option<String>,
    agent: Agent,
}

impl Endpoint {
    pub(crate) fn new(ServiceArguments { server, token }: &ServiceArguments) -> anyhow::Result<Self> {
        anyhow::ensure!(
            server.starts_with("http://") || server.starts_with("https://"),
            "`{server}` is not the URL of a service: write it as http://127.0.0.1:8080"
        );
        let config = Agent::config_builder().proxy(None).http_status_as_error(false);
        Ok(Self {
            server: server.trim_end_matches('/').to_owned(),
            bearer: token.as_ref().map(|token| format!("Bearer {token}")),
            agent: config.build().into(),
        })
    }

    /// Sends a GET request. Reading its response may take as long as `longest`.
    pub(crate) fn get(&self, path: &str, longest: Duration) -> Result<Response<Body>, ureq::Error> {
        let mut request = self.agent.get(format!("{}{path}", self.server));
        if let Some(bearer) = &self.bearer {
            request = request.header("authorization", bearer);
        }
        let request = request.config().timeout_connect(Some(TIMEOUT)).timeout_recv_response(Some(TIMEOUT));
        request.timeout_recv_body(Some(longest)).build().call()
    }

    fn post(&self, path: &str, body: &Value) -> Result<Response<Body>, ureq::Error> {
        let mut request = self.agent.post(format!("{}{path}", self.server));
        if let Some(bearer) = &self.bearer {
            request = request.header("authorization", bearer);
        }
        request.config().timeout_global(Some(TIMEOUT)).build().send_json(body)
    }
}

/// Returns the response of the service. A service that does not answer counts as a failed store (503).
pub(crate) fn send(request: &ApiRequest, endpoint: &Endpoint) -> anyhow::Result<(u16, Value)> {
    let sent = match &request.body {
        Some(body) => endpoint.post(&request.path, body),
        None => endpoint.get(&request.path, TIMEOUT),
    };
    let server = &endpoint.server;
    let mut response = match sent {
        Ok(response) => response,
        Err(error) => {
            let message = format!("the service at {server} does not answer: {error}; start one with `tidegate serve`");
            return Ok((503, json!({ "error": message })));
        }
    };
    let status = response.status().as_u16();
    let body = response.body_mut().read_json();
    Ok((status, body.with_context(|| format!("{server} returned {status}, but not a response of tidegate"))?))
}
