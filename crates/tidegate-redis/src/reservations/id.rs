//! The ids of reservations: where a state is, sealed by a secret that all nodes of a Redis share.
//!
//! The place in an id is the hash of the subject, exclusive-or a pseudorandom mask of the secret, the nonce and the policy,
//! and an HMAC of all of these. So an id reveals nothing about the key to anybody without the secret, and an id that was
//! changed, or that was sealed by another secret, refers to no state.
//! The secret is a key of its own in Redis, created when the first reservation is made. If Redis loses it, the ids of earlier
//! reservations are unknown to nodes that have not read it yet, and these reservations end by themselves.

use std::time::Duration;

use hmac::{Hmac, Mac};
use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use tidegate::{Cost, Policy, ReservationError, ReservationId, StoreError, external_store::policy_identity};

use crate::{
    error::Error,
    key_name::Subject,
    reply::{Reader, SECRET_SIZE},
    stopwatch,
    store::RedisStore,
    wire::{Action, KeyRequest, ReservationStep},
};

/// After this many microseconds the secret is read again, because Redis may have lost it.
const CHECK_AFTER: u64 = 10_000_000;
/// The least time between two reads that unknown ids cause, and between two attempts to read a known secret again.
const CHECK_UNKNOWN_AFTER: u64 = 1_000_000;

/// The number of bytes of the tag in a place.
const TAG: usize = 16;

pub(crate) type Secret = [u8; SECRET_SIZE];

/// The secrets that this node has read, the newest first. The previous one finds older reservations.
#[derive(Debug, Default)]
pub(crate) struct Secrets {
    known: Mutex<Known>,
    /// Held while the secret is read, so that many callers cause one request.
    reading: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct Known {
    newest: Option<Secret>,
    previous: Option<Secret>,
    /// When the newest was read, by the stopwatch.
    read_at: u64,
    /// When reading it again was begun last, by the stopwatch.
    refreshed_at: u64,
    /// When the secret could not be read last, by the stopwatch, and why.
    failed: Option<(u64, Error)>,
}

impl Secrets {
    /// The newest secret, unless it is older than `age`.
    fn newest(&self, age: u64) -> Option<Secret> {
        let known = self.known.lock();
        known.newest.filter(|_| stopwatch::micros().saturating_sub(known.read_at) < age)
    }

    /// Records the secret that Redis has.
    fn record(&self, secret: Secret) {
        let mut known = self.known.lock();
        (known.read_at, known.failed) = (stopwatch::micros(), None);
        if known.newest != Some(secret) {
            known.previous = known.newest.replace(secret);
        }
    }

    /// Records why the secret could not be read.
    fn record_failure(&self, error: &Error) {
        self.known.lock().failed = Some((stopwatch::micros(), error.clone()));
    }

    /// Why the secret could not be read, if that was found out at `since` or later.
    fn failure(&self, since: u64) -> Option<Error> {
        let known = self.known.lock();
        known.failed.as_ref().filter(|(at, _)| *at >= since).map(|(_, error)| error.clone())
    }

    /// Whether the newest secret is due to be read again. Then the caller has to do it.
    fn must_refresh(&self) -> bool {
        let (mut known, now) = (self.known.lock(), stopwatch::micros());
        let is_due = now.saturating_sub(known.read_at) >= CHECK_AFTER
            && now.saturating_sub(known.refreshed_at) >= CHECK_UNKNOWN_AFTER;
        if is_due {
            known.refreshed_at = now;
        }
        is_due
    }

    fn all(&self) -> Vec<Secret> {
        let known = self.known.lock();
        known.newest.into_iter().chain(known.previous).collect()
    }
}

/// A random number of a new reservation.
pub(crate) fn nonce() -> [u8; 16] {
    rand::random()
}

/// The id of a reservation of a subject.
pub(crate) fn seal(
    secret: &Secret,
    subject: &Subject,
    policy: &Policy,
    nonce: [u8; 16],
) -> Result<ReservationId, ReservationError> {
    let place = masked(secret, *subject, policy, nonce);
    let tag = authenticator(secret, &place, policy, nonce).finalize().into_bytes();
    ReservationId::new(policy, nonce, &[&place, &tag[..TAG]].concat())
}

/// The subject of an id; `None` if the id was not sealed by this secret for this policy.
pub(crate) fn open(secret: &Secret, id: &ReservationId, policy: &Policy) -> Result<Option<Subject>, ReservationError> {
    let sealed = id.place();
    let (place, tag) = sealed.split_first_chunk().ok_or(ReservationError::Foreign)?;
    if tag.len() != TAG {
        return Err(ReservationError::Foreign);
    }
    // It compares in constant time.
    let is_sealed = authenticator(secret, place, policy, id.nonce()).verify_truncated_left(tag).is_ok();
    Ok(is_sealed.then(|| masked(secret, *place, policy, id.nonce())))
}

fn authenticator(secret: &Secret, place: &Subject, policy: &Policy, nonce: [u8; 16]) -> Hmac<Sha256> {
    let mut key = [0; 64];
    key[..SECRET_SIZE].copy_from_slice(secret);
    let mut authenticator = <Hmac<Sha256> as Mac>::new(&key.into());
    authenticator.update(&nonce);
    authenticator.update(place);
    authenticator.update(policy_identity(policy).as_ref());
    authenticator
}

fn masked(secret: &Secret, mut place: Subject, policy: &Policy, nonce: [u8; 16]) -> Subject {
    let mut hasher = Sha256::new();
    hasher.update(secret);
    hasher.update(nonce);
    hasher.update(policy_identity(policy));
    for (byte, mask) in place.iter_mut().zip(hasher.finalize()) {
        *byte ^= mask;
    }
    place
}

impl RedisStore {
    /// The secret for new ids. `deadline` is that of the operation. A known secret is read again in the background.
    pub(crate) async fn secret(&self, policy: &Policy, deadline: u64) -> Result<Secret, Error> {
        let Some(secret) = self.inner.secrets.newest(u64::MAX) else {
            return self.read_secret(policy, CHECK_AFTER, deadline).await;
        };
        if self.inner.secrets.must_refresh() {
            let (store, policy) = (self.clone(), policy.clone());
            self.inner.runtime.spawn(async move {
                // After a failure it is read again a little later.
                let _ = store.read_secret(&policy, CHECK_AFTER, store.deadline()).await;
            });
        }
        Ok(secret)
    }

