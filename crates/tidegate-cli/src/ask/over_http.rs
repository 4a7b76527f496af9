//! Put to a service, over HTTP.

use std::time::Duration;

use anyhow::Context as _;
use serde_json::{Value, json};

use super::Question;

/// The service's answer; of one that does not answer, what a service says whose store doesn't.
pub(super) fn put(question: &Question, server: &str, token: Option<&str>) -> anyhow::Result<(u16, Value)> {
    anyhow::ensure!(
        server.starts_with("http://") || server.starts_with("https://"),
        "`{server}` is no address of a service: write http://127.0.0.1:8080"
    );
    let server = server.trim_end_matches('/');
    let config = ureq::Agent::config_builder()
        .proxy(None)
        .http_status_as_error(false)
        .timeout_global(Some(Duration::from_secs(10)));
    let agent: ureq::Agent = config.build().into();
    let url = format!("{server}{}", question.path);
    let bearer = token.map(|token| format!("Bearer {token}"));
    let sent = if question.is_post {
        let request = agent.post(url);
        let request = match &bearer {
            Some(bearer) => request.header("authorization", bearer),
            None => request,
        };
        request.send_json(&question.body)
    } else {
        let request = agent.get(url);
        let request = match &bearer {
            Some(bearer) => request.header("authorization", bearer),
            None => request,
        };
        request.call()
    };
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
