//! [`Toolchain`]: what decides about the machine code of a given source.

use std::env;
use std::fmt;
use std::process::Command;

use serde::{Deserialize, Serialize};

/// What decides about the machine code of a given source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Toolchain {
    /// What `rustc --version` says.
    pub(crate) rustc: String,
    /// The architecture.
    pub(crate) arch: String,
}

impl Toolchain {
    /// The toolchain that builds here.
    pub(crate) fn this() -> Self {
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
