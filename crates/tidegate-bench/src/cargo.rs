//! Runs cargo to build separate binaries.

use std::env;
use std::process::{Command, Stdio};

/// A cargo command that runs `subcommand` on this package. Its errors are shown.
pub(crate) fn cargo(subcommand: &str) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command
        .args([subcommand, "--quiet", "--manifest-path", concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")])
        .stderr(Stdio::inherit());
    command
}
