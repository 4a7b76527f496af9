//! Runs cargo to build separate binaries.

use std::env;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

const PACKAGE: &str = "tidegate-cli";

/// A cargo command that runs `subcommand` on this package. Its errors are shown.
pub(crate) fn cargo(subcommand: &str) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command
        .args([subcommand, "--quiet", "--manifest-path", concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")])
        .stderr(Stdio::inherit());
    command
}

/// A line of cargo's output about a built artifact.
#[derive(Deserialize)]
struct BuildMessage {
    executable: Option<PathBuf>,
}

/// Builds the command `tidegate` in release mode. Returns its path.
pub(crate) fn build_service() -> Result<PathBuf> {
    let mut command = cargo("build");
    command.args(["--release", "--package", PACKAGE, "--message-format", "json"]);
    let output = command.output().context("cargo could not be started to build the command")?;
    ensure!(output.status.success(), "{PACKAGE} could not be built: {}", output.status);
    executable(&String::from_utf8_lossy(&output.stdout)).with_context(|| format!("cargo built no binary of {PACKAGE}"))
}

fn executable(output: &str) -> Option<PathBuf> {
    output.lines().filter_map(|line| serde_json::from_str::<BuildMessage>(line).ok()?.executable).next_back()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_comes_from_the_output_of_cargo() {
        let output = r#"{"reason":"compiler-artifact","executable":null}
{"reason":"compiler-artifact","executable":"/target/release/tidegate"}
{"reason":"build-finished","success":true}"#;
        assert_eq!(executable(output), Some("/target/release/tidegate".into()));
    }
}
