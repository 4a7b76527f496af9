//! [`Node`]: one Redis server, and the task that talks to it.
//!
//! Requests wait in a queue. The task takes all that wait (a bounded number) and sends them as one call of the script, or in a
//! cluster as one call for each slot; while so many calls are under way, the next requests gather. So a lone request leaves at
//! once, and many leave together. The task also makes the connection, loads the script, and probes a server that doesn't
//! answer; requests are refused at once meanwhile.
//!
//! Nothing is ever sent twice unless it surely did nothing the first time.

use std::{
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use futures_util::{
    FutureExt, StreamExt,
    future::{OptionFuture, join, join_all},
    stream::FuturesUnordered,
};
use redis::{RedisResult, Value, aio::MultiplexedConnection};
use tokio::{
    sync::{Notify, mpsc, watch},
    time::timeout,
};

use crate::{
    breaker::Breaker,
    job::{Answer, Job},
    link::Link,
    router::Router,
    script::Source,
    sentinel::ask_sentinels,
    server_clock::ServerClock,
    settings::Settings,
    stats::{Counters, count},
    stopwatch,
    target::{Address, Login},
    trouble::Trouble,
    wire::{Call, Status, read_reply},
};

/// Keys outlive their use by this long, since Redis may read its clock a little before the script does.
const GRACE_MS: u32 = 100;
/// With a given time nothing says how long a replay takes.
const GIVEN_GRACE_MS: u32 = 3_600_000;
/// How long to wait before sending again what a cluster could not take just now.
const AGAIN_AFTER: Duration = Duration::from_millis(3);

/// A connection that ends within so many microseconds is not made anew at once.
const SHORT_LIFE: u64 = 10_000;
/// How long a call may be under way at the least before the connection is taken for lost, if nobody waits for it any more.
const LONGEST_CALL: Duration = Duration::from_secs(3);

/// What a node's task and those who ask it share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) name: String,
    pub(crate) breaker: Breaker,
    clock: ServerClock,
    tripped: Notify,
    connected: watch::Sender<bool>,
    counters: Arc<Counters>,
    /// When the connection was made that is in use, by the stopwatch.
    connected_at: AtomicU64,
    /// When the server last answered, by the stopwatch.
    answered_at: AtomicU64,
    /// After so many microseconds without an answer a server is silent.
    silence: u64,
}

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
        let shared = Arc::new(Shared {
            name,
            breaker: Breaker::new(common.settings.breaker_after),
            clock: ServerClock::default(),
            tripped: Notify::new(),
            connected: watch::Sender::new(false),
            counters: Arc::clone(&common.counters),
            connected_at: AtomicU64::new(0),
            answered_at: AtomicU64::new(0),
            silence: micros(common.settings.timeout).saturating_mul(3),
        });
        let driver =
            Driver { common: Arc::clone(common), shared: Arc::clone(&shared), place, jobs, router, again: Vec::new() };
        tokio::spawn(driver.run());
        Self { shared, queue }
    }

    /// Hands a request to the task.
    pub(crate) fn submit(&self, job: Job) {
        match self.queue.try_send(job) {
            Ok(()) => {}
            Err(mpsc::error::TrySendError::Full(job)) => job.fail(Trouble::Overloaded),
            Err(mpsc::error::TrySendError::Closed(job)) => job.fail(Trouble::Unreachable),
        }
    }

    /// Waits until there is a connection.
    pub(crate) async fn connected(&self) {
        let mut connected = self.shared.connected.subscribe();
        let _ = connected.wait_for(|connected| *connected).await;
    }
}

impl Shared {
    /// Takes note that a request sent at `since` got no answer in time.
    pub(crate) fn timed_out(&self, since: u64) {
        // What was sent over an earlier connection says nothing about this one.
        let connected_at = self.connected_at.load(Relaxed);
        let heard_at = connected_at.max(self.answered_at.load(Relaxed));
        let silent = stopwatch::micros().saturating_sub(heard_at) >= self.silence;
        if since >= connected_at && self.breaker.failed(silent) {
            self.note_opened("requests got no answer in time");
            self.tripped.notify_one();
        }
    }

