//! Refunds negative hits: the oldest units first, and never more than are in use.
//!
//! A store refunds units at the time they were charged, so these times are read first. Reading and refunding are two steps:
//! units charged in between stay, and of two callers that refund the same units at the same time, one may refund nothing. The
//! refund never exceeds the request. A log lists only its newest thousand charges, so the oldest of the listed ones are
//! refunded. `gcra` has no dated units, and its refund goes to the newest charge. After a store failure the refund is not
//! retried: refunding twice would be worse than not at all.

use std::collections::BTreeMap;

use futures_util::{StreamExt as _, stream};
use tidegate::{Cost, InUse, Inspection, Timestamp};

use crate::service::{ActivePolicies, KeyRequest, Price, Service};

/// Maximum number of charges that one descriptor refunds.
const MAX_CHARGES: usize = 1000;

/// Maximum number of concurrent refunds.
const CONCURRENCY: usize = 64;

/// Refunds the cost of a request.
pub(super) async fn refund_oldest(service: &Service, active: &ActivePolicies, request: &KeyRequest<'_>) {
    let Price::Cost(cost) = request.price else { return };
    let inspection = match service.inspect(active, request).await {
        Ok(inspection) => inspection,
        Err(error) => return tracing::warn!(%error, "refund failed"),
    };
    let Some(inspection) = inspection else { return };
    let refunds = oldest_charges(&inspection, cost).into_iter().map(|(charged_at, cost)| {
        let request = KeyRequest { price: Price::Cost(cost), ..request.clone() };
        async move { service.refund(active, &request, charged_at).await }
    });
    let mut refunds = stream::iter(refunds).buffered(CONCURRENCY);
    while let Some(refund) = refunds.next().await {
        if let Err(error) = refund {
            return tracing::warn!(%error, "refund incomplete");
        }
    }
}

/// Returns the times of the oldest charges and the units to refund at each.
///
/// The shortest window comes first, because all limits count its units. Older units are refunded only for the remainder.
fn oldest_charges(inspection: &Inspection, cost: Cost) -> Vec<(Timestamp, Cost)> {
    let mut limits: Vec<&InUse> = inspection.limits.iter().collect();
    limits.sort_by_key(|in_use| in_use.limit.window());
    if limits.iter().all(|in_use| in_use.entries.is_empty()) {
        return vec![(inspection.newest_charge, cost)];
    }
    let mut left = cost.get();
    let mut taken: BTreeMap<Timestamp, u64> = BTreeMap::new();
    for entry in limits.iter().flat_map(|in_use| &in_use.entries) {
        // An entry of a shorter window may overlap this one.
        let before: u64 = taken.range(entry.first..=entry.last).map(|(_, units)| units).sum();
        let units = entry.units.saturating_sub(before).min(left);
        if units == 0 {
            continue;
        }
        *taken.entry(entry.last.min(inspection.newest_charge)).or_default() += units;
        left -= units;
        if left == 0 || taken.len() == MAX_CHARGES {
            break;
        }
    }
    taken.into_iter().filter_map(|(at, units)| Some((at, Cost::new(units).ok()?))).collect()
}

#[cfg(test)]
mod tests {
    use tidegate::{
        Entry, Limit, Policy,
        external_store::{LimitInspection, inspection},
    };

    use super::*;

    fn in_use(limit: &str, entries: &[(u64, u64, u64)]) -> (Limit, LimitInspection) {
        let at = Timestamp::from_micros;
        let inspected = LimitInspection {
            used: entries.iter().map(|(_, _, units)| units).sum(),
            reset_after_us: 0,
            next_free_after_us: 0,
            entries: entries.iter().map(|(first, last, units)| Entry::new(at(*first), at(*last), *units)).collect(),
            unlisted: 0,
        };
        (limit.parse().expect("a valid limit"), inspected)
    }

    fn plan(limits: Vec<(Limit, LimitInspection)>, newest: u64, units: u64) -> Vec<(u64, u64)> {
        let (limits, inspected): (Vec<_>, Vec<_>) = limits.into_iter().unzip();
        let policy = Policy::new("test", limits).expect("a valid policy");
        let inspection = inspection(&policy, Timestamp::from_micros(newest), inspected);
        let charges = oldest_charges(&inspection, Cost::new(units).expect("a valid cost"));
        charges.into_iter().map(|(at, cost)| (at.as_micros(), cost.get())).collect()
    }

    #[test]
    fn units_that_all_limits_count_are_refunded_before_older_units() {
        let limits = || {
            vec![in_use("20/1d", &[(10, 10, 3), (90, 90, 2), (95, 95, 2)]), in_use("5/1m", &[(90, 90, 2), (95, 95, 2)])]
        };
        assert_eq!(plan(limits(), 95, 3), [(90, 2), (95, 1)]);
        assert_eq!(plan(limits(), 95, 6), [(10, 2), (90, 2), (95, 2)], "the remainder is older");
        assert_eq!(plan(limits(), 95, 100), [(10, 3), (90, 2), (95, 2)], "never more than is in use");
    }

    #[test]
    fn a_slot_is_refunded_no_later_than_the_newest_charge() {
        assert_eq!(plan(vec![in_use("5/1m", &[(0, 59, 2), (60, 119, 4)])], 70, 5), [(59, 2), (70, 3)]);
    }

    #[test]
    fn undated_units_are_refunded_at_the_newest_charge() {
        assert_eq!(plan(vec![in_use("5/1m", &[])], 70, 5), [(70, 5)]);
    }
}
