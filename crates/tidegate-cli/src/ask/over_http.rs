//! Put to a service, over HTTP.

use std::time::Duration;

use anyhow::Context as _;
use serde_json::{Value, json};
use ureq::{Agent, Body, http::Response};

use super::Question;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// A service, and what it wants to be shown.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    /// Its address, without a slash at the end.
    pub(crate) server: String,
    bearer: Option<String>,
    agent: Agent,
}

impl Place {
    pub(crate) fn new(server: &str, token: Option<&str>) -> anyhow::Result<Self> {
        anyhow::ensure!(
            server.starts_with("http://") || server.starts_with("https://"),
            "`{server}` is no address of a service: write http://127.0.0.1:8080"
        );
        let config = Agent::config_builder().proxy(None).http_status_as_error(false);
        Ok(Self {
            server: server.trim_end_matches('/').to_owned(),
            bearer: token.map(|token| format!("Bearer {token}")),
            agent: config.build().into(),
        })
    }

    /// Asks for something that may take as long as `longest` to read.
    pub(crate) fn get(&self, path: &str, longest: Duration) -> Result<Response<Body>, ureq::Error> {
        let mut request = self.agent.get(format!("{}{path}", self.server));
        if let Some(bearer) = &self.bearer {
            request = request.header("authorization", bearer);
        }
        let request = request.config().timeout_connect(Some(PATIENCE)).timeout_recv_response(Some(PATIENCE));
        request.timeout_recv_body(Some(longest)).build().call()
    }

    fn post(&self, path: &str, body: &impl serde::Serialize) -> Result<Response<Body>, ureq::Error> {
        let mut request = self.agent.post(format!("{}{path}", self.server));
        if let Some(bearer) = &self.bearer {
            request = request.header("authorization", bearer);
        }
        request.config().timeout_global(Some(PATIENCE)).build().send_json(body)
    }
}

/// The service's answer; of one that does not answer, what a service says whose store doesn't.
pub(crate) fn put(question: &Question, place: &Place) -> anyhow::Result<(u16, Value)> {
    let sent =
        if question.is_post { place.post(&question.path, &question.body) } else { place.get(&question.path, PATIENCE) };
    let server = &place.server;
    let mut response = match sent {
        Ok(response) => response,
        Err(error) => {
            let message = format!("the service at {server} does not answer: {error}; start one with `tidegate serve`");
            return Ok((503, json!({ "error": message })));
        }
    };
    let status = response.status().as_u16();
    let body = response.body_mut().read_json();
    Ok((status, body.with_context(|| format!("{server} answers {status}, but not as tidegate does"))?))
}
