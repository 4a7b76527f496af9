//! `tidegate man`: the manual pages of all commands.

use std::{fs, path::Path};

use anyhow::Context as _;
use clap::CommandFactory as _;
use clap_mangen::Man;

use crate::{arguments::Arguments, outcome::Outcome, output::print_text};

/// Writes one page for each command to a directory, or prints the page of `tidegate` itself.
pub(crate) fn run(directory: Option<&Path>) -> anyhow::Result<Outcome> {
    let Some(directory) = directory else {
        let mut page = Vec::new();
        Man::new(Arguments::command()).render(&mut page)?;
        print_text(&String::from_utf8(page)?)?;
        return Ok(Outcome::Good);
    };
    let name = directory.display();
    fs::create_dir_all(directory).with_context(|| format!("{name} can't be created"))?;
    clap_mangen::generate_to(Arguments::command(), directory).with_context(|| format!("{name} can't be written"))?;
    Ok(Outcome::Good)
}
