//! Arguments of `tidegate simulate`.

use std::{path::PathBuf, time::Duration};

use clap::{Args, Subcommand, ValueEnum};
use tidegate::{Algorithm, Limit};
use tidegate_replay::simulate::traffic::{self, TrafficShape};

use super::{LogArguments, replay::duration};

#[derive(Debug, Subcommand)]
pub(crate) enum SimulateCommand {
    /// Show what each algorithm admits around the boundary of two windows.
    Boundary(LimitArguments),
    /// Measure how far the approximate algorithms are from `sliding_log`, on simulated traffic or on a log.
    Accuracy(AccuracyArguments),
    /// Compare all algorithms on one trace: simulated traffic or a log. For a limit on requests at once, such as 4/inflight: show what
    /// it denies, and which limits would deny nothing.
    Compare(CompareArguments),
    /// Show what leases of nodes admit, how often they call the shared store, and the worst window.
    Leases(LeaseArguments),
    /// Print simulated traffic as a trace or as an access log.
    Traffic(TrafficArguments),
}

/// Nodes, their network and the requests.
#[derive(Debug, Args)]
pub(crate) struct LeaseArguments {
    /// The limit.
    #[arg(long, short, default_value = "10000/1m", value_name = "LIMIT", value_parser = windowed)]
    pub(crate) limit: Limit,
    /// Algorithm.
    #[arg(long, default_value = "sliding_log", value_name = "NAME")]
    pub(crate) algorithm: Algorithm,
    /// Number of nodes.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(crate) nodes: u16,
    /// Term of a lease.
    #[arg(long, default_value = "200ms", value_name = "SPAN", value_parser = duration)]
    pub(crate) term: Duration,
    /// Time that a message takes in each direction.
    #[arg(long, default_value = "1ms", value_name = "SPAN", value_parser = duration)]
    pub(crate) latency: Duration,
    /// Most time that is added to it at random.
    #[arg(long, default_value = "1ms", value_name = "SPAN", value_parser = duration)]
    pub(crate) jitter: Duration,
    /// Units that all nodes request, as a multiple of the limit.
    #[arg(long, default_value_t = 1.5, value_name = "TIMES")]
    pub(crate) demand: f64,
    /// Units of a request.
    #[arg(long, default_value_t = 1, value_name = "UNITS", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000_000))]
    pub(crate) cost: u64,
    /// Simulated time.
    #[arg(long, default_value = "5m", value_name = "SPAN", value_parser = duration)]
    pub(crate) duration: Duration,
    /// Share of messages that are lost.
    #[arg(long, default_value_t = 0.0, value_name = "SHARE")]
    pub(crate) lost: f64,
    /// Share of messages that arrive twice.
    #[arg(long, default_value_t = 0.0, value_name = "SHARE")]
    pub(crate) repeated: f64,
    /// Crashes of each node in an hour.
    #[arg(long, default_value_t = 0.0, value_name = "NUMBER")]
    pub(crate) crashes_per_hour: f64,
    /// Seed of the random numbers.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
}

