//! [`Id`]: what a key's state is found by.
//!
//! A 128-bit fingerprint stands for policy and key, so that every slot has the same size and a key is never stored.
//! Keys are chosen by strangers, so it must be one under which nobody who doesn't know the store's secret can make two
//! keys meet: `SipHash` of the key under that secret, combined by exclusive or with the policy's public digest. For any
//! two different pairs of policy and key, they collide only if the secret hash has one particular value: a chance of
//! 2^-126, since two bits have a meaning of their own.

#![expect(clippy::cast_possible_truncation, reason = "halves of 128 bits")]

use std::hash::{BuildHasher, RandomState};

use siphasher::sip128::SipHasher13;

use crate::{key::Key, policy::Policy};

/// The fingerprint of a policy and a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Id {
    /// The lowest bits select the shard, the highest bits the place in its table. The lowest bit of all is set under
    /// limits that callers bring. Never `u64::MAX`, which marks an empty slot.
    pub(super) order: u64,
    /// Tells apart what meets there. It is known last, when the search for the other half is under way.
    pub(super) rest: u64,
}

impl Id {
    pub(super) fn new(fingerprint: u128) -> Self {
        Self { order: (fingerprint as u64).min(u64::MAX - 1), rest: (fingerprint >> 64) as u64 }
    }
}

/// The bit of [`Id::order`] that is set under limits that callers bring.
const CALLER: u64 = 1;
/// A bit of [`Id::order`] that is never set, so that no id is `u64::MAX`. It selects neither a shard nor a
/// place.
const UNSET: u64 = 1 << 30;

/// The secret that fingerprints are keyed with.
pub(super) struct Secret(SipHasher13);

impl Secret {
    /// A secret of the process's own randomness.
    pub(super) fn random() -> Self {
        let random = || RandomState::new().hash_one(0_u8);
        // The model checker needs every run to go the same way.
        let keys = if cfg!(tidegate_shuttle) { (1, 2) } else { (random(), random()) };
        Self(SipHasher13::new_with_keys(keys.0, keys.1))
    }

    #[inline]
    pub(super) fn id(&self, policy: &Policy, key: &Key<'_>) -> Id {
        let hash = self.0.hash(key.as_bytes()).as_u128();
        let identity = policy.identity();
        let fingerprint = hash ^ if key.is_joined() { identity.joined } else { identity.plain };
        let caller = if policy.is_brought_by_caller() { CALLER } else { 0 };
        Id { order: fingerprint as u64 & !(UNSET | CALLER) | caller, rest: (fingerprint >> 64) as u64 }
    }
}
