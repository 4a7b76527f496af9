//! What the store reports about itself, for metrics, readiness checks and the dashboard.

use tidegate::{Degradation, Metric, MetricKind, StoreNode, StoreReport, WithoutStore};

use crate::{breaker::BreakerState, error::Cause, router::CLUSTER, stats::Stats, store::RedisStore};

impl RedisStore {
    /// The degraded states that the store is in now; none if everything works. A state begins with the first request
    /// that is affected. It ends two seconds after the last one, once other requests have succeeded.
    pub fn degradations(&self) -> Vec<Degradation> {
        let router = &self.inner.router;
        let mut all = router.degraded_states.list(CLUSTER);
        for node in router.nodes() {
            all.extend(node.state.degraded_states.list(&node.state.name));
        }
        all
    }

    pub(crate) fn make_report(&self) -> StoreReport {
        let (stats, breakers, degradations) = (self.stats(), self.breakers(), self.degradations());
        let all_closed = !breakers.is_empty() && breakers.iter().all(|(_, state)| *state == BreakerState::Closed);
        let mut report = StoreReport::new("redis");
        report.answers = all_closed && degradations.iter().all(|state| state.cause == Cause::MayEvict.name());
        report.degradations = degradations;
        report.may_evict = Some(stats.may_evict);
        report.without_store = Some(WithoutStore {
            open: stats.degraded_open,
            closed: stats.degraded_closed,
            local: stats.degraded_local,
            remembered: stats.remembered,
        });
        report.errors = stats.errors.iter().map(|(cause, count)| (*cause, *count)).collect();
        report.metrics = metrics(stats, &breakers);
        report.nodes = breakers.into_iter().map(|(name, state)| StoreNode { name, breaker: state.name() }).collect();
        report
    }
}

fn metrics(stats: Stats, breakers: &[(String, BreakerState)]) -> Vec<Metric> {
    let choices = [
        ("open", stats.degraded_open),
        ("closed", stats.degraded_closed),
        ("local", stats.degraded_local),
        ("remembered", stats.remembered),
    ];
    let level = |(node, state): &(String, BreakerState)| (node.clone(), *state as u64);
    vec![
        Metric::gauge("store_may_evict", "1 if Redis may evict keys", stats.may_evict.into()),
        Metric::counter("store_calls", "Script calls sent to Redis", stats.calls),
        Metric::counter("store_batched", "Decisions sent in script calls", stats.batched),
        Metric::counter("store_breaker_opened", "Times that the breaker of a node opened", stats.breaker_opened),
        Metric::counter("store_grants", "Holds and leases that Redis granted", stats.grants),
        Metric::counter(
            "store_reservations_ended",
            "Holds and leases that ended by themselves",
            stats.reservations_ended,
        ),
        Metric::counter(
            "store_unknown_commits",
            "Commits, renewals and settles of reservations that were not open",
            stats.unknown_commits,
        ),
        Metric::counter("store_releases_dropped", "Dropped holds whose release was not sent", stats.releases_dropped),
        Metric::labelled(MetricKind::Counter, "degraded_decisions", "Decisions made without Redis", "choice", choices),
        Metric::degraded_answers(stats.errors),
        Metric::labelled(
            MetricKind::Gauge,
            "store_breaker",
            "State of a node's breaker: 0 closed, 1 half open, 2 open",
            "node",
            breakers.iter().map(level),
        ),
    ]
}
