//! [`ReservationId`]: the id of a reservation.
//!
//! An id is text of at most 200 characters: a reference to the policy, a dot, and in base 64 a random number of 128 bits
//! and the place of the state. The store seals the place, so that the id says nothing about the key.
//!
//! The policy is referenced by its name. Limits without a name are written into the id.

use std::{
    borrow::Cow,
    fmt,
    hash::{Hash, Hasher},
    str::FromStr,
    sync::Arc,
    time::Duration,
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};

use super::{
    ReservationError,
    place::{MAX_PLACE, Place},
};
use crate::{
    algorithm::{Algorithm, Buckets, Burst},
    limit::Limit,
    policy::Policy,
};

/// The maximum length of an id.
const MAX_LENGTH: usize = 200;
const NONCE: usize = 16;
/// The maximum number of characters of the random number and the place.
const MAX_NUMBERS: usize = (NONCE + MAX_PLACE).div_ceil(3) * 4;
/// It is not part of any id.
const SEPARATOR: &str = " ";
const NAMED: char = 'n';
const UNNAMED: char = 'u';

/// The id of a hold or a lease. Every holder of the id can commit, release, renew or settle the reservation.
///
/// It is opaque text of at most 200 characters. It can't be guessed and says nothing about the key. It works on every node
/// that shares the store.
#[derive(Clone)]
pub struct ReservationId {
    policy: PolicyReference,
    nonce: [u8; NONCE],
    place: Place,
}

/// The policy of a reservation.
#[derive(Clone, PartialEq, Eq, Hash)]
enum PolicyReference {
    Named(Arc<str>),
    Unnamed { limits: Arc<[Limit]>, algorithm: Algorithm },
}

impl PolicyReference {
    fn of(policy: &Policy) -> Self {
        match policy.shared_name() {
            Some(name) => Self::Named(Arc::clone(name)),
            None => Self::Unnamed { limits: Arc::clone(policy.shared_limits()), algorithm: policy.algorithm() },
        }
    }
}

/// Finds a policy by its name, for an operation on a reservation.
///
/// A [`Policy`] finds itself, and a slice of policies finds those that it has.
pub trait PolicySource: Sync {
    /// The policy with this name.
    fn find(&self, name: &str) -> Option<&Policy>;
}

impl PolicySource for Policy {
    fn find(&self, name: &str) -> Option<&Policy> {
        (self.name() == Some(name)).then_some(self)
    }
}

impl PolicySource for [Policy] {
    fn find(&self, name: &str) -> Option<&Policy> {
        self.iter().find(|policy| policy.name() == Some(name))
    }
}

impl PolicySource for Vec<Policy> {
    fn find(&self, name: &str) -> Option<&Policy> {
        self.as_slice().find(name)
    }
}

impl<P: PolicySource + ?Sized> PolicySource for &P {
    fn find(&self, name: &str) -> Option<&Policy> {
        (**self).find(name)
    }
}

impl ReservationId {
    /// The id of a reservation under `policy`: for authors of stores. `nonce` is random, and `place` is where the store
    /// finds the state, sealed: at most 36 bytes.
    ///
    /// # Errors
    /// If the place is too long.
    pub fn new(policy: &Policy, nonce: [u8; NONCE], place: &[u8]) -> Result<Self, ReservationError> {
        Ok(Self { policy: PolicyReference::of(policy), nonce, place: Place::sealed(place)? })
    }

    /// The id of a reservation whose state is in this process: for authors of stores. `nonce` is random, and `state`
    /// identifies the state. It is sealed when the id is written as text, under a secret of this process.
    pub fn in_process(policy: &Policy, nonce: [u8; NONCE], state: u128) -> Self {
        Self { policy: PolicyReference::of(policy), nonce, place: Place::in_process(state, policy) }
    }

    /// The state that [`in_process`](Self::in_process) was given. If the id was changed or guessed, or was written by
    /// another process, it is a number that no state has.
    ///
    /// # Errors
    /// If the id belongs to a store of another kind.
    pub fn state_in_process(&self, policy: &Policy) -> Result<u128, ReservationError> {
        self.place.state_in_process(self.nonce, policy)
    }

    /// The id of a request that is admitted without a reservation, for example while the store is not available. It is
    /// never open.
    pub fn never_granted(policy: &Policy, nonce: [u8; NONCE]) -> Self {
        Self { policy: PolicyReference::of(policy), nonce, place: Place::NONE }
    }

    /// Whether it belongs to a request that was admitted without a reservation.
    pub fn is_never_granted(&self) -> bool {
        self.place.is_none()
    }

    /// Several ids as bytes, for the record of a reservation of several requests.
    pub fn join(ids: &[Self]) -> Vec<u8> {
        let texts: Vec<String> = ids.iter().map(ToString::to_string).collect();
        texts.join(SEPARATOR).into_bytes()
    }

    /// The ids in the bytes of [`join`](Self::join).
    ///
    /// # Errors
    /// If the bytes have another form.
    pub fn split(bytes: &[u8]) -> Result<Vec<Self>, ReservationError> {
        let text = std::str::from_utf8(bytes).map_err(|_| ReservationError::Id)?;
        text.split(SEPARATOR).map(str::parse).collect()
    }

