//! The two sides of a comparison, each a process with an address.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;
use tidegate_testbed::{Reply, Server, Wire, free_port};

use super::process::{Pid, Process};
use crate::redis_store::{field, info};

/// Policies that let everything pass, by the algorithm that counts, and one that soon lets nothing pass. A log of a minute holds what a
/// run asks of a key.
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
    process: Process,
    pub(super) http: SocketAddr,
    pub(super) resp: SocketAddr,
    // Dropped after the process that reads it.
    _configuration: TempDir,
}

impl Tidegate {
    /// Starts it, and waits until it has decided something.
    pub(super) fn start(binary: &Path) -> Result<Self> {
        let configuration = tempfile::Builder::new().prefix("tidegate-bench-").tempdir()?;
        let file = configuration.path().join("tidegate.toml");
        fs::write(&file, POLICIES)?;
        let (http, resp) = (local(free_port()), local(free_port()));
        let mut command = Command::new(binary);
        command
            .arg("serve")
            .arg("--config")
            .arg(file)
            .args(["--http", &http.to_string(), "--resp", &resp.to_string(), "--grpc", "off"])
            // Settings of whoever runs this do not belong here.
            .env_clear();
        let mut process = Process::start(&mut command)?;
        let first = process.until(|| {
            Wire::try_connect(resp).and_then(|mut wire| wire.try_command(["TG.CHECK", "sliding_log", "first"])).ok()
        })?;
        ensure!(is_allowed(&first), "the first answer is {first:?}");
        Ok(Self { process, http, resp, _configuration: configuration })
    }

    pub(super) fn id(&self) -> Pid {
        self.process.id()
    }
}

/// Whether a reply is a decision that let something pass.
pub(super) fn is_allowed(reply: &Reply) -> bool {
    matches!(reply, Reply::Array(numbers) if numbers.len() == 6 && numbers[0] == Reply::Integer(1))
}

/// The bare route, served by this very binary.
#[derive(Debug)]
pub(super) struct BareRoute {
    process: Process,
    pub(super) http: SocketAddr,
}

impl BareRoute {
    /// Starts it, and waits until it listens.
    pub(super) fn start() -> Result<Self> {
        let http = local(free_port());
        let this = std::env::current_exe().context("this binary is nowhere")?;
        let mut process = Process::start(Command::new(this).args(["bare-route", &http.to_string()]))?;
        process.until(|| std::net::TcpStream::connect(http).ok())?;
        Ok(Self { process, http })
    }

    pub(super) fn id(&self) -> Pid {
        self.process.id()
    }
}

/// The process id of a Redis server, as `INFO` reports it.
pub(super) fn redis_id(server: &Server) -> Result<Pid> {
    let about = info(&mut server.wire(), "server");
    let id = field(&about, "process_id:").context("Redis does not tell its process")?;
    Ok(Pid(id.trim().parse()?))
}

/// An address on this machine.
pub(crate) fn local(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}
