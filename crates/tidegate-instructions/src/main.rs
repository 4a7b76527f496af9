//! The command line: counts, and prints, saves or compares.

use std::process::ExitCode;

use clap::Parser;
use tidegate_instructions::{Task, run};

/// Instructions per decision of Tidegate, counted by callgrind
#[derive(Debug, Parser)]
#[group(multiple = false)]
struct Arguments {
    /// Compare with the saved baseline; exit with 1 if a decision became more expensive
    #[arg(long, conflicts_with = "save")]
    check: bool,
    /// Save the result as the baseline
    #[arg(long)]
    save: bool,
}

/// Exits with 1 for a regression, with 2 if there is no result.
fn main() -> ExitCode {
    let task = match Arguments::parse() {
        Arguments { check: true, .. } => Task::Check,
        Arguments { save: true, .. } => Task::Save,
        Arguments { .. } => Task::Print,
    };
    run(task).unwrap_or_else(|error| {
        eprintln!("{error:#}");
        ExitCode::from(2)
    })
}
