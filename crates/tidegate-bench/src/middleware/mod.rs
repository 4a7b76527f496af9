//! The cost of a layer: an axum route without a layer and with each layer.
//!
//! This binary serves each layer in a separate process. All get the same load, in interleaved rounds. The result is the
//! server's processor time for a request: a layer has no other cost, and the load generator, which uses the same cores,
//! does not count.

mod layer;
mod report;
mod table;

use std::net::SocketAddr;
use std::process::Command;

use anyhow::{Context, Result};
use clap::ValueEnum as _;
use tidegate_testbed::free_port;

use crate::machine::Machine;
use crate::progress::Progress;
use crate::service::process::Process;
use crate::service::servers::local;
use crate::service::throughput::{self, Round};
use crate::service::{load_average, wrk};

pub use layer::{RouteLayer, serve};
pub use report::{LayerReport, MiddlewareReport, Ratio};
pub use table::render;

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
#[derive(Clone, Debug)]
pub struct Options {
    /// The number of rounds. Their median is reported.
    pub rounds: usize,
    /// The length of a round of one layer.
    pub seconds: u64,
}

/// Measures all layers.
///
/// # Errors
/// If a layer can't be served, wrk is missing, or a request failed.
pub fn run(options: &Options) -> Result<MiddlewareReport> {
    let progress = Progress::new();
    let busy_before = load_average();
    let servers =
        RouteLayer::value_variants().iter().map(|layer| LayerServer::start(*layer)).collect::<Result<Vec<_>>>()?;
    for server in &servers {
        progress.show(&format!("warming up {}", server.layer.name()));
        wrk::get(server.address, 1)?;
    }
    let mut rounds: Vec<Vec<Vec<Round>>> = vec![Vec::new(); servers.len()];
    for number in 1..=options.rounds {
        progress.show(&format!("round {number}"));
        for (rounds, turns) in rounds.iter_mut().zip(round(&servers, options.seconds)?) {
            rounds.push(turns);
        }
    }
    progress.clear();
    let layers = servers.iter().zip(&rounds).map(|(server, rounds)| LayerReport::of(server.layer, rounds));
    let layers = layers.collect::<Option<Vec<_>>>().context("there is a round")?;
    let compared = COMPARED.iter().map(|(ours, other, target)| Ratio::of(&layers, *ours, *other, *target));
    let ratios = compared.collect::<Option<Vec<_>>>().context("every layer was measured")?;
    Ok(MiddlewareReport {
        machine: Machine::this(),
        rounds: options.rounds,
        round_seconds: options.seconds,
        load_average: [busy_before, load_average()],
        ratios,
        layers,
    })
}

/// The turns of each layer in one round. A turn takes one second: the cost of a request varies over time by more than
/// the cost of a layer.
fn round(servers: &[LayerServer], seconds: u64) -> Result<Vec<Vec<Round>>> {
    let mut turns: Vec<Vec<Round>> = vec![Vec::new(); servers.len()];
    for _ in 0..seconds {
        for (server, turns) in servers.iter().zip(&mut turns) {
            turns.push(server.turn()?);
        }
    }
    Ok(turns)
}

/// The process that serves one layer.
struct LayerServer {
    layer: RouteLayer,
    process: Process,
    address: SocketAddr,
}

impl LayerServer {
    /// Starts the process and waits until it listens.
    fn start(layer: RouteLayer) -> Result<Self> {
        let address = local(free_port());
        let this = std::env::current_exe().context("the path of this binary is unknown")?;
        let mut process = Process::start(Command::new(this).args(["layered", layer.name(), &address.to_string()]))?;
        process.wait_for(|| std::net::TcpStream::connect(address).ok())?;
        Ok(Self { layer, process, address })
    }

    /// A second of load.
    fn turn(&self) -> Result<Round> {
        let target =
            throughput::LoadTarget { id: self.process.id(), send_load: Box::new(|| wrk::get(self.address, 1)) };
        target.round().with_context(|| self.layer.name())
    }
}
