//! Tests of RESP over a real connection. An independent crate decodes the replies.

pub(crate) mod client;
mod decisions;
mod disconnects;
mod floods;
mod for_services;
mod parsing;
mod pipelines;
mod raw;
mod refusals;
mod sessions;
mod tokens;
mod transactions;

use crate::running::Running;

const POLICIES: &str = r#"
[policies.api]
limits = ["3/1h"]
[policies.login]
limits = ["5/1h", "50/1d"]
[policies.quota]
limits = ["9500/1d"]
[policies.quota.operations]
"search.list" = 100
[policies.watched]
limits = ["1/1h"]
mode = "shadow"
[policies.burst]
limits = ["10/1h"]
algorithm = "gcra:4"
[policies.wide]
limits = ["1_000_000/1h"]
"#;

/// Starts a service with a few policies.
fn service() -> Running {
    Running::start(POLICIES)
}

/// Starts the same service with server settings.
fn service_with(settings: &str) -> Running {
    Running::start(&format!("[server]\n{settings}\n{POLICIES}"))
}
