//! Counts the instructions per decision, and compares them with a saved baseline.
//!
//! Time depends on the machine and its load. The number of instructions depends only on the source and the compiler. A
//! baseline in the repository shows whether a change made a decision more expensive, on any machine with the same
//! compiler and architecture.

mod baseline;
mod count;
mod toolchain;
mod tools;

use std::process::ExitCode;

use anyhow::Result;

use self::baseline::{Baseline, Change};
use self::count::Counts;
use self::toolchain::Toolchain;

/// Decisions in every benchmark of `benches/`; enough that the hashes of single keys hardly matter.
pub const DECISIONS: u16 = 10_000;

/// The task for the counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// Print them.
    Print,
    /// Print them and make them the baseline.
    Save,
    /// Print them with the baseline, and fail if one is worse.
    Check,
}

/// Counts, prints and does the task. Exits with 1 on a regression, with 2 if a tool is missing.
///
/// # Errors
/// If the benchmark fails, or the baseline cannot be read or written.
pub fn run(task: Task) -> Result<ExitCode> {
    if let Err(missing) = tools::check() {
        eprintln!("{missing}");
        return Ok(ExitCode::from(2));
    }
    if task == Task::Check {
        return check();
    }
    let counts = count::run()?;
    print(&counts);
    if task == Task::Save {
        Baseline { toolchain: Toolchain::this(), instructions_per_decision: counts }.write()?;
        println!("\nsaved as the baseline");
    }
    Ok(ExitCode::SUCCESS)
}

fn check() -> Result<ExitCode> {
    let baseline = Baseline::read()?;
    let toolchain = Toolchain::this();
    if baseline.toolchain != toolchain {
        println!(
            "nothing compared: the baseline was counted with {}, this is {toolchain}; update it with `--save`",
            baseline.toolchain
        );
        return Ok(ExitCode::SUCCESS);
    }
    let changes = baseline.compare(&count::run()?);
    print_changes(&changes);
    Ok(verdict(&changes))
}

fn verdict(changes: &[Change]) -> ExitCode {
    let names = |wanted: fn(&Change) -> bool| {
        let names: Vec<_> = changes.iter().filter(|change| wanted(change)).map(|change| &*change.name).collect();
        (!names.is_empty()).then(|| names.join(", "))
    };
    if let Some(names) = names(Change::is_better) {
        println!("\nmore than 5 % below the baseline: {names}; update it with `--save`");
    }
    if let Some(names) = names(Change::is_unmatched) {
        println!("\nnot in both this run and the baseline: {names}; update it with `--save`");
    }
    if let Some(names) = names(Change::is_worse) {
        eprintln!("\nmore than 5 % above the baseline: {names}");
        return ExitCode::FAILURE;
    }
    println!("\nno decision is more than 5 % above the baseline");
    ExitCode::SUCCESS
}

fn print(counts: &Counts) {
    println!("{:<48}{:>14}", "decision", "instructions");
    for (name, instructions) in counts {
        println!("{name:<48}{instructions:>14.1}");
    }
}

fn print_changes(changes: &[Change]) {
    let number = |value: Option<f64>| value.map_or_else(String::new, |value| format!("{value:.1}"));
    println!("{:<48}{:>14}{:>14}{:>10}", "decision", "instructions", "baseline", "change");
    for change in changes {
        let percent = change.ratio().map_or_else(String::new, |ratio| format!("{:+.1} %", (ratio - 1.0) * 100.0));
        println!("{:<48}{:>14}{:>14}{percent:>10}", change.name, number(change.now), number(change.before));
    }
}
