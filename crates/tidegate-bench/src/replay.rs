//! `tidegate replay` compared with `mawk '{print $1}'`: the time of each for the same log, and the memory of ours.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde::Serialize;

use crate::binary;
use crate::machine::Machine;
use crate::measure::median;
use crate::progress::Progress;
use crate::stopwatch::{now, pause};

const CLIENTS: u32 = 100_000;
const LINES: u32 = 5_000_000;
const MINUTES: u32 = 24 * 60;
const WANTED_TIMES: f64 = 1.0;
const WANTED_MEGABYTES: f64 = 200.0;

/// How much to measure.
#[derive(Debug, Clone)]
pub struct Options {
    /// Rounds to take the median of.
    pub rounds: usize,
    /// The divisor of lines and clients.
    pub divisor: u32,
}

/// The measurements.
#[derive(Debug, Serialize)]
pub struct ReplayReport {
    /// Where.
    pub machine: Machine,
    /// How often.
    pub rounds: usize,
    /// Lines of the log.
    pub lines: u64,
    /// Its bytes.
    pub bytes: u64,
    /// Seconds that ours takes, the median.
    pub ours_seconds: f64,
    /// Seconds that mawk takes, the median.
    pub mawk_seconds: f64,
    /// The median of ours by mawk, round by round.
    pub times_mawk: f64,
    /// The maximum memory of ours.
    pub peak_megabytes: f64,
}

/// Makes a log, and reads it by turns.
///
/// # Errors
/// If the command can't be built, or mawk is not there.
pub fn run(options: &Options) -> Result<ReplayReport> {
    let progress = Progress::new();
    progress.say("building");
    let binary = binary::build()?;
    let folder = tempfile::tempdir()?;
    let log = folder.path().join("access.log");
    progress.say("making a log");
    make(&binary, &log, options.divisor)?;
    let (mut ours, mut mawk, mut times, mut peak) = (Vec::new(), Vec::new(), Vec::new(), 0.0_f64);
    let mut lines = 0;
    for round in 1..=options.rounds {
        progress.say(&format!("round {round} of {}", options.rounds));
        let mut awk = Command::new("mawk");
        awk.arg("{print $1}").arg(&log).stdout(Stdio::null());
        let theirs = seconds(awk, |_| {}).context("mawk can't be run: install it (apt-get install mawk)")?;
        let answer = folder.path().join("answer.json");
        let mut replay = Command::new(&binary);
        replay.args(["replay", "--limit", "60/1m", "--format", "json"]).arg(&log).stdout(File::create(&answer)?);
        let mine = seconds(replay, |id| peak = peak.max(high_water_megabytes(id).unwrap_or(0.0)))?;
        let found: serde_json::Value = serde_json::from_slice(&fs::read(&answer)?)?;
        lines = found["input"]["requests"].as_u64().context("it has counted requests")?;
        ensure!(found["input"]["malformed"] == 0, "every line can be read");
        (ours, mawk, times) =
            ([ours, vec![mine]].concat(), [mawk, vec![theirs]].concat(), [times, vec![mine / theirs]].concat());
    }
    progress.clear();
    let middle = |values: &[f64]| median(values).unwrap_or(f64::NAN);
    Ok(ReplayReport {
        machine: Machine::this(),
        rounds: options.rounds,
        lines,
        bytes: log.metadata()?.len(),
        ours_seconds: middle(&ours),
        mawk_seconds: middle(&mawk),
        times_mawk: middle(&times),
        peak_megabytes: peak,
    })
}

/// A day of a site's traffic as a combined log.
fn make(binary: &Path, log: &Path, divisor: u32) -> Result<()> {
    let per_minute = f64::from(LINES) / f64::from(CLIENTS) / f64::from(MINUTES);
    let mut traffic = Command::new(binary);
    traffic.args(["simulate", "traffic", "--output", "combined", "--duration", &format!("{MINUTES}m")]);
    traffic.args(["--clients", &(CLIENTS / divisor).to_string(), "--per-minute", &per_minute.to_string()]);
    let status = traffic.stdout(File::create(log)?).status()?;
    ensure!(status.success(), "no traffic could be made: {status}");
    // Both read it from the memory of the system.
    let _ = fs::read(log)?;
    Ok(())
}

/// How long a command takes; `look` is called with its process while it runs.
fn seconds(mut command: Command, mut look: impl FnMut(&Child)) -> Result<f64> {
    let start = now();
    let mut child = command.spawn()?;
    loop {
        if let Some(status) = child.try_wait()? {
            ensure!(status.success(), "it ended with {status}");
            return Ok((now() - start).as_secs_f64());
        }
        look(&child);
        pause(Duration::from_millis(2));
    }
}

/// The maximum memory of a process so far.
fn high_water_megabytes(child: &Child) -> Option<f64> {
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).ok()?;
    let kilobytes = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.strip_suffix("kB"))?;
    Some(kilobytes.trim().parse::<f64>().ok()? * 1_024.0 / 1e6)
}

/// The report as text.
pub fn render(report: &ReplayReport) -> String {
    let machine = &report.machine;
    let mut text = format!("{} cores, {}, {}\n", machine.cores, machine.platform, machine.rustc);
    #[expect(clippy::cast_precision_loss, reason = "figures for people")]
    let bytes = report.bytes as f64;
    let verdict = |met: bool| if met { "met" } else { "missed" };
    let _ = writeln!(
        text,
        "a combined log of {} lines, {:.0} MB, one policy (60/1m); {} rounds by turns, medians",
        report.lines,
        bytes / 1e6,
        report.rounds
    );
    let _ = writeln!(
        text,
        "  tidegate replay  {:.2} s\n  mawk '{{print $1}}' {:.2} s\n  x {:.2}, wanted <= {WANTED_TIMES}: {}",
        report.ours_seconds,
        report.mawk_seconds,
        report.times_mawk,
        verdict(report.times_mawk <= WANTED_TIMES)
    );
    let peak = report.peak_megabytes;
    let _ = writeln!(
        text,
        "  peak memory {peak:.0} MB, wanted <= {WANTED_MEGABYTES}: {}",
        verdict(peak <= WANTED_MEGABYTES)
    );
    text
}
