//! [`Evaluation`]: several algorithms decide one trace side by side.
//!
//! Each algorithm has its own store and an `audit`: `sliding_log` over the requests that it admitted. `sliding_log` is always among the
//! algorithms. `memory` measures the state of some clients. Memory grows with the number of clients, not of requests.

mod algorithm_run;
pub(super) mod audit;
mod memory;
mod results;

use tidegate::{Algorithm, Cost, Key, Limit, Timestamp};

use self::{algorithm_run::AlgorithmRun, memory::ClientSample};
pub use self::{
    memory::SAMPLE_SIZE,
    results::{AlgorithmResult, Timeline, TraceResult, TraceSummary, WrongDecisions},
};
use super::traffic::{Traffic, TrafficError};
use crate::{bins::Bins, client_numbers::ClientNumbers, window_us};

/// Maximum number of algorithms. Further algorithms are ignored.
pub const MAX_ALGORITHMS: usize = 32;

/// Maximum number of bins of the timeline.
const BINS: usize = 300;

/// Evaluation of several algorithms on one trace.
///
/// ```
/// use tidegate::{Algorithm, Cost, Key, Timestamp};
/// use tidegate_replay::simulate::evaluation::Evaluation;
///
/// let mut evaluation = Evaluation::new("2/1s".parse()?, &[Algorithm::FixedWindow]);
/// for time in [999_998, 999_999, 1_000_000, 1_000_001] {
///     evaluation.decide(Timestamp::from_micros(time), &Key::new("alice")?, Cost::ONE);
/// }
/// let result = evaluation.finish("by hand");
/// let [log, fixed] = &result.algorithms[..] else { panic!() };
/// assert_eq!((log.worst_window_units, fixed.worst_window_units), (2, 4));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Evaluation {
    limit: Limit,
    window_us: u64,
    /// `sliding_log`, then the others.
    runs: Vec<AlgorithmRun>,
    numbers: ClientNumbers,
    clients: Vec<Client>,
    sample: ClientSample,
    /// Columns: units requested, units admitted (by each algorithm).
    bins: Bins,
    summary: TraceSummary,
}

#[derive(Debug, Clone, Copy)]
struct Client {
    /// One bit for each algorithm that denied the client.
    denied_by: u32,
    /// Hash of its key.
    hash: u64,
}

impl Evaluation {
    /// Creates an evaluation of `algorithms`. `sliding_log` is always the first.
    pub fn new(limit: Limit, algorithms: &[Algorithm]) -> Self {
        let mut all = vec![Algorithm::SlidingLog];
        for algorithm in algorithms {
            if !all.contains(algorithm) && all.len() < MAX_ALGORITHMS {
                all.push(*algorithm);
            }
        }
        Self {
            limit,
            window_us: window_us(limit),
            sample: ClientSample::new(limit, &all),
            bins: Bins::new(BINS, vec![true; 1 + all.len()]),
            runs: all.into_iter().map(|algorithm| AlgorithmRun::new(limit, algorithm)).collect(),
            numbers: ClientNumbers::default(),
            clients: Vec::new(),
            summary: TraceSummary::default(),
        }
    }

    /// Decides a request by all algorithms. A request that is more than a window earlier than the latest is moved forward, because no
    /// algorithm promises anything for it.
    pub fn decide(&mut self, now: Timestamp, key: &Key<'_>, cost: Cost) {
        let earliest = self.summary.to_us.unwrap_or(0).saturating_sub(self.window_us);
        let moved = now.as_micros() < earliest;
        let now = Timestamp::from_micros(now.as_micros().max(earliest));
        self.summary.record(now, cost, moved);
        let number = self.numbers.number(key.as_bytes()) as usize;
        if number == self.clients.len() {
            self.clients.push(Client { denied_by: 0, hash: self.sample.add(key) });
        }
        let bin = self.bins.at(now.as_micros());
        bin[0] = bin[0].saturating_add(cost.get());

        let mut log_admitted = true;
        for (algorithm, run) in self.runs.iter_mut().enumerate() {
            let admitted = run.decide(key, cost, now);
            if algorithm == 0 {
                log_admitted = admitted;
            }
            run.compare(admitted, log_admitted);
            if admitted {
                bin[1 + algorithm] = bin[1 + algorithm].saturating_add(cost.get());
                self.sample.charge(self.clients[number].hash, algorithm, key, cost, now);
            } else {
                self.clients[number].denied_by |= 1 << algorithm;
            }
        }
    }

    /// Returns the results. `name` is the name of the trace.
    pub fn finish(self, name: &str) -> TraceResult {
        let Self { limit, runs, clients, sample, bins, mut summary, window_us, .. } = self;
        summary.clients = clients.len() as u64;
        let timeline = Timeline {
            from_us: bins.start_us(),
            bin_us: bins.length_us(),
            requested_units: bins.column(0),
            admitted_units: (1..=runs.len()).map(|column| bins.column(column)).collect(),
        };
        let result = |(algorithm, run): (usize, AlgorithmRun)| {
            let denied = clients.iter().filter(|client| client.denied_by & 1 << algorithm != 0).count();
            run.result(&summary, denied as u64, sample.mean_bytes(algorithm))
        };
        let algorithms = runs.into_iter().enumerate().map(result).collect();
        let (trace, max) = (name.to_owned(), limit.max());
        TraceResult { trace, limit: limit.to_string(), max, window_us, timeline, algorithms, summary }
    }
}

/// Evaluates algorithms on simulated traffic.
///
/// # Errors
/// If the options of the traffic are invalid.
#[expect(clippy::missing_panics_doc, reason = "addresses are keys, and the cost is checked before")]
pub fn run(traffic: &Traffic, limit: Limit, algorithms: &[Algorithm]) -> Result<TraceResult, TrafficError> {
    let requests = traffic.requests()?;
    let addresses: Vec<String> = (0..traffic.clients).map(|client| traffic.address(client)).collect();
    let mut evaluation = Evaluation::new(limit, algorithms);
    for request in requests {
        let key = Key::new(&addresses[request.client as usize]).expect("an address is a key");
        let cost = Cost::new(request.cost).expect("the cost is checked before");
        evaluation.decide(Timestamp::from_micros(request.time_us), &key, cost);
    }
    Ok(evaluation.finish(traffic.shape.as_str()))
}
