//! [`Node`]: one Redis server, and the task that sends requests to it. `connection_setup`, `calls`, `results` and `health` are
//! the steps of the task; `state` is what the task shares with its callers.
//!
//! Requests wait in a queue. The task takes the waiting requests, up to a maximum, and sends them as one call of the script, or in
//! a cluster as one call for each slot. While the maximum number of calls is under way, requests collect in the queue. So a
//! single request is sent at once, and many requests are sent together. The task also opens the connection, loads the script,
//! and probes a server that does not answer. Meanwhile it refuses requests at once.
//!
//! A request is sent again only if it certainly did nothing the first time.

mod calls;
mod connection_setup;
mod health;
mod results;
mod state;

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

pub(crate) use self::state::NodeState;
use crate::{
    error::Error,
    log,
    pending_request::PendingRequest,
    response_times::ResponseTimes,
    router::Router,
    script::Source,
    settings::Settings,
    stats::{Counters, count},
    stopwatch::{self, to_micros},
    supervise,
    target::{Login, ServerLocation},
};

/// After a connection that lasted less than this many microseconds, the next one is delayed.
const MIN_LIFETIME: u64 = 10_000;

/// Maximum number of calls under way. Requests that arrive meanwhile wait and are sent as one batch.
const MAX_CALLS: usize = 3;

/// One Redis server.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) state: Arc<NodeState>,
    queue: mpsc::Sender<PendingRequest>,
}

/// The settings and counters that all nodes of a store share.
#[derive(Debug)]
pub(crate) struct NodeContext {
    pub(crate) settings: Settings,
    pub(crate) login: Login,
    pub(crate) source: Source,
    pub(crate) counters: Arc<Counters>,
    /// Whether one call can't have keys of different slots.
    pub(crate) is_cluster: bool,
}

impl Node {
    /// Starts a node's task.
    pub(crate) fn start(context: &Arc<NodeContext>, location: ServerLocation, router: Weak<Router>) -> Self {
        let (queue, requests) = mpsc::channel(context.settings.queue);
        let name = match &location {
            ServerLocation::Fixed(address) => address.to_string(),
            ServerLocation::Sentinel { master, .. } => format!("the master {master}"),
        };
        let state = Arc::new(NodeState::new(name, context));
        let task = NodeTask {
            context: Arc::clone(context),
            state: Arc::clone(&state),
            location,
            requests,
            router,
            retries: Vec::new(),
            response_times: ResponseTimes::default(),
        };
        let task = Arc::new(Mutex::new(task));
        supervise::spawn("node", move || {
            let task = Arc::clone(&task);
            async move { task.lock().await.run().await }
        });
        Self { state, queue }
    }

    /// Sends a request to the task. If the breaker is open, the request fails. If the queue is full, a decision is shed,
    /// and any other request waits for room.
    pub(crate) fn submit(&self, mut request: PendingRequest) {
        if !self.state.breaker.is_closed() {
            return request.fail(self.state.refusal());
        }
        request.outstanding = Some(Arc::clone(&self.state.outstanding));
        match self.queue.try_send(request) {
            Ok(()) => {}
            Err(mpsc::error::TrySendError::Full(request)) if request.group.is_decision() => {
                request.fail(Error::Overloaded);
            }
            Err(mpsc::error::TrySendError::Full(request)) => {
                let queue = self.queue.clone();
                let left = Duration::from_micros(request.deadline.saturating_sub(stopwatch::micros()));
                tokio::spawn(async move {
                    if let Ok(Err(mpsc::error::SendError(request))) = timeout(left, queue.send(request)).await {
                        request.fail(Error::Unreachable);
                    }
                });
            }
            Err(mpsc::error::TrySendError::Closed(request)) => request.fail(Error::Unreachable),
        }
    }

    /// Waits until the node is connected.
    pub(crate) async fn connected(&self) {
        let mut connected = self.state.connected.subscribe();
        let _ = connected.wait_for(|connected| *connected).await;
    }
}

/// Why a connection is no longer in use.
enum ConnectionEnd {
    /// The store was dropped.
    StoreDropped,
    Lost,
    /// The breaker opened.
    BreakerOpened,
}

struct NodeTask {
    context: Arc<NodeContext>,
    state: Arc<NodeState>,
    location: ServerLocation,
    requests: mpsc::Receiver<PendingRequest>,
    router: Weak<Router>,
    /// Requests to send again, because they did nothing.
    retries: Vec<PendingRequest>,
    /// Whether answers come in time.
    response_times: ResponseTimes,
}

