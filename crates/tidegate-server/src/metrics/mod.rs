//! [`Metrics`]: the counters of the service, for Prometheus. The values of every label are bounded: configured policies, reasons,
//! transports, causes of errors, nodes of Redis.

mod durations;
mod exposition;
mod holds;
mod latency;
mod log_lines;
mod stopwatch;

use std::{borrow::Cow, fmt, ops::Index, sync::Arc};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder, text},
    metrics::{
        MetricType, TypedMetric,
        counter::{ConstCounter, Counter},
        family::Family,
        gauge::{ConstGauge, Gauge},
        info::Info,
    },
    registry::{Metric, Registry},
};
use tidegate::{AnyStore, Decision, FailSafe, Metric as StoreMetric, MetricKind, Reason};

pub use self::log_lines::{AUDIT, LOG_LINES, LogLines};
use self::{
    durations::Durations,
    holds::{HoldMetrics, LazyHoldCounters},
};
pub(crate) use self::{
    exposition::Exposition,
    holds::HoldCounters,
    latency::{DurationCounts, Latency},
    stopwatch::Stopwatch,
};
use crate::{config::RESERVED_NAME, service::Degraded};

/// The label of decisions with limits supplied by callers.
const SUPPLIED: &str = "(limits)";

/// The label of Envoy rules and overrides that deny all requests.
const DENIED: &str = "(deny)";

/// The label for the duration of decisions over several policies.
const SEVERAL: &str = "(several)";

/// A protocol of the service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Transport {
    Http,
    Resp,
    Grpc,
}

impl Transport {
    /// All transports.
    pub const ALL: [Self; 3] = [Self::Http, Self::Resp, Self::Grpc];

    /// Returns the name in metrics and logs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Resp => "resp",
            Self::Grpc => "grpc",
        }
    }
}

/// The labels of a metric: names and values.
type Labels<const N: usize> = [(&'static str, Cow<'static, str>); N];

/// A metric of each transport.
#[derive(Debug)]
pub(crate) struct PerTransport<M>([M; 3]);

impl<M> Index<Transport> for PerTransport<M> {
    type Output = M;

    fn index(&self, transport: Transport) -> &M {
        &self.0[transport as usize]
    }
}

/// How close a decision came to its limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DecisionClass {
    Ordinary,
    /// Allowed, with at least four fifths in use of the limit with the fewest units left.
    NearLimit,
    Denied,
}

impl DecisionClass {
    #[inline]
    pub(crate) fn of(decision: &Decision) -> Self {
        if decision.reason() != Reason::Allowed {
            return Self::Denied;
        }
        if is_near_limit(decision.used(), decision.capacity()) { Self::NearLimit } else { Self::Ordinary }
    }
}

/// Returns whether at least four fifths of a capacity are in use. Envoy's own service uses the same share.
#[inline]
pub(crate) fn is_near_limit(used: u64, capacity: u64) -> bool {
    u128::from(used) * 5 >= u128::from(capacity) * 4
}

/// The counters of one policy.
#[derive(Debug, Default)]
pub(crate) struct PolicyCounters {
    reasons: [Counter; OUTCOMES],
    near_limit: Counter,
    durations: Arc<durations::PolicyDurations>,
    holds: LazyHoldCounters,
}

impl PolicyCounters {
    /// Returns the counters of its holds.
    #[inline]
    pub(crate) fn holds(&self) -> &Arc<HoldCounters> {
        self.holds.get()
    }

    /// Counts the duration of a decision.
    #[inline]
    pub(crate) fn took(&self, transport: Transport, nanos: u64) {
        self.durations[transport as usize].observe(nanos);
    }

    /// Counts a decision that spent or was denied. Returns its class.
    #[inline]
    pub(crate) fn count(&self, decision: &Decision) -> DecisionClass {
        self.reasons[index(decision.reason())].inc();
        let class = DecisionClass::of(decision);
        if class == DecisionClass::NearLimit {
            self.near_limit.inc();
        }
        class
    }

    /// Returns the counts so far, in the order of [`REASONS`].
    pub(crate) fn counts(&self) -> OutcomeCounts {
        std::array::from_fn(|index| self.reasons[index].get())
    }
}

/// The number of possible outcomes.
pub(crate) const OUTCOMES: usize = 6;

/// Decisions by outcome, in the order of [`REASONS`].
pub(crate) type OutcomeCounts = [u64; OUTCOMES];

/// The outcomes of a decision, in the order in which they are counted.
pub(crate) const REASONS: [Reason; OUTCOMES] =
    [Reason::Allowed, Reason::Limited, Reason::Impossible, Reason::StoreUnavailable, Reason::Shadow, Reason::Banned];