/// The limit, the algorithms and the report.
#[derive(Debug, Args)]
pub(crate) struct LimitArguments {
    /// The limit.
    #[arg(long, short, default_value = "100/1m", value_name = "LIMIT")]
    pub(crate) limit: Limit,
    /// Algorithm to try. The default depends on the command.
    #[arg(long, value_name = "NAME")]
    pub(crate) algorithm: Vec<Algorithm>,
    /// Write a self-contained HTML page with plots.
    #[arg(long, value_name = "OUT.html")]
    pub(crate) report: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct AccuracyArguments {
    /// Shape of traffic: poisson, bursty, diurnal, adversarial, mix. Default without a log: the first four.
    #[arg(long, value_name = "SHAPE")]
    pub(crate) shape: Vec<TrafficShape>,
    #[command(flatten)]
    pub(crate) trial: TrialArguments,
}

#[derive(Debug, Args)]
pub(crate) struct CompareArguments {
    /// Shape of the traffic, without a log: poisson, bursty, diurnal, adversarial, mix.
    #[arg(long, default_value_t = TrafficShape::Bursty, value_name = "SHAPE")]
    pub(crate) shape: TrafficShape,
    /// Mean duration of a simulated request, for a limit such as 4/inflight. Durations are distributed exponentially. Default: 200ms.
    #[arg(long, value_name = "SPAN", value_parser = duration, conflicts_with = "files")]
    pub(crate) request_duration: Option<Duration>,
    #[command(flatten)]
    pub(crate) trial: TrialArguments,
}

/// The limit, the algorithms and the traffic.
#[derive(Debug, Args)]
pub(crate) struct TrialArguments {
    #[command(flatten)]
    pub(crate) tried: LimitArguments,
    #[command(flatten)]
    pub(crate) simulated: SimulatedArguments,
    #[command(flatten)]
    pub(crate) log: LogArguments,
}

/// Amount of simulated traffic.
#[derive(Debug, Args)]
pub(crate) struct SimulatedArguments {
    /// Number of clients.
    #[arg(long, default_value_t = 200, value_name = "N")]
    pub(crate) clients: u32,
    /// Approximate number of requests.
    #[arg(long, default_value_t = 200_000, value_name = "N")]
    pub(crate) requests: u64,
    /// Average demand of a client, as a multiple of the limit.
    #[arg(long, default_value_t = 0.25, value_name = "TIMES")]
    pub(crate) load: f64,
}

#[derive(Debug, Args)]
pub(crate) struct TrafficArguments {
    /// How clients behave: mix (people, scrapers, scripts, cron jobs), poisson, bursty, diurnal, adversarial.
    #[arg(long, default_value_t = TrafficShape::Mix, value_name = "SHAPE")]
    pub(crate) shape: TrafficShape,
    /// Number of clients.
    #[arg(long, default_value_t = 1_000, value_name = "N")]
    pub(crate) clients: u32,
    /// Duration of the traffic.
    #[arg(long, default_value = "1h", value_name = "SPAN", value_parser = duration)]
    pub(crate) duration: Duration,
    /// Average number of requests of a client per minute.
    #[arg(long, default_value_t = 6.0, value_name = "N")]
    pub(crate) per_minute: f64,
    /// Cost of a request.
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(crate) cost: u64,
    /// Limit that adversaries attack, and that sets the size of bursts.
    #[arg(long, short, default_value = "60/1m", value_name = "LIMIT", value_parser = windowed)]
    pub(crate) limit: Limit,
    /// Mean duration of a request. Durations are distributed exponentially and written as `duration_us`, or as `%D` of an access log.
    #[arg(long, value_name = "SPAN", value_parser = duration)]
    pub(crate) request_duration: Option<Duration>,
    /// Start of the traffic, in microseconds since the epoch. The default is 5 January 2026, 09:00 UTC.
    #[arg(long, default_value_t = traffic::DEFAULT_START_US, value_name = "MICROSECONDS")]
    pub(crate) start_us: u64,
    /// Seed of the random numbers. The same seed gives the same traffic.
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(crate) seed: u64,
    /// Output format.
    #[arg(long, value_enum, default_value_t = TrafficFormat::Csv, value_name = "FORMAT")]
    pub(crate) output: TrafficFormat,
}

/// Output format of simulated traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TrafficFormat {
    /// A trace: `time_us,key,cost`, and `duration_us` if requests have durations.
    Csv,
    /// A combined access log.
    Combined,
}

/// Parses a limit with a window.
fn windowed(text: &str) -> Result<Limit, String> {
    let limit: Limit = text.parse().map_err(|error: tidegate::LimitError| error.to_string())?;
    if limit.is_in_flight() {
        return Err("a limit on requests at once has no window: use a limit such as 60/1m".to_owned());
    }
    Ok(limit)
}
