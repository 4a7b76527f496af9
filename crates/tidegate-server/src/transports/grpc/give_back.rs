//! What negative hits come to: the oldest units are given back, so that every limit has so many less in use, or none.
//!
//! A store gives units back to the moment they were charged at, so their moments are looked up first. The two steps are not
//! one: what is charged in between stays, and of two callers who give back the same units at the same time, one may give back
//! nothing. Never is more given back than was asked for. A log lists its newest thousand moments, so of a longer one the
//! oldest that are listed go. Under `gcra` nothing is dated; units are given back to the newest charge. If the store fails,
//! nothing is given back, and it is not tried again: twice would be worse than never.

use std::collections::BTreeMap;

use futures_util::{StreamExt as _, stream};
use tidegate::{Cost, InUse, Inspection, Timestamp};

use crate::service::{Ask, Live, Price, Service};

/// The most moments that units are given back to by one descriptor.
const MAX_MOMENTS: usize = 1000;

/// How many are on their way to the store at once.
const AT_ONCE: usize = 64;

/// Gives back what an ask says.
pub(super) async fn give_back(service: &Service, live: &Live, ask: &Ask<'_>) {
    let Price::Cost(cost) = ask.price else { return };
    let found = match service.inspect(live, ask).await {
        Ok(found) => found,
        Err(error) => return tracing::warn!(%error, "hits were not given back"),
    };
    let Some(found) = found else { return };
    let refunds = oldest(&found, cost).into_iter().map(|(charged_at, cost)| {
        let ask = Ask { price: Price::Cost(cost), ..ask.clone() };
        async move { service.refund(live, &ask, charged_at).await }
    });
    let mut refunds = stream::iter(refunds).buffered(AT_ONCE);
    while let Some(refund) = refunds.next().await {
        if let Err(error) = refund {
            return tracing::warn!(%error, "hits were not all given back");
        }
    }
}

/// When the oldest units were charged, and how many at each of these moments.
///
/// The shortest window first: all limits count what it counts. Only what is still missing then comes from before it.
fn oldest(found: &Inspection, cost: Cost) -> Vec<(Timestamp, Cost)> {
    let mut limits: Vec<&InUse> = found.limits.iter().collect();
    limits.sort_by_key(|in_use| in_use.limit.window());
    if limits.iter().all(|in_use| in_use.entries.is_empty()) {
        return vec![(found.newest_charge, cost)];
    }
    let mut left = cost.get();
    let mut taken: BTreeMap<Timestamp, u64> = BTreeMap::new();
    for entry in limits.iter().flat_map(|in_use| &in_use.entries) {
        // One of a shorter window may have been the same, or a part of it.
        let before: u64 = taken.range(entry.first..=entry.last).map(|(_, units)| units).sum();
        let units = entry.units.saturating_sub(before).min(left);
        if units == 0 {
            continue;
        }
        *taken.entry(entry.last.min(found.newest_charge)).or_default() += units;
        left -= units;
        if left == 0 || taken.len() == MAX_MOMENTS {
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
        (limit.parse().expect("it is a limit"), inspected)
    }

    fn planned(limits: Vec<(Limit, LimitInspection)>, newest: u64, units: u64) -> Vec<(u64, u64)> {
        let (limits, inspected): (Vec<_>, Vec<_>) = limits.into_iter().unzip();
        let policy = Policy::new("test", limits).expect("it is a policy");
        let found = inspection(&policy, Timestamp::from_micros(newest), inspected);
        let plan = oldest(&found, Cost::new(units).expect("it is a cost"));
        plan.into_iter().map(|(at, cost)| (at.as_micros(), cost.get())).collect()
    }

    #[test]
    fn what_all_limits_count_goes_before_what_only_the_longer_ones_do() {
        let limits = || {
            vec![in_use("20/1d", &[(10, 10, 3), (90, 90, 2), (95, 95, 2)]), in_use("5/1m", &[(90, 90, 2), (95, 95, 2)])]
        };
        assert_eq!(planned(limits(), 95, 3), [(90, 2), (95, 1)]);
        assert_eq!(planned(limits(), 95, 6), [(10, 2), (90, 2), (95, 2)], "and the rest from before");
        assert_eq!(planned(limits(), 95, 100), [(10, 3), (90, 2), (95, 2)], "never more than is there");
    }

    #[test]
    fn units_of_a_slot_are_given_back_no_later_than_the_newest_charge() {
        assert_eq!(planned(vec![in_use("5/1m", &[(0, 59, 2), (60, 119, 4)])], 70, 5), [(59, 2), (70, 3)]);
    }

    #[test]
    fn units_without_a_date_are_given_back_to_the_newest_charge() {
        assert_eq!(planned(vec![in_use("5/1m", &[])], 70, 5), [(70, 5)]);
    }
}
