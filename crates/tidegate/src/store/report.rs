//! [`StoreReport`]: what a store reports about itself.

use std::{borrow::Cow, time::Duration};

use crate::Key;

/// What a store reports about itself. A store fills in what it has and leaves the rest at its default.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct StoreReport {
    /// The kind of store, in one word: `memory`, `redis`.
    pub kind: &'static str,
    /// Whether the store answers, so that no request is answered without it.
    pub answers: bool,
    /// What the store holds in this process.
    pub usage: Option<StoreUsage>,
    /// The servers that hold the state.
    pub nodes: Vec<StoreNode>,
    /// Whether a server may evict keys, and with them units in use.
    pub may_evict: Option<bool>,
    /// The decisions that were made without the store.
    pub without_store: Option<WithoutStore>,
    /// The leases of this node, if it leases units of a shared store.
    pub leases: Option<NodeLeases>,
    /// The number of errors so far, by cause.
    pub errors: Vec<(&'static str, u64)>,
    /// The degraded states that the store is in now.
    pub degradations: Vec<Degradation>,
    /// Counts of events that are a degraded state while the count rises.
    pub event_counts: Vec<EventCount>,
    /// Counters and gauges for a metrics system.
    pub metrics: Vec<Metric>,
}

impl Default for StoreReport {
    fn default() -> Self {
        Self {
            kind: "custom",
            answers: true,
            usage: None,
            nodes: Vec::new(),
            may_evict: None,
            without_store: None,
            leases: None,
            errors: Vec::new(),
            degradations: Vec::new(),
            event_counts: Vec::new(),
            metrics: Vec::new(),
        }
    }
}

impl StoreReport {
    /// A report of a healthy store of this kind.
    pub fn new(kind: &'static str) -> Self {
        Self { kind, ..Self::default() }
    }
}

/// What a store holds in this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StoreUsage {
    /// Keys that have a state.
    pub keys: usize,
    /// Maximum number of keys.
    pub max_keys: usize,
    /// Bytes held for states.
    pub bytes: usize,
    /// Maximum number of bytes.
    pub max_bytes: usize,
    /// Expired states that were evicted so far.
    pub evicted: u64,
    /// Requests so far that found no room for a new key.
    pub no_room: u64,
}

/// A server that holds state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreNode {
    /// Its name or address.
    pub name: String,
    /// The state of its circuit breaker: `closed`, `half_open` or `open`.
    pub breaker: &'static str,
}

/// The number of decisions that were made without the store, by the failure choice that decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WithoutStore {
    /// Admitted uncounted.
    pub open: u64,
    /// Denied.
    pub closed: u64,
    /// Decided in the memory of this process.
    pub local: u64,
    /// Denied by a denial of the store whose wait had not passed yet.
    pub remembered: u64,
}

/// What a node decides by units that it has leased of a shared store.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodeLeases {
    /// Requests so far that a lease of the node admitted.
    pub admitted: u64,
    /// Requests so far that a remembered denial of the store denied.
    pub denied: u64,
    /// Requests so far, under policies with leases, that the store decided.
    pub asked: u64,
    /// Leases that the node holds now.
    pub open: u64,
    /// Units that are left of them.
    pub left: u64,
    /// Keys that the node remembers now.
    pub remembered: u64,
    /// The keys for which the node has decided most requests by itself, those with the most first. At most a hundred.
    pub keys: Vec<LeasedKey>,
}

/// The lease of a node for one key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeasedKey {
    /// The name of the policy.
    pub policy: String,
    /// The key.
    pub key: Key<'static>,
    /// The units of the lease from which the node admits; 0 if it has none.
    pub units: u64,
    /// The units that are left of it.
    pub left: u64,
    /// The time until the node admits nothing more from it.
    pub ends_in: Option<Duration>,
    /// Requests that leases admitted since the node remembers the key.
    pub admitted: u64,
    /// Requests that remembered denials denied since then.
    pub denied: u64,
    /// The time for which the node repeats the last denial of the store.
    pub denies_for: Option<Duration>,
}

/// A state in which requests are answered without the store, or with less certainty than was asked for.
///
/// A state begins with the first request that is affected and ends once requests are answered normally again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Degradation {
    /// A short name of the cause, for metrics.
    pub cause: &'static str,
    /// The server that is affected, if there are servers.
    pub node: Option<String>,
    /// What happened, in one sentence.
    pub detail: String,
    /// What an operator can do about it, in one sentence.
    pub cure: String,
    /// How long the state has lasted.
    pub lasted: Duration,
    /// Whether the store, or the server of it, does not answer at all.
    pub is_outage: bool,
}

/// A count of events. The store is degraded while the count rises.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventCount {
    /// A short name of the cause, for metrics.
    pub cause: &'static str,
    /// The number of events so far.
    pub count: u64,
    /// What happened, as the text after the number.
    pub what: Cow<'static, str>,
    /// What an operator can do about it, in one sentence.
    pub cure: &'static str,
}

/// A counter or a gauge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Metric {
    /// The name, without a prefix.
    pub name: &'static str,
    /// What is counted, in one sentence.
    pub help: &'static str,
    /// Whether the value only rises.
    pub kind: MetricKind,
    /// The name of the label of each value; empty for a single value without a label.
    pub label: &'static str,
    /// The values, each with the value of its label.
    pub values: Vec<(String, u64)>,
}

/// The name of [`Metric::degraded_answers`].
pub(crate) const DEGRADED_ANSWERS: &str = "degraded_answers";

/// The kind of a [`Metric`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum MetricKind {
    /// It only rises.
    Counter,
    /// It rises and falls.
    Gauge,
}

impl Metric {
    /// A counter without labels.
    pub fn counter(name: &'static str, help: &'static str, value: u64) -> Self {
        Self::labelled(MetricKind::Counter, name, help, "", [(String::new(), value)])
    }

    /// A gauge without labels.
    pub fn gauge(name: &'static str, help: &'static str, value: u64) -> Self {
        Self::labelled(MetricKind::Gauge, name, help, "", [(String::new(), value)])
    }

    /// The number of requests that were answered without the store, by cause. All stores report it under the same name.
    pub fn degraded_answers(causes: impl IntoIterator<Item = (impl Into<String>, u64)>) -> Self {
        let help = "Requests answered without the store, by cause";
        Self::labelled(MetricKind::Counter, DEGRADED_ANSWERS, help, "cause", causes)
    }

    /// One value for each value of a label.
    pub fn labelled(
        kind: MetricKind,
        name: &'static str,
        help: &'static str,
        label: &'static str,
        values: impl IntoIterator<Item = (impl Into<String>, u64)>,
    ) -> Self {
        let values = values.into_iter().map(|(of, value)| (of.into(), value)).collect();
        Self { name, help, kind, label, values }
    }
}
