//! The command line: selects a benchmark and prints its report.

use std::fmt::Display;
use std::net::SocketAddr;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand, ValueEnum};
use serde::Serialize;
use tidegate_bench::{compare, holds, leases, middleware, progress, redis_store, replay, service};

/// Measures Tidegate and compares it with other limiters
#[derive(Debug, Parser)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    /// How to print the result
    #[arg(long, global = true, value_enum, default_value_t = Format::Text)]
    format: Format,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Compare time and memory of every contender on the same workloads
    Compare(compare::Options),
    /// Compare the Redis store with the scripts of other projects, on servers started for the run
    Redis(redis_store::Options),
    /// Measure the service: RESP compared with Redis, HTTP compared with a bare route, memory, start
    Service(service::Options),
    /// Measure the cost of a layer for an axum route, compared with no layer and with the layer of governor
    Middleware(middleware::Options),
    /// Compare the replay of a log with mawk
    Replay(replay::Options),
    /// Compare holds in memory with check and refund, and checks on keys with and without open holds
    Holds(holds::Options),
    /// Compare nodes that lease units of a Redis with nodes that ask it for each decision
    Leases(leases::Options),
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

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    Text,
    Json,
}

impl Format {
    fn print(self, report: &(impl Display + Serialize)) -> Result<()> {
        progress::clear();
        match self {
            Self::Text => print!("{report}"),
            Self::Json => println!("{}", serde_json::to_string_pretty(report)?),
        }
        Ok(())
    }
}

/// Exits with 2 if there is no result.
fn main() -> ExitCode {
    match run(Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::from(2)
        }
    }
}

fn run(Cli { command, format }: Cli) -> Result<()> {
    match command {
        Command::Compare(options) => format.print(&compare::run(&options)?),
        Command::Redis(options) => format.print(&redis_store::run(&options)?),
        Command::Service(options) => format.print(&service::run(&options)?),
        Command::Middleware(options) => format.print(&middleware::run(&options)?),
        Command::Replay(options) => format.print(&replay::run(&options)?),
        Command::Holds(options) => format.print(&holds::run(&options)?),
        Command::Leases(options) => format.print(&leases::run(&options)?),
        Command::BareRoute { address } => service::bare_route::serve(address),
        Command::Layered { layer, address } => middleware::serve(layer, address),
    }
}
