//! `tidegate simulate`: tries limits on simulated traffic or on a log.

use std::{
    io::{self, BufWriter, Write as _},
    ops::ControlFlow,
    time::Duration,
};

use anyhow::Context as _;
use tidegate::{Algorithm, Cost, Key, Limit, Policy, Timestamp};
use tidegate_replay::{
    logs::LogSource,
    page,
    replay::{self, Candidate, DecisionLog, ReplayOptions},
    simulate::{
        accuracy, boundary,
        evaluation::{self, Evaluation, TraceResult},
        one_of_each,
        traffic::{self, Traffic},
    },
    text,
};

use crate::{
    arguments::{
        AccuracyArguments, CompareArguments, Format, LimitArguments, LogArguments, SimulateCommand, SimulatedArguments,
        TrafficArguments, TrafficFormat, TrialArguments,
    },
    lease_simulation,
    outcome::Outcome,
    output,
    replay::{
        ReadProgress, create, is_without_requests, print, read_durations, read_options, report_findings, write_report,
    },
};

/// Default mean duration of a simulated request.
const MEAN_REQUEST: Duration = Duration::from_millis(200);
/// Number of clients with the most denials to show.
const SHOWN_CLIENTS: usize = 10;
/// Number of requests between two updates of the progress.
const UPDATE_EVERY: u32 = 1 << 12;

pub(crate) fn run(command: &SimulateCommand, format: Format) -> anyhow::Result<Outcome> {
    match command {
        SimulateCommand::Boundary(arguments) => show_boundary(arguments, format),
        SimulateCommand::Accuracy(arguments) => show_accuracy(arguments, format),
        SimulateCommand::Compare(arguments) => show_comparison(arguments, format),
        SimulateCommand::Leases(arguments) => lease_simulation::run(arguments, format),
        SimulateCommand::Traffic(arguments) => print_traffic(arguments),
    }
}

fn show_boundary(arguments: &LimitArguments, format: Format) -> anyhow::Result<Outcome> {
    ensure_windowed(arguments.limit)?;
    let found = boundary::run(arguments.limit, &arguments.algorithms_or(one_of_each));
    write_report(create(arguments.report.as_deref(), &[])?, || page::boundary(&found))?;
    print(&found, text::boundary, format)?;
    Ok(Outcome::Good)
}

fn show_accuracy(arguments: &AccuracyArguments, format: Format) -> anyhow::Result<Outcome> {
    let TrialArguments { tried, simulated, log } = &arguments.trial;
    ensure_windowed(tried.limit)?;
    let default = accuracy::Options::new(tried.limit);
    let is_default = arguments.shape.is_empty() && log.files.is_empty();
    let options = accuracy::Options {
        limit: tried.limit,
        algorithms: tried.algorithms_or(|| default.algorithms),
        shapes: if is_default { default.shapes } else { arguments.shape.clone() },
        clients: simulated.clients,
        requests: simulated.requests,
        load: simulated.load,
        seed: log.seed,
    };
    let page = create(tried.report.as_deref(), &log.files)?;
    let mut found = accuracy::run(&options)?;
    let (log_result, outcome) = evaluate_log(log, tried.limit, &options.algorithms)?;
    found.traces.extend(log_result);
    write_report(page, || page::accuracy(&found))?;
    print(&found, text::accuracy, format)?;
    Ok(outcome)
}

fn show_comparison(arguments: &CompareArguments, format: Format) -> anyhow::Result<Outcome> {
    let TrialArguments { tried, simulated, log } = &arguments.trial;
    if tried.limit.is_in_flight() {
        return show_requests_at_once(arguments, format);
    }
    anyhow::ensure!(
        arguments.request_duration.is_none(),
        "--request-duration needs a limit on requests at once: use --limit 4/inflight"
    );
    let (limit, algorithms) = (tried.limit, tried.algorithms_or(one_of_each));
    let page = create(tried.report.as_deref(), &log.files)?;
    let (log_result, outcome) = evaluate_log(log, limit, &algorithms)?;
    let found = match log_result {
        Some(found) => found,
        None => {
            let SimulatedArguments { clients, requests, load } = *simulated;
            let traffic = Traffic::for_limit(limit, arguments.shape, clients, requests, load, log.seed)?;
            evaluation::run(&traffic, limit, &algorithms)?
        }
    };
    write_report(page, || page::comparison(&found))?;
    print(&found, text::comparison, format)?;
    Ok(outcome)
}

