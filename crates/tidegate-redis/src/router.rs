//! [`Router`]: finds the node of a slot.
//!
//! A single server, or the master of sentinels, has all slots. In a cluster each master has some of them. The router fetches the
//! layout from any node at the start, when a node is lost, when a node reports that a slot has moved, and every few seconds.

use std::{
    collections::BTreeMap,
    sync::{Arc, Weak},
    time::Duration,
};

use parking_lot::RwLock;
use redis::Value;
use tokio::{
    sync::{Notify, watch},
    time::timeout,
};

use crate::{
    degraded_states::DegradedStates,
    driven_connection::query,
    error::{Cause, Error},
    key_name::SLOTS,
    node::{Node, NodeContext},
    pending_request::PendingRequest,
    stats::count,
    stopwatch, supervise,
    target::{Address, ServerLocation, Target},
};

/// The interval at which the layout of a cluster is read if nothing seems to have changed.
const REFRESH_INTERVAL: Duration = Duration::from_secs(5);

/// Minimum time between two requests for the layout of a cluster.
const REFRESH_PAUSE: Duration = Duration::from_millis(100);

/// How long one node may take to report the layout.
const MAX_LAYOUT_TIME: Duration = Duration::from_millis(250);

/// How often the degraded states are compared with those in the log.
const WATCH_INTERVAL: Duration = Duration::from_millis(200);

/// The node name of the cluster as a whole.
pub(crate) const CLUSTER: &str = "the cluster";

#[derive(Debug)]
pub(crate) struct Router {
    pub(crate) context: Arc<NodeContext>,
    layout: RwLock<Layout>,
    seeds: Vec<Address>,
    refresh: Arc<Notify>,
    layout_known: watch::Sender<bool>,
    /// Degraded states of the cluster as a whole.
    pub(crate) degraded_states: DegradedStates,
    this: Weak<Router>,
}

#[derive(Debug, Default)]
struct Layout {
    /// The node of every slot, if there is only one.
    only: Option<Arc<Node>>,
    nodes: BTreeMap<Address, Arc<Node>>,
    /// The node of each slot.
    slots: Vec<Option<Arc<Node>>>,
}

impl Router {
    pub(crate) fn start(context: NodeContext, target: Target) -> Arc<Self> {
        let context = Arc::new(context);
        let router = Arc::new_cyclic(|this| {
            let (mut layout, mut seeds) = (Layout::default(), Vec::new());
            match target {
                Target::Server(location) => {
                    layout.only = Some(Arc::new(Node::start(&context, location, Weak::clone(this))));
                }
                Target::Cluster(addresses) => {
                    seeds = addresses;
                    layout.slots = vec![None; SLOTS.into()];
                }
            }
            Self {
                context,
                layout_known: watch::Sender::new(layout.only.is_some()),
                layout: RwLock::new(layout),
                seeds,
                refresh: Arc::new(Notify::new()),
                degraded_states: DegradedStates::default(),
                this: Weak::clone(this),
            }
        });
        if !router.seeds.is_empty() {
            let weak = Arc::downgrade(&router);
            supervise::spawn("layout", move || refresh_layout(Weak::clone(&weak)));
        }
        let weak = Arc::downgrade(&router);
        supervise::spawn("watch", move || watch(Weak::clone(&weak)));
        router
    }

    /// Returns the node of a slot, if it is known.
    #[inline]
    pub(crate) fn node(&self, slot: u16) -> Option<Arc<Node>> {
        let layout = self.layout.read();
        match &layout.only {
            Some(only) => Some(Arc::clone(only)),
            None => layout.slots[usize::from(slot)].clone(),
        }
    }

    /// Waits until the layout is known.
    pub(crate) async fn layout_known(&self) {
        let mut layout_known = self.layout_known.subscribe();
        let _ = layout_known.wait_for(|layout_known| *layout_known).await;
    }

    /// Waits until every node that has slots is connected.
    pub(crate) async fn connected(&self) {
        self.layout_known().await;
        for node in self.nodes() {
            node.connected().await;
        }
    }

    pub(crate) fn nodes(&self) -> Vec<Arc<Node>> {
        let layout = self.layout.read();
        layout.only.iter().chain(layout.nodes.values()).cloned().collect()
    }

    pub(crate) fn submit(&self, request: PendingRequest) {
        match self.node(request.slot()) {
            Some(node) => node.submit(request),
            None => {
                let error = self.record_unserved(request.slot());
                request.fail(error);
            }
        }
    }

    /// Records a request for a slot without a node. Returns the reason.
    pub(crate) fn record_unserved(&self, slot: u16) -> Error {
        if self.layout.read().nodes.is_empty() {
            self.degraded_states
                .record(Cause::Unreachable, || "the layout of the redis cluster is not known".to_owned());
            return Error::Unreachable;
        }
        self.degraded_states.record(Cause::ClusterDown, || format!("no node of the redis cluster serves slot {slot}"));
        Error::ClusterDown
    }

    /// Fetches the layout again, soon.
    pub(crate) fn refresh(&self) {
        self.refresh.notify_one();
    }

