//! `tidegate replay`: decides the requests of a log file by a limit.

mod candidates;
mod log;
mod progress;

use std::{
    fs::File,
    io::{BufWriter, Write as _},
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Context as _;
pub(crate) use log::read_options;
pub(crate) use progress::ReadProgress;
use serde::Serialize;
use tidegate_replay::{
    findings::Findings,
    logs::{InputSummary, ReadOptions},
    page,
    replay::{self, DecisionLog, OpenStore, ReplayError, ReplayOptions},
    text,
};
use tidegate_server::config::{Config, SettingSources};

use crate::{
    arguments::{Format, ReplayArguments, TimeOf},
    client::with_ca,
    outcome::Outcome,
    output::{print_error, print_text},
};

/// Opens the store of a URL, with states under a prefix.
fn open_store(url: String, ca: Option<PathBuf>) -> OpenStore {
    OpenStore::new(move |prefix| {
        let sources = with_ca(SettingSources::default().store("--store", "url", &url), ca.as_deref());
        let mut settings = Config::parse("the command line", "", &sources).map_err(|error| error.message)?.store;
        prefix.clone_into(&mut settings.prefix);
        tidegate_server::open_store(&settings).map_err(|error| error.message)
    })
}

pub(crate) fn run(arguments: &ReplayArguments, format: Format) -> anyhow::Result<Outcome> {
    let (candidates, key_of_policy) = candidates::all(arguments)?;
    let mut windows = arguments.window.clone();
    if windows.is_empty() && candidates.is_empty() {
        windows.push(Duration::from_secs(60));
    }
    let options = ReplayOptions {
        candidates,
        windows,
        top: arguments.top,
        store: arguments.store.clone().filter(|url| url != "memory").map(|url| open_store(url, arguments.ca.clone())),
        obey: arguments.obey,
    };
    anyhow::ensure!(
        arguments.decisions.is_none() || !options.candidates.is_empty(),
        "--decisions needs a limit: add --limit 60/1m, or --policy with a configuration"
    );
    anyhow::ensure!(
        !arguments.obey || !options.candidates.is_empty(),
        "--obey needs a limit: add --limit 60/1m, or --policy with a configuration"
    );
    let limits_requests_at_once = options.candidates.iter().any(|candidate| candidate.policy.has_in_flight_limit());
    anyhow::ensure!(
        !arguments.obey || !limits_requests_at_once,
        "--obey does not work with a limit on requests at once: leave out --obey, or the limit with `inflight`"
    );
    anyhow::ensure!(!arguments.log.files.is_empty(), "name a FILE to replay, or `-` for standard input");
    anyhow::ensure!(
        arguments.decisions.is_none() || arguments.decisions != arguments.report,
        "--decisions and --report name the same file: one output would be lost"
    );
    let mut read_options = read_options(&arguments.log)?;
    read_options.client_key = read_options.client_key.or(key_of_policy);
    read_options.group.clone_from(&arguments.by_group);
    read_durations(&mut read_options, arguments.log.time_of, limits_requests_at_once);
    let (reader, progress) = ReadProgress::open(read_options)?;
    // The files are created before the work, so that an error is reported early.
    let decisions = create(arguments.decisions.as_deref(), &arguments.log.files)?;
    let report = create(arguments.report.as_deref(), &arguments.log.files)?;
    let decisions = decisions.map(DecisionLog::new).transpose().context("the decisions can't be written")?;
    let done = replay::run(options, reader, decisions, || progress.update());
    progress.finish();
    report_findings(done, report, format)
}

/// Decides which durations are read. They are needed if a policy limits requests at once.
pub(crate) fn read_durations(options: &mut ReadOptions, time_of: Option<TimeOf>, are_needed: bool) {
    if are_needed {
        options.duration.get_or_insert_default();
    }
    if let Some(time) = time_of {
        options.duration = options.duration.take().map(|duration| duration.with_time_of_start(time == TimeOf::Start));
    }
}

/// Writes the page and prints the findings of a replay.
pub(crate) fn report_findings(
    done: Result<Findings, ReplayError>,
    report: Option<BufWriter<File>>,
    format: Format,
) -> anyhow::Result<Outcome> {
    let findings = match done {
        Err(error @ (ReplayError::Connect(_) | ReplayError::Store(_))) => {
            print_error(&error);
            return Ok(Outcome::StoreFailed);
        }
        done => done.map_err(|error| anyhow::anyhow!("{error}"))?,
    };
    write_report(report, || page::replay(&findings))?;
    print(&findings, text::replay, format)?;
    Ok(match findings.interrupted {
        true => Outcome::Interrupted,
        false if is_without_requests(&findings.input) => Outcome::Usage,
        false => Outcome::Good,
    })
}

/// Writes a page to the report's file, if the user named one.
pub(crate) fn write_report(file: Option<BufWriter<File>>, page: impl FnOnce() -> String) -> anyhow::Result<()> {
    let Some(mut file) = file else { return Ok(()) };
    file.write_all(page().as_bytes()).and_then(|()| file.flush()).context("the report can't be written")
}

/// Prints results as text or as JSON.
pub(crate) fn print<T: Serialize>(results: &T, text: impl FnOnce(&T) -> String, format: Format) -> anyhow::Result<()> {
    match format {
        Format::Json => print_text(&(serde_json::to_string(results)? + "\n"))?,
        Format::Text => print_text(&text(results))?,
    }
    Ok(())
}

/// Returns whether the input has no requests, and prints what would be right.
pub(crate) fn is_without_requests(input: &InputSummary) -> bool {
    if input.requests > 0 {
        return false;
    }
    print_error(if !input.troubles.is_empty() {
        "no request was read before the input failed: repair or replace the file"
    } else if input.lines == 0 {
        "the input is empty: name a file with lines"
    } else if input.filtered > 0 {
        "no line passes the filters: change --only and --skip"
    } else if input.without_key > 0 {
        "no request has a client key: name another field with --by"
    } else {
        "all lines are malformed: is the file an access log (common or combined), JSON lines, or a trace that starts with \
         time_us,key,cost? Describe a custom format with --log-format"
    });
    true
}

/// Creates an output file, if the user named one. It must not be one of the input files.
pub(crate) fn create(path: Option<&Path>, read: &[PathBuf]) -> anyhow::Result<Option<BufWriter<File>>> {
    let Some(path) = path else { return Ok(None) };
    anyhow::ensure!(path != Path::new("-"), "`-` is not an output file: name a file");
    if let Ok(same) = path.canonicalize()
        && read.iter().any(|file| file.canonicalize().is_ok_and(|file| file == same))
    {
        anyhow::bail!("{} is an input file and would be lost: name another file", path.display());
    }
    let file = File::create(path).with_context(|| format!("{} can't be written", path.display()))?;
    Ok(Some(BufWriter::with_capacity(1 << 18, file)))
}
