//! `tidegate simulate`: limits on traffic that is made up, or on a log.

use std::{
    fs::File,
    io::{self, BufWriter, Write as _},
    ops::ControlFlow,
};

use anyhow::Context as _;
use serde::Serialize;
use tidegate::{Algorithm, Cost, Key, Limit, Timestamp, parse_duration};
use tidegate_replay::{
    logs::Requests,
    page,
    simulate::{
        accuracy, boundary, compare, one_of_each,
        traffic::{self, Traffic},
        trial::{Trial, Trialled},
    },
};

use crate::{
    arguments::{
        AccuracyArguments, BoundaryArguments, CompareArguments, Format, LogArguments, SimulateCommand,
        TrafficArguments, TrafficFormat, TrialArguments,
    },
    outcome::Outcome,
    replay::{Watch, create, is_unread, reading},
    say::{self, say},
};

/// How many requests pass between two looks at how far the reading is.
const LOOK_EVERY: u32 = 1 << 12;

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
    report(arguments.report.as_deref().map(|path| create(path, &[])).transpose()?, || page::boundary(&found))?;
    print(&found, boundary::text, format)?;
    Ok(Outcome::Good)
}

fn show_accuracy(arguments: &AccuracyArguments, format: Format) -> anyhow::Result<Outcome> {
    let limit: Limit = arguments.trial.limit.parse()?;
    let unsaid = accuracy::Options::new(limit);
    let shapes = arguments.shape.iter().map(|shape| shape.parse()).collect::<Result<Vec<_>, _>>()?;
    let options = accuracy::Options {
        limit,
        algorithms: algorithms(&arguments.trial.algorithm)?.unwrap_or(unsaid.algorithms),
        shapes: match (shapes.is_empty(), arguments.trial.log.files.is_empty()) {
            (true, true) => unsaid.shapes,
            _ => shapes,
        },
        clients: arguments.trial.made_up.clients,
        requests: arguments.trial.made_up.requests,
        load: arguments.trial.made_up.load,
        seed: arguments.trial.log.seed,
    };
    let page = arguments.trial.page()?;
    let mut found = accuracy::run(&options)?;
    let (on_log, outcome) = on_log(&arguments.trial.log, limit, &options.algorithms)?;
    found.traces.extend(on_log);
    report(page, || page::accuracy(&found))?;
    print(&found, accuracy::text, format)?;
    Ok(outcome)
}

fn show_comparison(arguments: &CompareArguments, format: Format) -> anyhow::Result<Outcome> {
    let limit: Limit = arguments.trial.limit.parse()?;
    let algorithms = algorithms(&arguments.trial.algorithm)?.unwrap_or_else(one_of_each);
    let page = arguments.trial.page()?;
    let (on_log, outcome) = on_log(&arguments.trial.log, limit, &algorithms)?;
    let found = match on_log {
        Some(found) => found,
        None => {
            let made_up = &arguments.trial.made_up;
            let (clients, requests, load) = (made_up.clients, made_up.requests, made_up.load);
            anyhow::ensure!(
                load.is_finite() && load > 0.0,
                "a load of {load} is none: use a number above 0, such as 0.25"
            );
            let traffic =
                Traffic::around(limit, arguments.shape.parse()?, clients, requests, load, arguments.trial.log.seed);
            compare::run(&compare::Options { limit, algorithms, traffic })?
        }
    };
    report(page, || page::comparison(&found))?;
    print(&found, compare::text, format)?;
    Ok(outcome)
}

impl TrialArguments {
    /// The file for the page, which is none of those that are read.
    fn page(&self) -> anyhow::Result<Option<BufWriter<File>>> {
        self.report.as_deref().map(|path| create(path, &self.log.files)).transpose()
    }
}

/// Tries the algorithms on the requests of a log, if one is given; and how that ended.
fn on_log(
    arguments: &LogArguments,
    limit: Limit,
    algorithms: &[Algorithm],
) -> anyhow::Result<(Option<Trialled>, Outcome)> {
    if arguments.files.is_empty() {
        return Ok((None, Outcome::Good));
    }
    let reading = reading(arguments)?;
    let watch = Watch::new(&reading.inputs);
    let names: Vec<String> = reading.inputs.iter().map(tidegate_replay::logs::Input::name).collect();
    let requests = Requests::open(reading, watch.progress())?;
    watch.listen()?;
    let mut trial = Trial::new(limit, algorithms);
    let mut done = 0_u32;
    let input = requests.for_each(|request| {
        done = done.wrapping_add(1);
        if done.is_multiple_of(LOOK_EVERY) {
            watch.look();
        }
        // Both were checked when they were read.
        if let (Ok(key), Ok(cost)) = (Key::new(request.key), Cost::new(request.cost)) {
            trial.request(Timestamp::from_micros(request.time_us), &key, cost);
        }
        ControlFlow::Continue(())
    });
    let mut outcome = Outcome::Good;
    if watch.end() {
        say::complain("ended before the end of the input: this is what was found so far");
        outcome = Outcome::Interrupted;
    }
    if is_unread(&input) {
        outcome = Outcome::Usage;
    }
    if input.malformed > 0 {
        say::complain(format_args!("{} of {} lines could not be read", input.malformed, input.lines));
    }
    for trouble in &input.troubles {
        say::complain(trouble);
    }
    Ok((Some(trial.finish(&names.join(", "))), outcome))
}

fn print_traffic(arguments: &TrafficArguments) -> anyhow::Result<Outcome> {
    let duration = parse_duration(&arguments.duration)
        .with_context(|| format!("`{}` is no span of time: write 10m, 1h or 7d", arguments.duration))?;
    let unsaid = Traffic::default();
    let traffic = Traffic {
        shape: arguments.shape.parse()?,
        clients: arguments.clients,
        duration_us: u64::try_from(duration.as_micros())?,
        per_minute: arguments.per_minute,
        cost: arguments.cost,
        limit: arguments.limit.parse()?,
        start_us: arguments.start_us.unwrap_or(unsaid.start_us),
        seed: arguments.seed,
    };
    let requests = traffic.requests()?;
    let mut out = BufWriter::with_capacity(1 << 18, io::stdout().lock());
    let written = match arguments.output {
        TrafficFormat::Csv => traffic::csv::write(&traffic, requests, &mut out),
        TrafficFormat::Combined => traffic::access_log::write(&traffic, requests, &mut out),
    };
    match written.and_then(|_| out.flush()) {
        // Whoever reads may have seen enough, as `head` has.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(Outcome::Good),
        written => written.map(|()| Outcome::Good).context("the traffic can't be written"),
    }
}

fn algorithms(texts: &[String]) -> anyhow::Result<Option<Vec<Algorithm>>> {
    let algorithms = texts.iter().map(|text| text.parse()).collect::<Result<Vec<Algorithm>, _>>()?;
    Ok((!algorithms.is_empty()).then_some(algorithms))
}

fn report(file: Option<BufWriter<File>>, page: impl FnOnce() -> String) -> anyhow::Result<()> {
    let Some(mut file) = file else { return Ok(()) };
    file.write_all(page().as_bytes()).and_then(|()| file.flush()).context("the report can't be written")
}

fn print<T: Serialize>(found: &T, text: impl FnOnce(&T) -> String, format: Format) -> anyhow::Result<()> {
    match format {
        Format::Json => say(&(serde_json::to_string(found)? + "\n"))?,
        Format::Text => say(&text(found))?,
    }
    Ok(())
}
