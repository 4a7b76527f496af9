//! [`OpenHolds`]: the holds that this process granted and that are still open, for the metrics.
//!
//! A store does not count holds by policy, so the process does. It learns of a commit, a release or a renewal only if the
//! request reaches this process. A hold that another process closes counts here until its ttl has passed.
//!
//! Holds under limits supplied by callers are not tracked: otherwise callers could use up the room of the policies.

use std::{
    collections::{BTreeSet, HashMap},
    hash::{BuildHasher as _, BuildHasherDefault, Hasher},
    sync::Arc,
    time::Duration,
};

use hashbrown::DefaultHashBuilder;
use parking_lot::Mutex;
use smallvec::SmallVec;
use tidegate::{Key, ReservationId, Timestamp};

use crate::metrics::HoldCounters;

/// Locks of their own, so that connections rarely wait for each other.
const SHARDS: usize = 16;

/// Maximum number of holds that are tracked. A hold of several keys counts once for each key. The texts of the metrics
/// name it.
const MAX_TRACKED: usize = 1 << 16;

/// The last quarter of the room is for policies with fewer open holds than this, so that one busy policy does not hide the
/// others.
const FEW: i64 = 1 << 10;

/// The random number of an id.
type Nonce = u128;

/// The open holds of this process.
#[derive(Debug, Default)]
pub(crate) struct OpenHolds {
    shards: [Mutex<Shard>; SHARDS],
    hasher: DefaultHashBuilder,
}

/// The policies and the keys of a hold that is tracked: one part for each key.
pub(crate) type HoldParts = SmallVec<[HoldPart; 1]>;

/// A policy and a key of a hold.
#[derive(Debug)]
pub(crate) struct HoldPart {
    /// `None` if an earlier part is of the same policy: a hold counts once for each policy.
    pub(crate) counters: Option<Arc<HoldCounters>>,
    pub(crate) key: KeyHash,
}

/// The hash of a policy and a key. A collision would only make a metric wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KeyHash(u64);

/// The hash of a random number: both of its halves. Only stores choose the numbers of the holds that are tracked.
#[derive(Debug, Default)]
struct NonceHasher(u64);

