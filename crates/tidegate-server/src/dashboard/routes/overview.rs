//! The state of the service, and its recent history.

use std::{cmp::Reverse, collections::BTreeMap, sync::Arc};

use axum::{
    Extension, Json,
    extract::{RawQuery, State},
    http::HeaderMap,
};
use tidegate::{StoreNode, WithoutStore};

use super::super::{
    CurrentState, DecisionHistory, DegradedDecisions, DeniedKey, HardestKey, JournalLine, KeysAre, LeaseState,
    NodeState, OutcomeTotals, Overview, PolicyHistory, PolicySecond, PolicySummary, RecentDecisions, SecondSummary,
    StoreErrorCount, StoreState,
    data::{Dashboard, JournalRecord, RECENT, RankedKey, SECONDS, Second},
};
use crate::{
    auth::Access,
    context::Context,
    metrics::{OUTCOMES, OutcomeCounts},
    service::{KeyVisibility, Service},
    transports::http::{
        Caller, Problem, openapi,
        query::{Query, wrong},
    },
};

/// Maximum number of listed policies.
const MAX_POLICIES: usize = 200;

/// Number of seconds of the history by default.
pub(super) const DEFAULT_SECONDS: usize = 300;

/// Returns the state of the service, and its recent history.
#[utoipa::path(
    get, path = "/v1/overview", tag = "dashboard",
    params(("seconds" = Option<u64>, Query, minimum = 1, maximum = 600, description = "Length of the history; 300 by default")),
    responses((status = 200, description = "The state of the service", body = Overview), openapi::Problems)
)]
pub(super) async fn overview(
    State(context): State<Arc<Context>>,
    Extension(dashboard): Extension<Arc<Dashboard>>,
    caller: Caller,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
) -> Result<Json<Overview>, Problem> {
    caller.require(&context, &headers, Access::Usage)?;
    let query = Query::parse(query.as_deref(), &["seconds"])?;
    let seconds = match query.only("seconds")? {
        None => DEFAULT_SECONDS,
        Some(text) => text
            .parse()
            .ok()
            .filter(|seconds| (1..=SECONDS).contains(seconds))
            .ok_or_else(|| wrong("seconds", format!("`seconds` must be a number from 1 to {SECONDS}")))?,
    };
    Ok(Json(Overview::new(&context.service, &dashboard, caller.visibility, seconds)))
}

impl Overview {
    pub(super) fn new(service: &Service, dashboard: &Dashboard, visibility: KeyVisibility, seconds: usize) -> Self {
        Self {
            started_ms: service.started_ms,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            now: CurrentState::new(service, dashboard, visibility),
            history: DecisionHistory::new(service, dashboard, seconds),
            journal: journal(service, dashboard, visibility, 0),
        }
    }
}

impl CurrentState {
    pub(super) fn new(service: &Service, dashboard: &Dashboard, visibility: KeyVisibility) -> Self {
        let (mut sums, durations, seconds) = {
            let history = dashboard.history.lock();
            (history.recent(), history.durations(), history.last(RECENT).count())
        };
        let active = service.active_policies();
        for name in &active.names {
            if sums.len() > 2 * MAX_POLICIES {
                break;
            }
            sums.entry(Arc::clone(name)).or_default();
        }
        let all =
            sums.values().fold(OutcomeCounts::default(), |sum, counts| std::array::from_fn(|i| sum[i] + counts[i]));
        let mut named: Vec<(Arc<str>, OutcomeCounts)> = sums.into_iter().collect();
        // The sort is stable: equal policies stay sorted by name.
        named.sort_by_key(|(_, counts)| {
            let totals = OutcomeTotals::new(*counts);
            Reverse((totals.denied(), totals.shadow, totals.all()))
        });
        named.truncate(MAX_POLICIES);
        let policy = |(name, counts): (Arc<str>, OutcomeCounts)| {
            let configured = active.policies.get(&name);
            PolicySummary {
                mode: configured.map(|configured| configured.policy.mode().to_string()),
                limits: configured
                    .map_or_else(Vec::new, |c| c.policy.limits().iter().map(ToString::to_string).collect()),
                name: name.to_string(),
                counts: OutcomeTotals::new(counts),
            }
        };
        Self {
            now_ms: service.now_ms(),
            configuration_error: service.refused_file(),
            degraded: service.check_degraded_states(),
            store: StoreState::new(service, visibility),
            last: RecentDecisions::new(seconds, all, micros(durations.quantile(0.5)), micros(durations.quantile(0.99))),
            policies: named.into_iter().map(policy).collect(),
            hardest: HardestKey::list(service, dashboard, visibility),
            hardest_seconds: service.now_s().saturating_sub(dashboard.recent_since()),
        }
    }
}

