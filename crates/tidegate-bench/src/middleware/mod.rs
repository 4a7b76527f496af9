//! The cost of a layer: an axum route without a layer and with each layer.
//!
//! This binary serves each layer in a separate process. All get the same load, in interleaved rounds. The result is the
//! server's processor time for a request: a layer has no other cost, and the load generator, which uses the same cores,
//! does not count.

mod layer;
mod report;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum as _};

use crate::machine::Machine;
use crate::options::Size;
use crate::progress;
use crate::service::process::OwnServer;
use crate::service::throughput::{Round, interleaved, round};
use crate::service::{load_average, wrk};

pub use layer::{RouteLayer, serve};
pub use report::{LayerReport, MiddlewareReport, Ratio};

/// Our layer, the layer that it is compared with, and the maximum ratio of their processor times, if there is a target.
/// `tower_governor` sends no headers by default, so our layer is compared with and without headers.
const COMPARED: [(RouteLayer, RouteLayer, Option<f64>); 5] = [
    (RouteLayer::Tidegate, RouteLayer::Plain, Some(1.1)),
    (RouteLayer::TidegateQuiet, RouteLayer::TowerGovernor, Some(1.0)),
    (RouteLayer::Tidegate, RouteLayer::TowerGovernorHeaders, Some(1.0)),
    (RouteLayer::Tidegate, RouteLayer::TowerGovernor, None),
    (RouteLayer::TidegateLog, RouteLayer::Plain, None),
];

/// Options of the command line.
#[derive(Clone, Debug, Args)]
pub struct Options {
    /// Rounds to take the median of
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// Milliseconds of a round of one layer, rounded down to whole seconds
    #[arg(long, default_value_t = 5_000, value_parser = clap::value_parser!(u16).range(10..))]
    round: u16,
    #[command(flatten)]
    size: Size,
}

/// Measures all layers.
///
/// # Errors
/// If a layer can't be served, wrk is missing, or a request failed.
pub fn run(options: &Options) -> Result<MiddlewareReport> {
    let busy_before = load_average();
    let layers = RouteLayer::value_variants();
    let start = |layer: &RouteLayer| OwnServer::start(&["layered", &layer.name()]);
    let servers = layers.iter().map(start).collect::<Result<Vec<_>>>()?;
    for (layer, server) in layers.iter().zip(&servers) {
        progress::show(&format!("warming up {}", layer.name()));
        wrk::get(server.address, 1)?;
    }
    let turn = |(layer, server): (&RouteLayer, &OwnServer)| {
        round(server.process.id(), || wrk::get(server.address, 1)).with_context(|| layer.name())
    };
    let turns: Vec<_> = layers.iter().zip(&servers).map(|side| move || turn(side)).collect();
    let turns: Vec<&dyn Fn() -> Result<Round>> = turns.iter().map(|turn| turn as _).collect();
    let seconds = (options.size.of(options.round) / 1_000).max(1);
    let mut rounds: Vec<Vec<Vec<Round>>> = vec![Vec::new(); servers.len()];
    for number in 1..=options.rounds {
        progress::show(&format!("round {number}"));
        // A turn takes one second: the cost of a request varies over time by more than the cost of a layer.
        for (rounds, turns) in rounds.iter_mut().zip(interleaved(seconds, &turns)?) {
            rounds.push(turns);
        }
    }
    let layers: Vec<_> = layers.iter().zip(&rounds).map(|(layer, rounds)| LayerReport::of(*layer, rounds)).collect();
    let compared = COMPARED.iter().map(|(ours, other, target)| Ratio::of(&layers, *ours, *other, *target));
    let ratios = compared.collect::<Option<Vec<_>>>().context("every layer was measured")?;
    Ok(MiddlewareReport {
        machine: Machine::this(),
        rounds: options.rounds,
        round_seconds: seconds.into(),
        load_average: [busy_before, load_average()],
        ratios,
        layers,
    })
}
