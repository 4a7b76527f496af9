//! The command line: selects a benchmark and prints its report.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::{Args, Parser, Subcommand, ValueEnum};
use serde::Serialize;
use tidegate_bench::compare::{self, Options};
use tidegate_bench::workload::Scale;
use tidegate_bench::{middleware, redis_store, replay, service, table};

/// Measures Tidegate and compares it with other limiters
#[derive(Debug, Parser)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Compare time and memory of every contender on the same workloads
    Compare(CompareArgs),
    /// Compare the Redis store with the scripts of other projects, on servers started for the run
    Redis(RedisArgs),
    /// Measure the service: RESP compared with Redis, HTTP compared with a bare route, memory, start
    Service(ServiceArgs),
    /// Measure the cost of a layer for an axum route, compared with no layer and with the layer of governor
    Middleware(MiddlewareArgs),
    /// Compare the replay of a log with mawk
    Replay(ReplayArgs),
    /// Serve the bare route that the service is compared with
    #[command(hide = true)]
    BareRoute {
        /// The address to listen on
        address: SocketAddr,
    },
    /// Serve a route behind one of the measured layers
    #[command(hide = true)]
    Layered {
        /// The layer
        layer: middleware::RouteLayer,
        /// The address to listen on
        address: SocketAddr,
    },
}

#[derive(Debug, Args)]
struct CompareArgs {
    /// Rounds to take the median of
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// Projects to measure, for example governor,rate-net; our rows to compare with are always added
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    #[command(flatten)]
    common: CommonArgs,
    /// Maximum seconds of a contender for one warm-up or one round
    #[arg(long, default_value_t = 30)]
    bound: u64,
}

#[derive(Clone, Copy, Debug, Args)]
struct CommonArgs {
    /// How to print the result
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Measure about a tenth, to check that everything works
    #[arg(long)]
    quick: bool,
}

impl CommonArgs {
    /// The divisor of the size of the run.
    fn divisor(self) -> u16 {
        if self.quick { 10 } else { 1 }
    }

    fn print<T: Serialize>(self, report: &T, render: fn(&T) -> String) -> Result<()> {
        match self.format {
            Format::Text => print!("{}", render(report)),
            Format::Json => println!("{}", serde_json::to_string_pretty(report)?),
        }
        Ok(())
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    Text,
    Json,
}

#[derive(Debug, Args)]
struct RedisArgs {
    /// Rounds to take the median of
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// Milliseconds of a round in which decisions per second are measured
    #[arg(long, default_value_t = 2_000, value_parser = clap::value_parser!(u16).range(10..))]
    round: u16,
    /// Benchmarks to run, for example log,memory
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<redis_store::RedisBenchmark>,
    #[command(flatten)]
    common: CommonArgs,
}

#[derive(Debug, Args)]
struct ServiceArgs {
    /// Rounds to take the median of
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// Approximate milliseconds of a round
    #[arg(long, default_value_t = 3_000, value_parser = clap::value_parser!(u16).range(10..))]
    round: u16,
    /// Benchmarks to run, for example resp,memory
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<service::ServiceBenchmark>,
    #[command(flatten)]
    common: CommonArgs,
}

#[derive(Debug, Args)]
struct MiddlewareArgs {
    /// Rounds to take the median of
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// Milliseconds of a round of one layer, rounded down to whole seconds
    #[arg(long, default_value_t = 5_000, value_parser = clap::value_parser!(u16).range(10..))]
    round: u16,
    #[command(flatten)]
    common: CommonArgs,
}

#[derive(Debug, Args)]
struct ReplayArgs {
    /// Rounds to take the median of
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    #[command(flatten)]
    common: CommonArgs,
}

/// Exits with 2 if there is no result.
fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Compare(args) => compare(args),
        Command::Redis(args) => redis(args),
        Command::Service(args) => service(args),
        Command::Middleware(args) => middleware(&args),
        Command::Replay(args) => replay(&args),
        Command::BareRoute { address } => service::bare_route::serve(address),
        Command::Layered { layer, address } => middleware::serve(layer, address),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::from(2)
        }
    }
}

fn compare(args: CompareArgs) -> Result<()> {
    let report = compare::run(&Options {
        rounds: args.rounds.into(),
        only: args.only,
        scale: if args.common.quick { Scale::QUICK } else { Scale::FULL },
        bound: Duration::from_secs(args.bound),
    })?;
    args.common.print(&report, table::render)
}

fn redis(args: RedisArgs) -> Result<()> {
    let divisor = args.common.divisor();
    let report = redis_store::run(&redis_store::Options {
        rounds: args.rounds.into(),
        round: Duration::from_millis(args.round.into()) / u32::from(divisor),
        only: args.only,
        divisor: divisor.into(),
    })?;
    args.common.print(&report, redis_store::render)
}

fn service(args: ServiceArgs) -> Result<()> {
    let divisor = args.common.divisor();
    let report = service::run(&service::Options {
        rounds: args.rounds.into(),
        round: Duration::from_millis(args.round.into()) / u32::from(divisor),
        only: args.only,
        divisor: divisor.into(),
    })?;
    args.common.print(&report, service::render)
}

fn middleware(args: &MiddlewareArgs) -> Result<()> {
    let divisor = args.common.divisor();
    let report = middleware::run(&middleware::Options {
        rounds: args.rounds.into(),
        seconds: u64::from(args.round / divisor / 1_000).max(1),
    })?;
    args.common.print(&report, middleware::render)
}

fn replay(args: &ReplayArgs) -> Result<()> {
    let divisor = args.common.divisor();
    let report = replay::run(&replay::Options { rounds: args.rounds.into(), divisor: divisor.into() })?;
    args.common.print(&report, replay::render)
}
