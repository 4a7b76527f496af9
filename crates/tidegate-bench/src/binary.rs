//! The command's binary, as it is delivered.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use crate::cargo::cargo;

const PACKAGE: &str = "tidegate-cli";

/// A line of cargo's output about a built artifact.
#[derive(Deserialize)]
struct Built {
    executable: Option<PathBuf>,
}

/// Builds the command `tidegate` with optimisations; where it is.
pub(crate) fn build() -> Result<PathBuf> {
    let mut command = cargo("build");
    command.args(["--release", "--package", PACKAGE, "--message-format", "json"]);
    let output = command.output().context("cargo could not be started to build the command")?;
    ensure!(output.status.success(), "{PACKAGE} could not be built: {}", output.status);
    executable(&String::from_utf8_lossy(&output.stdout)).with_context(|| format!("cargo built no binary of {PACKAGE}"))
}

fn executable(said: &str) -> Option<PathBuf> {
    said.lines().filter_map(|line| serde_json::from_str::<Built>(line).ok()?.executable).next_back()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_binary_is_the_one_that_cargo_names() {
        let said = r#"{"reason":"compiler-artifact","executable":null}
{"reason":"compiler-artifact","executable":"/target/release/tidegate"}
{"reason":"build-finished","success":true}"#;
        assert_eq!(executable(said), Some("/target/release/tidegate".into()));
    }
}
