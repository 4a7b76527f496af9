//! `tidegate replay`: what a limit would have done to a log.

mod candidates;
mod log;
mod progress;

use std::{
    fs::File,
    io::{BufWriter, Write as _},
    path::{Path, PathBuf},
};

use anyhow::Context as _;
pub(crate) use log::reading;
pub(crate) use progress::Watch;
use tidegate_replay::{
    findings::{Findings, Input},
    logs::Requests,
    page,
    replay::{self, DecisionLog, Plan, ReplayError},
    text,
};

use crate::{
    arguments::{Format, ReplayArguments},
    outcome::Outcome,
    say::{complain, say},
};

pub(crate) fn run(arguments: &ReplayArguments, format: Format) -> anyhow::Result<Outcome> {
    let plan = Plan {
        candidates: candidates::all(arguments)?,
        windows: candidates::windows(arguments)?,
        top: arguments.top,
        redis: arguments.store.clone().filter(|store| store != "memory"),
    };
    anyhow::ensure!(
        arguments.decisions.is_none() || !plan.candidates.is_empty(),
        "--decisions needs a limit to decide by: add --limit 60/1m, or --policy with a configuration"
    );
    anyhow::ensure!(!arguments.log.files.is_empty(), "name a FILE to replay, or `-` for standard input");
    anyhow::ensure!(
        arguments.decisions.is_none() || arguments.decisions != arguments.report,
        "--decisions and --report name the same file: one would be lost"
    );
    let mut reading = reading(&arguments.log)?;
    if reading.by.is_none() {
        reading.by = candidates::key_of_policy(arguments)?;
    }
    let watch = Watch::new(&reading.inputs);
    let requests = Requests::open(reading, watch.progress())?;
    watch.listen()?;
    // Before the work: what can't be written is better told now than after it.
    let decisions = arguments.decisions.as_deref().map(|path| create(path, &arguments.log.files)).transpose()?;
    let report = arguments.report.as_deref().map(|path| create(path, &arguments.log.files)).transpose()?;
    let decisions = decisions.map(DecisionLog::new).transpose().context("the decisions can't be written")?;
    let findings = match replay::run(plan, requests, decisions, || watch.look()) {
        Ok(findings) => findings,
        Err(error @ (ReplayError::Connect(_) | ReplayError::Redis(_))) => {
            watch.end();
            complain(&error);
            return Ok(Outcome::StoreFailed);
        }
        Err(error) => {
            watch.end();
            return Err(anyhow::anyhow!("{error}"));
        }
    };
    watch.end();
    if let Some(mut report) = report {
        report
            .write_all(page::replay(&findings).as_bytes())
            .and_then(|()| report.flush())
            .context("the report can't be written")?;
    }
    match format {
        Format::Json => say(&(serde_json::to_string(&findings)? + "\n"))?,
        Format::Text => say(&text::replay(&findings))?,
    }
    Ok(judged(&findings))
}

fn judged(findings: &Findings) -> Outcome {
    if is_unread(&findings.input) {
        return Outcome::Usage;
    }
    if findings.interrupted { Outcome::Interrupted } else { Outcome::Good }
}

/// Whether there are lines, and not one is a request: then the log was wrongly named, or is in a format that was not said, or has not what
/// it is to be counted by. What would help is told.
pub(crate) fn is_unread(input: &Input) -> bool {
    if input.requests > 0 || (input.malformed == 0 && input.without_key == 0 && input.troubles.is_empty()) {
        return false;
    }
    let hint = if input.without_key > 0 {
        "no request has what it is to be counted by: name another field with --by"
    } else {
        "not one line could be read: is it an access log (common or combined), JSON lines, or a trace that begins with time_us,key,cost? A \
         layout of its own is told with --log-format"
    };
    complain(hint);
    true
}

/// A file to be written, which is none of those that are read.
pub(crate) fn create(path: &Path, read: &[PathBuf]) -> anyhow::Result<BufWriter<File>> {
    anyhow::ensure!(path != Path::new("-"), "`-` is no file to write to: name one");
    if let Ok(same) = path.canonicalize()
        && read.iter().any(|file| file.canonicalize().is_ok_and(|file| file == same))
    {
        anyhow::bail!("{} is read, and would be lost: write to another file", path.display());
    }
    let file = File::create(path).with_context(|| format!("{} can't be written", path.display()))?;
    Ok(BufWriter::with_capacity(1 << 18, file))
}