    /// The random number, by which the store finds the reservation among those of its key.
    pub fn nonce(&self) -> [u8; NONCE] {
        self.nonce
    }

    /// The sealed place of the state.
    pub fn place(&self) -> Cow<'_, [u8]> {
        self.place.bytes(self.nonce)
    }

    /// The name of the policy; `None` for limits without a name.
    pub fn policy_name(&self) -> Option<&str> {
        match &self.policy {
            PolicyReference::Named(name) => Some(name),
            PolicyReference::Unnamed { .. } => None,
        }
    }

    /// The policy of the reservation.
    ///
    /// # Errors
    /// If `policies` does not have it.
    pub fn policy<'a>(&self, policies: &'a dyn PolicySource) -> Result<Cow<'a, Policy>, ReservationError> {
        match &self.policy {
            PolicyReference::Named(name) => match policies.find(name) {
                Some(policy) => Ok(Cow::Borrowed(policy)),
                None => Err(self.policy_gone()),
            },
            PolicyReference::Unnamed { limits, algorithm } => {
                let policy = Policy::unnamed(limits.iter().copied()).map_err(|_| ReservationError::Id)?;
                Ok(Cow::Owned(policy.with_algorithm(*algorithm)))
            }
        }
    }

    /// The error of an operation on a reservation whose policy does not exist any more.
    pub(crate) fn policy_gone(&self) -> ReservationError {
        ReservationError::PolicyGone { name: self.policy_name().unwrap_or_default().to_owned() }
    }

    /// A policy that has the states of the reservation's policy, which does not exist any more: for authors of stores, to find the
    /// other requests of the reservation. Its limits mean nothing.
    pub fn stand_in_policy(&self) -> Policy {
        let limit = Limit::new(1, Duration::from_secs(1));
        let named = |limit| Policy::new(self.policy_name().unwrap_or_default(), [limit]).ok();
        let policy = limit.ok().and_then(named);
        // The name is that of a policy, and the limit is in range.
        policy.unwrap_or_else(|| unreachable!("the name of a policy and a limit in range are a policy"))
    }

    /// The policy of the reservation; `None` if it does not exist any more.
    pub(crate) fn policy_if_any<'a>(
        &self,
        policies: &'a dyn PolicySource,
    ) -> Result<Option<Cow<'a, Policy>>, ReservationError> {
        match self.policy(policies) {
            Err(ReservationError::PolicyGone { .. }) => Ok(None),
            policy => policy.map(Some),
        }
    }
}

impl PartialEq for ReservationId {
    fn eq(&self, other: &Self) -> bool {
        (&self.policy, self.nonce) == (&other.policy, other.nonce) && self.place() == other.place()
    }
}

impl Eq for ReservationId {}

impl Hash for ReservationId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.nonce.hash(state);
    }
}

impl fmt::Display for ReservationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut numbers = [0; NONCE + MAX_PLACE];
        numbers[..NONCE].copy_from_slice(&self.nonce);
        let length = self.place.write(self.nonce, &mut numbers[NONCE..]);
        let numbers = &numbers[..NONCE + length];
        let mut encoded = [0; MAX_NUMBERS];
        let length = URL_SAFE_NO_PAD.encode_slice(numbers, &mut encoded).map_err(|_| fmt::Error)?;
        let encoded = str::from_utf8(&encoded[..length]).map_err(|_| fmt::Error)?;
        // A text that grows with each part would be allocated several times.
        let mut text = String::with_capacity(MAX_LENGTH);
        match &self.policy {
            PolicyReference::Named(name) => {
                text.push(NAMED);
                text.push_str(name);
            }
            PolicyReference::Unnamed { limits, algorithm } => {
                text.push(UNNAMED);
                URL_SAFE_NO_PAD.encode_string(encode_limits(limits, *algorithm), &mut text);
            }
        }
        text.push('.');
        text.push_str(encoded);
        f.write_str(&text)
    }
}

impl fmt::Debug for ReservationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ReservationId({self})")
    }
}

impl FromStr for ReservationId {
    type Err = ReservationError;

    fn from_str(text: &str) -> Result<Self, ReservationError> {
        parse(text).ok_or(ReservationError::Id)
    }
}

fn parse(text: &str) -> Option<ReservationId> {
    if text.len() > MAX_LENGTH {
        return None;
    }
    let (policy, numbers) = text.rsplit_once('.')?;
    let mut decoded = [0; MAX_NUMBERS];
    let length = URL_SAFE_NO_PAD.decode_slice(numbers, &mut decoded).ok()?;
    let (nonce, sealed) = decoded[..length].split_first_chunk::<NONCE>()?;
    let policy = match policy.strip_prefix(NAMED) {
        Some(name) => PolicyReference::Named(name.into()),
        None => {
            let (limits, algorithm) = decode_limits(&URL_SAFE_NO_PAD.decode(policy.strip_prefix(UNNAMED)?).ok()?)?;
            PolicyReference::Unnamed { limits, algorithm }
        }
    };
    Some(ReservationId { policy, nonce: *nonce, place: Place::sealed(sealed).ok()? })
}

