//! [`Router`]: which node a slot is at.
//!
//! One server, or the master that sentinels name, has all slots. In a cluster each master has some; which, is asked of any
//! node at the start, when one is lost or says that a slot has moved, and every few seconds.

use std::{
    collections::BTreeMap,
    sync::{Arc, Weak},
    time::Duration,
};

use parking_lot::RwLock;
use redis::{AsyncConnectionConfig, Value};
use tokio::{
    sync::{Notify, watch},
    time::timeout,
};

use crate::{
    cause::Cause,
    conditions::Conditions,
    error::Error,
    job::Job,
    key_name::SLOTS,
    node::{Common, Node, Place},
    stats::count,
    stopwatch, supervise,
    target::{Address, Target},
};

/// The least time between two questions for the layout of a cluster.
const REFRESH_PAUSE: Duration = Duration::from_millis(100);

/// How often the degraded states are compared with those in the log.
const WATCH_INTERVAL: Duration = Duration::from_millis(200);

/// The node name that stands for the cluster as a whole.
pub(crate) const CLUSTER: &str = "the cluster";

#[derive(Debug)]
pub(crate) struct Router {
    common: Arc<Common>,
    layout: RwLock<Layout>,
    seeds: Vec<Address>,
    refresh: Arc<Notify>,
    known: watch::Sender<bool>,
    /// Degraded states of the cluster as a whole.
    pub(crate) conditions: Conditions,
    me: Weak<Router>,
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
    pub(crate) fn start(common: Common, target: Target) -> Arc<Self> {
        let common = Arc::new(common);
        let router = Arc::new_cyclic(|me| {
            let mut layout = Layout::default();
            let mut seeds = Vec::new();
            let mut is_known = true;
            let place = match target {
                Target::Standalone(address) => Some(Place::Fixed(address)),
                Target::Sentinel { sentinels, master, login } => Some(Place::Sentinel { sentinels, master, login }),
                Target::Cluster(addresses) => {
                    seeds = addresses;
                    is_known = false;
                    layout.slots = vec![None; SLOTS.into()];
                    None
                }
            };
            layout.only = place.map(|place| Arc::new(Node::start(&common, place, Weak::clone(me))));
            Self {
                common,
                layout: RwLock::new(layout),
                seeds,
                refresh: Arc::new(Notify::new()),
                known: watch::Sender::new(is_known),
                conditions: Conditions::default(),
                me: Weak::clone(me),
            }
        });
        if !router.seeds.is_empty() {
            let (weak, interval) = (Arc::downgrade(&router), router.common.settings.refresh_interval);
            supervise::spawn("layout", move || keep_layout(Weak::clone(&weak), interval));
        }
        let weak = Arc::downgrade(&router);
        supervise::spawn("watch", move || watch(Weak::clone(&weak)));
        router
    }

    /// The node that has a slot, if that is known.
    #[inline]
    pub(crate) fn node(&self, slot: u16) -> Option<Arc<Node>> {
        let layout = self.layout.read();
        match &layout.only {
            Some(only) => Some(Arc::clone(only)),
            None => layout.slots[usize::from(slot)].clone(),
        }
    }

    /// Whether keys of different slots can't be in one call.
    pub(crate) fn is_cluster(&self) -> bool {
        self.common.is_cluster
    }

    /// Waits until it is known which node has which slot.
    pub(crate) async fn known(&self) {
        let mut known = self.known.subscribe();
        let _ = known.wait_for(|known| *known).await;
    }

    /// Waits until every node that has slots is connected.
    pub(crate) async fn connected(&self) {
        self.known().await;
        let nodes: Vec<_> = {
            let layout = self.layout.read();
            layout.only.iter().chain(layout.nodes.values()).cloned().collect()
        };
        for node in nodes {
            node.connected().await;
        }
    }

    pub(crate) fn nodes(&self) -> Vec<Arc<Node>> {
        let layout = self.layout.read();
        layout.only.iter().chain(layout.nodes.values()).cloned().collect()
    }

    pub(crate) fn submit(&self, job: Job) {
        match self.node(job.slot) {
            Some(node) if node.shared.breaker.lets_through() => node.submit(job),
            Some(node) => job.fail(node.shared.refusal()),
            None => {
                let trouble = self.note_unserved(job.slot);
                job.fail(trouble);
            }
        }
    }

    /// Records a request for a slot without a node. Returns the reason.
    pub(crate) fn note_unserved(&self, slot: u16) -> Error {
        if self.layout.read().nodes.is_empty() {
            self.conditions.note(Cause::Unreachable, || "the layout of the redis cluster is not known".to_owned());
            return Error::Unreachable;
        }
        self.conditions.note(Cause::ClusterDown, || format!("no node of the redis cluster serves slot {slot}"));
        Error::ClusterDown
    }

