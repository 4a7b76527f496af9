//! [`run`]: decides the requests of logs by several policies side by side.
//!
//! One thread reads the requests and numbers the clients (`client_numbers`). It sends them in a `chunk` to another thread, where every
//! policy decides on its own store (`policy_replay`), or in Redis (`external_store`). The results are kept by client (`client_counts`,
//! `demand`, `client_histories`), by time (`bins`) and by wait (`waits`). So memory grows with the number of clients, not with the
//! length of the log. `curve` computes the number of clients that each limit affects.

mod chunk;
mod client_counts;
mod client_histories;
mod curve;
mod decision_log;
mod demand;
mod external_store;
mod policy_replay;
mod waits;

use std::{
    io::{self, Write},
    ops::ControlFlow,
    sync::{
        atomic::Ordering,
        mpsc::{SyncSender, sync_channel},
    },
    thread,
    time::Duration,
};

use chunk::{CHUNK, Chunk};
use client_counts::{ClientCounts, Column};
use client_histories::ClientHistories;
pub use decision_log::DecisionLog;
use demand::Demand;
use external_store::ExternalStore;
pub use external_store::{ConnectError, OpenStore};
use policy_replay::PolicyReplay;
use tidegate::StoreError;
use tidegate::{Decision, Limit, Policy, Reason};

use crate::{
    bins::Bins,
    client_numbers::ClientNumbers,
    findings::{Findings, Timeline},
    logs::{InputSummary, LogReader, Request},
};

/// Maximum number of bins of the timeline.
const BINS: usize = 720;

/// Number of chunks that the reader may be ahead.
const AHEAD: usize = 16;

/// A policy to try.
#[derive(Debug, Clone)]
pub struct Candidate {
    /// Name in tables and legends.
    pub name: String,
    /// The policy.
    pub policy: Policy,
}

/// Options of a replay.
#[derive(Debug, Clone, Default)]
pub struct ReplayOptions {
    /// The main policy, then the other candidates.
    pub candidates: Vec<Candidate>,
    /// Windows of further curves. Every window of a policy has a curve.
    pub windows: Vec<Duration>,
    /// Number of clients with the most denials to report.
    pub top: usize,
    /// The store that decides. By default the replay decides in memory.
    pub store: Option<OpenStore>,
}

