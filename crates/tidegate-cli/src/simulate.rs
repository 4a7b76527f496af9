//! `tidegate simulate`: tries limits on simulated traffic or on a log.

use std::{
    io::{self, BufWriter, Write as _},
    ops::ControlFlow,
};

use anyhow::Context as _;
use tidegate::{Algorithm, Cost, Key, Limit, Timestamp};
use tidegate_replay::{
    logs::LogSource,
    page,
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
    outcome::Outcome,
    output,
    replay::{ReadProgress, create, is_without_requests, print, read_options, write_report},
};

/// Number of requests between two updates of the progress.
const UPDATE_EVERY: u32 = 1 << 12;

pub(crate) fn run(command: &SimulateCommand, format: Format) -> anyhow::Result<Outcome> {
    match command {
        SimulateCommand::Boundary(arguments) => show_boundary(arguments, format),
        SimulateCommand::Accuracy(arguments) => show_accuracy(arguments, format),
        SimulateCommand::Compare(arguments) => show_comparison(arguments, format),
        SimulateCommand::Traffic(arguments) => print_traffic(arguments),
    }
}

fn show_boundary(arguments: &LimitArguments, format: Format) -> anyhow::Result<Outcome> {
    let found = boundary::run(arguments.limit, &arguments.algorithms_or(one_of_each));
    write_report(create(arguments.report.as_deref(), &[])?, || page::boundary(&found))?;
    print(&found, text::boundary, format)?;
    Ok(Outcome::Good)
}

fn show_accuracy(arguments: &AccuracyArguments, format: Format) -> anyhow::Result<Outcome> {
    let TrialArguments { tried, simulated, log } = &arguments.trial;
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
