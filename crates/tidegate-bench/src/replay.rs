//! Compares `tidegate replay` with `mawk '{print $1}'` on the same log: the time of both, and the memory of ours.

use std::fmt;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde::Serialize;

use crate::cargo;
use crate::machine::Machine;
use crate::measure::median;
use crate::options::Size;
use crate::progress;
use crate::service::process::Pid;
use crate::stopwatch::{now, pause};
use crate::table::met_or_missed;

const CLIENTS: u32 = 100_000;
const LINES: u32 = 5_000_000;
const MINUTES: u32 = 24 * 60;
const TARGET_RATIO: f64 = 1.0;
const TARGET_MEGABYTES: f64 = 200.0;

/// Options of the command line.
#[derive(Debug, Clone, Args)]
pub struct Options {
    /// Rounds to take the median of
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    #[command(flatten)]
    size: Size,
}

/// The measurements.
#[derive(Debug, Serialize)]
pub struct ReplayReport {
    /// The machine.
    pub machine: Machine,
    /// The number of rounds.
    pub rounds: u16,
    /// The number of lines of the log.
    pub lines: u64,
    /// The bytes of the log.
    pub bytes: u64,
    /// Median seconds of ours.
    pub ours_seconds: f64,
    /// Median seconds of mawk.
    pub mawk_seconds: f64,
    /// The median of the ratios of ours to mawk in each round.
    pub times_mawk: f64,
    /// The maximum memory of ours.
    pub peak_megabytes: f64,
}

/// Creates a log and reads it with both commands in turn.
///
/// # Errors
/// If the command can't be built, or mawk is not installed.
pub fn run(options: &Options) -> Result<ReplayReport> {
    progress::show("building");
    let binary = cargo::build_service()?;
    let folder = tempfile::tempdir()?;
    let log = folder.path().join("access.log");
    progress::show("creating a log");
    create_log(&binary, &log, options.size)?;
    let (mut ours, mut mawk, mut times, mut peak) = (Vec::new(), Vec::new(), Vec::new(), 0.0_f64);
    let mut lines = 0;
    for round in 1..=options.rounds {
        progress::show(&format!("round {round} of {}", options.rounds));
        let mut awk = Command::new("mawk");
        awk.arg("{print $1}").arg(&log).stdout(Stdio::null());
        let theirs = seconds(awk, |_| {}).context("mawk can't be run: install it (apt-get install mawk)")?;
        let result = folder.path().join("result.json");
        let mut replay = Command::new(&binary);
        replay.args(["replay", "--limit", "60/1m", "--format", "json"]).arg(&log).stdout(File::create(&result)?);
        let mine = seconds(replay, |child| peak = peak.max(Pid(child.id()).megabytes("VmHWM:").unwrap_or(0.0)))?;
        let result: serde_json::Value = serde_json::from_slice(&fs::read(&result)?)?;
        lines = result["input"]["requests"].as_u64().context("the result has no number of requests")?;
        ensure!(result["input"]["malformed"] == 0, "a line is malformed");
        ours.push(mine);
        mawk.push(theirs);
        times.push(mine / theirs);
    }
    Ok(ReplayReport {
        machine: Machine::this(),
        rounds: options.rounds,
        lines,
        bytes: log.metadata()?.len(),
        ours_seconds: median(ours),
        mawk_seconds: median(mawk),
        times_mawk: median(times),
        peak_megabytes: peak,
    })
}

/// Writes the traffic of one day as a combined log.
fn create_log(binary: &Path, log: &Path, size: Size) -> Result<()> {
    let per_minute = f64::from(LINES) / f64::from(CLIENTS) / f64::from(MINUTES);
    let mut traffic = Command::new(binary);
    traffic.args(["simulate", "traffic", "--output", "combined", "--duration", &format!("{MINUTES}m")]);
    traffic.args(["--clients", &size.of(CLIENTS).to_string(), "--per-minute", &per_minute.to_string()]);
    let status = traffic.stdout(File::create(log)?).status()?;
    ensure!(status.success(), "the traffic could not be simulated: {status}");
    // Both commands then read the log from the page cache.
    let _ = fs::read(log)?;
    Ok(())
}

/// Returns the duration of a command. Calls `sample` with its process while it runs.
fn seconds(mut command: Command, mut sample: impl FnMut(&Child)) -> Result<f64> {
    let start = now();
    let mut child = command.spawn()?;
    loop {
        if let Some(status) = child.try_wait()? {
            ensure!(status.success(), "the command failed: {status}");
            return Ok((now() - start).as_secs_f64());
        }
        sample(&child);
        pause(Duration::from_millis(2));
    }
}

impl fmt::Display for ReplayReport {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { machine, rounds, lines, bytes, ours_seconds, mawk_seconds, times_mawk, peak_megabytes } = self;
        #[expect(clippy::cast_precision_loss, reason = "the figure is rounded anyway")]
        let megabytes = *bytes as f64 / 1e6;
        writeln!(
            out,
            "{machine}\n\
             a combined log of {lines} lines, {megabytes:.0} MB, one policy (60/1m); {rounds} interleaved rounds, medians\n  \
             tidegate replay  {ours_seconds:.2} s\n  \
             mawk '{{print $1}}' {mawk_seconds:.2} s\n  \
             x {times_mawk:.2}, target <= {TARGET_RATIO}: {}\n  \
             peak memory {peak_megabytes:.0} MB, target <= {TARGET_MEGABYTES}: {}",
            met_or_missed(*times_mawk <= TARGET_RATIO),
            met_or_missed(*peak_megabytes <= TARGET_MEGABYTES),
        )
    }
}
