//! The command line: selects a benchmark and prints its report.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::{Args, Parser, Subcommand, ValueEnum};
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
    /// Time and memory of every contender on the same workloads, as a ratio to ours
    Compare(CompareArgs),
    /// Compare the Redis store with the scripts of other projects, on servers started for the run
    Redis(RedisArgs),
    /// Measure the service: RESP compared with Redis, HTTP compared with a bare route, memory, start
    Service(ServiceArgs),
    /// Measure the cost of a layer for an axum route, compared with no layer and with governor's
    Middleware(MiddlewareArgs),
    /// Compare the replay of a log with mawk
    Replay(ReplayArgs),
    /// Serve the bare route that the service is compared with
    #[command(hide = true)]
    BareRoute {
        /// Where to listen
        address: SocketAddr,
    },
    /// A route behind one of the layers that are measured
    #[command(hide = true)]
    Layered {
        /// Behind which
        side: middleware::Side,
        /// Where to listen
        address: SocketAddr,
    },
}

#[derive(Debug, Args)]
struct CompareArgs {
    /// Rounds to take the median of
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// How to print the result
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Projects to measure, for example governor,rate-net; ours to compare with are always added
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// A tenth of the keys and decisions, to see that everything works
    #[arg(long)]
    quick: bool,
    /// Seconds a contender may take for one warm-up or one round
    #[arg(long, default_value_t = 30)]
    bound: u64,
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
    /// Milliseconds of a round of decisions per second
    #[arg(long, default_value_t = 2_000, value_parser = clap::value_parser!(u16).range(10..))]
    round: u16,
    /// How to print the result
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Parts to measure, for example log,memory
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<redis_store::RedisBenchmark>,
    /// A tenth of the time and of the decisions, to see that everything works
    #[arg(long)]
    quick: bool,
}

#[derive(Debug, Args)]
struct ServiceArgs {
    /// Rounds to take the median of
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// Milliseconds of a round, about
    #[arg(long, default_value_t = 3_000, value_parser = clap::value_parser!(u16).range(10..))]
    round: u16,
    /// How to print the result
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Parts to measure, for example resp,memory
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<service::ServiceBenchmark>,
    /// A tenth of the time and of the keys, to see that everything works
    #[arg(long)]
    quick: bool,
}

#[derive(Debug, Args)]
struct MiddlewareArgs {
    /// Rounds to take the median of
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// Milliseconds of a round of one side, in whole seconds
    #[arg(long, default_value_t = 5_000, value_parser = clap::value_parser!(u16).range(10..))]
    round: u16,
    /// How to print the result
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// A tenth of the time, but a second at least, to see that everything works
    #[arg(long)]
    quick: bool,
}

#[derive(Debug, Args)]
struct ReplayArgs {
    /// Rounds to take the median of
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// How to print the result
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// A tenth of the log, to see that everything works
    #[arg(long)]
    quick: bool,
}

/// Exits with 2 if there is no result.
fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Compare(args) => compare(args).map(|()| ExitCode::SUCCESS),
        Command::Redis(args) => redis(args).map(|()| ExitCode::SUCCESS),
        Command::Service(args) => service(args).map(|()| ExitCode::SUCCESS),
        Command::Middleware(args) => middleware(&args).map(|()| ExitCode::SUCCESS),
        Command::Replay(args) => replay(&args).map(|()| ExitCode::SUCCESS),
        Command::BareRoute { address } => service::bare_route::serve(address).map(|()| ExitCode::SUCCESS),
        Command::Layered { side, address } => middleware::serve(side, address).map(|()| ExitCode::SUCCESS),
    };
    result.unwrap_or_else(|error| {
        eprintln!("{error:#}");
        ExitCode::from(2)
    })
}

fn compare(args: CompareArgs) -> Result<()> {
    let report = compare::run(&Options {
        rounds: args.rounds.into(),
        only: args.only,
        scale: if args.quick { Scale::QUICK } else { Scale::FULL },
        bound: Duration::from_secs(args.bound),
    })?;
    match args.format {
        Format::Text => print!("{}", table::render(&report)),
        Format::Json => println!("{}", serde_json::to_string_pretty(&report)?),
    }
    Ok(())
}

fn redis(args: RedisArgs) -> Result<()> {
    let divisor = if args.quick { 10 } else { 1 };
    let report = redis_store::run(&redis_store::Options {
        rounds: args.rounds.into(),
        round: Duration::from_millis(args.round.into()) / divisor,
        only: args.only,
        divisor: divisor as usize,
    })?;
    match args.format {
        Format::Text => print!("{}", redis_store::render(&report)),
        Format::Json => println!("{}", serde_json::to_string_pretty(&report)?),
    }
    Ok(())
}

fn service(args: ServiceArgs) -> Result<()> {
    let divisor = if args.quick { 10 } else { 1 };
    let report = service::run(&service::Options {
        rounds: args.rounds.into(),
        round: Duration::from_millis(args.round.into()) / divisor,
        only: args.only,
        divisor: divisor as usize,
    })?;
    match args.format {
        Format::Text => print!("{}", service::render(&report)),
        Format::Json => println!("{}", serde_json::to_string_pretty(&report)?),
    }
    Ok(())
}

fn middleware(args: &MiddlewareArgs) -> Result<()> {
    let divisor = if args.quick { 10 } else { 1 };
    let report = middleware::run(&middleware::Options {
        rounds: args.rounds.into(),
        seconds: u64::from(args.round / divisor / 1_000).max(1),
    })?;
    match args.format {
        Format::Text => print!("{}", middleware::render(&report)),
        Format::Json => println!("{}", serde_json::to_string_pretty(&report)?),
    }
    Ok(())
}

fn replay(args: &ReplayArgs) -> Result<()> {
    let divisor = if args.quick { 10 } else { 1 };
    let report = replay::run(&replay::Options { rounds: args.rounds.into(), divisor })?;
    match args.format {
        Format::Text => print!("{}", replay::render(&report)),
        Format::Json => println!("{}", serde_json::to_string_pretty(&report)?),
    }
    Ok(())
}
