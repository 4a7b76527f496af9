//! The cost of a layer: an axum route without a layer and with each layer.
//!
//! Every side is a process of its own, served by this binary and asked by the same load, in rounds that take turns. What
//! counts is the server's processor time for a request: a layer has no other cost, and it can be told apart from the
//! load generator's, which has the same cores.

mod report;
mod side;
mod table;

use std::net::SocketAddr;
use std::process::Command;

use anyhow::{Context, Result};
use clap::ValueEnum as _;
use tidegate_testbed::free_port;

use crate::machine::Machine;
use crate::progress::Progress;
use crate::service::process::Process;
use crate::service::sides::local;
use crate::service::throughput::{self, Round};
use crate::service::{load_average, wrk};

pub use report::{MiddlewareReport, Ratio, SideReport};
pub use side::{Side, serve};
pub use table::render;

/// Who is compared with whom, and what the processor time may be at most, as a part of the other's. `tower_governor` has no headers
/// unless it is told to: like is compared with like, and our default with its default.
const COMPARED: [(Side, Side, Option<f64>); 5] = [
    (Side::Tidegate, Side::Plain, Some(1.1)),
    (Side::TidegateQuiet, Side::TowerGovernor, Some(1.0)),
    (Side::Tidegate, Side::TowerGovernorHeaders, Some(1.0)),
    (Side::Tidegate, Side::TowerGovernor, None),
    (Side::TidegateLog, Side::Plain, None),
];

/// Options of the command line.
#[derive(Clone, Debug)]
pub struct Options {
    /// The number of rounds. Their median is reported.
    pub rounds: usize,
    /// How long a round of one side takes.
    pub seconds: u64,
}

/// Measures all sides.
///
/// # Errors
/// If a side can't be served, wrk is missing, or a request was answered by anything but hello.
pub fn run(options: &Options) -> Result<MiddlewareReport> {
    let progress = Progress::new();
    let busy_before = load_average();
    let served = Side::value_variants().iter().map(|side| Served::start(*side)).collect::<Result<Vec<_>>>()?;
    for one in &served {
        progress.say(&format!("warming up {}", one.side.name()));
        wrk::get(one.address, 1)?;
    }
    let mut rounds: Vec<Vec<Vec<Round>>> = vec![Vec::new(); served.len()];
    for number in 1..=options.rounds {
        progress.say(&format!("round {number}"));
        for (rounds, turns) in rounds.iter_mut().zip(round(&served, options.seconds)?) {
            rounds.push(turns);
        }
    }
    progress.clear();
    let sides = served.iter().zip(&rounds).map(|(one, rounds)| SideReport::of(one.side, rounds));
    let sides = sides.collect::<Option<Vec<_>>>().context("there is a round")?;
    let compared = COMPARED.iter().map(|(ours, beside, wanted)| Ratio::of(&sides, *ours, *beside, *wanted));
    let ratios = compared.collect::<Option<Vec<_>>>().context("every side was measured")?;
    Ok(MiddlewareReport {
        machine: Machine::this(),
        rounds: options.rounds,
        round_seconds: options.seconds,
        load_average: [busy_before, load_average()],
        ratios,
        sides,
    })
}

/// The turns of each side in one round. They take turns by the second: what a request costs drifts with the machine, by more than what
/// a layer adds to it.
fn round(served: &[Served], seconds: u64) -> Result<Vec<Vec<Round>>> {
    let mut turns: Vec<Vec<Round>> = vec![Vec::new(); served.len()];
    for _ in 0..seconds {
        for (one, turns) in served.iter().zip(&mut turns) {
            turns.push(one.turn()?);
        }
    }
    Ok(turns)
}

/// One side, as a process with an address.
struct Served {
    side: Side,
    process: Process,
    address: SocketAddr,
}

impl Served {
    /// Starts it, and waits until it listens.
    fn start(side: Side) -> Result<Self> {
        let address = local(free_port());
        let this = std::env::current_exe().context("this binary is nowhere")?;
        let mut process = Process::start(Command::new(this).args(["layered", side.name(), &address.to_string()]))?;
        process.until(|| std::net::TcpStream::connect(address).ok())?;
        Ok(Self { side, process, address })
    }

    /// A second of load.
    fn turn(&self) -> Result<Round> {
        let asked = throughput::LoadTarget { id: self.process.id(), ask: Box::new(|| wrk::get(self.address, 1)) };
        asked.round().with_context(|| self.side.name())
    }
}
