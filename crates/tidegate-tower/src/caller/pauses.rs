//! [`Pauses`]: keys that a server has told to wait.
//!
//! Here they are times of tokio's clock, by which callers sleep. Where the budget is shared, the others are told through it: as a debt of
//! as many microseconds under a policy of its own, which is part of every decision on the key.

use std::{collections::HashMap, time::Duration};

use parking_lot::Mutex;
use tidegate::{Algorithm, Burst, Cost, FailSafe, Key, Limit, Op, Policy, Reason, Store};
use tokio::time::Instant;

use super::reservation::{Charge, reserve};

/// What can be told to others: 10^12 microseconds, eleven days.
pub(crate) const LONGEST: Duration = Duration::from_secs(1_000_000);

/// How often it is tried to tell others, while they tell of longer and longer pauses themselves.
const TRIES: usize = 16;

#[derive(Debug, Default)]
pub(crate) struct Pauses {
    until: Mutex<Until>,
}

#[derive(Debug, Default)]
struct Until {
    by_key: HashMap<Key<'static>, Instant>,
    /// How many there may be before those that are over are cleared away.
    sweep_at: usize,
}

impl Pauses {
    /// Pauses a key for so long at least. It is never made shorter.
    pub(crate) fn pause(&self, key: &Key<'_>, wait: Duration) {
        let now = Instant::now();
        let mut until = self.until.lock();
        if until.by_key.len() >= until.sweep_at {
            until.by_key.retain(|_, end| *end > now);
            until.sweep_at = (until.by_key.len() * 2).max(64);
        }
        let end = until.by_key.entry(key.clone().into_owned()).or_insert(now);
        *end = (*end).max(now + wait.min(LONGEST));
    }

    /// How long a key has to wait yet.
    pub(crate) fn left(&self, key: &Key<'_>) -> Option<Duration> {
        let end = *self.until.lock().by_key.get(key)?;
        let left = end.saturating_duration_since(Instant::now());
        (!left.is_zero()).then_some(left)
    }
}

/// The policy that tells others of a pause: a debt in microseconds that has to be gone.
pub(crate) fn policy(of: &Policy) -> Policy {
    let name = of.name().unwrap_or("unnamed");
    let name = format!("pause.{}", &name[..name.len().min(120)]);
    let made = || {
        let limit = Limit::new(1_000_000, Duration::from_secs(1)).ok()?;
        Some(Policy::new(&name, [limit]).ok()?.with_algorithm(Algorithm::Gcra(Some(Burst::new(1).ok()?))))
    };
    made().unwrap_or_else(|| unreachable!("a name, a limit and a burst that are in range"))
}

/// Tells others of a pause: as many as do so at once, it is as long as the longest of them, never shorter.
pub(crate) async fn tell<S>(store: &FailSafe<S>, policy: &Policy, key: &Key<'_>, wait: Duration)
where
    S: Store + Clone + 'static,
{
    for _ in 0..TRIES {
        let known = store.decide(Op::Peek, policy, key, Cost::ONE).await.retry_after().unwrap_or_default();
        let Some((missing, up_to)) = missing(policy, wait.min(LONGEST), known) else { return };
        let charge = Charge { policy: up_to, key: key.clone().into_owned(), cost: missing };
        match reserve(store, vec![charge]).await {
            // Somebody has made it longer meanwhile.
            Ok(decisions) if decisions.overall.reason() == Reason::Limited => {}
            _ => return,
        }
    }
    // Too many tell of too much: too long is better than too short.
    if let Some((missing, _)) = missing(policy, wait.min(LONGEST), Duration::ZERO) {
        let _ = store.decide(Op::Charge, policy, key, missing).await;
    }
}

/// What a pause that is known lacks of `wait`, and the policy under which that fits if it is still all that is known.
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
    async fn a_pause_is_never_made_shorter_and_ends_when_it_was_to() {
        let (pauses, key) = (Pauses::default(), Key::new("upstream").expect("a key"));
        assert_eq!(pauses.left(&key), None);
        pauses.pause(&key, Duration::from_secs(10));
        pauses.pause(&key, Duration::from_secs(3));
        assert_eq!(pauses.left(&key), Some(Duration::from_secs(10)));
        tokio::time::advance(Duration::from_millis(9_999)).await;
        assert_eq!(pauses.left(&key), Some(Duration::from_millis(1)));
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(pauses.left(&key), None);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_over_is_cleared_away_as_others_come() {
        let pauses = Pauses::default();
        for round in 0..100 {
            for number in 0..100 {
                let key = Key::new(&format!("{round} {number}")).expect("a key").into_owned();
                pauses.pause(&key, Duration::from_secs(1));
            }
            tokio::time::advance(Duration::from_secs(2)).await;
        }
        let held = pauses.until.lock().by_key.len();
        assert!(held <= 300, "{held} of 10,000 that were over");
    }
}
