//! [`Toolchain`]: the compiler and the architecture, which determine the machine code.

use std::env;
use std::fmt;
use std::process::Command;

use serde::{Deserialize, Serialize};

/// The compiler and the architecture.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Toolchain {
    /// The output of `rustc --version`.
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
