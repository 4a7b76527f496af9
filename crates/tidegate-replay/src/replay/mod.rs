//! [`Replay`]: requests through the engine, by several policies side by side, and what came of it.
//!
//! For every request, [`demand`] tells what its client has asked for within a window, whatever it got ([`curve`] draws what follows
//! from that); then each policy decides, on a store of its own. [`clients`], [`bins`], [`waits`] and
//! [`courses`] keep what is told at the end: as much as there are clients, however long the log is.

mod bins;
mod clients;
mod courses;
mod curve;
mod decisions;
mod demand;
mod through_redis;
mod waits;

use std::{
    io::{self, Write},
    time::Duration,
};

use bins::Bins;
pub(crate) use bins::lengths_from;
use clients::Clients;
use courses::Courses;
pub use decisions::DecisionLog;
use demand::Demand;
pub use through_redis::ConnectError;
use through_redis::{CHUNK, Chunk, ThroughRedis};
use tidegate::{Cost, Decision, Key, Limit, MemoryStore, Op, Policy, Reason, Timestamp};
use tidegate_redis::Trouble;
use waits::Told;

use crate::{
    figures::ratio,
    findings::{Findings, Hit, Input, LimitFindings, PolicyFindings, Timeline},
    logs::{Request, shown},
};

/// The most bins of the timeline.
const BINS: usize = 720;

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

/// A replay under way.
pub struct Replay<W> {
    trials: Vec<Trial>,
    demands: Vec<Demand>,
    /// What was asked for in each window, up to the last request.
    in_windows: Vec<u64>,
    clients: Clients,
    courses: Courses,
    timeline: Bins,
    top: usize,
    redis: Option<(ThroughRedis, Chunk)>,
    log: Option<DecisionLog<W>>,
}

/// A policy, its state and its count.
struct Trial {
    candidate: Candidate,
    store: MemoryStore,
    denied: u64,
    impossible: u64,
    told: Told,
    /// How often each limit bound.
    bound: Vec<u64>,
}

