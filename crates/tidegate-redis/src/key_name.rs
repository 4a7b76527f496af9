//! The names of keys: `tg:{<hash of the subject>}/<policy>`.
//!
//! The hash is 160 bits of SHA-256 in base 64, so that no two subjects meet whatever characters they hold, names are
//! bounded, and no API key stands in plain sight. It is the hash tag: a subject's policies share a slot. A policy's name
//! follows as it is; limits that a caller brings along follow as `~` and what tells them apart.

use sha2::{Digest, Sha256};
use tidegate::{Key, Policy, external_store};

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Bytes of the hash: against 2^80 attempts to make two subjects meet.
const HASH: usize = 20;

/// Makes names under one prefix.
#[derive(Debug, Clone)]
pub(crate) struct Names {
    prefix: String,
}

/// A key's name and the cluster slot it lies in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Name {
    pub(crate) bytes: Vec<u8>,
    pub(crate) slot: u16,
}

impl Names {
    pub(crate) fn new(prefix: &str) -> Self {
        Self { prefix: prefix.to_owned() }
    }

    pub(crate) fn name(&self, policy: &Policy, key: &Key<'_>) -> Name {
        let mut bytes = Vec::with_capacity(self.prefix.len() + HASH * 4 / 3 + 36);
        bytes.extend_from_slice(self.prefix.as_bytes());
        bytes.extend_from_slice(b":{");
        let tag = bytes.len();
        base64(&hash(key)[..HASH], &mut bytes);
        let slot = crc16::State::<crc16::XMODEM>::calculate(&bytes[tag..]) % SLOTS;
        match policy.name() {
            Some(name) => {
                bytes.extend_from_slice(b"}/");
                bytes.extend_from_slice(name.as_bytes());
            }
            None => {
                bytes.extend_from_slice(b"}~");
                let described = external_store::unnamed_identity(policy);
                bytes.extend(described.bytes().filter(|byte| *byte != b' '));
            }
        }
        Name { bytes, slot }
    }

    /// The name of the overflow key of a policy that a subject shares while there is no room for a key of its own. The
    /// hash of a subject never contains `~`.
    pub(crate) fn overflow(&self, policy: &str, key: &Key<'_>) -> Name {
        let tag = format!("~overflow-{}", hash(key)[0] % OVERFLOW_KEYS);
        let slot = crc16::State::<crc16::XMODEM>::calculate(tag.as_bytes()) % SLOTS;
        let bytes = [self.prefix.as_bytes(), b":{", tag.as_bytes(), b"}/", policy.as_bytes()].concat();
        Name { bytes, slot }
    }

    /// The name of the list of a policy's overrides. No subject's hash has a `~`.
    pub(crate) fn list(&self, policy: &str) -> Name {
        const TAG: &[u8] = b"~overrides";
        let slot = crc16::State::<crc16::XMODEM>::calculate(TAG) % SLOTS;
        let bytes = [self.prefix.as_bytes(), b":{", TAG, b"}/", policy.as_bytes()].concat();
        Name { bytes, slot }
    }
}

/// How many overflow keys a policy has.
const OVERFLOW_KEYS: u8 = 64;

fn hash(key: &Key<'_>) -> [u8; 32] {
    let mut hasher = Sha256::new();
    // A joined key never meets a plain one of the same bytes.
    hasher.update([u8::from(key.is_joined())]);
    hasher.update(key.as_bytes());
    hasher.finalize().into()
}

/// How many slots a cluster has.
pub(crate) const SLOTS: u16 = 16_384;

fn base64(bytes: &[u8], text: &mut Vec<u8>) {
    for three in bytes.chunks(3) {
        let mut group = [0; 3];
        group[..three.len()].copy_from_slice(three);
        let number = u32::from(group[0]) << 16 | u32::from(group[1]) << 8 | u32::from(group[2]);
        for i in 0..=three.len() {
            text.push(ALPHABET[(number >> (18 - 6 * i) & 63) as usize]);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use tidegate::{Algorithm, Key, Policy};

    use super::{Names, base64};

    fn policy(name: &str) -> Policy {
        Policy::new(name, ["5/1s".parse().expect("a limit")]).expect("a policy")
    }

    #[test]
    fn base64_is_that_of_urls_without_padding() {
        for (bytes, expected) in [(&b"Ma"[..], "TWE"), (b"Man", "TWFu"), (&[0xfb, 0xff], "-_8")] {
            let mut text = Vec::new();
            base64(bytes, &mut text);
            assert_eq!(text, expected.as_bytes());
        }
    }

    #[test]
    fn no_two_pairs_of_policy_and_key_share_a_name() {
        let names = Names::new("tg");
        let subjects = ["a", "a}", "{a}", "a}/p", "a}~p", "*", "a b", "\0", "p", "a:{", "\u{fffd}"];
        let mut seen = BTreeSet::new();
        for subject in subjects {
            for name in ["p", "p}/q", "{p}", "~p", "p:q", "p/", "Log[(1000000,1)]"] {
                let key = Key::new(subject).expect("a key");
                assert!(seen.insert(names.name(&policy(name), &key).bytes), "{subject} {name}");
            }
            let joined = Key::join([subject]).expect("a key");
            assert!(seen.insert(names.name(&policy("p"), &joined).bytes), "joined {subject}");
            for limits in [vec!["5/1s"], vec!["5/1s", "9/1m"], vec!["9/1m"]] {
                let limits = limits.iter().map(|limit| limit.parse().expect("a limit"));
                let brought = Policy::unnamed(limits).expect("a policy");
                let key = Key::new(subject).expect("a key");
                assert!(seen.insert(names.name(&brought, &key).bytes), "unnamed {subject}");
                let counted = brought.with_algorithm(Algorithm::SlidingCounter);
                assert!(seen.insert(names.name(&counted, &key).bytes), "unnamed counter {subject}");
            }
        }
    }

    #[test]
    fn the_tag_is_the_subject_so_its_policies_share_a_slot_and_the_name_tells_nothing_of_it() {
        let names = Names::new("tg");
        let key = Key::new("secret-api-key").expect("a key");
        let (one, two) = (names.name(&policy("login"), &key), names.name(&policy("search"), &key));
        assert_eq!(one.slot, two.slot);
        let text = String::from_utf8(one.bytes).expect("text");
        assert!(text.starts_with("tg:{") && text.ends_with("}/login") && !text.contains("secret"), "{text}");
        assert_eq!(text.len(), "tg:{".len() + 27 + "}/login".len());
    }
}
