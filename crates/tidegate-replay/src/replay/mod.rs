//! [`run`]: decides the requests of logs by several policies side by side.
//!
//! One thread reads the requests (`request_source`) and numbers the clients (`client_numbers`). It sends them in a `chunk` to another thread, where every
//! policy decides on its own store (`policy_replay`), or in Redis (`external_store`). The results are kept by client (`client_counts`,
//! `demand`, `client_histories`), by time (`bins`) and by wait (`waits`). So memory grows with the number of clients, not with the
//! length of the input. `demand_analysis` computes the number of clients that each limit affects (`curve`) and the requests that it denies
//! (`recording`, `denial_count`), for all clients and for each group (`group_numbers`). `at_once` and `at_once_limits` do the same for
//! limits on requests at once. `obedient_clients` decides the requests once more, with clients that wait.

mod at_once;
mod at_once_limits;
mod chunk;
mod client_counts;
mod client_histories;
mod curve;
mod decision_log;
mod demand;
mod demand_analysis;
mod denial_count;
mod external_store;
mod group_numbers;
mod groups;
mod obedient_clients;
mod policy_replay;
mod recording;
mod request_source;
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

use at_once::AtOnce;
use chunk::{CHUNK, Chunk};
use client_counts::Column;
use client_histories::ClientHistories;
pub use decision_log::DecisionLog;
use demand_analysis::DemandAnalysis;
use external_store::ExternalStore;
pub use external_store::{ConnectError, OpenStore};
use group_numbers::GroupNumbers;
use groups::GroupAnalysis;
use obedient_clients::ObedientClients;
pub(crate) use obedient_clients::{MAX_QUEUE, MAX_WAITING};
pub(crate) use policy_replay::MAX_AT_ONCE;
use policy_replay::PolicyReplay;
use request_source::{RequestSource, SimulatedSource};
use tidegate::StoreError;
use tidegate::{Decision, Limit, Policy, Reason};

