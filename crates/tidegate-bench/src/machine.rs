//! [`Machine`]: the machine and the compiler of a run.

use std::process::Command;
use std::thread;
use std::{env, fmt};

use serde::Serialize;

/// The machine and the compiler.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    /// Cores that this process may use.
    pub cores: usize,
    /// Architecture and operating system.
    pub platform: String,
    /// The output of `rustc --version`.
    pub rustc: String,
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} cores, {}, {}", self.cores, self.platform, self.rustc)
    }
}

impl Machine {
    /// The machine of this process.
    pub fn this() -> Self {
        Self {
            cores: thread::available_parallelism().map_or(1, usize::from),
            platform: format!("{}-{}", env::consts::ARCH, env::consts::OS),
            rustc: rustc_version(),
        }
    }
}

fn rustc_version() -> String {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc).arg("--version").output();
    output.map_or_else(|_| "unknown".to_owned(), |output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
