//! Starting cargo for what needs a binary of its own.

use std::env;
use std::process::{Command, Stdio};

/// Cargo, about to run `subcommand` on this package; what it complains about is shown.
pub(crate) fn cargo(subcommand: &str) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command
        .args([subcommand, "--quiet", "--manifest-path", concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")])
        .stderr(Stdio::inherit());
    command
}