    /// Asks for the layout anew, soon.
    pub(crate) fn refresh(&self) {
        self.refresh.notify_one();
    }

    /// Passes a request on to where its slot is said to be. If it has moved for good, later ones go there at once.
    pub(crate) fn redirect(&self, job: Job, to: &Address) {
        count(&self.common.counters.redirected);
        let node = {
            let mut layout = self.layout.write();
            let node = layout.node(to, &self.common, &self.me);
            if !job.asking
                && let Some(slot) = layout.slots.get_mut(usize::from(job.slot))
            {
                *slot = Some(Arc::clone(&node));
            }
            node
        };
        if !job.asking {
            self.refresh();
        }
        if node.shared.breaker.lets_through() {
            node.submit(job);
        } else {
            job.fail(node.shared.refusal());
        }
    }

    fn set_layout(&self, ranges: &[(u16, u16, Address)]) {
        let mut layout = self.layout.write();
        let mut slots = vec![None; SLOTS.into()];
        let mut nodes = BTreeMap::new();
        for (first, last, address) in ranges {
            let node = layout.node(address, &self.common, &self.me);
            for slot in *first..=(*last).min(SLOTS - 1) {
                slots[usize::from(slot)] = Some(Arc::clone(&node));
            }
            nodes.insert(address.clone(), node);
        }
        // Nodes that have no slots any more end with the last request under way to them.
        layout.nodes = nodes;
        layout.slots = slots;
        drop(layout);
        self.known.send_replace(true);
    }

    /// Whether every slot has a node.
    fn has_all_slots(&self) -> bool {
        self.layout.read().slots.iter().all(Option::is_some)
    }

    /// Whether every slot has a node that answers.
    fn is_served(&self) -> bool {
        let layout = self.layout.read();
        layout.slots.iter().all(Option::is_some) && layout.nodes.values().all(|node| node.shared.breaker.lets_through())
    }

    /// Asks nodes for the layout until one tells it, each time beginning with another: one that is cut off from the rest may
    /// not know that it is.
    async fn ask_layout(&self, time: usize) -> Option<Vec<(u16, u16, Address)>> {
        let mut asked: Vec<Address> = self.layout.read().nodes.keys().cloned().collect();
        asked.extend(self.seeds.iter().cloned());
        let first = time % asked.len().max(1);
        asked.rotate_left(first);
        let patience = Duration::from_millis(250);
        for address in asked {
            let ask = async {
                let client = self.common.login.client(&address).ok()?;
                let config = AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None);
                let mut connection = client.get_multiplexed_async_connection_with_config(&config).await.ok()?;
                let mut question = redis::cmd("CLUSTER");
                question.arg("SLOTS");
                let answer = connection.send_packed_command(&question).await.ok()?;
                read_slots(&answer, &address).filter(|ranges| !ranges.is_empty())
            };
            if let Ok(Some(ranges)) = timeout(patience, ask).await {
                return Some(ranges);
            }
        }
        None
    }
}

impl Layout {
    fn node(&mut self, address: &Address, common: &Arc<Common>, router: &Weak<Router>) -> Arc<Node> {
        let start = || Arc::new(Node::start(common, Place::Fixed(address.clone()), Weak::clone(router)));
        Arc::clone(self.nodes.entry(address.clone()).or_insert_with(start))
    }
}

/// Logs the degraded states that begin and end, until the router is dropped.
async fn watch(router: Weak<Router>) {
    while let Some(alive) = router.upgrade() {
        alive.conditions.log_changes(CLUSTER);
        for node in alive.nodes() {
            node.shared.conditions.log_changes(&node.shared.name);
        }
        drop(alive);
        stopwatch::pause(WATCH_INTERVAL).await;
    }
}

/// Keeps the layout of a cluster up to date for as long as somebody needs it.
async fn keep_layout(router: Weak<Router>, interval: Duration) {
    for time in 0.. {
        let Some(alive) = router.upgrade() else { return };
        let layout = alive.ask_layout(time).await;
        match &layout {
            Some(ranges) => {
                alive.set_layout(ranges);
                alive.conditions.release(Cause::Unreachable);
                if alive.has_all_slots() {
                    alive.conditions.succeeded(stopwatch::micros());
                }
            }
            None => {
                let why = || "no node of the redis cluster reports its layout".to_owned();
                alive.conditions.hold(Cause::Unreachable, why);
                alive.known.send_replace(true);
            }
        }
        let healthy = layout.is_some() && alive.is_served();
        let asked_for = Arc::clone(&alive.refresh);
        drop(alive);
        stopwatch::pause(REFRESH_PAUSE).await;
        let wait = if healthy { interval } else { REFRESH_PAUSE };
        let _ = timeout(wait, asked_for.notified()).await;
    }
}

/// The ranges of slots and their masters, as CLUSTER SLOTS tells them.
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