impl HardestKey {
    fn list(service: &Service, dashboard: &Dashboard, visibility: KeyVisibility) -> Vec<Self> {
        let active = service.active_policies();
        let key = |ranked: &RankedKey| {
            // A policy may have been removed since the last second.
            let configured = active.policies.get(&ranked.policy)?;
            Some(Self {
                policy: ranked.policy.to_string(),
                keys: KeysAre::new(configured, visibility),
                denied: DeniedKey::new(service, configured, &ranked.denied, visibility),
            })
        };
        dashboard.hardest().iter().filter_map(key).collect()
    }
}

impl RecentDecisions {
    #[expect(clippy::cast_precision_loss, reason = "shares and rates")]
    fn new(seconds: usize, all: OutcomeCounts, p50_us: Option<f64>, p99_us: Option<f64>) -> Self {
        let all = OutcomeTotals::new(all);
        let (decisions, denied) = (all.all(), all.denied());
        Self {
            seconds: u32::try_from(seconds).unwrap_or(u32::MAX),
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

impl StoreState {
    fn new(service: &Service, visibility: KeyVisibility) -> Self {
        let report = service.store_report();
        let usage = report.usage;
        let node = |StoreNode { name, breaker, .. }| NodeState { node: name, breaker: breaker.to_owned() };
        let error = |(kind, count): (&str, u64)| StoreErrorCount { kind: kind.to_owned(), count };
        let without_store = |WithoutStore { open, closed, local, .. }| DegradedDecisions { open, closed, local };
        Self {
            kind: report.kind.to_owned(),
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
            leases: report.leases.as_ref().and_then(|leases| LeaseState::new(service, leases, visibility)),
        }
    }
}

impl DecisionHistory {
    fn new(service: &Service, dashboard: &Dashboard, seconds: usize) -> Self {
        let history = dashboard.history.lock();
        let last = history.last(seconds);
        let length = last.clone().count();
        let mut policies = BTreeMap::<Arc<str>, [Vec<u32>; OUTCOMES]>::new();
        for (index, (name, counts)) in
            last.clone().enumerate().flat_map(|(i, second)| second.policies.iter().map(move |policy| (i, policy)))
        {
            let known = policies.entry(Arc::clone(name)).or_default();
            for (series, count) in known.iter_mut().zip(counts).filter(|(_, count)| **count > 0) {
                series.resize(length, 0);
                series[index] = *count;
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

impl SecondSummary {
    pub(super) fn latest(dashboard: &Dashboard) -> Option<Self> {
        let history = dashboard.history.lock();
        history.last(1).next().map(|Second { at, p50_ns, p99_ns, policies }| Self {
            at_ms: at * 1_000,
            p50_us: micros(*p50_ns),
            p99_us: micros(*p99_ns),
            policies: policies
                .iter()
                .map(|(name, counts)| PolicySecond {
                    name: name.to_string(),
                    counts: OutcomeTotals::new(counts.map(u64::from)),
                })
                .collect(),
        })
    }
}

/// Returns the events after this one.
pub(super) fn journal(
    service: &Service,
    dashboard: &Dashboard,
    visibility: KeyVisibility,
    after: u64,
) -> Vec<JournalLine> {
    let active = service.active_policies();
    let hides = |policy: &str| active.policies.get(policy).is_some_and(|configured| configured.hide_keys);
    let line = |record: &JournalRecord| JournalLine {
        id: record.id,
        at_ms: record.at_ms,
        kind: record.event.name().to_owned(),
        text: record.text(visibility, service.key_labeller(), hides),
        by: record.by.filter(|_| visibility == KeyVisibility::Visible).map(|address| address.to_string()),
    };
    dashboard.journal.after(after).iter().map(line).collect()
}
