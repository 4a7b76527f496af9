//! How the service is, and how it was in the last minutes.

use std::{collections::BTreeMap, sync::Arc};

use axum::{
    Json,
    extract::{RawQuery, State},
    http::{HeaderMap, StatusCode},
};
use serde::Serialize;
use tidegate::Reason;
use tidegate::{StoreNode, StoreReport, WithoutStore};
use utoipa::ToSchema;

use super::super::{guest::Guest, problem::Problem, query};
use crate::{
    access::Access,
    degraded::State as DegradedState,
    door::House,
    insight::{Eyes, LATELY, Line, Outcomes, SECONDS, Second},
    metrics::{OUTCOMES, REASONS},
    service::Service,
};

/// The most policies that are listed: those that decided most lately, then by name.
const LISTED: usize = 200;

/// How the service is, and how it was.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Overview {
    /// When the service started, in milliseconds since the epoch.
    started_ms: u64,
    /// Its version.
    version: &'static str,
    #[serde(flatten)]
    now: Now,
    /// The last seconds.
    history: ShownHistory,
    /// What happened, oldest first; the newest 200 lines.
    journal: Vec<ShownLine>,
}

/// How the service is.
#[derive(Debug, Serialize, ToSchema)]
#[expect(clippy::struct_field_names, reason = "the names of the fields are those of the JSON")]
pub(crate) struct Now {
    /// The time, in milliseconds since the epoch.
    now_ms: u64,
    /// What was wrong with the file at the last reload; null if it is in force.
    configuration_error: Option<String>,
    /// Current degraded states.
    degraded: Vec<DegradedState>,
    /// Where the state lives.
    store: ShownStore,
    /// The last ten seconds, all policies together.
    last: Lately,
    /// The same by policy; at most 200, those that decided most.
    policies: Vec<PolicyLately>,
}

/// Where the state lives, and how it is.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ShownStore {
    /// `memory` or `redis`.
    kind: &'static str,
    /// Whether it answers. If not, policies say what is decided.
    answers: bool,
    /// Keys that have a state, in memory.
    keys: Option<usize>,
    /// The most that may have.
    max_keys: Option<usize>,
    /// Bytes held for states, in memory.
    bytes: Option<usize>,
    /// The most that may be.
    max_bytes: Option<usize>,
    /// States forgotten because their time had passed.
    evicted: Option<u64>,
    /// Requests of keys that there was no room for.
    no_room: Option<u64>,
    /// Servers of Redis.
    nodes: Vec<ShownNode>,
    /// Whether Redis may evict keys, and with them what was counted.
    may_evict: Option<bool>,
    /// Decisions made without Redis, by the choice for that case.
    degraded: Option<Degraded>,
    /// Requests that Redis did not answer.
    errors: Vec<ShownTrouble>,
}

/// A server of Redis.
#[derive(Debug, Serialize, ToSchema)]
struct ShownNode {
    /// Its address.
    node: String,
    /// `closed`: it is asked. `open`: it did not answer and is left alone. `half_open`: it is tried.
    breaker: &'static str,
}

/// Decisions made without Redis.
#[derive(Debug, Serialize, ToSchema)]
struct Degraded {
    /// Let through.
    open: u64,
    /// Denied.
    closed: u64,
    /// Decided here, by a share of the limit.
    local: u64,
}

/// Requests that Redis did not answer.
#[derive(Debug, Serialize, ToSchema)]
struct ShownTrouble {
    /// What was wrong.
    kind: &'static str,
    /// How often.
    count: u64,
}

/// What was decided lately.
#[derive(Debug, Serialize, ToSchema)]
struct Lately {
    /// Over how many seconds.
    seconds: usize,
    /// How many decisions.
    decisions: u64,
    /// How many a second.
    per_second: f64,
    /// How many of them denied: limited, impossible, banned, or closed because the store failed.
    denied: u64,
    /// Their share, 0 to 1.
    denied_share: f64,
    /// Half of the decisions took no longer; at most a quarter too high, between 1 µs and 0.27 s.
    p50_us: Option<f64>,
    /// Of a hundred decisions 99 took no longer.
    p99_us: Option<f64>,
}

/// Decisions by outcome.
#[derive(Debug, Serialize, ToSchema)]
struct PolicyLately {
    /// The policy; `(limits)` where callers brought their own.
    name: String,
    /// `enforce` or `shadow`; null for what is no policy of the configuration.
    mode: Option<&'static str>,
    /// Its limits.
    limits: Vec<String>,
    allowed: u64,
    limited: u64,
    impossible: u64,
    store_unavailable: u64,
    /// Let through, and would have been denied.
    shadow: u64,
    banned: u64,
}

/// The last seconds, one number for each.
#[derive(Debug, Serialize, ToSchema)]
struct ShownHistory {
    /// The first second, in milliseconds since the epoch.
    from_ms: u64,
    /// How long each is.
    step_ms: u64,
    p50_us: Vec<Option<f64>>,
    p99_us: Vec<Option<f64>>,
    policies: Vec<PolicyHistory>,
}