/// The algorithm (1 byte), its number (5), and for each limit its max (5) and its window (6).
fn encode_limits(limits: &[Limit], algorithm: Algorithm) -> Vec<u8> {
    let (kind, number) = match algorithm {
        Algorithm::SlidingLog => (0, 0),
        Algorithm::SlidingCounter => (1, 0),
        Algorithm::SlidingBuckets(buckets) => (2, buckets.get()),
        Algorithm::FixedWindow => (3, 0),
        Algorithm::Gcra(burst) => (4, burst.map_or(0, Burst::get)),
    };
    let mut bytes = vec![kind];
    bytes.extend_from_slice(&number.to_be_bytes()[3..]);
    for limit in limits {
        bytes.extend_from_slice(&limit.max().to_be_bytes()[3..]);
        bytes.extend_from_slice(&limit.window_us().to_be_bytes()[2..]);
    }
    bytes
}

fn decode_limits(bytes: &[u8]) -> Option<(Arc<[Limit]>, Algorithm)> {
    let number = |bytes: &[u8]| bytes.iter().fold(0, |number: u64, byte| number << 8 | u64::from(*byte));
    let (header, limits) = bytes.split_first_chunk::<6>()?;
    let algorithm = match (header[0], number(&header[1..])) {
        (0, 0) => Algorithm::SlidingLog,
        (1, 0) => Algorithm::SlidingCounter,
        (2, buckets) => Algorithm::SlidingBuckets(Buckets::new(buckets).ok()?),
        (3, 0) => Algorithm::FixedWindow,
        (4, 0) => Algorithm::Gcra(None),
        (4, burst) => Algorithm::Gcra(Some(Burst::new(burst).ok()?)),
        _ => return None,
    };
    if limits.len() % 11 != 0 {
        return None;
    }
    let limit = |bytes: &[u8]| match (number(bytes.get(..5)?), number(bytes.get(5..)?)) {
        (max, 0) => Limit::in_flight(max).ok(),
        (max, window) => Limit::new(max, Duration::from_micros(window)).ok(),
    };
    let limits: Arc<[Limit]> = limits.chunks(11).map(limit).collect::<Option<_>>()?;
    Some((limits, algorithm))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(policy: &Policy) -> ReservationId {
        ReservationId::new(policy, [7; NONCE], &[9; MAX_PLACE]).expect("a short place")
    }

    #[test]
    fn every_id_is_short_text_that_reads_back() {
        let windows = (1..=8).map(|n| Limit::new(1_000_000_000_000, Duration::from_secs(n * 3_952_800)));
        let limits: Vec<Limit> = windows.map(|limit| limit.expect("in range")).collect();
        let burst = Algorithm::Gcra(Some(Burst::new(1_000_000_000_000).expect("in range")));
        let policies = [
            Policy::new(&"x".repeat(128), limits.clone()).expect("a policy"),
            Policy::new("a.b", [Limit::in_flight(4).expect("in range")]).expect("a policy"),
            Policy::unnamed(limits).expect("a policy").with_algorithm(burst),
            Policy::unnamed(["5/1s".parse().expect("a limit"), "4/inflight".parse().expect("a limit")])
                .expect("a policy"),
        ];
        for policy in &policies {
            let id = id(policy);
            let text = id.to_string();
            assert!(text.len() <= MAX_LENGTH, "{} characters", text.len());
            assert_eq!(text.parse(), Ok(id.clone()));
            let found = id.policy(policy).expect("the policy");
            assert_eq!(
                (found.name(), found.limits(), found.algorithm()),
                (policy.name(), policy.limits(), policy.algorithm())
            );
        }
        let other = Policy::new("other", ["1/1s".parse().expect("a limit")]).expect("a policy");
        let gone = id(&policies[1]).policy(&other).err();
        assert_eq!(gone, Some(ReservationError::PolicyGone { name: "a.b".into() }));
    }

    #[test]
    fn other_text_is_not_an_id() {
        let good = id(&Policy::new("api", ["5/1s".parse().expect("a limit")]).expect("a policy")).to_string();
        let long = format!("n{}", "x".repeat(MAX_LENGTH));
        for text in
            ["", "n", ".", "api", &good[1..], &good[..good.len() - 50], &format!("{good}AAAA"), &long, "uAAAA.AAAA"]
        {
            assert_eq!(text.parse::<ReservationId>(), Err(ReservationError::Id), "{text}");
        }
    }

    #[test]
    fn a_limit_without_all_of_its_bytes_is_not_an_id() {
        let limits = encode_limits(&["5/1s".parse().expect("a limit")], Algorithm::SlidingLog);
        let text = |limits: &[u8]| {
            let numbers = URL_SAFE_NO_PAD.encode([7; NONCE]);
            format!("{UNNAMED}{}.{numbers}", URL_SAFE_NO_PAD.encode(limits)).parse::<ReservationId>()
        };
        assert!(text(&limits).is_ok());
        for length in 7..limits.len() {
            assert_eq!(text(&limits[..length]), Err(ReservationError::Id), "{length} bytes");
        }
    }
}