fn index(reason: Reason) -> usize {
    REASONS.iter().position(|known| *known == reason).unwrap_or_default()
}

/// All metrics of a service.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    pub(crate) policies: PolicyMetrics,
    /// Requests that the service answered with an error. Only the connections of a transport count them.
    pub(crate) refused: PerTransport<Counter>,
    pub(crate) connections: PerTransport<Gauge>,
    pub(crate) rejected_connections: PerTransport<Counter>,
    pub(crate) rejected_by_address: PerTransport<Counter>,
    pub(crate) accept_errors: PerTransport<Counter>,
    pub(crate) wrong_tokens: PerTransport<Counter>,
    pub(crate) unread_bytes: PerTransport<Gauge>,
    pub(crate) closed_unread: PerTransport<Counter>,
    reloads: Family<Labels<1>, Counter>,
    last_reload_good: Gauge,
    /// Pages and terminals that watch the service.
    pub(crate) viewers: Gauge,
    task_restarts: Family<Labels<1>, Counter>,
    pub(crate) supplied: PolicyCounters,
    pub(crate) throttle: PolicyCounters,
    pub(crate) several: PolicyCounters,
    /// Requests that an Envoy rule or override denies without a policy.
    pub(crate) denied: Counter,
}

impl Metrics {
    pub(crate) fn new(store: FailSafe<AnyStore>, degraded: Arc<Degraded>) -> Self {
        let mut registry = Registry::with_prefix("tidegate");
        let build = vec![
            ("version", env!("CARGO_PKG_VERSION")),
            ("store", store.report().kind),
            ("arch", std::env::consts::ARCH),
        ];
        registry.register("build", "Version of the service, and the store that it uses", Info::new(build));
        let all = &mut registry;
        let help = "Allowed decisions with at least four fifths in use of the limit with the fewest units left";
        let policies = PolicyMetrics {
            decisions: registered(all, "decisions", "Decisions that spent or were denied"),
            near_limit: registered(all, "near_limit", help),
            durations: Arc::default(),
            holds: Arc::new(HoldMetrics::register(all)),
        };
        all.register_collector(Box::new(durations::DurationCollector(Arc::clone(&policies.durations))));
        all.register_collector(Box::new(StateCollector(store, degraded)));
        let denied = policies.decisions.get_or_create(&decision_labels(DENIED, Reason::Impossible)).clone();
        let metrics = Self {
            supplied: policies.of(SUPPLIED),
            throttle: policies.of(RESERVED_NAME),
            several: PolicyCounters { durations: policies.durations.of(SEVERAL), ..PolicyCounters::default() },
            denied,
            policies,
            refused: per_transport(all, "refused", "Requests that were malformed or not permitted"),
            connections: per_transport(all, "connections", "Open connections"),
            rejected_connections: per_transport(
                all,
                "connections_turned_away",
                "Connections closed at once because of max_connections",
            ),
            rejected_by_address: per_transport(
                all,
                "connections_turned_away_by_address",
                "Connections closed at once because of max_connections_per_address",
            ),
            accept_errors: per_transport(
                all,
                "accept_errors",
                "Connections that could not be accepted; usually no file descriptors are left",
            ),
            wrong_tokens: per_transport(all, "wrong_tokens", "Wrong tokens received"),
            unread_bytes: per_transport(all, "unread_response_bytes", "Memory of unread responses"),
            closed_unread: per_transport(
                all,
                "connections_closed_unread",
                "Connections closed because their responses were not read",
            ),
            reloads: registered(all, "reloads", "Reloads of the configuration"),
            last_reload_good: registered(
                all,
                "last_reload_good",
                "1 if the current configuration file is active, 0 if it was refused",
            ),
            viewers: registered(all, "viewers", "Pages and terminals that watch the service"),
            task_restarts: registered(all, "task_restarts", "Failed tasks of the service that were started again"),
            registry,
        };
        for result in ["good", "bad"] {
            drop(metrics.reloads.get_or_create(&[("result", result.into())]));
        }
        metrics.last_reload_good.set(1);
        metrics
    }

