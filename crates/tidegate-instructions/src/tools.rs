//! The tools that count instructions.

use std::env;
use std::process::Command;

/// The version of the library, which the runner has to share.
const GUNGRAUN: &str = "0.20.0";

/// Checks that the tools are installed. The error says how to install a missing one.
///
/// # Errors
/// If valgrind or the runner is missing, or the runner is of another version.
pub(super) fn check() -> Result<(), String> {
    if version_of("valgrind").is_none() {
        return Err("valgrind is missing: install your system's package `valgrind`".to_owned());
    }
    let runner = env::var("GUNGRAUN_RUNNER").unwrap_or_else(|_| "gungraun-runner".to_owned());
    match version_of(&runner) {
        Some(version) if version.split_whitespace().last() == Some(GUNGRAUN) => Ok(()),
        Some(version) => Err(format!("this needs gungraun-runner {GUNGRAUN}, found {version}: {}", install_runner())),
        None => Err(format!("gungraun-runner is missing: {}", install_runner())),
    }
}

fn install_runner() -> String {
    format!("`cargo install gungraun-runner --version {GUNGRAUN}`")
}

fn version_of(program: &str) -> Option<String> {
    let output = Command::new(program).arg("--version").output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manifest_asks_for_the_same_version() {
        let manifest = include_str!("../Cargo.toml");
        assert!(manifest.contains(&format!("gungraun = \"={GUNGRAUN}\"")));
    }
}
