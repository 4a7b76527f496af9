//! Runs the benchmark under callgrind and reads its counts.

use std::collections::BTreeMap;
use std::env;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::DECISIONS;

/// Instructions per decision by benchmark.
pub(super) type Counts = BTreeMap<String, f64>;

/// Builds and runs the benchmarks in `benches/`.
///
/// # Errors
/// If it fails, or prints anything but summaries.
pub(super) fn run() -> Result<Counts> {
    let output = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["bench", "--quiet", "--manifest-path", concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")])
        .args(["--bench", "instructions", "--bench", "holds", "--", "--output-format=json"])
        .stderr(Stdio::inherit())
        .output()
        .context("cargo can't be started")?;
    ensure!(output.status.success(), "the benchmark failed: {}", output.status);
    let counts = parse(&String::from_utf8_lossy(&output.stdout))?;
    ensure!(!counts.is_empty(), "the benchmark counted nothing");
    Ok(counts)
}

fn parse(output: &str) -> Result<Counts> {
    output.lines().filter(|line| line.starts_with('{')).map(count_of).collect()
}

fn count_of(line: &str) -> Result<(String, f64)> {
    let summary: Value = serde_json::from_str(line).context("a summary of gungraun")?;
    let function = summary["function_name"].as_str().context("a summary of gungraun names its function")?;
    let name = format!("{function}::{}", summary["id"].as_str().unwrap_or_default());
    let instructions = summary.pointer("/profiles/0/data/total/metrics/Ir/values/new").and_then(Value::as_f64);
    Ok((name.clone(), instructions.with_context(|| format!("no profile of {name}"))? / f64::from(DECISIONS)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_of_a_summary_is_that_of_one_decision() {
        let summary = r#"{"function_name":"known_key","id":"gcra_denied","more":[],"profiles":
            [{"data":{"total":{"metrics":{"Ir":{"values":{"new":3450600,"old":1}}}}}}]}"#;
        let output = format!("not a summary\n{}\n", summary.replace('\n', ""));
        let counts = parse(&output).expect("a summary");
        assert_eq!(counts, Counts::from([("known_key::gcra_denied".to_owned(), 345.06)]));
    }
}