/// Decisions of one policy in each second; an outcome that there was none of is left out.
#[derive(Debug, Serialize, ToSchema)]
struct PolicyHistory {
    name: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    allowed: Vec<u32>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    limited: Vec<u32>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    impossible: Vec<u32>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    store_unavailable: Vec<u32>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    shadow: Vec<u32>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    banned: Vec<u32>,
}

/// One second.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Point {
    /// Its beginning, in milliseconds since the epoch.
    at_ms: u64,
    p50_us: Option<f64>,
    p99_us: Option<f64>,
    /// Policies that decided anything in it.
    policies: Vec<PolicyPoint>,
}

/// Decisions of one policy in one second.
#[derive(Debug, Serialize, ToSchema)]
struct PolicyPoint {
    name: String,
    #[serde(skip_serializing_if = "is_none")]
    allowed: u32,
    #[serde(skip_serializing_if = "is_none")]
    limited: u32,
    #[serde(skip_serializing_if = "is_none")]
    impossible: u32,
    #[serde(skip_serializing_if = "is_none")]
    store_unavailable: u32,
    #[serde(skip_serializing_if = "is_none")]
    shadow: u32,
    #[serde(skip_serializing_if = "is_none")]
    banned: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_none(count: &u32) -> bool {
    *count == 0
}

/// Something that happened.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ShownLine {
    /// Later lines have larger ones.
    pub(super) id: u64,
    /// When, in milliseconds since the epoch.
    at_ms: u64,
    /// `started`, `reload`, `reload_refused`, `store_lost`, `store_back`, `no_room`, `degraded`, `recovered`; and what
    /// people did: `reset`, `override`, `lift`.
    kind: &'static str,
    /// In words.
    text: String,
    /// From where it was done; null to those who may not see keys.
    by: Option<String>,
}

/// How the service is, and how it was in the last minutes.
#[utoipa::path(
    get, path = "/v1/overview", tag = "dashboard",
    params(("seconds" = Option<u64>, Query, minimum = 1, maximum = 600, description = "How much of the past; 300 if unsaid")),
    responses((status = 200, description = "How the service is", body = Overview), super::super::openapi::Problems)
)]
pub(crate) async fn overview(
    State(house): State<Arc<House>>,
    guest: Guest,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
) -> Result<Json<Overview>, Problem> {
    guest.needs(&house, &headers, Access::Usage)?;
    let query = query::read(query.as_deref().unwrap_or(""), &["seconds"])?;
    let seconds = match query.only("seconds")? {
        None => PAST,
        Some(text) => text.parse().ok().filter(|seconds| (1..=SECONDS).contains(seconds)).ok_or_else(|| {
            Problem::new(StatusCode::BAD_REQUEST, "seconds", format!("`seconds` is a number from 1 to {SECONDS}"))
        })?,
    };
    Ok(Json(Overview::new(&house.service, guest.eyes, seconds)))
}

/// How many seconds of the past are shown unless it is said.
pub(super) const PAST: usize = 300;

impl Overview {
    pub(super) fn new(service: &Service, eyes: Eyes, seconds: usize) -> Self {
        let uptime_ms = u64::try_from(service.uptime().as_millis()).unwrap_or(0);
        Self {
            started_ms: service.now_ms().saturating_sub(uptime_ms),
            version: env!("CARGO_PKG_VERSION"),
            now: Now::new(service),
            history: ShownHistory::new(service, seconds),
            journal: journal(service, eyes, 0),
        }
    }

    /// The last line of the journal that it tells.
    pub(super) fn last_line(&self) -> u64 {
        self.journal.last().map_or(0, |line| line.id)
    }
}

impl Now {
    pub(super) fn new(service: &Service) -> Self {
        let (sums, durations, seconds) = {
            let history = service.insight().history.lock();
            (history.lately(), history.durations(), history.last(LATELY).count())
        };
        let live = service.live();
        let mut named: Vec<(Arc<str>, Outcomes)> = sums.into_iter().collect();
        for name in live.names() {
            if !named.iter().any(|(known, _)| known == name) {
                named.push((Arc::clone(name), Outcomes::default()));
            }
            if named.len() > 2 * LISTED {
                break;
            }
        }
        let decided = |counts: &Outcomes| counts.iter().sum::<u64>();
        let all =
            named.iter().fold(Outcomes::default(), |sum, (_, counts)| std::array::from_fn(|i| sum[i] + counts[i]));
        named.sort_by(|a, b| decided(&b.1).cmp(&decided(&a.1)).then_with(|| a.0.cmp(&b.0)));
        named.truncate(LISTED);
        named.sort_by(|a, b| a.0.cmp(&b.0));
        let policy = |(name, counts): (Arc<str>, Outcomes)| {
            let configured = live.policies.get(&name);
            let [allowed, limited, impossible, store_unavailable, shadow, banned] = counts;
            PolicyLately {
                mode: configured.map(|configured| configured.policy.mode().as_str()),
                limits: configured
                    .map_or_else(Vec::new, |c| c.policy.limits().iter().map(ToString::to_string).collect()),
                name: name.to_string(),
                allowed,
                limited,
                impossible,
                store_unavailable,
                shadow,
                banned,
            }
        };
        Self {
            now_ms: service.now_ms(),
            configuration_error: service.refused_file(),
            degraded: service.look_for_degraded_states(),
            store: ShownStore::new(service.store_report()),
            last: Lately::new(seconds, &all, micros(durations.quantile(0.5)), micros(durations.quantile(0.99))),
            policies: named.into_iter().map(policy).collect(),
        }
    }
}