use crate::{
    bins::Bins,
    client_numbers::ClientNumbers,
    findings::{Findings, PolicyFindings, Timeline},
    logs::{InputSummary, LogReader, Request},
    simulate::traffic::{Traffic, TrafficError},
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
    /// Whether to decide the requests once more, in memory, with clients that wait for as long as `Retry-After` says.
    pub obey: bool,
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
    /// A policy limits requests at once, and the reader does not read durations.
    #[error("a limit on requests at once needs the durations of the requests")]
    NoDurations,
    /// An option of the simulated traffic is out of range.
    #[error(transparent)]
    Traffic(#[from] TrafficError),
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
    run_source(options, reader, log, &mut progress)
}

/// Decides the requests of simulated traffic. The findings are those of a log with the same requests.
///
/// # Errors
/// If an option of the traffic is out of range, or the store fails.
pub fn run_traffic(options: ReplayOptions, traffic: &Traffic) -> Result<Findings, ReplayError> {
    run_source(options, SimulatedSource::new(traffic)?, None::<DecisionLog<io::Sink>>, &mut || {})
}

fn run_source<W: Write>(
    options: ReplayOptions,
    source: impl RequestSource,
    log: Option<DecisionLog<W>>,
    progress: &mut dyn FnMut(),
) -> Result<Findings, ReplayError> {
    let (client_key, group) = (source.client_key(), source.group());
    let read_progress = source.progress();
    let needs_durations = options.candidates.iter().any(|candidate| candidate.policy.has_in_flight_limit());
    if needs_durations && !source.has_durations() {
        return Err(ReplayError::NoDurations);
    }
    let mut replay = Replay::new(options, log, group.is_some(), source.has_durations())?;
    let (sender, chunks) = sync_channel(AHEAD);
    let has_groups = group.is_some();
    let read = thread::scope(|scope| {
        let reading = scope.spawn(move || read(source, &sender, has_groups));
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
    replay.finish(read, (client_key, group), read_progress.is_stopped())
}

/// Summary of the input, and the clients in it.
struct ReadInput {
    input: InputSummary,
    clients: ClientNumbers,
    groups: GroupNumbers,
}

/// Reads all requests and sends them in chunks.
fn read(source: impl RequestSource, sender: &SyncSender<Chunk>, has_groups: bool) -> ReadInput {
    let (mut clients, mut groups) = (ClientNumbers::default(), GroupNumbers::default());
    let mut chunk = Chunk::default();
    let input = source.for_each(|request| {
        let member = has_groups.then(|| groups.member(request.group, request.key));
        chunk.push(request, clients.number(request.key), member);
        if chunk.len() < CHUNK || sender.send(std::mem::take(&mut chunk)).is_ok() {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    });
    // The receiver is gone if the replay failed.
    let _ = sender.send(chunk);
    ReadInput { input, clients, groups }
}

/// State of a replay.
struct Replay<W> {
    policies: Vec<PolicyReplay>,
    /// One for each policy, or none.
    obedient: Vec<ObedientClients>,
    analysis: DemandAnalysis,
    groups: Option<GroupAnalysis>,
    /// Requests that run at once, if durations are read.
    at_once: Option<AtOnce>,
    histories: ClientHistories,
    timeline: Bins,
    top: usize,
    external: Option<ExternalStore>,
    log: Option<DecisionLog<W>>,
}

impl<W: Write> Replay<W> {
    fn new(
        options: ReplayOptions,
        log: Option<DecisionLog<W>>,
        has_groups: bool,
        has_durations: bool,
    ) -> Result<Self, ConnectError> {
        let mut windows: Vec<Duration> = Vec::new();
        let limits = options.candidates.iter().flat_map(|candidate| candidate.policy.limits());
        let limits = limits.filter(|limit| !limit.is_in_flight());
        for window in limits.map(Limit::window).chain(options.windows) {
            if !windows.contains(&window) {
                windows.push(window);
            }
        }
        if windows.is_empty() {
            // The histories of clients need a window.
            windows.push(Duration::from_secs(60));
        }
        let (policies, count) = (options.candidates.len(), windows.len());
        let obedient = options.candidates.iter().filter(|_| options.obey);
        Ok(Self {
            obedient: obedient.map(|candidate| ObedientClients::new(candidate.policy.clone())).collect(),
            external: options.store.map(|open| ExternalStore::connect(&open, policies)).transpose()?,
            policies: options.candidates.into_iter().map(PolicyReplay::new).collect(),
            analysis: DemandAnalysis::new(&windows, policies),
            groups: has_groups.then(|| GroupAnalysis::new(&windows)),
            at_once: has_durations.then(AtOnce::default),
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
        if let Some(groups) = &mut self.groups {
            chunk.members().for_each(|(request, member)| groups.record(member, &request));
        }
        for (index, (request, client)) in chunk.iter().enumerate() {
            self.record_request(client, &request);
            self.obedient.iter_mut().for_each(|clients| clients.send(client, &request));
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
        self.analysis.record(client, request);
        if let Some(at_once) = &mut self.at_once {
            at_once.record(client, request);
        }
        self.timeline.at(request.time_us)[0] += 1;
        if self.histories.contains(client) {
            let DemandAnalysis { demands, in_windows, .. } = &self.analysis;
            self.histories.record(client, demands[0].newest_us(client), request.cost, in_windows);
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
        let DemandAnalysis { counts, demands, .. } = &mut self.analysis;
        *counts.get_mut(client, Column::Denied(number)) += 1;
        self.timeline.at(request.time_us)[1 + number] += 1;
        if !self.histories.contains(client) {
            self.histories.start(client, demands, counts.get(client, Column::Units));
        }
        self.histories.record_denial(client, demands[0].newest_us(client), request.cost, number);
    }

    /// Returns the results. `by` has the names of the client key and of the group.
    fn finish(
        self,
        ReadInput { input, clients, groups }: ReadInput,
        by: (String, Option<String>),
        interrupted: bool,
    ) -> Result<Findings, ReplayError> {
        let Self { policies, analysis, histories, at_once, mut timeline, top, external, log, .. } = self;
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
        let DemandAnalysis { demands, counts, .. } = &analysis;
        let window_of = |limit: &Limit| demands.iter().position(|demand| demand.window == limit.window()).unwrap_or(0);
        let findings = |(number, policy): (usize, &PolicyReplay)| {
            policy.findings(number, &input, (counts, &histories, at_once.as_ref()), top, window_of, &clients)
        };
        let mut policies: Vec<PolicyFindings> = policies.iter().enumerate().map(findings).collect();
        for (policy, obedient) in policies.iter_mut().zip(self.obedient) {
            policy.obey = Some(obedient.finish(&input, &clients));
        }
        Ok(Findings {
            by: by.0,
            clients: counts.len() as u64,
            timeline: Timeline {
                from_us: timeline.start_us(),
                bin_us: timeline.length_us(),
                requests: timeline.column(0),
                denied: (1..=policies.len()).map(|column| timeline.column(column)).collect(),
            },
            policies,
            curves: analysis.curves(1, |_| Some(0)).remove(0),
            at_once: at_once.map(|at_once| at_once.findings(&clients)),
            groups: self.groups.zip(by.1).map(|(analysis, by)| analysis.findings(by, &groups, top)),
            interrupted,
            input,
        })
    }
}
