//! A simulation of nodes that lease from one shared store, with the code that decides in production.
//!
//! All times are simulated. Messages take time, get lost and are repeated, nodes crash and stand still, and their clocks run
//! too fast or too slow. The simulation records when each node truly admitted a request, by the clock of the store, and
//! compares the admissions with those of one exact limiter. `regions` has two levels: clients that lease from a region, and
//! regions that lease from the root.

mod nodes;
mod regions;
mod shared;

use std::time::Duration;

use tidegate::Policy;

use crate::stats::Stats;

use nodes::Simulation;
pub use regions::RegionScenario;
pub use shared::{Shared, SharedMemory};

/// What is simulated.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// The policy, with a lease term.
    pub policy: Policy,
    /// The number of nodes.
    pub nodes: usize,
    /// How long requests arrive.
    pub duration: Duration,
    /// Requests that arrive in a second at each node.
    pub requests_per_second: f64,
    /// Units of a request.
    pub cost: u64,
    /// The least time that a message takes.
    pub latency: Duration,
    /// The most time that is added to it.
    pub jitter: Duration,
    /// The share of messages that are lost.
    pub lost: f64,
    /// The share of messages that arrive twice.
    pub repeated: f64,
    /// Crashes of each node in an hour. A node that has crashed starts again at once, and has forgotten its leases.
    pub crashes_per_hour: f64,
    /// Pauses of each node in an hour, as of a process that is stopped and continued.
    pub pauses_per_hour: f64,
    /// The longest pause.
    pub longest_pause: Duration,
    /// The greatest deviation of a node's clock, in parts of its rate: 0.01 is 1 %.
    pub clock_deviation: f64,
    /// The seed of the random numbers.
    pub seed: u64,
}

impl Scenario {
    /// Nodes in one place, without faults.
    pub fn new(policy: Policy, nodes: usize) -> Self {
        Self {
            policy,
            nodes,
            duration: Duration::from_secs(60),
            requests_per_second: 100.0,
            cost: 1,
            latency: Duration::from_micros(100),
            jitter: Duration::from_micros(100),
            lost: 0.0,
            repeated: 0.0,
            crashes_per_hour: 0.0,
            pauses_per_hour: 0.0,
            longest_pause: Duration::ZERO,
            clock_deviation: 0.0,
            seed: 1,
        }
    }
}

/// The result of a simulation.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct Outcome {
    /// Requests that arrived.
    pub requests: u64,
    /// Units that all nodes admitted.
    pub admitted: u64,
    /// Units that one exact limiter admits of the same requests.
    pub exact: u64,
    /// Calls of the shared store.
    pub calls: u64,
    /// Requests that waited for the shared store.
    pub waited: u64,
    /// For each limit, the most units that were admitted in a window of it.
    pub worst_windows: Vec<u64>,
    /// The limits that were exceeded in some window.
    pub exceeded: usize,
    /// What each node has counted since its last crash.
    pub nodes: Vec<Stats>,
}

impl Outcome {
    /// The share of the units of one exact limiter that the nodes admitted.
    #[expect(clippy::cast_precision_loss, reason = "a share needs few digits")]
    pub fn share(&self) -> f64 {
        if self.exact == 0 { 1.0 } else { self.admitted as f64 / self.exact as f64 }
    }
}

/// Simulates nodes that lease from a store in memory.
pub fn run(scenario: &Scenario) -> Outcome {
    run_with(scenario, SharedMemory::new(&scenario.policy))
}

/// Simulates nodes that lease from `shared`.
pub fn run_with(scenario: &Scenario, shared: impl Shared) -> Outcome {
    Simulation::new(scenario, shared).run()
}

/// Simulates regions that lease from a root in memory, and clients that lease from their region.
///
/// # Panics
/// If the term of the regions is out of range for the policy.
pub fn run_regions(scenario: &RegionScenario) -> Outcome {
    let policy = scenario.clients.policy.clone().with_lease(scenario.region_term);
    let policy = policy.unwrap_or_else(|error| panic!("the term of the regions: {error}"));
    let root = SharedMemory::new(&policy);
    regions::RegionSimulation::new(scenario, policy, root).run()
}
