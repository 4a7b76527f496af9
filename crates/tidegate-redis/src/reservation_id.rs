//! The ids of reservations: where a state is, sealed by a secret that all nodes of a Redis share.
//!
//! The place in an id is the hash of the subject, exclusive-or a pseudorandom mask of the secret, the nonce and the policy. So
//! an id reveals nothing about the key to anybody without the secret, and with another nonce or policy it refers to no state.
//! The secret is a key of its own in Redis, created when the first reservation is made. If Redis loses it, the ids of earlier
//! reservations are unknown to nodes that have not read it yet, and these reservations end by themselves.

use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use tidegate::{Cost, Policy, ReservationError, ReservationId, external_store::policy_identity};

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
/// The least time between two reads that unknown ids cause.
const CHECK_UNKNOWN_AFTER: u64 = 1_000_000;

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
        known.read_at = stopwatch::micros();
        if known.newest != Some(secret) {
            known.previous = known.newest.replace(secret);
        }
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
    ReservationId::new(policy, nonce, &masked(secret, *subject, policy, nonce))
}

/// The subject of an id, if the id was sealed by this secret.
pub(crate) fn open(secret: &Secret, id: &ReservationId, policy: &Policy) -> Result<Subject, ReservationError> {
    let place = id.place().try_into().map_err(|_| ReservationError::Foreign)?;
    Ok(masked(secret, place, policy, id.nonce()))
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
    /// The secret for new ids.
    pub(crate) async fn secret(&self, policy: &Policy) -> Result<Secret, Error> {
        if let Some(secret) = self.inner.secrets.newest(CHECK_AFTER) {
            return Ok(secret);
        }
        match self.read_secret(policy, CHECK_AFTER).await {
            Ok(secret) => Ok(secret),
            Err(error) => self.inner.secrets.newest(u64::MAX).ok_or(error),
        }
    }

    /// The secrets by which an id may have been sealed, the newest first.
    pub(crate) async fn secrets(&self, policy: &Policy) -> Result<Vec<Secret>, Error> {
        let known = self.inner.secrets.all();
        if known.is_empty() { Ok(vec![self.read_secret(policy, CHECK_AFTER).await?]) } else { Ok(known) }
    }

    /// Reads the secret again, because an id was unknown. Returns it if it is another one than before.
    pub(crate) async fn other_secret(&self, policy: &Policy) -> Option<Secret> {
        let before = self.inner.secrets.newest(u64::MAX);
        if self.inner.secrets.newest(CHECK_UNKNOWN_AFTER).is_some() {
            return None;
        }
        self.read_secret(policy, CHECK_UNKNOWN_AFTER).await.ok().filter(|secret| Some(*secret) != before)
    }

    /// Reads the secret from Redis, unless another caller has just done so: at most `age` microseconds ago.
    async fn read_secret(&self, policy: &Policy, age: u64) -> Result<Secret, Error> {
        let _reading = self.inner.secrets.reading.lock().await;
        if let Some(secret) = self.inner.secrets.newest(age) {
            return Ok(secret);
        }
        let request = KeyRequest::new(self.inner.secret_name(), policy, Cost::ONE, None);
        let candidate: Secret = rand::random();
        let answer = self.ask(Action::Reservation(ReservationStep::Secret), request.with_payload(&candidate)).await?;
        let secret = Reader::new(answer.bytes()).secret()?;
        self.inner.secrets.record(secret);
        Ok(secret)
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
        assert_eq!(open(&[1; 32], &id, &policy), Ok(subject));
        assert_ne!(open(&[2; 32], &id, &policy), Ok(subject), "another secret");
        assert_ne!(open(&[1; 32], &id, &other), Ok(subject), "another policy");
        let renumbered = ReservationId::new(&policy, [8; 16], id.place()).expect("an id");
        assert_ne!(open(&[1; 32], &renumbered, &policy), Ok(subject), "another nonce");
        assert!(id.place().iter().zip(subject).any(|(sealed, byte)| *sealed != byte), "the subject is not visible");
        let of_memory = ReservationId::new(&policy, [7; 16], &[0; 16]).expect("an id");
        assert_eq!(open(&[1; 32], &of_memory, &policy), Err(ReservationError::Foreign));
    }
}