impl NodeTask {
    async fn run(&mut self) {
        loop {
            if self.requests.is_closed() && self.requests.is_empty() {
                return;
            }
            self.state.connected.send_replace(false);
            let next_probe = stopwatch::micros().saturating_add(to_micros(self.context.settings.probe_interval));
            self.state.breaker.probe();
            match self.connect().await {
                Ok(mut driven) => {
                    let connection = driven.connection.clone();
                    if !driven.drive(self.wait_until_fast(connection)).await {
                        self.refuse_until(next_probe).await;
                        continue;
                    }
                    self.state.connected_at.store(stopwatch::micros(), Relaxed);
                    count(&self.context.counters.connections);
                    self.state.close_breaker();
                    self.response_times = ResponseTimes::default();
                    self.state.connected.send_replace(true);
                    let connection = driven.connection.clone();
                    let ended = driven.drive(self.serve(connection)).await;
                    self.state.connected.send_replace(false);
                    match ended {
                        ConnectionEnd::StoreDropped => return,
                        ConnectionEnd::Lost => {
                            log::guarded(
                                || tracing::warn!(node = %self.state.name, "the connection to redis was lost"),
                            );
                            self.refresh();
                            let lifetime = stopwatch::micros() - self.state.connected_at.load(Relaxed);
                            if lifetime < MIN_LIFETIME {
                                // A server that closes every connection must not cause a busy loop.
                                self.refuse_until(stopwatch::micros() + MIN_LIFETIME).await;
                            }
                            continue;
                        }
                        ConnectionEnd::BreakerOpened => self.refresh(),
                    }
                }
                Err(error) => {
                    self.state.open_breaker(&error);
                    self.refresh();
                }
            }
            self.refuse_until(next_probe).await;
        }
    }

    /// Refuses requests until the next probe is due.
    async fn refuse_until(&mut self, due: u64) {
        for request in std::mem::take(&mut self.retries) {
            request.fail(self.state.refusal());
        }
        let wait = tokio::time::sleep(Duration::from_micros(due.saturating_sub(stopwatch::micros()).max(1000)));
        tokio::pin!(wait);
        loop {
            tokio::select! {
                request = self.requests.recv() => match request {
                    Some(request) => request.fail(self.state.refusal()),
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

    /// Sends requests until the connection ends.
    async fn serve(&mut self, connection: MultiplexedConnection) -> ConnectionEnd {
        let mut under_way = FuturesUnordered::new();
        let mut checks = FuturesUnordered::new();
        let mut check_due = tokio::time::interval(health::INTERVAL);
        check_due.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut idle_ticks = 0;
        let mut calls_at_check = 0;
        let mut closed = false;
        loop {
            if closed && under_way.is_empty() && self.retries.is_empty() {
                return ConnectionEnd::StoreDropped;
            }
            // WAIT blocks the connection, so another call would wait, too.
            let max_calls = if self.context.settings.replicas.is_some() { 1 } else { MAX_CALLS };
            let free = under_way.len() < max_calls;
            if free && !self.retries.is_empty() {
                let requests = std::mem::take(&mut self.retries);
                under_way.push(self.send(requests, &connection));
                continue;
            }
            tokio::select! {
                biased;
                () = self.state.breaker_opened.notified() => {
                    // The notification may be about an earlier connection.
                    if !self.state.breaker.is_closed() {
                        return ConnectionEnd::BreakerOpened;
                    }
                }
                Some(report) = checks.next(), if !checks.is_empty() => {
                    if self.record_health(report) {
                        return ConnectionEnd::Lost;
                    }
                }
                _ = check_due.tick(), if self.context.settings.checks_health && checks.is_empty() && !closed => {
                    let calls = self.context.counters.calls.load(Relaxed);
                    idle_ticks = if calls == calls_at_check { idle_ticks + 1 } else { health::IDLE_TICKS };
                    if idle_ticks >= health::IDLE_TICKS {
                        (idle_ticks, calls_at_check) = (0, calls);
                        checks.push(self.check_health(connection.clone()));
                    }
                }
                Some(completed_calls) = under_way.next(), if !under_way.is_empty() => {
                    let mut lost = false;
                    for completed in completed_calls {
                        lost |= self.handle_result(completed, &connection).await;
                    }
                    if lost {
                        return ConnectionEnd::Lost;
                    }
                }
                request = self.requests.recv(), if free && !closed => match request {
                    Some(request) => {
                        // While calls are under way, other tasks may add their requests to the batch.
                        if !under_way.is_empty() {
                            tokio::task::yield_now().await;
                        }
                        let requests = self.gather(request);
                        under_way.push(self.send(requests, &connection));
                    }
                    None => closed = true,
                },
            }
        }
    }

    /// Takes the requests that wait behind `first`.
    fn gather(&mut self, first: PendingRequest) -> Vec<PendingRequest> {
        if first.given.is_none() {
            self.state.record_wait(first.deadline);
        }
        let mut size = first.group.parts.len();
        let mut requests = Vec::with_capacity(self.context.settings.batch.min(self.requests.len() + 1));
        requests.push(first);
        while size < self.context.settings.batch {
            let Ok(request) = self.requests.try_recv() else { break };
            size += request.group.parts.len();
            requests.push(request);
        }
        requests
    }
}
