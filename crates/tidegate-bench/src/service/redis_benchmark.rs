//! redis-benchmark: many clients that send commands with keys drawn at random.

use std::net::SocketAddr;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::process::output_of;
use super::report::Latency;
use super::throughput::Load;

/// Number of connections.
pub(super) const CLIENTS: u64 = 50;
/// Number of keys.
pub(super) const KEYS: u64 = 100_000;
/// redis-benchmark replaces `__rand_int__` by a random number of twelve digits.
pub(super) const KEY: &str = "key:__rand_int__";

/// Sends this number of commands. Returns the rate and the latencies.
pub(super) fn run(server: SocketAddr, pipeline: usize, commands: usize, command: &[&str]) -> Result<Load> {
    let mut command_line = Command::new("redis-benchmark");
    command_line
        .args(["-h", &server.ip().to_string(), "-p", &server.port().to_string()])
        .args(["-c", &CLIENTS.to_string(), "-r", &KEYS.to_string()])
        .args(["-P", &pipeline.to_string(), "-n", &commands.to_string()])
        .args(["--precision", "3"])
        .args(command);
    let text = output_of(command_line, "redis-tools")?;
    ensure!(!text.contains("Error from server"), "redis-benchmark failed: {text}");
    let (per_second, latency) =
        parse(&text).with_context(|| format!("unexpected output of redis-benchmark: {text}"))?;
    Ok(Load { commands, per_second, latency })
}

/// Parses the summary, and the percentile 99.9 from the distribution above it.
fn parse(text: &str) -> Option<(f64, Latency)> {
    let lines = text.lines().map(str::trim);
    let per_second = lines.clone().find_map(|line| line.strip_prefix("throughput summary: "))?;
    let per_second = per_second.split_whitespace().next()?.parse().ok()?;
    // The line after the names: avg, min, p50, p95, p99, max.
    let summary = lines.clone().skip_while(|line| !(line.starts_with("avg") && line.ends_with("max"))).nth(1)?;
    let summary: Vec<f64> = summary.split_whitespace().filter_map(|number| number.parse().ok()).collect();
    let steps = lines.filter_map(|line| {
        let (percent, rest) = line.split_once("% <= ")?;
        let milliseconds: f64 = rest.split_whitespace().next()?.parse().ok()?;
        Some((percent.parse::<f64>().ok()?, milliseconds))
    });
    let p999 = steps.filter(|(percent, _)| *percent >= 99.9).map(|(_, milliseconds)| milliseconds);
    let p999 = p999.reduce(f64::min)?;
    Some((per_second, Latency { p50: *summary.get(2)?, p99: *summary.get(4)?, p999 }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_and_the_distribution_are_parsed() {
        let text = "
Latency by percentile distribution:
99.805% <= 28.295 milliseconds (cumulative count 99805)
99.902% <= 35.007 milliseconds (cumulative count 99902)

Cumulative distribution of latencies:
99.900% <= 35.103 milliseconds (cumulative count 99900)
100.000% <= 37.119 milliseconds (cumulative count 100000)

Summary:
  throughput summary: 25920.17 requests per second
  latency summary (msec):
          avg       min       p50       p95       p99       max
        1.364     0.144     0.871     4.079    12.055    36.575
";
        let (per_second, latency) = parse(text).expect("a summary");
        assert!((per_second - 25_920.17).abs() < 1e-9);
        assert_eq!(latency, Latency { p50: 0.871, p99: 12.055, p999: 35.007 });
    }
}
