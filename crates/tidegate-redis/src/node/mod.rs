//! [`Node`]: one Redis server, and the task that talks to it. `connecting`, `sending`, `settling` and `looking` are the
//! steps of the task; `shared` is the state that the task shares with its callers.
//!
//! Requests wait in a queue. The task takes all that wait (a bounded number) and sends them as one call of the script, or in a
//! cluster as one call for each slot; while so many calls are under way, the next requests gather. So a lone request leaves at
//! once, and many leave together. The task also makes the connection, loads the script, and probes a server that doesn't
//! answer; requests are refused at once meanwhile.
//!
//! Nothing is ever sent twice unless it surely did nothing the first time.

mod connecting;
mod looking;
mod sending;
mod settling;
mod shared;

use std::{
    sync::{Arc, Weak, atomic::Ordering::Relaxed},
    time::Duration,
};

use futures_util::{StreamExt, stream::FuturesUnordered};
use redis::aio::MultiplexedConnection;
use tokio::{
    sync::{Mutex, mpsc},
    time::{MissedTickBehavior, timeout},
};

pub(crate) use self::shared::Shared;
use crate::{
    error::Error,
    job::{Job, Outstanding},
    log,
    pace::Pace,
    router::Router,
    script::Source,
    settings::Settings,
    stats::{Counters, count},
    stopwatch, supervise,
    target::{Address, Login},
};

/// A connection that ends within so many microseconds is not made anew at once.
const SHORT_LIFE: u64 = 10_000;

/// One Redis server.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) shared: Arc<Shared>,
    queue: mpsc::Sender<Job>,
}

/// How a node's server is found.
#[derive(Debug, Clone)]
pub(crate) enum Place {
    Fixed(Address),
    Sentinel { sentinels: Vec<Address>, master: String, login: Login },
}

/// What every node of a store has in common.
#[derive(Debug)]
pub(crate) struct Common {
    pub(crate) settings: Settings,
    pub(crate) login: Login,
    pub(crate) source: Source,
    pub(crate) counters: Arc<Counters>,
    pub(crate) is_cluster: bool,
}

impl Node {
    /// Starts a node's task.
    pub(crate) fn start(common: &Arc<Common>, place: Place, router: Weak<Router>) -> Self {
        let (queue, jobs) = mpsc::channel(common.settings.queue);
        let name = match &place {
            Place::Fixed(address) => address.to_string(),
            Place::Sentinel { master, .. } => format!("the master {master}"),
        };
        let shared = Arc::new(Shared::new(name, common));
        let driver = Driver {
            common: Arc::clone(common),
            shared: Arc::clone(&shared),
            place,
            jobs,
            router,
            again: Vec::new(),
            pace: Pace::default(),
        };
        let driver = Arc::new(Mutex::new(driver));
        supervise::spawn("node", move || {
            let driver = Arc::clone(&driver);
            async move { driver.lock().await.run().await }
        });
        Self { shared, queue }
    }

    /// Hands a request to the task. If the queue is full, a decision is shed, and any other request waits for room.
    pub(crate) fn submit(&self, mut job: Job) {
        job.outstanding = Some(Outstanding::new(&self.shared.outstanding));
        match self.queue.try_send(job) {
            Ok(()) => {}
            Err(mpsc::error::TrySendError::Full(job)) if job.group.is_decision() => job.fail(Error::Overloaded),
            Err(mpsc::error::TrySendError::Full(job)) => {
                let queue = self.queue.clone();
                let left = Duration::from_micros(job.deadline.saturating_sub(stopwatch::micros()));
                tokio::spawn(async move {
                    if let Ok(Err(mpsc::error::SendError(job))) = timeout(left, queue.send(job)).await {
                        job.fail(Error::Unreachable);
                    }
                });
            }
            Err(mpsc::error::TrySendError::Closed(job)) => job.fail(Error::Unreachable),
        }
    }

    /// Waits until there is a connection.
    pub(crate) async fn connected(&self) {
        let mut connected = self.shared.connected.subscribe();
        let _ = connected.wait_for(|connected| *connected).await;
    }
}

/// Why a connection is no longer in use.
enum Ended {
    /// Nobody is left to ask.
    Closed,
    Lost,
    /// The breaker opened.
    Tripped,
}

struct Driver {
    common: Arc<Common>,
    shared: Arc<Shared>,
    place: Place,
    jobs: mpsc::Receiver<Job>,
    router: Weak<Router>,
    /// What is sent again, since surely nothing was done.
    again: Vec<Job>,
    /// Whether answers come in time.
    pace: Pace,
}

