//! wrk: many connections that send a request after each response.

use std::io::Write as _;
use std::net::SocketAddr;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::process::output_of;
use super::report::Latency;
use super::throughput::Load;
use crate::measure::as_f64;

/// Prints the output that [`parse`] parses.
const MEASURED: &str = include_str!("measured.lua");
/// Posts checks with keys drawn at random.
const CHECK: &str = include_str!("check.lua");
const CONNECTIONS: &str = "32";

/// Posts checks for this number of seconds. Returns the rate and the latencies.
pub(super) fn check(server: SocketAddr, seconds: u64, policy: &str) -> Result<Load> {
    run(server, seconds, &[MEASURED, CHECK], &["--", policy])
}

/// Gets the same page for this number of seconds. Returns the rate and the latencies.
pub(crate) fn get(server: SocketAddr, seconds: u64) -> Result<Load> {
    run(server, seconds, &[MEASURED], &[])
}

fn run(server: SocketAddr, seconds: u64, parts: &[&str], arguments: &[&str]) -> Result<Load> {
    let mut script = tempfile::Builder::new().suffix(".lua").tempfile()?;
    script.write_all(parts.concat().as_bytes())?;
    let mut command = Command::new("wrk");
    command
        .args(["-t", "1", "-c", CONNECTIONS, "-d", &format!("{seconds}s"), "-s"])
        .arg(script.path())
        .arg(format!("http://{server}"))
        .args(arguments);
    let text = output_of(command, "wrk")?;
    let measured = parse(&text).with_context(|| format!("unexpected output of wrk: {text}"))?;
    ensure!(measured.errors == 0, "{} requests failed: {text}", measured.errors);
    Ok(measured.load)
}

#[derive(Debug)]
struct Measured {
    load: Load,
    errors: usize,
}

/// Parses the line that the script writes.
fn parse(text: &str) -> Option<Measured> {
    let line = text.lines().find_map(|line| line.strip_prefix("measured "))?;
    let numbers: Vec<usize> = line.split_whitespace().filter_map(|number| number.parse().ok()).collect();
    let [requests, microseconds, errors, p50, p99, p999] = *numbers else { return None };
    let milliseconds = |microseconds| as_f64(microseconds) / 1e3;
    let latency = Latency { p50: milliseconds(p50), p99: milliseconds(p99), p999: milliseconds(p999) };
    let per_second = as_f64(requests) / (as_f64(microseconds) / 1e6);
    Some(Measured { load: Load { commands: requests, per_second, latency }, errors })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_the_script_is_parsed() {
        let text = "Running 2s test\nmeasured 80000 2000000 0 400 900 2500\n";
        let measured = parse(text).expect("a measured line");
        assert_eq!(measured.errors, 0);
        assert!((measured.load.per_second - 40_000.0).abs() < 1e-9);
        assert_eq!(measured.load.latency, Latency { p50: 0.4, p99: 0.9, p999: 2.5 });
    }
}