    /// Submits a request to the node that another node named. If the slot has moved permanently, later requests go there at once.
    pub(crate) fn redirect(&self, request: PendingRequest, to: &Address) {
        count(&self.context.counters.redirected);
        let node = {
            let mut layout = self.layout.write();
            let node = layout.node(to, &self.context, &self.this);
            if !request.asking
                && let Some(slot) = layout.slots.get_mut(usize::from(request.slot()))
            {
                *slot = Some(Arc::clone(&node));
            }
            node
        };
        if !request.asking {
            self.refresh();
        }
        node.submit(request);
    }

    fn set_layout(&self, ranges: &[(u16, u16, Address)]) {
        let mut layout = self.layout.write();
        let mut slots = vec![None; SLOTS.into()];
        let mut nodes = BTreeMap::new();
        for (first, last, address) in ranges {
            let node = layout.node(address, &self.context, &self.this);
            for slot in *first..=(*last).min(SLOTS - 1) {
                slots[usize::from(slot)] = Some(Arc::clone(&node));
            }
            nodes.insert(address.clone(), node);
        }
        // A node without slots is dropped after its last request.
        layout.nodes = nodes;
        layout.slots = slots;
        drop(layout);
        self.layout_known.send_replace(true);
    }

    /// Whether every slot has a node.
    fn has_all_slots(&self) -> bool {
        self.layout.read().slots.iter().all(Option::is_some)
    }

    /// Whether every slot has a node that answers.
    fn is_served(&self) -> bool {
        self.has_all_slots() && self.nodes().iter().all(|node| node.state.breaker.is_closed())
    }

    /// Fetches the layout from the first node that reports it. Each attempt begins with another node, because a node that is
    /// disconnected from the cluster may report an outdated layout.
    async fn fetch_layout(&self, time: usize) -> Option<Vec<(u16, u16, Address)>> {
        let mut candidates: Vec<Address> = self.layout.read().nodes.keys().cloned().collect();
        candidates.extend(self.seeds.iter().cloned());
        let first = time % candidates.len().max(1);
        candidates.rotate_left(first);
        let command = redis::cmd("CLUSTER").arg("SLOTS").to_owned();
        for address in candidates {
            let answer = query(&self.context.login, &address, &command, MAX_LAYOUT_TIME).await;
            let ranges = answer.and_then(|answer| read_slots(&answer, &address));
            if let Some(ranges) = ranges.filter(|ranges| !ranges.is_empty()) {
                return Some(ranges);
            }
        }
        None
    }
}

impl Layout {
    fn node(&mut self, address: &Address, context: &Arc<NodeContext>, router: &Weak<Router>) -> Arc<Node> {
        let start = || Arc::new(Node::start(context, ServerLocation::Fixed(address.clone()), Weak::clone(router)));
        Arc::clone(self.nodes.entry(address.clone()).or_insert_with(start))
    }
}

/// Logs the degraded states that begin and end, until the router is dropped.
async fn watch(router: Weak<Router>) {
    while let Some(alive) = router.upgrade() {
        alive.degraded_states.log_changes(CLUSTER);
        for node in alive.nodes() {
            node.state.degraded_states.log_changes(&node.state.name);
        }
        drop(alive);
        tokio::time::sleep(WATCH_INTERVAL).await;
    }
}

/// Keeps the layout of a cluster up to date until the router is dropped.
async fn refresh_layout(router: Weak<Router>) {
    for time in 0.. {
        let Some(alive) = router.upgrade() else { return };
        let layout = alive.fetch_layout(time).await;
        match &layout {
            Some(ranges) => {
                alive.set_layout(ranges);
                alive.degraded_states.end(Cause::Unreachable);
                if alive.has_all_slots() {
                    alive.degraded_states.record_success(stopwatch::micros());
                }
            }
            None => {
                let why = || "no node of the redis cluster reports its layout".to_owned();
                alive.degraded_states.begin(Cause::Unreachable, why);
                alive.layout_known.send_replace(true);
            }
        }
        let healthy = layout.is_some() && alive.is_served();
        let requested = Arc::clone(&alive.refresh);
        drop(alive);
        tokio::time::sleep(REFRESH_PAUSE).await;
        let wait = if healthy { REFRESH_INTERVAL } else { REFRESH_PAUSE };
        let _ = timeout(wait, requested.notified()).await;
    }
}

/// Reads the ranges of slots and their masters from the answer to CLUSTER SLOTS.
fn read_slots(answer: &Value, from: &Address) -> Option<Vec<(u16, u16, Address)>> {
    let Value::Array(ranges) = answer else { return None };
    let read = |range: &Value| {
        let Value::Array(parts) = range else { return None };
        let [Value::Int(first), Value::Int(last), Value::Array(master), ..] = parts.as_slice() else { return None };
        let [host, Value::Int(port), ..] = master.as_slice() else { return None };
        let host = match host {
            Value::BulkString(host) => String::from_utf8_lossy(host).into_owned(),
            Value::SimpleString(host) => host.clone(),
            _ => String::new(),
        };
        let address = Address::redirected(&format!("{host}:{port}"), from)?;
        Some((u16::try_from(*first).ok()?, u16::try_from(*last).ok()?, address))
    };
    ranges.iter().map(read).collect()
}