    /// The secrets by which an id may have been sealed, the newest first.
    async fn secrets(&self, policy: &Policy, deadline: u64) -> Result<Vec<Secret>, Error> {
        let known = self.inner.secrets.all();
        if known.is_empty() { Ok(vec![self.read_secret(policy, CHECK_AFTER, deadline).await?]) } else { Ok(known) }
    }

    /// Reads the secret again, because no known secret has sealed an id. Returns it if it is another one than before.
    async fn other_secret(&self, policy: &Policy, deadline: u64) -> Result<Option<Secret>, Error> {
        let before = self.inner.secrets.newest(u64::MAX);
        if self.inner.secrets.newest(CHECK_UNKNOWN_AFTER).is_some() {
            return Ok(None);
        }
        let secret = self.read_secret(policy, CHECK_UNKNOWN_AFTER, deadline).await?;
        Ok(Some(secret).filter(|secret| Some(*secret) != before))
    }

    /// The subject of an id; `None` if the id was not sealed by a secret of this Redis. `deadline` is that of the operation.
    pub(crate) async fn open(
        &self,
        id: &ReservationId,
        policy: &Policy,
        deadline: u64,
    ) -> Result<Option<Subject>, StoreError> {
        for secret in self.secrets(policy, deadline).await? {
            if let Some(subject) = open(&secret, id, policy)? {
                return Ok(Some(subject));
            }
        }
        let Some(secret) = self.other_secret(policy, deadline).await? else { return Ok(None) };
        Ok(open(&secret, id, policy)?)
    }

    /// Reads the secret from Redis until `deadline`, unless another caller has just done so: at most `age` microseconds ago.
    /// Callers that wait while another one fails get the same error.
    async fn read_secret(&self, policy: &Policy, age: u64, deadline: u64) -> Result<Secret, Error> {
        let (secrets, began) = (&self.inner.secrets, stopwatch::micros());
        let left = Duration::from_micros(deadline.saturating_sub(began));
        let Ok(_reading) = tokio::time::timeout(left, secrets.reading.lock()).await else { return Err(Error::Timeout) };
        if let Some(secret) = secrets.newest(age) {
            return Ok(secret);
        }
        if let Some(error) = secrets.failure(began) {
            return Err(error);
        }
        let request = KeyRequest::new(self.inner.secret_name(), policy, Cost::ONE, None);
        let candidate: Secret = rand::random();
        let action = Action::Reservation(ReservationStep::Secret);
        let answer = self.ask_by(action, request.with_payload(&candidate), deadline).await;
        match answer.and_then(|answer| Reader::new(answer.bytes()).secret()) {
            Ok(secret) => {
                secrets.record(secret);
                Ok(secret)
            }
            Err(error) => {
                secrets.record_failure(&error);
                Err(error)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tidegate::{Key, Policy, ReservationError, ReservationId};

    use super::{open, seal};
    use crate::key_name::KeyNames;

    #[test]
    fn an_id_leads_back_to_its_subject_only_with_its_secret_policy_and_nonce() {
        let policy = |name: &str| Policy::new(name, ["5/1s".parse().expect("a limit")]).expect("a policy");
        let (policy, other) = (policy("a"), policy("b"));
        let subject = KeyNames::subject(&Key::new("alice").expect("a key"));
        let id = seal(&[1; 32], &subject, &policy, [7; 16]).expect("an id");
        assert_eq!(open(&[1; 32], &id, &policy), Ok(Some(subject)));
        assert_eq!(open(&[2; 32], &id, &policy), Ok(None), "another secret");
        assert_eq!(open(&[1; 32], &id, &other), Ok(None), "another policy");
        for byte in 0..16 {
            let mut nonce = [7; 16];
            nonce[byte] ^= 1;
            let renumbered = ReservationId::new(&policy, nonce, &id.place()).expect("an id");
            assert_eq!(open(&[1; 32], &renumbered, &policy), Ok(None), "byte {byte} of the nonce is another one");
        }
        for byte in 0..id.place().len() {
            let mut place = id.place().to_vec();
            place[byte] ^= 1;
            let moved = ReservationId::new(&policy, [7; 16], &place).expect("an id");
            assert_eq!(open(&[1; 32], &moved, &policy), Ok(None), "byte {byte} of the place is another one");
        }
        assert!(id.place().iter().zip(subject).any(|(sealed, byte)| *sealed != byte), "the subject is not visible");
        let of_memory = ReservationId::new(&policy, [7; 16], &[0; 16]).expect("an id");
        assert_eq!(open(&[1; 32], &of_memory, &policy), Err(ReservationError::Foreign));
    }
}