impl Hasher for NonceHasher {
    fn write_u128(&mut self, nonce: Nonce) {
        let [first, second] = [nonce >> 64, nonce].map(|half| half & u128::from(u64::MAX));
        self.0 = u64::try_from(first ^ second).unwrap_or(0);
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[derive(Debug, Default)]
struct Shard {
    holds: HashMap<Nonce, OpenHold, BuildHasherDefault<NonceHasher>>,
    ends: BTreeSet<(Timestamp, Nonce)>,
    /// The keys of all holds.
    keys: usize,
}

#[derive(Debug)]
struct OpenHold {
    until: Timestamp,
    parts: HoldParts,
}

impl OpenHolds {
    /// Returns the hash of a key of a policy.
    pub(crate) fn key_hash(&self, policy: &str, key: &Key<'_>) -> KeyHash {
        KeyHash(self.hasher.hash_one((policy, key.as_bytes())))
    }

    /// Tracks a hold that was granted now.
    pub(crate) fn granted(&self, id: &ReservationId, now: Timestamp, ttl: Duration, parts: HoldParts) {
        for counters in counters_of(&parts) {
            counters.granted.inc();
        }
        let mut shard = self.shard(id).lock();
        shard.end_until(now);
        let room = MAX_TRACKED / SHARDS;
        let room = if counters_of(&parts).all(|counters| counters.open.get() < FEW) { room } else { room / 4 * 3 };
        if shard.keys + parts.len() > room {
            for counters in counters_of(&parts) {
                counters.untracked.inc();
            }
            return;
        }
        let (nonce, until) = (nonce_of(id), now.after(ttl));
        for counters in counters_of(&parts) {
            counters.open.inc();
        }
        shard.keys += parts.len();
        shard.holds.insert(nonce, OpenHold { until, parts });
        shard.ends.insert((until, nonce));
    }

    /// Stops tracking the holds of a key that was reset.
    pub(crate) fn reset(&self, key: KeyHash, now: Timestamp) {
        for shard in &self.shards {
            let mut shard = shard.lock();
            shard.end_until(now);
            let of_key =
                |(nonce, hold): (&Nonce, &OpenHold)| hold.parts.iter().any(|part| part.key == key).then_some(*nonce);
            let removed: Vec<Nonce> = shard.holds.iter().filter_map(of_key).collect();
            for nonce in removed {
                shard.remove(nonce);
            }
        }
    }

    /// Counts a hold as closed by a commit or a release. Returns false if it was not tracked here.
    pub(crate) fn closed(&self, id: &ReservationId, now: Timestamp) -> bool {
        let mut shard = self.shard(id).lock();
        let closed = shard.remove(nonce_of(id));
        shard.end_until(now);
        for counters in closed.iter().flat_map(|hold| counters_of(&hold.parts)) {
            counters.closed.inc();
        }
        closed.is_some()
    }

    /// Stops tracking a hold that turned out not to be open. If its ttl has passed, it ended by that.
    pub(crate) fn gone(&self, id: &ReservationId, now: Timestamp) {
        let mut shard = self.shard(id).lock();
        shard.end_until(now);
        shard.remove(nonce_of(id));
    }

    /// Sets the end of a hold to `ttl` from now.
    pub(crate) fn renewed(&self, id: &ReservationId, now: Timestamp, ttl: Duration) {
        let mut shard = self.shard(id).lock();
        let (nonce, until) = (nonce_of(id), now.after(ttl));
        let Some(hold) = shard.holds.get_mut(&nonce) else { return };
        let before = std::mem::replace(&mut hold.until, until);
        shard.ends.remove(&(before, nonce));
        shard.ends.insert((until, nonce));
    }

    /// Stops tracking the holds whose ttl has passed.
    pub(crate) fn end_until(&self, now: Timestamp) {
        for shard in &self.shards {
            shard.lock().end_until(now);
        }
    }

    fn shard(&self, id: &ReservationId) -> &Mutex<Shard> {
        // The number is random.
        &self.shards[usize::from(id.nonce()[0]) % SHARDS]
    }
}

fn nonce_of(id: &ReservationId) -> Nonce {
    Nonce::from_le_bytes(id.nonce())
}

/// The counters of the policies of a hold.
fn counters_of(parts: &[HoldPart]) -> impl Iterator<Item = &Arc<HoldCounters>> {
    parts.iter().filter_map(|part| part.counters.as_ref())
}

impl Shard {
    fn remove(&mut self, nonce: Nonce) -> Option<OpenHold> {
        let hold = self.holds.remove(&nonce)?;
        self.ends.remove(&(hold.until, nonce));
        self.keys -= hold.parts.len();
        for counters in counters_of(&hold.parts) {
            counters.open.dec();
        }
        Some(hold)
    }

    fn end_until(&mut self, now: Timestamp) {
        while let Some((_, nonce)) = self.ends.first().copied().filter(|(until, _)| *until <= now) {
            for counters in self.remove(nonce).iter().flat_map(|hold| counters_of(&hold.parts)) {
                counters.ended_by_ttl.inc();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tidegate::Policy;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn id(number: u32) -> ReservationId {
        let policy = Policy::new("api", ["5/1s".parse().expect("a limit")]).expect("a policy");
        let mut nonce = [0; 16];
        nonce[..4].copy_from_slice(&number.to_le_bytes());
        ReservationId::new(&policy, nonce, &[1]).expect("a short place")
    }

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_micros(seconds * 1_000_000)
    }

    fn one(counters: &Arc<HoldCounters>) -> HoldParts {
        of_keys(counters, &[KeyHash(0)])
    }

    fn of_keys(counters: &Arc<HoldCounters>, keys: &[KeyHash]) -> HoldParts {
        let part =
            |(i, key): (usize, &KeyHash)| HoldPart { counters: (i == 0).then(|| Arc::clone(counters)), key: *key };
        keys.iter().enumerate().map(part).collect()
    }

    #[test]
    fn a_hold_counts_as_open_until_it_is_closed_or_its_ttl_has_passed() {
        let (holds, counters) = (OpenHolds::default(), Arc::<HoldCounters>::default());
        for number in 0..3 {
            holds.granted(&id(number), at(100), SECOND * 10, one(&counters));
        }
        assert_eq!((counters.granted.get(), counters.open.get()), (3, 3));
        assert!(holds.closed(&id(0), at(109)));
        assert!(!holds.closed(&id(0), at(109)), "it is not tracked any more");
        assert_eq!(counters.closed.get(), 1);
        holds.renewed(&id(1), at(109), SECOND * 10);
        holds.renewed(&id(7), at(109), SECOND);
        assert_eq!((counters.open.get(), counters.ended_by_ttl.get()), (2, 0));
        holds.end_until(at(110));
        assert_eq!((counters.open.get(), counters.ended_by_ttl.get()), (1, 1), "a renewed hold is still open");
        holds.gone(&id(1), at(119));
        assert_eq!((counters.open.get(), counters.ended_by_ttl.get()), (0, 2), "the commit came after the end");
        holds.granted(&id(9), at(119), SECOND, one(&counters));
        holds.gone(&id(9), at(119));
        assert_eq!((counters.open.get(), counters.ended_by_ttl.get()), (0, 2), "it was reset before its end");
    }

    #[test]
    fn a_reset_drops_the_holds_of_its_key_only() {
        let (holds, counters) = (OpenHolds::default(), Arc::<HoldCounters>::default());
        let key = |text: &str| holds.key_hash("api", &Key::new(text).expect("a short key"));
        assert_ne!(key("a"), holds.key_hash("other", &Key::new("a").expect("a short key")));
        for (number, keys) in [(0, vec![key("a")]), (1, vec![key("b")]), (2, vec![key("b"), key("a")])] {
            holds.granted(&id(number), at(100), SECOND, of_keys(&counters, &keys));
        }
        holds.reset(key("a"), at(100));
        assert_eq!(counters.open.get(), 1);
        holds.end_until(at(101));
        assert_eq!((counters.open.get(), counters.ended_by_ttl.get()), (0, 1), "a reset hold does not end by its ttl");
        let tracked: usize = holds.shards.iter().map(|shard| shard.lock().keys).sum();
        assert_eq!(tracked, 0);
    }

    #[test]
    fn the_number_of_tracked_holds_is_bounded_and_a_busy_policy_does_not_hide_the_others() {
        let (holds, busy, quiet) = (OpenHolds::default(), Arc::<HoldCounters>::default(), Arc::default());
        let all = u32::try_from(MAX_TRACKED).expect("a small number") + 1000;
        for number in 0..all {
            holds.granted(&id(number), at(100), SECOND, one(&busy));
        }
        let open = busy.open.get().unsigned_abs();
        assert!(open <= MAX_TRACKED as u64 / 4 * 3, "{open}");
        assert_eq!((busy.granted.get(), open + busy.untracked.get()), (all.into(), all.into()));
        for number in all..all + 1000 {
            holds.granted(&id(number), at(100), SECOND, one(&quiet));
        }
        assert_eq!((quiet.open.get(), quiet.untracked.get()), (1000, 0));
        holds.end_until(at(101));
        assert_eq!((busy.open.get(), busy.ended_by_ttl.get()), (0, open));
        assert_eq!((quiet.open.get(), quiet.ended_by_ttl.get()), (0, 1000));
    }
}