    fn note_opened(&self, why: &str) {
        count(&self.counters.breaker_opened);
        tracing::warn!(node = %self.name, why, "redis does not answer: the breaker is open");
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

/// One call that has come back.
struct Returned {
    jobs: Vec<Job>,
    asked: u64,
    result: RedisResult<Value>,
    /// Whether as many replicas have it as are waited for.
    replicated: bool,
}

struct Driver {
    common: Arc<Common>,
    shared: Arc<Shared>,
    place: Place,
    jobs: mpsc::Receiver<Job>,
    router: Weak<Router>,
    /// What is sent again, since surely nothing was done.
    again: Vec<Job>,
}

impl Driver {
    async fn run(mut self) {
        loop {
            if self.jobs.is_closed() && self.jobs.is_empty() {
                return;
            }
            let began = stopwatch::micros();
            self.shared.breaker.probe();
            match self.connect().await {
                Ok(mut link) => {
                    self.shared.connected_at.store(stopwatch::micros(), Relaxed);
                    count(&self.common.counters.connections);
                    if self.shared.breaker.close() {
                        count(&self.common.counters.breaker_closed);
                        tracing::info!(node = %self.shared.name, "redis answers again: the breaker is closed");
                    }
                    self.shared.connected.send_replace(true);
                    let connection = link.connection.clone();
                    let ended = link.keep_going(self.serve(connection)).await;
                    self.shared.connected.send_replace(false);
                    match ended {
                        Ended::Closed => return,
                        Ended::Lost => {
                            tracing::warn!(node = %self.shared.name, "the connection to redis was lost");
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
                    if self.shared.breaker.open() {
                        self.shared.note_opened(&trouble.to_string());
                    }
                    self.refresh();
                }
            }
            self.refuse_until(began.saturating_add(micros(self.common.settings.probe_interval))).await;
        }
    }

    /// Refuses what comes until the next probe is due.
    async fn refuse_until(&mut self, due: u64) {
        for job in std::mem::take(&mut self.again) {
            job.fail(Trouble::Unreachable);
        }
        let wait = stopwatch::pause(Duration::from_micros(due.saturating_sub(stopwatch::micros()).max(1000)));
        tokio::pin!(wait);
        loop {
            tokio::select! {
                job = self.jobs.recv() => match job {
                    Some(job) => job.fail(Trouble::Unreachable),
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

    async fn connect(&self) -> Result<Link, Trouble> {
        let limit = self.common.settings.connect_timeout;
        timeout(limit, self.open()).await.map_err(|_| Trouble::Timeout)?
    }

    /// Makes a connection that can be asked: logged in, with the script loaded and the server's time known.
    async fn open(&self) -> Result<Link, Trouble> {
        let address = match &self.place {
            Place::Fixed(address) => address.clone(),
            Place::Sentinel { sentinels, master, login } => ask_sentinels(sentinels, master, login).await?,
        };
        let mut link = Link::open(&address, &self.common.login).await?;
        let connection = link.connection.clone();
        link.keep_going(self.prepare(connection)).await?;
        Ok(link)
    }

    async fn prepare(&self, mut connection: MultiplexedConnection) -> Result<(), Trouble> {
        self.load_script(&mut connection).await?;
        self.shared.clock.forget();
        let asked = stopwatch::micros();
        let empty = evalsha(&self.common.source, &Call::new([], false, GRACE_MS));
        let reply = connection.send_packed_command(&empty).await.map_err(|error| Trouble::from_error(&error))?;
        let Value::BulkString(reply) = reply else { return Err(Trouble::Garbled) };
        let (now, _) = read_reply(&reply, [])?;
        self.shared.clock.note(asked, stopwatch::micros(), now);
        self.look_at(&mut connection).await
    }

    async fn load_script(&self, connection: &mut MultiplexedConnection) -> Result<(), Trouble> {
        let load = redis::cmd("SCRIPT").arg("LOAD").arg(&self.common.source.text).to_owned();
        connection.send_packed_command(&load).await.map_err(|error| Trouble::from_error(&error))?;
        count(&self.common.counters.scripts_loaded);
        Ok(())
    }

    /// Finds out whether the server may write, and whether it may evict. A user who may not ask is not refused.
    async fn look_at(&self, connection: &mut MultiplexedConnection) -> Result<(), Trouble> {
        for section in ["replication", "memory"] {
            let info = redis::cmd("INFO").arg(section).to_owned();
            let Ok(Value::BulkString(text)) = connection.send_packed_command(&info).await else { continue };
            let text = String::from_utf8_lossy(&text);
            if text.contains("role:slave") {
                return Err(Trouble::ReadOnly);
            }
            let policy = text.lines().find_map(|line| line.strip_prefix("maxmemory_policy:"));
            if let Some(policy) = policy.filter(|policy| *policy != "noeviction") {
                self.common.counters.may_evict.store(true, Relaxed);
                tracing::warn!(
                    node = %self.shared.name,
                    maxmemory_policy = policy,
                    "this server may evict keys, and with them what has been spent: set maxmemory-policy noeviction"
                );
            }
        }
        Ok(())
    }

    /// Sends what comes until the connection ends.
    async fn serve(&mut self, connection: MultiplexedConnection) -> Ended {
        let mut under_way = FuturesUnordered::new();
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

    /// Sends requests, those that can be one call together.
    fn send(
        &self,
        mut jobs: Vec<Job>,
        connection: &MultiplexedConnection,
    ) -> impl Future<Output = Vec<Returned>> + use<> {
        jobs.retain(|job| !job.is_abandoned());
        let mut calls: Vec<Vec<Job>> = Vec::new();
        for mut job in jobs {
            job.group.deadline = match job.given {
                Some(given) => given.as_micros(),
                None => self.shared.clock.at(job.deadline).unwrap_or(0),
            };
            let fits = |call: &&mut Vec<Job>| {
                let other = &call[0];
                let same_slot = !self.common.is_cluster || other.slot == job.slot;
                same_slot && other.given.is_some() == job.given.is_some() && !other.asking && !other.alone
            };
            let together = if job.asking || job.alone { None } else { calls.iter_mut().find(fits) };
            match together {
                Some(call) => call.push(job),
                None => calls.push(vec![job]),
            }
        }
        for call in &calls {
            count(&self.common.counters.calls);
            self.common.counters.batched.fetch_add(call.len() as u64, Relaxed);
        }
        let source = &self.common.source;
        let longest = LONGEST_CALL.max(self.common.settings.timeout.saturating_mul(3));
        // One question behind all of them: it is about everything that was written over the connection.
        let patience = self.common.settings.timeout;
        let asked = self.common.settings.replicas.filter(|_| calls.iter().flatten().any(|job| job.group.may_write()));
        let replicas = asked.map(|replicas| timeout(longest, replicas.have_it(connection.clone(), patience)));
        let calls = calls.into_iter().map(|jobs| call(jobs, source, connection.clone(), longest));
        let answers = join(join_all(calls.collect::<Vec<_>>()), OptionFuture::from(replicas));
        answers.map(|(mut returned, replicated)| {
            let replicated = replicated.is_none_or(|in_time| in_time.unwrap_or(false));
            for call in &mut returned {
                call.replicated = replicated;
            }
            returned
        })
    }

    /// Hands out what a call brought; whether the connection is lost.
    async fn settle(&mut self, returned: Returned, connection: &MultiplexedConnection) -> bool {
        let Returned { jobs, asked, result, replicated } = returned;
        let error = match result {
            Ok(Value::BulkString(reply)) => return self.hand_out(jobs, asked, reply, replicated),
            Ok(_) => return fail_all(jobs, &Trouble::Garbled),
            Err(error) => error,
        };
        if error.code().is_some_and(|code| code != "LOADING") {
            // An error is an answer, too.
            self.shared.answered_at.store(stopwatch::micros(), Relaxed);
            self.shared.breaker.succeeded();
        }
        match error.code() {
            Some("NOSCRIPT") => {
                let mut connection = connection.clone();
                let loaded = timeout(self.common.settings.connect_timeout, self.load_script(&mut connection)).await;
                if let Err(trouble) = loaded.unwrap_or(Err(Trouble::Lost)) {
                    return fail_all(jobs, &trouble) || trouble == Trouble::Lost;
                }
                self.send_again(jobs);
                false
            }
            Some(code @ ("MOVED" | "ASK")) if self.common.is_cluster => {
                let to = error.redirect_node().and_then(|(to, _)| match &self.place {
                    Place::Fixed(from) => Address::redirected(to, from),
                    Place::Sentinel { .. } => None,
                });
                match (self.router.upgrade(), to) {
                    (Some(router), Some(to)) => {
                        for mut job in jobs {
                            count(&self.common.counters.sent_again);
                            job.asking = code == "ASK";
                            router.redirect(job, &to);
                        }
                        false
                    }
                    _ => fail_all(jobs, &Trouble::Refused(error.to_string())),
                }
            }
            Some("TRYAGAIN") if jobs.len() > 1 => {
                // Some of the keys are at one node and some at the other: each has to be asked for where it is.
                let alone = jobs.into_iter().map(|job| Job { alone: true, ..job });
                self.send_again(alone.collect());
                false
            }
            Some("TRYAGAIN" | "CLUSTERDOWN" | "MASTERDOWN") => {
                self.refresh();
                self.send_later(jobs, &Trouble::from_error(&error));
                false
            }
            Some("READONLY") => {
                self.send_again(jobs);
                true
            }
            Some("LOADING") => {
                if self.shared.breaker.failed(true) {
                    self.shared.note_opened("redis is loading its data set");
                    self.shared.tripped.notify_one();
                }
                fail_all(jobs, &Trouble::Loading)
            }
            _ => {
                let trouble = Trouble::from_error(&error);
                fail_all(jobs, &trouble) || trouble == Trouble::Lost
            }
        }
    }

    /// Answers each request of a batch; whether the connection is of no use any more.
    fn hand_out(&mut self, jobs: Vec<Job>, asked: u64, reply: Vec<u8>, replicated: bool) -> bool {
        let read = read_reply(&reply, jobs.iter().map(|job| &job.group));
        let Ok((now, statuses)) = read else { return fail_all(jobs, &Trouble::Garbled) };
        let heard = stopwatch::micros();
        self.shared.clock.note(asked, heard, now);
        self.shared.answered_at.store(heard, Relaxed);
        self.shared.breaker.succeeded();
        let reply = Arc::new(reply);
        let mut read_only = false;
        for (job, status) in jobs.into_iter().zip(statuses) {
            match status {
                Status::Done(range) => {
                    if !replicated && job.group.has_charged(&reply[range.clone()]) {
                        count(&self.common.counters.unreplicated);
                    }
                    let _ = job.answer.send(Ok(Answer { reply: Arc::clone(&reply), range }));
                }
                // The server's clock was taken for another than it is; now it is known.
                Status::Late if !job.is_late() => self.send_again(vec![job]),
                Status::Late => job.fail(Trouble::Late),
                Status::Failed(Trouble::ReadOnly) => {
                    read_only = true;
                    self.send_again(vec![job]);
                }
                Status::Failed(trouble) => job.fail(trouble),
            }
        }
        read_only
    }

    fn send_again(&mut self, jobs: Vec<Job>) {
        for job in jobs {
            if job.is_late() {
                job.fail(Trouble::Timeout);
            } else {
                count(&self.common.counters.sent_again);
                self.again.push(job);
            }
        }
    }

    /// Sends again after a little while, wherever the slot is then. What would hardly be answered in time any more fails by
    /// its name: to its caller it would be a timeout, and to the breaker, too.
    fn send_later(&self, jobs: Vec<Job>, trouble: &Trouble) {
        let due = stopwatch::micros() + 2 * micros(AGAIN_AFTER);
        let (jobs, late): (Vec<Job>, Vec<Job>) = jobs.into_iter().partition(|job| job.deadline > due);
        fail_all(late, trouble);
        let (router, counters) = (self.router.clone(), Arc::clone(&self.common.counters));
        let trouble = trouble.clone();
        tokio::spawn(async move {
            stopwatch::pause(AGAIN_AFTER).await;
            let router = router.upgrade();
            for job in jobs {
                match &router {
                    Some(router) if !job.is_late() => {
                        count(&counters.sent_again);
                        router.submit(Job { asking: false, ..job });
                    }
                    _ => job.fail(trouble.clone()),
                }
            }
        });
    }
}

fn fail_all(jobs: Vec<Job>, trouble: &Trouble) -> bool {
    for job in jobs {
        job.fail(trouble.clone());
    }
    false
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

fn evalsha(source: &Source, call: &Call<'_>) -> redis::Cmd {
    let mut command = redis::cmd("EVALSHA");
    command.arg(&source.sha).arg(call.keys.len()).arg(&call.keys).arg(&call.arguments);
    command
}

/// One call of the script.
fn call(
    jobs: Vec<Job>,
    source: &Source,
    mut connection: MultiplexedConnection,
    longest: Duration,
) -> impl Future<Output = Returned> + use<> {
    let given = jobs[0].given.is_some();
    let grace = if given { GIVEN_GRACE_MS } else { GRACE_MS };
    let command = evalsha(source, &Call::new(jobs.iter().map(|job| &job.group), given, grace));
    async move {
        let asked = stopwatch::micros();
        let asking = jobs[0].asking;
        let send = async {
            if asking {
                let mut pipeline = redis::pipe();
                pipeline.cmd("ASKING").add_command(command);
                let mut replies = connection.send_packed_commands(&pipeline, 0, 2).await?;
                replies.pop().unwrap_or(Value::Nil).extract_error()
            } else {
                connection.send_packed_command(&command).await?.extract_error()
            }
        };
        let hung = || Err(std::io::Error::from(std::io::ErrorKind::TimedOut).into());
        let result = timeout(longest, send).await.unwrap_or_else(|_| hung());
        Returned { jobs, asked, result, replicated: true }
    }
}
