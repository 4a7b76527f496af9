//! The servers of a comparison, each in a separate process.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;
use tidegate_testbed::{Reply, Server, Wire};

use super::process::{Pid, Process, free_address};
use crate::redis_store::{field, info};

/// Two policies that admit all requests, one for each algorithm, and one that soon denies nearly all. The limit of the
/// log is above the number of requests of a run for one key.
const POLICIES: &str = r#"
[policies.sliding_log]
limits = ["1_000_000/1m"]
algorithm = "sliding_log"

[policies.sliding_counter]
limits = ["1_000_000/1m"]
algorithm = "sliding_counter"

[policies.scarce]
limits = ["1/1h"]
"#;

/// The service.
#[derive(Debug)]
pub(super) struct Tidegate {
    pub(super) process: Process,
    pub(super) http: SocketAddr,
    pub(super) resp: SocketAddr,
    // Dropped after the process that reads it.
    _configuration: TempDir,
}

impl Tidegate {
    /// Starts the service and waits until it has made a decision.
    pub(super) fn start(binary: &Path) -> Result<Self> {
        let configuration = tempfile::Builder::new().prefix("tidegate-bench-").tempdir()?;
        let file = configuration.path().join("tidegate.toml");
        fs::write(&file, POLICIES)?;
        let (http, resp) = (free_address(), free_address());
        let mut command = Command::new(binary);
        command
            .arg("serve")
            .arg("--config")
            .arg(file)
            .args(["--http", &http.to_string(), "--resp", &resp.to_string(), "--grpc", "off"])
            // The environment of the user must not change the settings.
            .env_clear();
        let mut process = Process::start(&mut command)?;
        let first = process.wait_for(|| {
            Wire::try_connect(resp).and_then(|mut wire| wire.try_command(["TG.CHECK", "sliding_log", "first"])).ok()
        })?;
        ensure!(is_allowed(&first), "the first reply is {first:?}");
        Ok(Self { process, http, resp, _configuration: configuration })
    }
}

/// Whether a reply is a decision that admits the request.
pub(super) fn is_allowed(reply: &Reply) -> bool {
    matches!(reply, Reply::Array(numbers) if numbers.len() == 6 && numbers[0] == Reply::Integer(1))
}

/// The process id of a Redis server, as `INFO` reports it.
pub(super) fn redis_id(server: &Server) -> Result<Pid> {
    let info = info(&mut server.wire(), "server");
    let id = field(&info, "process_id:").context("Redis does not report its process id")?;
    Ok(Pid(id.trim().parse()?))
}