    /// Returns the counts of decisions without a configured policy.
    pub(crate) fn unconfigured(&self) -> [(&'static str, OutcomeCounts); 3] {
        let mut denied = OutcomeCounts::default();
        denied[index(Reason::Impossible)] = self.denied.get();
        [(SUPPLIED, self.supplied.counts()), (RESERVED_NAME, self.throttle.counts()), (DENIED, denied)]
    }

    /// Returns the number of connections so far that could not be accepted.
    pub(crate) fn accept_errors(&self) -> u64 {
        self.accept_errors.0.iter().map(Counter::get).sum()
    }

    pub(crate) fn reloaded(&self, good: bool) {
        self.reloads.get_or_create(&[("result", if good { "good" } else { "bad" }.into())]).inc();
        self.last_reload_good.set(good.into());
    }

    /// Returns the counter of restarts of a task.
    pub(crate) fn task_restarts(&self, task: &'static str) -> Counter {
        self.task_restarts.get_or_create(&[("task", task.into())]).clone()
    }

    /// Returns the text that Prometheus reads.
    pub(crate) fn text(&self, format: Exposition) -> String {
        let mut out = String::new();
        text::encode(&mut out, &self.registry).expect("writing to a string does not fail");
        format.of(out)
    }
}

/// Creates a metric and registers it.
fn registered<M: Metric + Default + Clone>(registry: &mut Registry, name: &str, help: &str) -> M {
    let metric = M::default();
    registry.register(name, help, metric.clone());
    metric
}

/// Creates a metric for each transport and registers it.
fn per_transport<M>(registry: &mut Registry, name: &str, help: &str) -> PerTransport<M>
where
    M: EncodeMetric + TypedMetric + Default + Clone + fmt::Debug + Send + Sync + 'static,
{
    let family: Family<Labels<1>, M> = registered(registry, name, help);
    let of = |transport: Transport| family.get_or_create(&[("transport", transport.name().into())]).clone();
    PerTransport(Transport::ALL.map(of))
}

fn policy_label(policy: &str) -> Labels<1> {
    [("policy", policy.to_owned().into())]
}

fn decision_labels(policy: &str, reason: Reason) -> Labels<2> {
    [("policy", policy.to_owned().into()), ("reason", reason.as_str().into())]
}

/// The metrics that have a label for the policy.
#[derive(Debug)]
pub(crate) struct PolicyMetrics {
    decisions: Family<Labels<2>, Counter>,
    near_limit: Family<Labels<1>, Counter>,
    durations: Arc<Durations>,
    holds: Arc<HoldMetrics>,
}

impl PolicyMetrics {
    /// Returns the counters of a policy. The same name always returns the same counters.
    pub(crate) fn of(&self, policy: &str) -> PolicyCounters {
        let decisions = |reason| self.decisions.get_or_create(&decision_labels(policy, reason)).clone();
        PolicyCounters {
            durations: self.durations.of(policy),
            reasons: REASONS.map(decisions),
            near_limit: self.near_limit.get_or_create(&policy_label(policy)).clone(),
            holds: LazyHoldCounters::new(policy, &self.holds),
        }
    }

    /// Removes a policy that is no longer configured.
    pub(crate) fn remove(&self, policy: &str) {
        for reason in REASONS {
            self.decisions.remove(&decision_labels(policy, reason));
        }
        self.near_limit.remove(&policy_label(policy));
        self.durations.remove(policy);
        self.holds.remove(policy);
    }

    /// Returns the durations of all decisions so far.
    pub(crate) fn durations(&self) -> DurationCounts {
        self.durations.total()
    }
}

/// The metrics that are read at each scrape: those of the store itself, degraded states, and log lines that were not written.
#[derive(Debug)]
struct StateCollector(FailSafe<AnyStore>, Arc<Degraded>);

impl Collector for StateCollector {
    fn encode(&self, mut out: DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Current degraded states by cause; 0 if there is none";
        let degraded = StoreMetric::labelled(MetricKind::Gauge, "degraded", help, "cause", self.1.by_cause());
        let help = "Log lines that were lost because they could not be written";
        let dropped = StoreMetric::counter("log_lines_dropped", help, LOG_LINES.dropped_so_far());
        let help = "Log lines that were suppressed because they repeat others";
        let suppressed = StoreMetric::counter("log_lines_suppressed", help, LOG_LINES.suppressed_so_far());
        let metrics = self.0.report().metrics.into_iter().chain([degraded, dropped, suppressed]);
        for StoreMetric { name, help, kind, label, values } in metrics {
            let (kind, encode): (_, fn(u64, MetricEncoder<'_>) -> fmt::Result) = match kind {
                MetricKind::Counter => (MetricType::Counter, |value, to| ConstCounter::new(value).encode(to)),
                _ => (MetricType::Gauge, |value, to| ConstGauge::new(value).encode(to)),
            };
            let mut family = out.encode_descriptor(name, help, None, kind)?;
            for (of, value) in values {
                if label.is_empty() {
                    encode(value, family)?;
                    break;
                }
                encode(value, family.encode_family(&[(label, of)])?)?;
            }
        }
        Ok(())
    }
}
