//! The state of the service in lines, for the screen and for scripts.

use tidegate_server::dashboard::{JournalLine, KeyLease, LeaseState, PolicySummary, StoreState};

use super::{
    numbers::{bytes, micros, per_second, rate, share, share_denied},
    snapshot::Snapshot,
};
use crate::{times, visible::visible};

/// Returns the service, its version and its uptime.
pub(crate) fn service(snapshot: &Snapshot, server: &str) -> String {
    let up = times::span(snapshot.now.now_ms.saturating_sub(snapshot.started_ms) / 1_000 * 1_000);
    let (version, server) = (visible(&snapshot.version), visible(server));
    format!("tidegate {version} at {server}, up {up} since {}", times::moment(snapshot.started_ms))
}

/// Returns the health of the store, its size and its servers.
pub(crate) fn store(store: &StoreState) -> String {
    let health = if store.answers { "healthy" } else { "DOES NOT ANSWER" };
    let mut parts = vec![format!("{} store: {health}", visible(&store.kind))];
    if let (Some(keys), Some(max_keys)) = (store.keys, store.max_keys) {
        parts.push(format!("{keys} of {max_keys} keys"));
    }
    if let (Some(used), Some(max)) = (store.bytes, store.max_bytes) {
        parts.push(format!("{} of {}", bytes(used), bytes(max)));
    }
    // Failed servers first, because the line may be cut.
    for (state, words) in [("open", "OPEN"), ("half_open", "half open"), ("closed", "closed")] {
        let nodes = store.nodes.iter().filter(|node| node.breaker == state).map(|node| visible(&node.node));
        let nodes = nodes.collect::<Vec<_>>().join(" ");
        if !nodes.is_empty() {
            parts.push(format!("breaker {words}: {nodes}"));
        }
    }
    parts.extend(store.leases.as_ref().map(leases));
    parts.join(", ")
}

/// Returns what this node decides by leases.
fn leases(leases: &LeaseState) -> String {
    let LeaseState { admitted, denied, asked, open, left, .. } = leases;
    let own = admitted.saturating_add(*denied);
    #[expect(clippy::cast_precision_loss, reason = "a share needs few digits")]
    let part = own as f64 / own.saturating_add(*asked).max(1) as f64;
    format!("leases: {open} open, {left} units left, {} of the requests decided by this node", share(part))
}

/// Headings of the table of leases.
pub(crate) const LEASE_HEADINGS: [&str; 6] = ["LEFT", "OF", "ENDS IN", "ADMITTED", "DENIED", "KEY"];

/// Returns the lease of a key as a row under [`LEASE_HEADINGS`].
pub(crate) fn lease(lease: &KeyLease) -> [String; 6] {
    [
        lease.left.to_string(),
        lease.units.to_string(),
        lease.ends_in_ms.map_or("-".to_owned(), times::span),
        lease.admitted.to_string(),
        lease.denied.to_string(),
        label(&lease.label.label),
    ]
}

/// Returns the label of a key, which is empty if the caller may not see keys.
pub(crate) fn label(label: &str) -> String {
    if label.is_empty() { "(hidden)".to_owned() } else { visible(label) }
}

/// Returns the decisions of the last seconds.
pub(crate) fn decisions(snapshot: &Snapshot) -> String {
    let last = &snapshot.now.last;
    format!(
        "{} decisions/s, {} denied, p50 {}, p99 {} (last {} s)",
        rate(last.per_second),
        share(last.denied_share),
        micros(last.p50_us),
        micros(last.p99_us),
        last.seconds
    )
}

/// Returns an event as a line.
pub(crate) fn line(line: &JournalLine) -> String {
    let by = line.by.as_ref().map_or(String::new(), |by| format!("by {}: ", visible(by)));
    format!("{} {by}{}", times::time_of_day(line.at_ms), visible(&line.text))
}

/// Headings of the table of policies.
pub(crate) const HEADINGS: [&str; 7] = ["POLICY", "MODE", "LIMITS", "ALLOWED/S", "DENIED/S", "SHADOW/S", "DENIED"];

/// Returns a policy as a row under [`HEADINGS`].
pub(crate) fn row(policy: &PolicySummary, snapshot: &Snapshot, between_limits: &str) -> [String; 7] {
    let (counts, seconds) = (policy.counts, snapshot.now.last.seconds);
    [
        visible(&policy.name),
        visible(policy.mode.as_deref().unwrap_or("-")),
        visible(&policy.limits.join(between_limits)),
        per_second(counts.allowed, seconds),
        per_second(counts.denied(), seconds),
        per_second(counts.shadow, seconds),
        share_denied(counts),
    ]
}
