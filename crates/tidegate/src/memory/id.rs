//! [`Id`]: the fingerprint by which a key's state is found.
//!
//! A 128-bit fingerprint identifies policy and key, so every slot has the same size and no key is stored. Attackers choose
//! keys, so nobody without the store's secret may be able to make two keys collide. The fingerprint is `SipHash` of the key
//! under that secret, combined by exclusive or with the policy's public digest. Two different pairs of policy and key
//! collide only if the secret hash has one particular value: a probability of 2^-126, because two bits are reserved.

#![expect(clippy::cast_possible_truncation, reason = "halves of 128 bits")]

use std::{
    fmt,
    hash::{BuildHasher, RandomState},
};

use siphasher::sip128::SipHasher13;

use crate::{key::Key, policy::Policy};

/// The fingerprint of a policy and a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Id {
    /// The lowest bits select the shard, and the highest bits the place in its table. The lowest bit is set for limits
    /// supplied by callers. Never `u64::MAX`, which marks an empty slot.
    pub(super) order: u64,
    /// Distinguishes ids with the same `order`. It is computed last, while the search for `order` is already running.
    pub(super) rest: u64,
}

/// Fingerprints of policies and keys under a random secret, for a table of keys that others choose.
pub struct Fingerprints(SipHasher13);

impl Fingerprints {
    /// Fingerprints under a new secret.
    pub fn random() -> Self {
        let random = || RandomState::new().hash_one(0_u8);
        // The model checker needs deterministic runs.
        let (one, other) = if cfg!(tidegate_shuttle) { (1, 2) } else { (random(), random()) };
        Self(SipHasher13::new_with_keys(one, other))
    }

    /// The fingerprint of a key under a policy. Nobody without the secret can find two that are equal.
    #[inline]
    pub fn of(&self, policy: &Policy, key: &Key<'_>) -> u128 {
        self.id(policy, key).number()
    }

    #[inline]
    pub(super) fn id(&self, policy: &Policy, key: &Key<'_>) -> Id {
        let hash = self.0.hash(key.as_bytes()).as_u128();
        let identity = policy.identity();
        let fingerprint = hash ^ if key.is_joined() { identity.joined } else { identity.plain };
        let caller = if policy.is_supplied_by_caller() { CALLER } else { 0 };
        Id { order: fingerprint as u64 & !(UNSET | CALLER) | caller, rest: (fingerprint >> 64) as u64 }
    }
}

impl fmt::Debug for Fingerprints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Fingerprints")
    }
}

impl Id {
    pub(super) fn new(fingerprint: u128) -> Self {
        Self { order: (fingerprint as u64).min(u64::MAX - 1), rest: (fingerprint >> 64) as u64 }
    }

    /// Both halves as one number.
    #[inline]
    pub(super) fn number(self) -> u128 {
        u128::from(self.order) << 64 | u128::from(self.rest)
    }

    /// The id with this [`number`](Self::number).
    #[inline]
    pub(super) fn of_number(number: u128) -> Self {
        Self { order: ((number >> 64) as u64).min(u64::MAX - 1), rest: number as u64 }
    }
}

/// A random number for the id of a reservation.
pub fn nonce() -> [u8; 16] {
    // The model checker needs deterministic runs.
    #[cfg(tidegate_shuttle)]
    return DETERMINISTIC
        .fetch_add(1, std::sync::atomic::Ordering::Relaxed)
        .to_be_bytes()
        .repeat(2)
        .try_into()
        .expect("16 bytes");
    #[cfg(not(tidegate_shuttle))]
    rand::random::<u128>().to_be_bytes()
}

#[cfg(tidegate_shuttle)]
static DETERMINISTIC: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);

/// The bit of [`Id::order`] that is set for limits supplied by callers.
const CALLER: u64 = 1;
/// A bit of [`Id::order`] that is never set, so that no id is `u64::MAX`. It selects neither a shard nor a place.
const UNSET: u64 = 1 << 30;
