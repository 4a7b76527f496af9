//! [`run`]: the requests of logs through the engine, by several policies side by side, and what came of it.
//!
//! One thread reads the requests and gives each client a number (`names`); they travel in a `chunk` to another, where every policy
//! decides on a store of its own (`trial`), or in Redis (`through_redis`). What is told at the end is kept by client (`tallies`,
//! `demand`, `courses`), by time (`bins`) and by wait (`waits`): as much as there are clients, however long the log is. `curve`
//! draws what follows from what clients asked for.

mod chunk;
mod courses;
mod curve;
mod decisions;
mod demand;
mod names;
mod tallies;
mod through_redis;
mod trial;
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
use courses::Courses;
pub use decisions::DecisionLog;
use demand::Demand;
use names::Names;
use tallies::Tallies;
pub use through_redis::ConnectError;
use through_redis::ThroughRedis;
use tidegate::StoreError;
use tidegate::{Decision, Limit, Policy, Reason};
use trial::Trial;

use crate::{
    bins::Bins,
    findings::{Findings, Input, Timeline},
    logs::{Request, Requests},
};

/// The most bins of the timeline.
const BINS: usize = 720;

/// How many chunks the reading may be ahead.
const AHEAD: usize = 16;

/// A policy to try, and what it is called.
#[derive(Debug, Clone)]
pub struct Candidate {
    /// What it is called in tables and legends.
    pub name: String,
    /// The policy.
    pub policy: Policy,
}

/// What to find out.
#[derive(Debug, Clone, Default)]
pub struct Plan {
    /// The policy asked about, and then those beside it.
    pub candidates: Vec<Candidate>,
    /// Windows to draw curves for, beside those of the policies.
    pub windows: Vec<Duration>,
    /// How many of the clients that are denied most to tell of.
    pub top: usize,
    /// The Redis to replay through; this process's memory if unsaid.
    pub redis: Option<String>,
}