/// Replays the trace under a limit on requests at once. Such a limit is the same under every algorithm.
fn show_requests_at_once(arguments: &CompareArguments, format: Format) -> anyhow::Result<Outcome> {
    let TrialArguments { tried, simulated, log } = &arguments.trial;
    anyhow::ensure!(
        tried.algorithm.is_empty(),
        "a limit on requests at once is the same under every algorithm: leave out --algorithm"
    );
    let candidate = Candidate { name: tried.limit.to_string(), policy: Policy::unnamed([tried.limit])? };
    let options = ReplayOptions { candidates: vec![candidate], top: SHOWN_CLIENTS, ..ReplayOptions::default() };
    let page = create(tried.report.as_deref(), &log.files)?;
    let done = if log.files.is_empty() {
        let SimulatedArguments { clients, requests, load } = *simulated;
        let mean = arguments.request_duration.unwrap_or(MEAN_REQUEST);
        let amount = (clients, requests, load);
        let traffic = Traffic::for_requests_at_once(tried.limit.max(), mean, arguments.shape, amount, log.seed)?;
        replay::run_traffic(options, &traffic)
    } else {
        let mut read_options = read_options(log)?;
        read_durations(&mut read_options, log.time_of, true);
        let (reader, progress) = ReadProgress::open(read_options)?;
        let done = replay::run(options, reader, None::<DecisionLog<io::Sink>>, || progress.update());
        progress.finish();
        done
    };
    report_findings(done, page, format)
}

fn ensure_windowed(limit: Limit) -> anyhow::Result<()> {
    anyhow::ensure!(
        !limit.is_in_flight(),
        "{limit} is the same under every algorithm: use a limit with a window, such as 60/1m, or `tidegate simulate compare \
         --limit {limit}`"
    );
    Ok(())
}

impl LimitArguments {
    /// Returns the algorithms that the user named, or those by default.
    fn algorithms_or(&self, default: impl FnOnce() -> Vec<Algorithm>) -> Vec<Algorithm> {
        if self.algorithm.is_empty() { default() } else { self.algorithm.clone() }
    }
}

/// Evaluates the algorithms on the requests of a log, if the user named one.
fn evaluate_log(
    arguments: &LogArguments,
    limit: Limit,
    algorithms: &[Algorithm],
) -> anyhow::Result<(Option<TraceResult>, Outcome)> {
    if arguments.files.is_empty() {
        return Ok((None, Outcome::Good));
    }
    let read_options = read_options(arguments)?;
    let names: Vec<String> = read_options.sources.iter().map(LogSource::name).collect();
    let (reader, progress) = ReadProgress::open(read_options)?;
    let mut evaluation = Evaluation::new(limit, algorithms);
    let mut done = 0_u32;
    let input = reader.for_each(|request| {
        done = done.wrapping_add(1);
        if done.is_multiple_of(UPDATE_EVERY) {
            progress.update();
        }
        // The parser checks keys and costs.
        if let (Ok(key), Ok(cost)) = (Key::new(request.key), Cost::new(request.cost)) {
            evaluation.decide(Timestamp::from_micros(request.time_us), &key, cost);
        }
        ControlFlow::Continue(())
    });
    let mut outcome = Outcome::Good;
    if progress.finish() {
        output::print_error("stopped before the end of the input: these are the results so far");
        outcome = Outcome::Interrupted;
    } else if is_without_requests(&input) {
        outcome = Outcome::Usage;
    }
    if input.malformed > 0 {
        output::print_error(format_args!("{} of {} lines are malformed", input.malformed, input.lines));
    }
    for error in &input.troubles {
        output::print_error(error);
    }
    Ok((Some(evaluation.finish(&names.join(", "))), outcome))
}

fn print_traffic(arguments: &TrafficArguments) -> anyhow::Result<Outcome> {
    let traffic = Traffic {
        shape: arguments.shape,
        clients: arguments.clients,
        duration_us: u64::try_from(arguments.duration.as_micros())?,
        per_minute: arguments.per_minute,
        cost: arguments.cost,
        limit: arguments.limit,
        mean_request_us: u64::try_from(arguments.request_duration.unwrap_or_default().as_micros())?,
        start_us: arguments.start_us,
        seed: arguments.seed,
    };
    let requests = traffic.requests()?;
    let mut out = BufWriter::with_capacity(1 << 18, io::stdout().lock());
    let written = match arguments.output {
        TrafficFormat::Csv => traffic::csv::write(&traffic, requests, &mut out),
        TrafficFormat::Combined => traffic::access_log::write(&traffic, requests, &mut out),
    };
    match written.and_then(|()| out.flush()) {
        // The reader of a pipe, such as `head`, may close it early.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(Outcome::Good),
        written => written.map(|()| Outcome::Good).context("the traffic can't be written"),
    }
}
