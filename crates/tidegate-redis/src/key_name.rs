//! The names of keys: `tg:{<hash of the subject>}/<policy>`.
//!
//! The hash is 160 bits of SHA-256 in base 64. So different subjects have different names whatever characters they contain, names
//! have a maximum length, and API keys are not visible. The hash is the hash tag: the policies of a subject share a slot. After
//! it comes the name of the policy, or `~` and the identity of limits supplied by a caller.

use sha2::{Digest, Sha256};
use tidegate::{Key, Policy, external_store};

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Bytes of the hash: a collision takes 2^80 attempts.
const HASH: usize = 20;

/// The hash of a subject.
pub(crate) type Subject = [u8; HASH];

/// Creates names with one prefix.
#[derive(Debug, Clone)]
pub(crate) struct KeyNames {
    prefix: String,
}

/// The name of a key, and its cluster slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeyName {
    pub(crate) bytes: Vec<u8>,
    pub(crate) slot: u16,
}

impl KeyNames {
    pub(crate) fn new(prefix: &str) -> Self {
        Self { prefix: prefix.to_owned() }
    }

    pub(crate) fn name(&self, policy: &Policy, key: &Key<'_>) -> KeyName {
        self.name_of(policy, &Self::subject(key))
    }

    /// The hash of a subject, which is the hash tag of its names.
    pub(crate) fn subject(key: &Key<'_>) -> Subject {
        let hash = hash(key);
        std::array::from_fn(|i| hash[i])
    }

    /// What stands for the subject in the name of the overflow key that it shares with others while there is no room for a key
    /// of its own.
    pub(crate) fn overflow_subject(key: &Key<'_>) -> Subject {
        let mut subject = OVERFLOW;
        subject[HASH - 1] = hash(key)[0] % OVERFLOW_KEYS;
        subject
    }

    /// The name for a subject.
    pub(crate) fn name_of(&self, policy: &Policy, subject: &Subject) -> KeyName {
        if let ([start @ .., number], Some(name)) = (subject, policy.name())
            && start == &OVERFLOW[..HASH - 1]
        {
            return self.tagged(&format!("~overflow-{number}"), name);
        }
        let mut bytes = Vec::with_capacity(self.prefix.len() + HASH * 4 / 3 + 36);
        bytes.extend_from_slice(self.prefix.as_bytes());
        bytes.extend_from_slice(b":{");
        let tag = bytes.len();
        base64(subject, &mut bytes);
        let slot = slot(&bytes[tag..]);
        match policy.name() {
            Some(name) => {
                bytes.extend_from_slice(b"}/");
                bytes.extend_from_slice(name.as_bytes());
            }
            None => {
                bytes.extend_from_slice(b"}~");
                let identity = external_store::unnamed_identity(policy);
                bytes.extend(identity.bytes().filter(|byte| *byte != b' '));
            }
        }
        KeyName { bytes, slot }
    }

    /// The name of the list of a policy's overrides.
    pub(crate) fn list(&self, policy: &str) -> KeyName {
        self.tagged("~overrides", policy)
    }

    /// The name of the secret that seals the places of reservations.
    pub(crate) fn secret(&self) -> KeyName {
        self.tagged("~reservations", "secret")
    }

    /// A name with this hash tag, which begins with `~`. The hash of a subject never contains `~`.
    fn tagged(&self, tag: &str, policy: &str) -> KeyName {
        KeyName { bytes: format!("{}:{{{tag}}}/{policy}", self.prefix).into_bytes(), slot: slot(tag.as_bytes()) }
    }
}

/// Number of overflow keys of a policy.
const OVERFLOW_KEYS: u8 = 64;

/// The subject of an overflow key, before its number. No key has this hash.
const OVERFLOW: Subject = *b"~overflow~overflow~\0";

fn hash(key: &Key<'_>) -> [u8; 32] {
    let mut hasher = Sha256::new();
    // A joined key and a plain key of the same bytes have different names.
    hasher.update([u8::from(key.is_joined())]);
    hasher.update(key.as_bytes());
    hasher.finalize().into()
}

/// Number of slots of a cluster.
pub(crate) const SLOTS: u16 = 16_384;

fn slot(tag: &[u8]) -> u16 {
    crc16::State::<crc16::XMODEM>::calculate(tag) % SLOTS
}

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

    use super::{KeyNames, base64};

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
        let names = KeyNames::new("tg");
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
                let supplied = Policy::unnamed(limits).expect("a policy");
                let key = Key::new(subject).expect("a key");
                assert!(seen.insert(names.name(&supplied, &key).bytes), "unnamed {subject}");
                let counted = supplied.with_algorithm(Algorithm::SlidingCounter);
                assert!(seen.insert(names.name(&counted, &key).bytes), "unnamed counter {subject}");
            }
        }
    }

    #[test]
    fn the_tag_is_the_subject_so_its_policies_share_a_slot_and_the_name_tells_nothing_of_it() {
        let names = KeyNames::new("tg");
        let key = Key::new("secret-api-key").expect("a key");
        let (one, two) = (names.name(&policy("login"), &key), names.name(&policy("search"), &key));
        assert_eq!(one.slot, two.slot);
        let text = String::from_utf8(one.bytes).expect("text");
        assert!(text.starts_with("tg:{") && text.ends_with("}/login") && !text.contains("secret"), "{text}");
        assert_eq!(text.len(), "tg:{".len() + 27 + "}/login".len());
    }
}
