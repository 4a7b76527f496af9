//! What is counted, for Prometheus. Every label's values are bounded: policies of the file, reasons, transports, kinds of
//! trouble, nodes of Redis.

mod durations;
mod exposition;

use std::{fmt, sync::Arc};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric, MetricEncoder, text},
    metrics::{
        MetricType,
        counter::{ConstCounter, Counter},
        family::Family,
        gauge::{ConstGauge, Gauge},
        info::Info,
    },
    registry::Registry,
};
use tidegate::{AnyStore, Decision, FailSafe, Metric, MetricKind, Reason};

use self::durations::Durations;
pub(crate) use self::exposition::Exposition;
use crate::{
    degraded::Degraded,
    insight::{Counts, Notable, Outcomes},
    log_lines::LOG_LINES,
};

/// What callers that bring limits of their own are counted under.
const BROUGHT: &str = "(limits)";

/// What rules and overrides of Envoy's that let nothing through are counted under.
const DENIED: &str = "(deny)";

/// The label for the duration of decisions over several policies.
const SEVERAL: &str = "(several)";

/// The ways in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "as the names say")]
pub enum Transport {
    Http,
    Resp,
    Grpc,
}

impl Transport {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Http, Self::Resp, Self::Grpc];

    /// Its name in metrics and logs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Resp => "resp",
            Self::Grpc => "grpc",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Verdict {
    policy: String,
    reason: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfPolicy {
    policy: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct By {
    transport: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Result {
    result: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfTask {
    task: &'static str,
}

/// The counters of one policy.
#[derive(Debug)]
pub(crate) struct Tally {
    reasons: [Counter; OUTCOMES],
    near_limit: Counter,
    durations: Arc<durations::OfPolicy>,
}

impl Tally {
    /// Counts how long a decision took.
    #[inline]
    pub(crate) fn took(&self, transport: Transport, nanos: u64) {
        self.durations[transport as usize].observe(nanos);
    }

    /// Counts a decision that spent or was refused; whether it is worth a note.
    #[inline]
    pub(crate) fn count(&self, decision: &Decision) -> Notable {
        self.reasons[place(decision.reason())].inc();
        let notable = Notable::of(decision);
        if notable == Notable::Near {
            self.near_limit.inc();
        }
        notable
    }

    /// What has been counted so far, in the order of [`REASONS`].
    pub(crate) fn counts(&self) -> Outcomes {
        std::array::from_fn(|place| self.reasons[place].get())
    }
}

/// How many outcomes there are.
pub(crate) const OUTCOMES: usize = 6;

/// The outcomes of a decision, in the order in which they are counted.
pub(crate) const REASONS: [Reason; OUTCOMES] =
    [Reason::Allowed, Reason::Limited, Reason::Impossible, Reason::StoreUnavailable, Reason::Shadow, Reason::Banned];

fn place(reason: Reason) -> usize {
    REASONS.iter().position(|known| *known == reason).unwrap_or_default()
}

/// All metrics of a service.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    decisions: Family<Verdict, Counter>,
    near_limit: Family<OfPolicy, Counter>,
    durations: Arc<Durations>,
    refused: [Counter; 3],
    connections: [Gauge; 3],
    turned_away: [Counter; 3],
    turned_away_by_address: [Counter; 3],
    accept_errors: [Counter; 3],
    wrong_tokens: [Counter; 3],
    unread: [Gauge; 3],
    closed_unread: [Counter; 3],
    reloads: Family<Result, Counter>,
    last_reload_good: Gauge,
    onlookers: Gauge,
    task_restarts: Family<OfTask, Counter>,
    pub(crate) brought: Tally,
    pub(crate) throttle: Tally,
    pub(crate) several: Tally,
    denied: Counter,
}

impl Metrics {
    pub(crate) fn new(store: FailSafe<AnyStore>, degraded: Arc<Degraded>) -> Self {
        let mut registry = Registry::with_prefix("tidegate");
        let build = vec![
            ("version", env!("CARGO_PKG_VERSION")),
            ("store", store.report().kind),
            ("arch", std::env::consts::ARCH),
        ];
        registry.register("build", "Version of the service, and which store it uses", Info::new(build));
        let decisions = Family::<Verdict, Counter>::default();
        let near_limit = Family::<OfPolicy, Counter>::default();
        registry.register("decisions", "Decisions that spent or were denied", decisions.clone());
        registry.register("near_limit", "Allowed, with four fifths of the limit in use or more", near_limit.clone());
        let durations = Arc::<Durations>::default();
        registry.register_collector(Box::new(durations::Collected(Arc::clone(&durations))));
        let refused = Family::<By, Counter>::default();
        registry.register("refused", "Requests that could not be understood or were not permitted", refused.clone());
        let connections = Family::<By, Gauge>::default();
        registry.register("connections", "Connections open now", connections.clone());
        let turned_away = Family::<By, Counter>::default();
        registry.register(
            "connections_turned_away",
            "Connections beyond the bound, closed at once",
            turned_away.clone(),
        );
        let turned_away_by_address = Family::<By, Counter>::default();
        registry.register(
            "connections_turned_away_by_address",
            "Connections beyond the bound for one address, closed at once",
            turned_away_by_address.clone(),
        );
        let accept_errors = Family::<By, Counter>::default();
        registry.register(
            "accept_errors",
            "Connections that could not be accepted; usually no file descriptors are left",
            accept_errors.clone(),
        );
        let wrong_tokens = Family::<By, Counter>::default();
        registry.register("wrong_tokens", "Wrong tokens received", wrong_tokens.clone());
        let unread = Family::<By, Gauge>::default();
        registry.register("unread_response_bytes", "Memory of unread responses", unread.clone());
        let closed_unread = Family::<By, Counter>::default();
        registry.register(
            "connections_closed_unread",
            "Connections closed because their responses were not read",
            closed_unread.clone(),
        );
        let reloads = Family::<Result, Counter>::default();
        registry.register("reloads", "Reloads of the configuration", reloads.clone());
        for result in ["good", "bad"] {
            drop(reloads.get_or_create(&Result { result }));
        }
        let last_reload_good = Gauge::default();
        last_reload_good.set(1);
        registry.register(
            "last_reload_good",
            "1 if the file as it is now is in force, 0 if it was refused",
            last_reload_good.clone(),
        );
        let onlookers = Gauge::default();
        registry.register("onlookers", "Pages and terminals that look on", onlookers.clone());
        let task_restarts = Family::<OfTask, Counter>::default();
        registry.register(
            "task_restarts",
            "Tasks of the service that failed and were started again",
            task_restarts.clone(),
        );
        registry.register_collector(Box::new(OfStore(store)));
        registry.register_collector(Box::new(OfState(degraded)));
        let denied = decisions.get_or_create(&verdict(DENIED, Reason::Impossible)).clone();
        let each = Transport::ALL.map(|transport| By { transport: transport.name() });
        Self {
            brought: tally(&decisions, &near_limit, &durations, BROUGHT),
            throttle: tally(&decisions, &near_limit, &durations, crate::config::RESERVED_NAME),
            several: Tally {
                reasons: std::array::from_fn(|_| Counter::default()),
                near_limit: Counter::default(),
                durations: durations.of(SEVERAL),
            },
            denied,
            durations,
            task_restarts,
            refused: each.clone().map(|by| refused.get_or_create(&by).clone()),
            connections: each.clone().map(|by| connections.get_or_create(&by).clone()),
            turned_away: each.clone().map(|by| turned_away.get_or_create(&by).clone()),
            accept_errors: each.clone().map(|by| accept_errors.get_or_create(&by).clone()),
            turned_away_by_address: each.clone().map(|by| turned_away_by_address.get_or_create(&by).clone()),
            wrong_tokens: each.clone().map(|by| wrong_tokens.get_or_create(&by).clone()),
            unread: each.clone().map(|by| unread.get_or_create(&by).clone()),
            closed_unread: each.map(|by| closed_unread.get_or_create(&by).clone()),
            registry,
            decisions,
            near_limit,
            reloads,
            last_reload_good,
            onlookers,
        }
    }

    /// The counters of a policy; the same ones whenever it is asked for by the same name.
    pub(crate) fn tally(&self, policy: &str) -> Tally {
        tally(&self.decisions, &self.near_limit, &self.durations, policy)
    }

    /// Forgets a policy that is no longer configured.
    pub(crate) fn forget(&self, policy: &str) {
        for reason in REASONS {
            self.decisions.remove(&verdict(policy, reason));
        }
        self.near_limit.remove(&OfPolicy { policy: policy.to_owned() });
        self.durations.forget(policy);
    }

    /// How long all decisions took so far.
    pub(crate) fn durations(&self) -> Counts {
        self.durations.total()
    }

    /// What is counted without a policy of the configuration.
    pub(crate) fn unconfigured(&self) -> [(&'static str, Outcomes); 3] {
        let mut denied = Outcomes::default();
        denied[place(Reason::Impossible)] = self.denied.get();
        [(BROUGHT, self.brought.counts()), (crate::config::RESERVED_NAME, self.throttle.counts()), (DENIED, denied)]
    }

    pub(crate) fn refused(&self, transport: Transport) {
        self.refused[transport as usize].inc();
    }

    /// Counts what is denied without a policy.
    pub(crate) fn denied(&self) {
        self.denied.inc();
    }

    pub(crate) fn connections(&self, transport: Transport) -> &Gauge {
        &self.connections[transport as usize]
    }

    pub(crate) fn accept_failed(&self, transport: Transport) {
        self.accept_errors[transport as usize].inc();
    }

    /// The number of connections so far that could not be accepted.
    pub(crate) fn accept_errors(&self) -> u64 {
        self.accept_errors.iter().map(Counter::get).sum()
    }

    pub(crate) fn turned_away(&self, transport: Transport) {
        self.turned_away[transport as usize].inc();
    }

    pub(crate) fn turned_away_by_address(&self, transport: Transport) {
        self.turned_away_by_address[transport as usize].inc();
    }

    pub(crate) fn wrong_token(&self, transport: Transport) {
        self.wrong_tokens[transport as usize].inc();
    }

    pub(crate) fn unread(&self, transport: Transport) -> &Gauge {
        &self.unread[transport as usize]
    }

    pub(crate) fn closed_unread(&self, transport: Transport, connections: u64) {
        self.closed_unread[transport as usize].inc_by(connections);
    }

    pub(crate) fn reloaded(&self, good: bool) {
        self.reloads.get_or_create(&Result { result: if good { "good" } else { "bad" } }).inc();
        self.last_reload_good.set(good.into());
    }

    /// How often a task failed and was started again.
    pub(crate) fn task_restarts(&self, task: &'static str) -> Counter {
        self.task_restarts.get_or_create(&OfTask { task }).clone()
    }

    /// The text that Prometheus reads, with how many look on.
    pub(crate) fn text(&self, format: Exposition, onlookers: usize) -> String {
        self.onlookers.set(i64::try_from(onlookers).unwrap_or(i64::MAX));
        let mut out = String::new();
        text::encode(&mut out, &self.registry).expect("writing to a string does not fail");
        format.of(out)
    }
}

fn verdict(policy: &str, reason: Reason) -> Verdict {
    Verdict { policy: policy.to_owned(), reason: reason.as_str() }
}

fn tally(
    decisions: &Family<Verdict, Counter>,
    near: &Family<OfPolicy, Counter>,
    durations: &Durations,
    policy: &str,
) -> Tally {
    Tally {
        durations: durations.of(policy),
        reasons: REASONS.map(|reason| decisions.get_or_create(&verdict(policy, reason)).clone()),
        near_limit: near.get_or_create(&OfPolicy { policy: policy.to_owned() }).clone(),
    }
}

/// Degraded states, and log lines that were lost or suppressed.
#[derive(Debug)]
struct OfState(Arc<Degraded>);

impl Collector for OfState {
    fn encode(&self, mut out: DescriptorEncoder<'_>) -> std::result::Result<(), fmt::Error> {
        let help = "Current degraded states by cause; 0 if there is none";
        labelled(&mut out, "degraded", help, "cause", MetricType::Gauge, self.0.by_cause())?;
        let dropped = LOG_LINES.dropped_so_far();
        counter(&mut out, "log_lines_dropped", "Log lines that were lost because they could not be written", dropped)?;
        let suppressed = LOG_LINES.suppressed_so_far();
        counter(
            &mut out,
            "log_lines_suppressed",
            "Log lines that were suppressed because they repeat others",
            suppressed,
        )
    }
}

/// What the store itself counts, read when it is asked for.
#[derive(Debug)]
struct OfStore(FailSafe<AnyStore>);

impl Collector for OfStore {
    fn encode(&self, mut out: DescriptorEncoder<'_>) -> std::result::Result<(), fmt::Error> {
        for Metric { name, help, kind, label, values } in self.0.report().metrics {
            let kind = match kind {
                MetricKind::Counter => MetricType::Counter,
                _ => MetricType::Gauge,
            };
            labelled(&mut out, name, help, label, kind, values)?;
        }
        Ok(())
    }
}

fn counter(out: &mut DescriptorEncoder<'_>, name: &str, help: &str, value: u64) -> fmt::Result {
    ConstCounter::new(value).encode(out.encode_descriptor(name, help, None, MetricType::Counter)?)
}

fn labelled<S: AsRef<str>>(
    out: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    label: &'static str,
    kind: MetricType,
    values: impl IntoIterator<Item = (S, u64)>,
) -> fmt::Result {
    let mut metric = out.encode_descriptor(name, help, None, kind)?;
    let encode = |value, encoder: MetricEncoder<'_>| match kind {
        MetricType::Counter => ConstCounter::new(value).encode(encoder),
        _ => ConstGauge::new(value).encode(encoder),
    };
    for (of, value) in values {
        if label.is_empty() {
            return encode(value, metric);
        }
        let labels = [(label, of.as_ref().to_owned())];
        encode(value, metric.encode_family(&labels)?)?;
    }
    Ok(())
}