/// Error of a replay.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// The store can't be reached.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The store failed.
    #[error("the store failed: {0}")]
    Store(#[from] StoreError),
    /// Decisions can't be written.
    #[error("the decisions can't be written: {0}")]
    Write(#[from] io::Error),
}

/// Replays the requests of a reader. Writes the decisions of the main policy to `log`. Calls `progress` after every chunk.
///
/// # Errors
/// If Redis fails, or a decision can't be written.
pub fn run<W: Write>(
    options: ReplayOptions,
    reader: LogReader,
    log: Option<DecisionLog<W>>,
    mut progress: impl FnMut(),
) -> Result<Findings, ReplayError> {
    let client_key = reader.client_key().to_string();
    let read_progress = reader.progress();
    let mut replay = Replay::new(options, log)?;
    let (sender, chunks) = sync_channel(AHEAD);
    let (input, clients) = thread::scope(|scope| {
        let reading = scope.spawn(move || read(reader, &sender));
        for chunk in chunks {
            if let Err(error) = replay.decide(&chunk) {
                // The reader may wait for slow input.
                read_progress.stop().store(true, Ordering::Release);
                return Err(error);
            }
            progress();
        }
        let read = reading.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        Ok::<_, ReplayError>(read)
    })?;
    replay.finish(input, client_key, &clients, read_progress.is_stopped())
}

/// Reads all requests and sends them in chunks.
fn read(reader: LogReader, sender: &SyncSender<Chunk>) -> (InputSummary, ClientNumbers) {
    let mut clients = ClientNumbers::default();
    let mut chunk = Chunk::default();
    let input = reader.for_each(|request| {
        chunk.push(request, clients.number(request.key));
        if chunk.len() < CHUNK || sender.send(std::mem::take(&mut chunk)).is_ok() {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    });
    // The receiver is gone if the replay failed.
    let _ = sender.send(chunk);
    (input, clients)
}

/// State of a replay.
struct Replay<W> {
    policies: Vec<PolicyReplay>,
    demands: Vec<Demand>,
    /// Units that the client of the current request has requested in each window.
    in_windows: Vec<u64>,
    counts: ClientCounts,
    histories: ClientHistories,
    timeline: Bins,
    top: usize,
    external: Option<ExternalStore>,
    log: Option<DecisionLog<W>>,
}

impl<W: Write> Replay<W> {
    fn new(options: ReplayOptions, log: Option<DecisionLog<W>>) -> Result<Self, ConnectError> {
        let mut windows: Vec<Duration> = Vec::new();
        let limits = options.candidates.iter().flat_map(|candidate| candidate.policy.limits());
        for window in limits.map(Limit::window).chain(options.windows) {
            if !windows.contains(&window) {
                windows.push(window);
            }
        }
        let (policies, count) = (options.candidates.len(), windows.len());
        Ok(Self {
            external: options.store.map(|open| ExternalStore::connect(&open, policies)).transpose()?,
            policies: options.candidates.into_iter().map(PolicyReplay::new).collect(),
            demands: windows.into_iter().map(Demand::new).collect(),
            in_windows: vec![0; count],
            counts: ClientCounts::new(count, policies),
            histories: ClientHistories::new(count, policies),
            timeline: Bins::new(BINS, vec![true; 1 + policies]),
            top: options.top,
            log,
        })
    }

    /// Decides the requests of a chunk and records the results.
    fn decide(&mut self, chunk: &Chunk) -> Result<(), ReplayError> {
        let mut decisions = Vec::new();
        if let Some(external) = &self.external {
            for (number, policy) in self.policies.iter().enumerate() {
                decisions.push(external.decide(number, &policy.candidate.policy, chunk)?);
            }
        }
        for (index, (request, client)) in chunk.iter().enumerate() {
            self.record_request(client, &request);
            for number in 0..self.policies.len() {
                match decisions.get(number) {
                    Some(decisions) => self.record_decision(number, client, &request, &decisions[index])?,
                    None => {
                        let decision = self.policies[number].decide(&request);
                        self.record_decision(number, client, &request, &decision)?;
                    }
                }
            }
        }
        Ok(())
    }

    #[inline]
    fn record_request(&mut self, client: u32, request: &Request<'_>) {
        *self.counts.get_mut(client, Column::Requests) += 1;
        let units = self.counts.get_mut(client, Column::Units);
        *units = units.saturating_add(request.cost);
        for (number, demand) in self.demands.iter_mut().enumerate() {
            let units = demand.record(client, request.time_us, request.cost);
            self.in_windows[number] = units;
            let peak = self.counts.get_mut(client, Column::Peak(number));
            *peak = units.max(*peak);
        }
        self.timeline.at(request.time_us)[0] += 1;
        if self.histories.contains(client) {
            self.histories.record(client, self.demands[0].newest_us(client), request.cost, &self.in_windows);
        }
    }

    #[inline]
    fn record_decision(
        &mut self,
        number: usize,
        client: u32,
        request: &Request<'_>,
        decision: &Decision,
    ) -> Result<(), ReplayError> {
        if number == 0
            && let Some(log) = &mut self.log
        {
            log.write(request, decision)?;
        }
        if decision.reason() != Reason::Allowed {
            self.record_denial(number, client, request, decision);
        }
        Ok(())
    }

    #[cold]
    fn record_denial(&mut self, number: usize, client: u32, request: &Request<'_>, decision: &Decision) {
        self.policies[number].record_denial(decision);
        *self.counts.get_mut(client, Column::Denied(number)) += 1;
        self.timeline.at(request.time_us)[1 + number] += 1;
        if !self.histories.contains(client) {
            self.histories.start(client, &self.demands, self.counts.get(client, Column::Units));
        }
        self.histories.record_denial(client, self.demands[0].newest_us(client), request.cost, number);
    }

    /// Returns the results.
    fn finish(
        self,
        input: InputSummary,
        client_key: String,
        clients: &ClientNumbers,
        interrupted: bool,
    ) -> Result<Findings, ReplayError> {
        let Self { policies, demands, counts, histories, mut timeline, top, external, log, .. } = self;
        if input.whole_seconds && !input.spread {
            timeline.no_finer_than(1_000_000);
        }
        if let Some(log) = log {
            log.finish()?;
        }
        if let Some(external) = &external {
            for (number, policy) in policies.iter().enumerate() {
                let keys = (0..).take(clients.len()).map(|client| clients.key(client));
                external.delete(number, &policy.candidate.policy, keys);
            }
        }
        let window_of = |limit: &Limit| demands.iter().position(|demand| demand.window == limit.window()).unwrap_or(0);
        let findings = |(number, policy): (usize, &PolicyReplay)| {
            policy.findings(number, &input, (&counts, &histories), top, window_of, clients)
        };
        let curve = |(number, demand): (usize, &Demand)| {
            curve::compute(demand.window, counts.column(Column::Peak(number)).zip(counts.column(Column::Requests)))
        };
        Ok(Findings {
            by: client_key,
            clients: counts.len() as u64,
            policies: policies.iter().enumerate().map(findings).collect(),
            timeline: Timeline {
                from_us: timeline.start_us(),
                bin_us: timeline.length_us(),
                requests: timeline.column(0),
                denied: (1..=policies.len()).map(|column| timeline.column(column)).collect(),
            },
            curves: demands.iter().enumerate().map(curve).collect(),
            interrupted,
            input,
        })
    }
}
