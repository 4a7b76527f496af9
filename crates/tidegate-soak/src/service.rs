//! [`Service`]: a `tidegate serve` process with its own configuration.

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use anyhow::Context as _;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tidegate_testbed::{Wire, free_port, wait_for};

use crate::honest;

/// The limit of the policy `tight`, which the hot key attack uses.
pub(crate) const TIGHT: u64 = 5;
/// The token of the services. No client here sends it: health, readiness and wrong guesses do not need it.
const ADMIN_TOKEN: &str = "soak-admin-token-0001";

/// A running service.
#[derive(Debug)]
pub(crate) struct Service {
    process: Child,
    pub(crate) http: String,
    pub(crate) resp: String,
    pub(crate) grpc: String,
    file: PathBuf,
    config: String,
    // Removed last: the process reads the configuration there.
    _folder: TempDir,
}

impl Service {
    /// Starts a service whose log goes to a pipe that is not read.
    pub(crate) fn start(binary: &Path, store: &str) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let file = folder.path().join("tidegate.toml");
        let [http, resp, grpc] = std::array::from_fn(|_| format!("127.0.0.1:{}", free_port()));
        let config = config([&http, &resp, &grpc], store);
        fs::write(&file, &config)?;
        let process = Command::new(binary)
            .args(["serve", "--config"])
            .arg(&file)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .context("the service did not start")?;
        let service = Self { process, http, resp, grpc, file, config, _folder: folder };
        wait_for("the service to reply", Duration::from_secs(30), || {
            service.must_reply().map_err(|error| error.to_string())
        });
        Ok(service)
    }

    pub(crate) fn process_id(&self) -> u32 {
        self.process.id()
    }

    /// Fails if a new client gets no reply.
    pub(crate) fn must_reply(&self) -> anyhow::Result<()> {
        let mut connection = Wire::try_connect(&self.resp).context("RESP accepts no connection")?;
        connection.try_command(["PING"]).context("RESP does not reply")?;
        Ok(())
    }

    /// Replaces the configuration file by `text` and requests a reload.
    pub(crate) fn reload_with(&self, text: &str) -> anyhow::Result<()> {
        fs::write(&self.file, text)?;
        let process = Pid::from_child(&self.process);
        kill_process(process, Signal::HUP)?;
        Ok(())
    }

    /// Restores the configuration that the service was started with.
    pub(crate) fn reload_original(&self) -> anyhow::Result<()> {
        self.reload_with(&self.config)
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn config([http, resp, grpc]: [&str; 3], store: &str) -> String {
    let mut text = format!(
        "[server]\nhttp = \"{http}\"\nresp = \"{resp}\"\ngrpc = \"{grpc}\"\n\
         admin_token = \"{ADMIN_TOKEN}\"\n\n[store]\nurl = \"{store}\"\nmax_keys = 200_000\nmax_bytes = \"64MB\"\n\n\
         [policies.tight]\nlimits = [\"{TIGHT}/1h\"]\non_store_failure = \"open\"\n\n\
         [policies.flooded]\nlimits = [\"10/10s\"]\n\n"
    );
    for (name, limits, _) in honest::policies() {
        writeln!(text, "[policies.{name}]\n{limits}\n").expect("writing to a string cannot fail");
    }
    text
}
