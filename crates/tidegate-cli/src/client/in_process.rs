//! Executes a request on a Redis, with a service inside this process.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde_json::Value;
use tidegate_server::{InProcess, config::SettingSources};

use super::ApiRequest;
use crate::serve::load_config;

/// Trusts the certificates in a file, for a Redis with TLS.
pub(crate) fn with_ca(sources: SettingSources, ca: Option<&Path>) -> SettingSources {
    match ca {
        Some(ca) => sources.store("--ca", "tls_ca", ca.to_string_lossy()),
        None => sources,
    }
}

pub(super) fn send(
    request: &ApiRequest,
    url: &str,
    ca: Option<&Path>,
    config: Option<&PathBuf>,
) -> anyhow::Result<(u16, Value)> {
    anyhow::ensure!(
        url != "memory",
        "the memory of a command ends with the command: use the URL of a Redis, or a service with --server"
    );
    // A person can wait longer than a request.
    let sources = SettingSources::from_environment()?.store("--store", "url", url).store("--store", "timeout", "2s");
    let sources = with_ca(sources, ca);
    let config = load_config(config, &sources)?;
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().context("the runtime can't be started")?;
    let (method, body) = match &request.body {
        Some(body) => ("POST", serde_json::to_vec(body)?),
        None => ("GET", Vec::new()),
    };
    let (status, body) = runtime.block_on(async {
        let service = InProcess::new(config)?;
        anyhow::Ok(service.send(method.parse()?, &request.path, body).await)
    })?;
    Ok((status.as_u16(), serde_json::from_slice(&body).context("the response can't be read")?))
}