impl Lately {
    #[expect(clippy::cast_precision_loss, reason = "shares and rates")]
    fn new(seconds: usize, all: &Outcomes, p50_us: Option<f64>, p99_us: Option<f64>) -> Self {
        let decisions: u64 = all.iter().sum();
        let denied = REASONS.iter().zip(all).filter(|(reason, _)| !matches!(reason, Reason::Allowed | Reason::Shadow));
        let denied: u64 = denied.map(|(_, count)| count).sum();
        Self {
            seconds,
            decisions,
            per_second: decisions as f64 / seconds.max(1) as f64,
            denied,
            denied_share: denied as f64 / decisions.max(1) as f64,
            p50_us,
            p99_us,
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "durations below a second")]
fn micros(nanos: Option<u64>) -> Option<f64> {
    nanos.map(|nanos| nanos as f64 / 1e3)
}

impl ShownStore {
    fn new(report: StoreReport) -> Self {
        let node = |StoreNode { name, breaker }| ShownNode { node: name, breaker };
        let error = |(kind, count)| ShownTrouble { kind, count };
        let usage = report.usage;
        let without_store = |WithoutStore { open, closed, local, .. }| Degraded { open, closed, local };
        Self {
            kind: report.kind,
            answers: report.answers,
            keys: usage.map(|usage| usage.keys),
            max_keys: usage.map(|usage| usage.max_keys),
            bytes: usage.map(|usage| usage.bytes),
            max_bytes: usage.map(|usage| usage.max_bytes),
            evicted: usage.map(|usage| usage.evicted),
            no_room: usage.map(|usage| usage.no_room),
            nodes: report.nodes.into_iter().map(node).collect(),
            may_evict: report.may_evict,
            degraded: report.without_store.map(without_store),
            errors: report.errors.into_iter().map(error).collect(),
        }
    }
}

impl ShownHistory {
    fn new(service: &Service, seconds: usize) -> Self {
        let history = service.insight().history.lock();
        let last = history.last(seconds);
        let length = last.clone().count();
        let mut policies = BTreeMap::<Arc<str>, [Vec<u32>; OUTCOMES]>::new();
        for (place, (name, counts)) in
            last.clone().enumerate().flat_map(|(i, second)| second.policies.iter().map(move |policy| (i, policy)))
        {
            let known = policies.entry(Arc::clone(name)).or_default();
            for (series, count) in known.iter_mut().zip(counts).filter(|(_, count)| **count > 0) {
                series.resize(length, 0);
                series[place] = *count;
            }
        }
        let policy = |(name, series): (Arc<str>, [Vec<u32>; OUTCOMES])| {
            let [allowed, limited, impossible, store_unavailable, shadow, banned] = series;
            PolicyHistory { name: name.to_string(), allowed, limited, impossible, store_unavailable, shadow, banned }
        };
        Self {
            from_ms: last.clone().next().map_or_else(|| service.now_ms(), |second| second.at * 1_000),
            step_ms: 1_000,
            p50_us: last.clone().map(|second| micros(second.p50_ns)).collect(),
            p99_us: last.clone().map(|second| micros(second.p99_ns)).collect(),
            policies: policies.into_iter().map(policy).collect(),
        }
    }
}

impl Point {
    pub(super) fn latest(service: &Service) -> Option<Self> {
        let history = service.insight().history.lock();
        history.last(1).next().map(|Second { at, p50_ns, p99_ns, policies }| Self {
            at_ms: at * 1_000,
            p50_us: micros(*p50_ns),
            p99_us: micros(*p99_ns),
            policies: policies
                .iter()
                .map(|(name, [allowed, limited, impossible, store_unavailable, shadow, banned])| PolicyPoint {
                    name: name.to_string(),
                    allowed: *allowed,
                    limited: *limited,
                    impossible: *impossible,
                    store_unavailable: *store_unavailable,
                    shadow: *shadow,
                    banned: *banned,
                })
                .collect(),
        })
    }
}

/// The lines after this one.
pub(super) fn journal(service: &Service, eyes: Eyes, after: u64) -> Vec<ShownLine> {
    let (insight, live) = (service.insight(), service.live());
    let hides = |policy: &str| live.policies.get(policy).is_some_and(|configured| configured.hide_keys);
    let shown = |line: &Line| ShownLine {
        id: line.id,
        at_ms: line.at_ms,
        kind: line.event.name(),
        text: line.text(eyes, &insight.labeller, hides),
        by: line.by.filter(|_| eyes == Eyes::Open).map(|address| address.to_string()),
    };
    insight.journal.after(after).iter().map(shown).collect()
}
