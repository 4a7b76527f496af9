//! [`Pauses`]: keys that have to wait because a server requested it.
//!
//! In this process, a pause is a time of tokio's clock. Other processes learn of it through the shared store: the pause
//! is a debt in microseconds under a separate policy, which is part of every decision on the key.

use std::{collections::HashMap, time::Duration};

use parking_lot::Mutex;
use tidegate::{Algorithm, Burst, Cost, FailSafe, Key, Limit, Op, Policy, Reason, ReservationBounds, Store};
use tokio::time::Instant;

use super::reservation::{OwnedSpend, charge};

/// The longest pause: 10^12 microseconds, the maximum cost.
pub(crate) const MAX_PAUSE: Duration = Duration::from_secs(1_000_000);

/// The maximum number of attempts to share a pause while other processes extend it.
const MAX_ATTEMPTS: usize = 16;

#[derive(Debug, Default)]
pub(crate) struct Pauses {
    ends: Mutex<PauseEnds>,
}

#[derive(Debug, Default)]
struct PauseEnds {
    by_key: HashMap<Key<'static>, Instant>,
    /// The number of pauses at which the ended ones are removed.
    sweep_at: usize,
}

impl Pauses {
    /// Pauses a key for at least `wait`. A pause is never shortened.
    pub(crate) fn pause(&self, key: &Key<'_>, wait: Duration) {
        let now = Instant::now();
        let mut ends = self.ends.lock();
        if ends.by_key.len() >= ends.sweep_at {
            ends.by_key.retain(|_, end| *end > now);
            ends.sweep_at = (ends.by_key.len() * 2).max(64);
        }
        let end = ends.by_key.entry(key.clone().into_owned()).or_insert(now);
        *end = (*end).max(now + wait.min(MAX_PAUSE));
    }

    /// The rest of a key's pause.
    pub(crate) fn remaining(&self, key: &Key<'_>) -> Option<Duration> {
        let end = *self.ends.lock().by_key.get(key)?;
        let remaining = end.saturating_duration_since(Instant::now());
        (!remaining.is_zero()).then_some(remaining)
    }
}

/// The policy of a shared pause: a debt in microseconds. Calls are admitted when it is paid off.
pub(crate) fn policy(of: &Policy) -> Policy {
    let name = of.name().unwrap_or("unnamed");
    let name = format!("pause.{}", &name[..name.len().min(120)]);
    let policy = || {
        let limit = Limit::new(1_000_000, Duration::from_secs(1)).ok()?;
        // A hold of a call has a part for the pause, so the pause allows every hold.
        let bounds = ReservationBounds::default().with_max_hold(Duration::from_secs(24 * 3600)).ok()?;
        let bounds = bounds.with_max_reservations(10_000).ok()?;
        let policy = Policy::new(&name, [limit]).ok()?.with_reservation_bounds(bounds);
        Some(policy.with_algorithm(Algorithm::Gcra(Some(Burst::new(1).ok()?))))
    };
    policy().unwrap_or_else(|| unreachable!("the name, the limit and the burst are valid"))
}

/// Shares a pause with other processes. If several processes share one at once, the longest counts.
pub(crate) async fn share<S>(store: &FailSafe<S>, policy: &Policy, key: &Key<'_>, wait: Duration)
where
    S: Store + Clone + 'static,
{
    for _ in 0..MAX_ATTEMPTS {
        let known = store.decide(Op::Peek, policy, key, Cost::ONE).await.retry_after().unwrap_or_default();
        let Some((missing, up_to)) = missing(policy, wait.min(MAX_PAUSE), known) else { return };
        let spend = OwnedSpend { policy: up_to, key: key.clone().into_owned(), cost: missing };
        match charge(store, vec![spend]).await {
            // Another process has extended the pause meanwhile.
            Ok(decisions) if decisions.overall.reason() == Reason::Limited => {}
            _ => return,
        }
    }
    // All attempts failed. A pause that is too long is better than one that is too short.
    if let Some((missing, _)) = missing(policy, wait.min(MAX_PAUSE), Duration::ZERO) {
        let _ = store.decide(Op::Charge, policy, key, missing).await;
    }
}

/// The debt that extends a pause of `known` to `wait`, and a policy that admits it only if the pause is still `known`.
fn missing(policy: &Policy, wait: Duration, known: Duration) -> Option<(Cost, Policy)> {
    let units = |time: Duration| u64::try_from(time.as_micros()).ok();
    let missing = Cost::new(units(wait.saturating_sub(known))?).ok()?;
    let burst = Burst::new(units(wait)?).ok()?;
    Some((missing, policy.clone().with_algorithm(Algorithm::Gcra(Some(burst)))))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tidegate::Key;

    use super::Pauses;

    #[tokio::test(start_paused = true)]
    async fn a_pause_is_never_shortened_and_ends_on_time() {
        let (pauses, key) = (Pauses::default(), Key::new("upstream").expect("a key"));
        assert_eq!(pauses.remaining(&key), None);
        pauses.pause(&key, Duration::from_secs(10));
        pauses.pause(&key, Duration::from_secs(3));
        assert_eq!(pauses.remaining(&key), Some(Duration::from_secs(10)));
        tokio::time::advance(Duration::from_millis(9_999)).await;
        assert_eq!(pauses.remaining(&key), Some(Duration::from_millis(1)));
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(pauses.remaining(&key), None);
    }

    #[tokio::test(start_paused = true)]
    async fn ended_pauses_are_removed_as_new_ones_arrive() {
        let pauses = Pauses::default();
        for round in 0..100 {
            for number in 0..100 {
                let key = Key::new(&format!("{round} {number}")).expect("a key").into_owned();
                pauses.pause(&key, Duration::from_secs(1));
            }
            tokio::time::advance(Duration::from_secs(2)).await;
        }
        let stored = pauses.ends.lock().by_key.len();
        assert!(stored <= 300, "{stored} of 10,000 ended pauses are stored");
    }
}