/// Why a replay can't be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// There is no Redis.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// Redis did not answer.
    #[error("redis failed: {0}")]
    Redis(#[from] StoreError),
    /// Decisions can't be written.
    #[error("the decisions can't be written: {0}")]
    Write(#[from] io::Error),
}

/// Replays requests, and tells what was found. Decisions of the policy asked about are written to `log`; `progress` is called now and
/// then.
///
/// # Errors
/// If Redis fails, or a decision can't be written.
pub fn run<W: Write>(
    plan: Plan,
    requests: Requests,
    log: Option<DecisionLog<W>>,
    mut progress: impl FnMut(),
) -> Result<Findings, ReplayError> {
    let by = requests.by().to_string();
    let watched = requests.progress();
    let mut replay = Replay::new(plan, log)?;
    let (sender, chunks) = sync_channel(AHEAD);
    let (input, names) = thread::scope(|scope| {
        let reading = scope.spawn(move || read(requests, &sender));
        for chunk in chunks {
            if let Err(error) = replay.decide(&chunk) {
                // Nobody needs to read on, nor to wait for what comes slowly.
                watched.stop().store(true, Ordering::Release);
                return Err(error);
            }
            progress();
        }
        let read = reading.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        Ok::<_, ReplayError>(read)
    })?;
    replay.finish(input, by, &names, watched.is_stopped())
}

/// Reads all requests and sends them on; what was read, and who the clients are.
fn read(requests: Requests, sender: &SyncSender<Chunk>) -> (Input, Names) {
    let mut names = Names::default();
    let mut chunk = Chunk::default();
    let input = requests.for_each(|request| {
        chunk.push(request, names.number(request.key));
        if chunk.len() < CHUNK || sender.send(std::mem::take(&mut chunk)).is_ok() {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    });
    // If nobody takes it, nobody wants it.
    let _ = sender.send(chunk);
    (input, names)
}

/// A replay under way.
struct Replay<W> {
    trials: Vec<Trial>,
    demands: Vec<Demand>,
    /// What the client of the last request has asked for in each window.
    in_windows: Vec<u64>,
    tallies: Tallies,
    courses: Courses,
    timeline: Bins,
    top: usize,
    redis: Option<ThroughRedis>,
    log: Option<DecisionLog<W>>,
}

impl<W: Write> Replay<W> {
    fn new(plan: Plan, log: Option<DecisionLog<W>>) -> Result<Self, ConnectError> {
        let mut windows: Vec<Duration> = Vec::new();
        let limits = plan.candidates.iter().flat_map(|candidate| candidate.policy.limits());
        for window in limits.map(Limit::window).chain(plan.windows) {
            if !windows.contains(&window) {
                windows.push(window);
            }
        }
        let (policies, count) = (plan.candidates.len(), windows.len());
        Ok(Self {
            redis: plan.redis.map(|url| ThroughRedis::connect(&url, policies)).transpose()?,
            trials: plan.candidates.into_iter().map(Trial::new).collect(),
            demands: windows.into_iter().map(Demand::new).collect(),
            in_windows: vec![0; count],
            tallies: Tallies::new(count, policies),
            courses: Courses::new(count, policies),
            timeline: Bins::new(BINS, vec![true; 1 + policies]),
            top: plan.top,
            log,
        })
    }

    /// Decides the requests of a chunk, and notes what came of it.
    fn decide(&mut self, chunk: &Chunk) -> Result<(), ReplayError> {
        if let Some(redis) = &self.redis {
            let decide = |(number, trial): (usize, &Trial)| redis.decide(number, &trial.candidate.policy, chunk);
            let decided = self.trials.iter().enumerate().map(decide).collect::<Result<Vec<_>, _>>()?;
            for (at, (request, client)) in chunk.iter().enumerate() {
                self.asked(client, &request);
                for (number, decisions) in decided.iter().enumerate() {
                    self.decided(number, client, &request, &decisions[at])?;
                }
            }
            return Ok(());
        }
        for (request, client) in chunk.iter() {
            self.asked(client, &request);
            for number in 0..self.trials.len() {
                let decision = self.trials[number].decide(&request);
                self.decided(number, client, &request, &decision)?;
            }
        }
        Ok(())
    }

    /// Notes what a client asks for.
    #[inline]
    fn asked(&mut self, client: u32, request: &Request<'_>) {
        let mut tally = self.tallies.of(client);
        *tally.requests() += 1;
        *tally.units() = tally.units().saturating_add(request.cost);
        for (number, demand) in self.demands.iter_mut().enumerate() {
            let units = demand.ask(client, request.time_us, request.cost);
            self.in_windows[number] = units;
            *tally.peak(number) = units.max(*tally.peak(number));
        }
        self.timeline.at(request.time_us)[0] += 1;
        if self.courses.has(client) {
            self.courses.note(client, self.demands[0].newest_us(client), request.cost, &self.in_windows);
        }
    }

    /// Notes what a policy has decided.
    #[inline]
    fn decided(
        &mut self,
        number: usize,
        client: u32,
        request: &Request<'_>,
        decision: &Decision,
    ) -> Result<(), ReplayError> {
        if number == 0
            && let Some(log) = &mut self.log
        {
            log.note(request, decision)?;
        }
        if decision.reason() != Reason::Allowed {
            self.denied(number, client, request, decision);
        }
        Ok(())
    }

    #[cold]
    fn denied(&mut self, number: usize, client: u32, request: &Request<'_>, decision: &Decision) {
        self.trials[number].note_denied(decision);
        let mut tally = self.tallies.of(client);
        *tally.denied(number) += 1;
        self.timeline.at(request.time_us)[1 + number] += 1;
        if !self.courses.has(client) {
            self.courses.follow(client, &self.demands, *tally.units());
        }
        self.courses.deny(client, self.demands[0].newest_us(client), request.cost, number);
    }

    /// Tells what was found.
    fn finish(self, input: Input, by: String, names: &Names, interrupted: bool) -> Result<Findings, ReplayError> {
        let Self { trials, demands, tallies, courses, mut timeline, top, redis, log, .. } = self;
        if input.whole_seconds && !input.spread {
            timeline.no_finer_than(1_000_000);
        }
        if let Some(log) = log {
            log.finish()?;
        }
        for (number, trial) in trials.iter().enumerate() {
            if let Some(redis) = &redis {
                let keys = (0..).take(names.len()).map(|client| names.key(client));
                redis.forget(number, &trial.candidate.policy, keys);
            }
        }
        let window_of = |limit: &Limit| demands.iter().position(|demand| demand.window == limit.window()).unwrap_or(0);
        let found = |(number, trial): (usize, &Trial)| {
            trial.findings(number, &input, (&tallies, &courses), top, window_of, |client| names.key(client))
        };
        let policies = trials.iter().enumerate().map(found).collect();
        let curve = |(number, demand): (usize, &Demand)| {
            curve::draw(demand.window, tallies.peaks(number).zip(tallies.requests()))
        };
        Ok(Findings {
            by,
            clients: tallies.len() as u64,
            policies,
            timeline: Timeline {
                from_us: timeline.start_us(),
                bin_us: timeline.length_us(),
                requests: timeline.column(0),
                denied: (1..=trials.len()).map(|column| timeline.column(column)).collect(),
            },
            curves: demands.iter().enumerate().map(curve).collect(),
            interrupted,
            input,
        })
    }
}
