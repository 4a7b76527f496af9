//! What the document says holds: schemathesis makes requests from it and compares.

use std::process::Command;

use crate::{
    running::Running,
    tools::{peer, run},
};

#[test]
fn the_document_tells_the_truth() {
    let running =
        Running::start("[policies.public-api]\nlimits = [\"1000/1m\"]\n[policies.youtube]\nlimits = [\"9500/1d\"]\n");
    let url = format!("http://{}/openapi.json", running.http);
    let mut command = Command::new(peer("python/bin/schemathesis"));
    command.args([
        "run",
        &url,
        "--seed",
        "1",
        "--max-examples",
        "60",
        "--phases",
        "examples,coverage,fuzzing",
        "--no-color",
    ]);
    // A stream of events has no end.
    command.args(["--exclude-path", "/v1/live"]);
    // Requests that the schema allows and the service refuses are many: a policy that there is not, a limit that is no limit.
    command.args(["--checks", "all", "--exclude-checks", "positive_data_acceptance", "--generation-database", "none"]);
    run(command.current_dir(env!("CARGO_TARGET_TMPDIR")));
}
