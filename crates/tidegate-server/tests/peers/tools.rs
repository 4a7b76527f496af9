//! Finds and runs the peers.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

/// Returns a file under `TIDEGATE_PEERS`; `target/peers` by default.
#[track_caller]
pub(crate) fn peer(path: &str) -> PathBuf {
    let root = match std::env::var_os("TIDEGATE_PEERS") {
        Some(root) => PathBuf::from(root),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/peers"),
    };
    let path = root.join(path);
    assert!(path.exists(), "{} is missing: run scripts/peers", path.display());
    path
}

/// Runs a command that must succeed. Returns its standard output.
#[track_caller]
pub(crate) fn run(command: &mut Command) -> String {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().unwrap_or_else(|error| panic!("{program}: {error}: run scripts/peers"));
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{program} failed: {}\n{stdout}\n{stderr}", output.status);
    stdout.into_owned()
}
