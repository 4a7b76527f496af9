//! The keys with the most recent denials over all policies.

use std::{cmp::Reverse, sync::Arc};

use tidegate::Reason;

use super::{Dashboard, Hits, hits::DeniedCount};

/// Maximum number of keys.
const MAX_KEYS: usize = 10;

/// Maximum number of policies that are read: those with the most denials.
const MAX_POLICIES: usize = 200;

/// A key with many recent denials, and its policy.
#[derive(Debug, Clone)]
pub(crate) struct RankedKey {
    pub(crate) policy: Arc<str>,
    pub(crate) denied: DeniedCount,
}

impl Dashboard {
    /// Returns the keys with the most recent denials over all policies, in descending order. Would-be denials of shadow policies do not
    /// count. All viewers share the list of a second.
    pub(crate) fn hardest(&self) -> Arc<Vec<RankedKey>> {
        let second = *self.ticks.borrow();
        let mut cached = self.hardest.lock();
        if cached.0 != Some(second) {
            let hits = self.hits.lock().iter().map(|(name, hits)| (Arc::clone(name), Arc::clone(hits))).collect();
            *cached = (Some(second), Arc::new(rank(hits)));
        }
        Arc::clone(&cached.1)
    }
}

fn rank(policies: Vec<(Arc<str>, Arc<Hits>)>) -> Vec<RankedKey> {
    let mut policies: Vec<_> =
        policies.into_iter().map(|(name, hits)| (hits.denials(), name, hits)).filter(|(all, ..)| *all > 0).collect();
    policies.sort_by(|a, b| Reverse(a.0).cmp(&Reverse(b.0)).then_with(|| a.1.cmp(&b.1)));
    policies.truncate(MAX_POLICIES);
    let mut hardest = Vec::<RankedKey>::new();
    for (all, policy, hits) in policies {
        // No key was denied more often than all keys of its policy.
        if hardest.get(MAX_KEYS - 1).is_some_and(|last| last.denied.recent >= all) {
            break;
        }
        let now = hits.most_denied_now(MAX_KEYS).into_iter();
        let is_denied = |denied: &DeniedCount| {
            denied.recent > 0 && denied.cause.is_some_and(|cause| cause.reason != Reason::Shadow)
        };
        hardest.extend(now.filter(is_denied).map(|denied| RankedKey { policy: Arc::clone(&policy), denied }));
        // The sort is stable: among equals, the policy with more denials comes first.
        hardest.sort_by_key(|key| Reverse(key.denied.recent));
        hardest.truncate(MAX_KEYS);
    }
    hardest
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tidegate::{Cost, Key, Limiter, MemoryStore, Mode, Policy};

    use super::{MAX_KEYS, rank};
    use crate::{
        dashboard::data::{Dashboard, Hits},
        metrics::{DecisionClass, DurationCounts},
        service::{Observer as _, PolicyObserver as _},
    };

    /// Denies each key `times` as often as its number.
    fn denied(name: &str, mode: Mode, times: impl IntoIterator<Item = u32>) -> (Arc<str>, Arc<Hits>) {
        let limiter = Limiter::new(MemoryStore::builder().max_keys(16).build().expect("a valid store"));
        let policy = Policy::new(name, ["1/1h".parse().expect("a limit")]).expect("a policy").with_mode(mode);
        let denial = limiter.check(&policy, &Key::new("x").expect("a key"), Cost::new(2).expect("a cost"));
        let hits = Arc::new(Hits::new(&Arc::default()));
        for times in times {
            let text = format!("{name} {times}");
            let key = Key::new(&text).expect("a key");
            (0..times).for_each(|_| hits.decided(DecisionClass::Denied, &key, &denial));
        }
        (name.into(), hits)
    }

    #[test]
    fn the_hardest_keys_of_all_policies_are_ranked_together_without_shadow_policies() {
        let all = vec![
            denied("few", Mode::Enforce, [2, 9]),
            denied("shadow", Mode::Shadow, [100]),
            denied("many", Mode::Enforce, [3, 4, 5, 6, 7, 8, 1]),
            denied("quiet", Mode::Enforce, []),
            denied("some", Mode::Enforce, [2, 1]),
        ];
        let hardest = rank(all);
        let counts: Vec<_> = hardest.iter().map(|key| (&*key.policy, key.denied.recent)).collect();
        assert_eq!(counts[..3], [("few", 9), ("many", 8), ("many", 7)]);
        assert_eq!(counts.len(), MAX_KEYS);
        assert_eq!(counts[MAX_KEYS - 1], ("many", 1), "among equals, the policy with more denials comes first");
    }

    #[test]
    fn viewers_share_the_list_of_a_second() {
        let dashboard = Dashboard::new(100);
        let (name, hits) = denied("api", Mode::Enforce, [1]);
        assert!(dashboard.hardest().is_empty());
        dashboard.hits.lock().insert(name, hits);
        assert!(dashboard.hardest().is_empty(), "the list of this second");
        dashboard.second_ended(101, Vec::new(), &DurationCounts::default());
        assert_eq!(dashboard.hardest().len(), 1);
    }
}