impl Driver {
    async fn run(&mut self) {
        loop {
            if self.jobs.is_closed() && self.jobs.is_empty() {
                return;
            }
            self.shared.connected.send_replace(false);
            let began = stopwatch::micros();
            self.shared.breaker.probe();
            match self.connect().await {
                Ok(mut link) => {
                    let connection = link.connection.clone();
                    if !link.keep_going(self.wait_until_fast(connection)).await {
                        self.refuse_until(began.saturating_add(micros(self.common.settings.probe_interval))).await;
                        continue;
                    }
                    self.shared.connected_at.store(stopwatch::micros(), Relaxed);
                    count(&self.common.counters.connections);
                    self.shared.close_breaker();
                    self.pace = Pace::default();
                    self.shared.connected.send_replace(true);
                    let connection = link.connection.clone();
                    let ended = link.keep_going(self.serve(connection)).await;
                    self.shared.connected.send_replace(false);
                    match ended {
                        Ended::Closed => return,
                        Ended::Lost => {
                            log::guarded(
                                || tracing::warn!(node = %self.shared.name, "the connection to redis was lost"),
                            );
                            self.refresh();
                            let lived = stopwatch::micros() - self.shared.connected_at.load(Relaxed);
                            if lived < SHORT_LIFE {
                                // One connection after the other for nothing would help nobody.
                                self.refuse_until(stopwatch::micros() + SHORT_LIFE).await;
                            }
                            continue;
                        }
                        Ended::Tripped => self.refresh(),
                    }
                }
                Err(trouble) => {
                    self.shared.open_breaker(&trouble);
                    self.refresh();
                }
            }
            self.refuse_until(began.saturating_add(micros(self.common.settings.probe_interval))).await;
        }
    }

    /// Refuses what comes until the next probe is due.
    async fn refuse_until(&mut self, due: u64) {
        for job in std::mem::take(&mut self.again) {
            job.fail(self.shared.refusal());
        }
        let wait = stopwatch::pause(Duration::from_micros(due.saturating_sub(stopwatch::micros()).max(1000)));
        tokio::pin!(wait);
        loop {
            tokio::select! {
                job = self.jobs.recv() => match job {
                    Some(job) => job.fail(self.shared.refusal()),
                    None => return,
                },
                () = &mut wait => return,
            }
        }
    }

    fn refresh(&self) {
        if let Some(router) = self.router.upgrade() {
            router.refresh();
        }
    }

    /// Sends what comes until the connection ends.
    async fn serve(&mut self, connection: MultiplexedConnection) -> Ended {
        let mut under_way = FuturesUnordered::new();
        let mut looks = FuturesUnordered::new();
        let mut look_due = tokio::time::interval(looking::INTERVAL);
        look_due.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut quiet_ticks = 0;
        let mut calls_at_look = 0;
        let mut closed = false;
        loop {
            if closed && under_way.is_empty() && self.again.is_empty() {
                return Ended::Closed;
            }
            // Whoever waits for replicas keeps the next call on the connection waiting, too.
            let calls = if self.common.settings.replicas.is_some() { 1 } else { self.common.settings.calls };
            let free = under_way.len() < calls;
            if free && !self.again.is_empty() {
                let jobs = std::mem::take(&mut self.again);
                under_way.push(self.send(jobs, &connection));
                continue;
            }
            tokio::select! {
                biased;
                () = self.shared.tripped.notified() => {
                    // A notice from before this connection was made says nothing about it.
                    if !self.shared.breaker.lets_through() {
                        return Ended::Tripped;
                    }
                }
                Some(seen) = looks.next(), if !looks.is_empty() => {
                    if self.note_look(seen) {
                        return Ended::Lost;
                    }
                }
                _ = look_due.tick(), if self.common.settings.looks && looks.is_empty() && !closed => {
                    let calls = self.common.counters.calls.load(Relaxed);
                    quiet_ticks = if calls == calls_at_look { quiet_ticks + 1 } else { looking::QUIET_TICKS };
                    if quiet_ticks >= looking::QUIET_TICKS {
                        (quiet_ticks, calls_at_look) = (0, calls);
                        looks.push(self.look(connection.clone()));
                    }
                }
                Some(returned) = under_way.next(), if !under_way.is_empty() => {
                    let mut lost = false;
                    for returned in returned {
                        lost |= self.settle(returned, &connection).await;
                    }
                    if lost {
                        return Ended::Lost;
                    }
                }
                job = self.jobs.recv(), if free && !closed => match job {
                    Some(job) => {
                        // While others are under way, those who are about to ask get their turn first.
                        if !under_way.is_empty() {
                            tokio::task::yield_now().await;
                        }
                        let jobs = self.gather(job);
                        under_way.push(self.send(jobs, &connection));
                    }
                    None => closed = true,
                },
            }
        }
    }

    /// A request and those that wait behind it.
    fn gather(&mut self, first: Job) -> Vec<Job> {
        if first.given.is_none() {
            self.shared.note_wait(first.deadline);
        }
        let mut size = first.group.parts.len();
        let mut jobs = Vec::with_capacity(self.common.settings.batch.min(self.jobs.len() + 1));
        jobs.push(first);
        while size < self.common.settings.batch {
            let Ok(job) = self.jobs.try_recv() else { break };
            size += job.group.parts.len();
            jobs.push(job);
        }
        jobs
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