/// Why a replay can't go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// Redis did not answer.
    #[error("redis failed: {0}")]
    Redis(#[from] Trouble),
    /// Decisions can't be written.
    #[error("the decisions can't be written: {0}")]
    Write(#[from] io::Error),
}

impl<W: Write> Replay<W> {
    /// Begins a replay; decisions of the policy asked about are written to `log`.
    ///
    /// # Errors
    /// If there is a Redis to replay through, and it can't be reached.
    pub fn new(plan: Plan, log: Option<DecisionLog<W>>) -> Result<Self, ConnectError> {
        let mut windows: Vec<Duration> = Vec::new();
        let limits = plan.candidates.iter().flat_map(|candidate| candidate.policy.limits());
        for window in limits.map(Limit::window).chain(plan.windows) {
            if !windows.contains(&window) {
                windows.push(window);
            }
        }
        let (policies, count) = (plan.candidates.len(), windows.len());
        let redis = plan.redis.map(|url| ThroughRedis::connect(&url, policies)).transpose()?;
        let trial = |candidate: Candidate| Trial {
            bound: vec![0; candidate.policy.limits().len()],
            candidate,
            store: unbounded(),
            denied: 0,
            impossible: 0,
            told: Told::new(),
        };
        Ok(Self {
            trials: plan.candidates.into_iter().map(trial).collect(),
            demands: windows.into_iter().map(Demand::new).collect(),
            in_windows: vec![0; count],
            clients: Clients::new(count, policies),
            courses: Courses::new(count, policies),
            timeline: Bins::new(BINS, vec![true; 1 + policies]),
            top: plan.top,
            redis: redis.map(|redis| (redis, Chunk::default())),
            log,
        })
    }

    /// Decides one more request.
    ///
    /// # Errors
    /// If Redis fails, or a decision can't be written.
    #[inline]
    pub fn request(&mut self, request: &Request<'_>) -> Result<(), ReplayError> {
        if let Some((_, chunk)) = &mut self.redis {
            chunk.push(request);
            return if chunk.len() == CHUNK { self.decide_chunk() } else { Ok(()) };
        }
        let client = self.ask(request);
        let (key, cost, now) = parts(request);
        for number in 0..self.trials.len() {
            let Trial { candidate, store, .. } = &self.trials[number];
            let decision = store.decide(Op::Check, &candidate.policy, &key, cost, now);
            self.decided(number, client, request, &decision)?;
        }
        Ok(())
    }

    fn decide_chunk(&mut self) -> Result<(), ReplayError> {
        let Some((redis, chunk)) = self.redis.take() else { return Ok(()) };
        let mut decided = Vec::new();
        for (number, trial) in self.trials.iter().enumerate() {
            decided.push(redis.decide(number, &trial.candidate.policy, &chunk)?);
        }
        for (at, request) in chunk.iter().enumerate() {
            let client = self.ask(&request);
            for (number, decisions) in decided.iter().enumerate() {
                self.decided(number, client, &request, &decisions[at])?;
            }
        }
        self.redis = Some((redis, Chunk::default()));
        Ok(())
    }

    /// Notes what is asked for, and by whom.
    #[inline]
    fn ask(&mut self, request: &Request<'_>) -> u32 {
        let client = self.clients.number(request.key);
        let mut tally = self.clients.tally(client);
        *tally.requests() += 1;
        *tally.units() = tally.units().saturating_add(request.cost);
        for (number, demand) in self.demands.iter_mut().enumerate() {
            let units = demand.ask(client, request.time_us, request.cost);
            self.in_windows[number] = units;
            *tally.peak(number) = units.max(*tally.peak(number));
        }
        self.timeline.at(request.time_us)[0] += 1;
        if self.courses.has(client) {
            self.courses.note(client, request.time_us, request.cost, &self.in_windows);
        }
        client
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
        let Trial { candidate, denied, impossible, told, bound, .. } = &mut self.trials[number];
        *denied += 1;
        match decision.retry_after() {
            Some(wait) => told.note(wait),
            None => *impossible += 1,
        }
        if let Some(limit) = candidate.policy.limits().iter().position(|limit| *limit == decision.limit()) {
            bound[limit] += 1;
        }
        *self.clients.tally(client).denied(number) += 1;
        self.timeline.at(request.time_us)[1 + number] += 1;
        if !self.courses.has(client) {
            let units = *self.clients.tally(client).units();
            self.courses.follow(client, &self.demands, units);
        }
        self.courses.deny(client, request.time_us, request.cost, number);
    }

    /// Ends the replay, and tells what was found.
    ///
    /// # Errors
    /// If Redis fails, or a decision can't be written.
    pub fn finish(mut self, input: Input, by: String, interrupted: bool) -> Result<Findings, ReplayError> {
        self.decide_chunk()?;
        if let Some(log) = self.log.take() {
            log.finish()?;
        }
        if let Some((redis, _)) = self.redis.take() {
            for (number, trial) in self.trials.iter().enumerate() {
                let keys = (0..).take(self.clients.len()).map(|client| self.clients.key(client));
                redis.forget(number, &trial.candidate.policy, keys);
            }
        }
        let policies = (0..self.trials.len()).map(|number| self.policy_findings(number, &input)).collect();
        if input.whole_seconds && !input.spread {
            self.timeline.no_finer_than(1_000_000);
        }
        let timeline = Timeline {
            from_us: self.timeline.start_us(),
            bin_us: self.timeline.length_us(),
            requests: self.timeline.column(0),
            denied: (1..=self.trials.len()).map(|column| self.timeline.column(column)).collect(),
        };
        let curve = |(number, demand): (usize, &Demand)| {
            curve::draw(demand.window, self.clients.peaks(number).zip(self.clients.requests()))
        };
        let curves = self.demands.iter().enumerate().map(curve).collect();
        let clients = self.clients.len() as u64;
        Ok(Findings { input, by, clients, policies, timeline, curves, interrupted })
    }

    fn policy_findings(&self, number: usize, input: &Input) -> PolicyFindings {
        let Trial { candidate, denied, impossible, told, bound, .. } = &self.trials[number];
        let policy = &candidate.policy;
        let clients_denied = self.clients.denied(number).filter(|denied| *denied > 0).count() as u64;
        let mut hits: Vec<(u64, u32)> =
            self.clients.denied(number).zip(0..).filter(|(denied, _)| *denied > 0).collect();
        hits.sort_unstable_by_key(|(denied, client)| (std::cmp::Reverse(*denied), *client));
        hits.truncate(self.top);
        let limit = |(limit, bound): (&Limit, &u64)| LimitFindings {
            limit: limit.to_string(),
            max: limit.max(),
            window_us: micros(limit.window()),
            bound: *bound,
        };
        PolicyFindings {
            name: candidate.name.clone(),
            limits: policy.limits().iter().zip(bound).map(limit).collect(),
            algorithm: policy.algorithm().to_string(),
            allowed: input.requests.saturating_sub(*denied),
            denied: *denied,
            impossible: *impossible,
            share_of_requests_denied: ratio(*denied, input.requests),
            clients_denied,
            share_of_clients_denied: ratio(clients_denied, self.clients.len() as u64),
            retry_after: told.found(),
            hardest_hit: hits.into_iter().map(|(denied, client)| self.hit(number, client, denied)).collect(),
        }
    }

    fn hit(&self, number: usize, client: u32, denied: u64) -> Hit {
        let Trial { candidate, bound, .. } = &self.trials[number];
        let at = usize::try_from(client).unwrap_or(usize::MAX);
        let window_of =
            |limit: &Limit| self.demands.iter().position(|demand| demand.window == limit.window()).unwrap_or(0);
        let limits = candidate.policy.limits();
        let most = bound.iter().zip(limits).max_by_key(|(bound, _)| **bound).map(|(_, limit)| *limit);
        let course = most.and_then(|limit| {
            self.courses.course(client, number, window_of(&limit), micros(limit.window()), limit.max())
        });
        Hit {
            key: shown(self.clients.key(client)),
            requests: self.clients.requests().nth(at).unwrap_or(0),
            denied,
            peaks: limits.iter().map(|limit| self.clients.peaks(window_of(limit)).nth(at).unwrap_or(0)).collect(),
            course,
        }
    }
}

/// A store that never runs out of room, so that every answer is exact: it holds as much as there are clients and requests in their
/// windows.
fn unbounded() -> MemoryStore {
    MemoryStore::builder().max_keys(usize::MAX).max_bytes(usize::MAX).build().expect("there is room")
}

fn parts<'a>(request: &Request<'a>) -> (Key<'a>, Cost, Timestamp) {
    let key = Key::new(request.key).expect("keys were checked when they were read");
    let cost = Cost::new(request.cost).expect("costs were checked when they were read");
    (key, cost, Timestamp::from_micros(request.time_us))
}

fn micros(window: Duration) -> u64 {
    u64::try_from(window.as_micros()).unwrap_or(u64::MAX)
}
