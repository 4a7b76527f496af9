//! `tidegate completions`: completions for a shell.

use clap::CommandFactory as _;
use clap_complete::Shell;

use crate::{arguments::Arguments, outcome::Outcome, output::print_text};

/// Prints the script that a shell loads.
pub(crate) fn run(shell: Shell) -> anyhow::Result<Outcome> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "tidegate", &mut script);
    print_text(&String::from_utf8(script)?)?;
    Ok(Outcome::Good)
}
