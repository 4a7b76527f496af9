//! [`Shared`]: the store that simulated nodes lease from, at simulated times.

use tidegate::{Cost, Decision, Key, Lease, Leased, Limiter, ManualClock, Op, Policy, ReservationId, Timestamp};

/// A store that decides for all nodes. Messages arrive in the order of their times.
pub trait Shared {
    /// Decides a request of a node.
    fn decide(&mut self, now: Timestamp, op: Op, cost: Cost) -> Decision;

    /// Grants a lease; `None` if the request is malformed.
    fn lease(&mut self, now: Timestamp, lease: &Lease) -> Option<Leased>;

    /// Settles a lease. Returns whether it was open.
    fn settle(&mut self, now: Timestamp, id: &ReservationId, spent: u64) -> bool;
}

/// The store in memory, with one key.
#[derive(Debug)]
pub struct SharedMemory {
    limiter: Limiter,
    time: ManualClock,
    policy: Policy,
}

impl SharedMemory {
    /// An empty store.
    pub fn new(policy: &Policy) -> Self {
        let time = ManualClock::at(Timestamp::from_micros(0));
        Self { limiter: Limiter::default().with_clock(time.clock()), time, policy: policy.clone() }
    }
}

/// The key of all simulated requests.
pub(super) fn key() -> Key<'static> {
    Key::from(1_u8)
}

impl Shared for SharedMemory {
    fn decide(&mut self, now: Timestamp, op: Op, cost: Cost) -> Decision {
        self.time.set(now);
        match op {
            Op::Check => self.limiter.check(&self.policy, &key(), cost),
            Op::Peek => self.limiter.peek(&self.policy, &key(), cost),
            Op::Charge => self.limiter.charge(&self.policy, &key(), cost),
        }
    }

    fn lease(&mut self, now: Timestamp, lease: &Lease) -> Option<Leased> {
        self.time.set(now);
        self.limiter.lease(&self.policy, &key(), lease).ok()
    }

    fn settle(&mut self, now: Timestamp, id: &ReservationId, spent: u64) -> bool {
        self.time.set(now);
        self.limiter.settle(id, spent, &self.policy).is_ok_and(|settled| settled.known)
    }
}
