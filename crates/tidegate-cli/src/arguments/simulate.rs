//! What can be said to `tidegate simulate`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::LogArguments;

#[derive(Debug, Subcommand)]
pub(crate) enum SimulateCommand {
    /// A full burst on each side of a window's edge: what each algorithm lets through.
    Boundary(BoundaryArguments),
    /// How far the cheaper algorithms are from the exact log, on made-up traffic or on a log.
    Accuracy(AccuracyArguments),
    /// All algorithms on one trace, made up or given.
    Compare(CompareArguments),
    /// Make up traffic and print it, as a trace or as an access log.
    Traffic(TrafficArguments),
}

#[derive(Debug, Args)]
pub(crate) struct BoundaryArguments {
    /// The limit.
    #[arg(long, short, default_value = "100/1m", value_name = "LIMIT")]
    pub(crate) limit: String,
    /// An algorithm to show; unsaid, one of each kind.
    #[arg(long, value_name = "NAME")]
    pub(crate) algorithm: Vec<String>,
    /// Write a page with plots, which needs nothing else to be looked at.
    #[arg(long, value_name = "OUT.html")]
    pub(crate) report: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct AccuracyArguments {
    /// A shape of traffic: poisson, bursty, diurnal, adversarial, mix; unsaid, the first four, if no log is given.
    #[arg(long, value_name = "SHAPE")]
    pub(crate) shape: Vec<String>,
    #[command(flatten)]
    pub(crate) trial: TrialArguments,
}

#[derive(Debug, Args)]
pub(crate) struct CompareArguments {
    /// The shape of the traffic, if no log is given: poisson, bursty, diurnal, adversarial, mix.
    #[arg(long, default_value = "bursty", value_name = "SHAPE")]
    pub(crate) shape: String,
    #[command(flatten)]
    pub(crate) trial: TrialArguments,
}

/// What is tried on which traffic.
#[derive(Debug, Args)]
pub(crate) struct TrialArguments {
    /// The limit.
    #[arg(long, short, default_value = "100/1m", value_name = "LIMIT")]
    pub(crate) limit: String,
    /// An algorithm to try beside the exact log; unsaid, those that the command is about.
    #[arg(long, value_name = "NAME")]
    pub(crate) algorithm: Vec<String>,
    #[command(flatten)]
    pub(crate) made_up: MadeUpArguments,
    #[command(flatten)]
    pub(crate) log: LogArguments,
    /// Write a page with plots, which needs nothing else to be looked at.
    #[arg(long, value_name = "OUT.html")]
    pub(crate) report: Option<PathBuf>,
}

/// How much traffic, if it is made up.
#[derive(Debug, Args)]
pub(crate) struct MadeUpArguments {
    /// How many clients send.
    #[arg(long, default_value_t = 200, value_name = "N")]
    pub(crate) clients: u32,
    /// About how many requests.
    #[arg(long, default_value_t = 200_000, value_name = "N")]
    pub(crate) requests: u64,
    /// What a client asks for on average, as a multiple of the limit.
    #[arg(long, default_value_t = 0.25, value_name = "TIMES")]
    pub(crate) load: f64,
}

#[derive(Debug, Args)]
pub(crate) struct TrafficArguments {
    /// How clients behave: mix (people, scrapers, scripts, cron jobs), poisson, bursty, diurnal, adversarial.
    #[arg(long, default_value = "mix", value_name = "SHAPE")]
    pub(crate) shape: String,
    /// How many there are.
    #[arg(long, default_value_t = 1_000, value_name = "N")]
    pub(crate) clients: u32,
    /// How long it lasts.
    #[arg(long, default_value = "1h", value_name = "SPAN")]
    pub(crate) duration: String,
    /// Requests that a client sends in a minute, on average.
    #[arg(long, default_value_t = 6.0, value_name = "N")]
    pub(crate) per_minute: f64,
    /// What a request costs.
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(crate) cost: u64,
    /// The limit whose windows adversaries know, and that bursts are a part of.
    #[arg(long, short, default_value = "60/1m", value_name = "LIMIT")]
    pub(crate) limit: String,
    /// When it begins, in microseconds since the epoch; unsaid, 5 January 2026, 09:00 UTC.
    #[arg(long, value_name = "MICROSECONDS")]
    pub(crate) start_us: Option<u64>,
    /// The same seed gives the same traffic.
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(crate) seed: u64,
    /// What to print.
    #[arg(long, value_enum, default_value_t = TrafficFormat::Csv, value_name = "FORMAT")]
    pub(crate) output: TrafficFormat,
}

/// What made-up traffic is printed as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TrafficFormat {
    /// A trace: `time_us,key,cost`.
    Csv,
    /// A combined access log.
    Combined,
}
