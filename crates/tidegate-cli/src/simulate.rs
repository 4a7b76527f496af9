//! `tidegate simulate`: tries limits on simulated traffic or on a log.

use std::{
    fs::File,
    io::{self, BufWriter, Write as _},
    ops::ControlFlow,
};

use anyhow::Context as _;
use tidegate::{Algorithm, Cost, Key, Limit, Timestamp, parse_duration};
use tidegate_replay::{
    logs::{LogReader, LogSource},
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
        AccuracyArguments, BoundaryArguments, CompareArguments, Format, LogArguments, SimulateCommand,
        SimulatedArguments, TrafficArguments, TrafficFormat, TrialArguments,
    },
    outcome::Outcome,
    output,
    replay::{ReadProgress, create, is_unread, print, read_options, write_report},
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

fn show_boundary(arguments: &BoundaryArguments, format: Format) -> anyhow::Result<Outcome> {
    let algorithms = algorithms(&arguments.algorithm)?.unwrap_or_else(one_of_each);
    let found = boundary::run(arguments.limit.parse()?, &algorithms);
    write_report(arguments.report.as_deref().map(|path| create(path, &[])).transpose()?, || page::boundary(&found))?;
    print(&found, text::boundary, format)?;
    Ok(Outcome::Good)
}

fn show_accuracy(arguments: &AccuracyArguments, format: Format) -> anyhow::Result<Outcome> {
    let limit: Limit = arguments.trial.limit.parse()?;
    let default = accuracy::Options::new(limit);
    let shapes = arguments.shape.iter().map(|shape| shape.parse()).collect::<Result<Vec<_>, _>>()?;
    let options = accuracy::Options {
        limit,
        algorithms: algorithms(&arguments.trial.algorithm)?.unwrap_or(default.algorithms),
        shapes: match (shapes.is_empty(), arguments.trial.log.files.is_empty()) {
            (true, true) => default.shapes,
            _ => shapes,
        },
        clients: arguments.trial.simulated.clients,
        requests: arguments.trial.simulated.requests,
        load: arguments.trial.simulated.load,
        seed: arguments.trial.log.seed,
    };
    let page = arguments.trial.page()?;
    let mut found = accuracy::run(&options)?;
    let (log_result, outcome) = evaluate_log(&arguments.trial.log, limit, &options.algorithms)?;
    found.traces.extend(log_result);
    write_report(page, || page::accuracy(&found))?;
    print(&found, text::accuracy, format)?;
    Ok(outcome)
}

fn show_comparison(arguments: &CompareArguments, format: Format) -> anyhow::Result<Outcome> {
    let limit: Limit = arguments.trial.limit.parse()?;
    let algorithms = algorithms(&arguments.trial.algorithm)?.unwrap_or_else(one_of_each);
    let page = arguments.trial.page()?;
    let (log_result, outcome) = evaluate_log(&arguments.trial.log, limit, &algorithms)?;
    let found = match log_result {
        Some(found) => found,
        None => {
            let SimulatedArguments { clients, requests, load } = arguments.trial.simulated;
            let shape = arguments.shape.parse()?;
            let traffic = Traffic::for_limit(limit, shape, clients, requests, load, arguments.trial.log.seed)?;
            evaluation::run(&traffic, limit, &algorithms)?
        }
    };
    write_report(page, || page::comparison(&found))?;
    print(&found, text::comparison, format)?;
    Ok(outcome)
}

impl TrialArguments {
    /// Creates the file of the page. It must not be an input file.
    fn page(&self) -> anyhow::Result<Option<BufWriter<File>>> {
        self.report.as_deref().map(|path| create(path, &self.log.files)).transpose()
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
    let progress = ReadProgress::new(&read_options.sources);
    let names: Vec<String> = read_options.sources.iter().map(LogSource::name).collect();
    let reader = LogReader::open(read_options, progress.handle())?;
    progress.stop_on_interrupt()?;
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
    }
    if is_unread(&input) {
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
    let duration = parse_duration(&arguments.duration)
        .with_context(|| format!("`{}` is not a duration: write 10m, 1h or 7d", arguments.duration))?;
    let traffic = Traffic {
        shape: arguments.shape.parse()?,
        clients: arguments.clients,
        duration_us: u64::try_from(duration.as_micros())?,
        per_minute: arguments.per_minute,
        cost: arguments.cost,
        limit: arguments.limit.parse()?,
        start_us: arguments.start_us.unwrap_or(traffic::DEFAULT_START_US),
        seed: arguments.seed,
    };
    let requests = traffic.requests()?;
    let mut out = BufWriter::with_capacity(1 << 18, io::stdout().lock());
    let written = match arguments.output {
        TrafficFormat::Csv => traffic::csv::write(&traffic, requests, &mut out),
        TrafficFormat::Combined => traffic::access_log::write(&traffic, requests, &mut out),
    };
    match written.and_then(|_| out.flush()) {
        // The reader of a pipe, such as `head`, may close it early.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(Outcome::Good),
        written => written.map(|()| Outcome::Good).context("the traffic can't be written"),
    }
}

fn algorithms(texts: &[String]) -> anyhow::Result<Option<Vec<Algorithm>>> {
    let algorithms = texts.iter().map(|text| text.parse()).collect::<Result<Vec<Algorithm>, _>>()?;
    Ok((!algorithms.is_empty()).then_some(algorithms))
}
