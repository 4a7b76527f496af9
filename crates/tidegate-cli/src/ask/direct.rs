//! Put to the Redis itself, through the service's own layers in this process.

use std::path::PathBuf;

use anyhow::Context as _;
use serde_json::Value;
use tidegate_server::{
    InProcess,
    config::{Config, SettingSources},
};

use super::Question;
use crate::serve::file_or_default;

pub(super) fn put(question: &Question, url: &str, config: Option<&PathBuf>) -> anyhow::Result<(u16, Value)> {
    anyhow::ensure!(
        url != "memory",
        "the memory of a command ends with it: name a Redis, or ask a service with --server"
    );
    // A person waits longer than a request does.
    let sources = SettingSources::from_environment()?.store("--store", "url", url).store("--store", "timeout", "2s");
    let config = Config::load(file_or_default(config).as_deref(), &sources)?;
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().context("no runtime can be had")?;
    let body = if question.is_post { serde_json::to_vec(&question.body)? } else { Vec::new() };
    let method = if question.is_post { "POST" } else { "GET" };
    let (status, body) = runtime.block_on(async {
        let service = InProcess::new(config)?;
        anyhow::Ok(service.send(method.parse()?, &question.path, body).await)
    })?;
    Ok((status.as_u16(), serde_json::from_slice(&body).context("the answer can't be read")?))
}
