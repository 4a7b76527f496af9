//! Where the figures come from.

use std::env;
use std::fmt;
use std::process::Command;
use std::thread;

use serde::{Deserialize, Serialize};

/// The machine and the compiler.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    /// Cores this process may use.
    pub cores: usize,
    /// Architecture and operating system.
    pub platform: String,
    /// What `rustc --version` says.
    pub rustc: String,
}

impl Machine {
    /// The machine this runs on.
    pub fn this() -> Self {
        Self {
            cores: thread::available_parallelism().map_or(1, usize::from),
            platform: format!("{}-{}", env::consts::ARCH, env::consts::OS),
            rustc: Toolchain::this().rustc,
        }
    }
}

/// What decides about the machine code of a given source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Toolchain {
    /// What `rustc --version` says.
    pub rustc: String,
    /// The architecture.
    pub arch: String,
}

impl Toolchain {
    /// The toolchain that builds here.
    pub fn this() -> Self {
        Self { rustc: rustc_version(), arch: env::consts::ARCH.to_owned() }
    }
}

impl fmt::Display for Toolchain {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} for {}", self.rustc, self.arch)
    }
}

fn rustc_version() -> String {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc).arg("--version").output();
    output.map_or_else(|_| "unknown".to_owned(), |output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
