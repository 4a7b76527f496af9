//! [`LocalParts`]: the requests of a reservation that are held in this process, because Redis did not answer for them.
//!
//! The id of the reservation is that of the holds in Redis, which do not know of those here. So this process remembers them by
//! the id. Another process that commits the id leaves them open until their ttl.

use std::{collections::HashMap, time::Duration};

use parking_lot::Mutex;
use tidegate::{ReservationError, ReservationId, Settled, StoreError};

use crate::stopwatch::{self, to_micros};

/// Maximum number of reservations that are remembered. The local holds of others end at their ttl.
const MAX: usize = 10_000;

/// The requests of a reservation that are held in this process.
#[derive(Debug, Clone)]
pub(crate) struct LocalPart {
    /// The id of their holds, which are one reservation of this process.
    pub(crate) id: ReservationId,
    /// Their positions among all requests.
    pub(crate) positions: Vec<usize>,
    /// The number of all requests.
    pub(crate) requests: usize,
}

impl LocalPart {
    /// The numbers for these requests: one number for all, or one for each of all requests.
    fn numbers(&self, numbers: &[u64]) -> Result<Vec<u64>, ReservationError> {
        if numbers.len() == 1 {
            return Ok(numbers.to_vec());
        }
        let (given, parts) = (numbers.len(), self.requests);
        if given != parts {
            return Err(ReservationError::Amounts { given, parts });
        }
        Ok(self.positions.iter().map(|position| numbers[*position]).collect())
    }
}

/// The requests that are held in this process, by the id of the whole reservation.
#[derive(Debug, Default)]
pub(crate) struct LocalParts {
    /// With the time, by the stopwatch, at which they end.
    held: Mutex<HashMap<String, (u64, LocalPart)>>,
}

impl LocalParts {
    pub(crate) fn insert(&self, whole: &ReservationId, ttl: Duration, part: LocalPart) {
        let (mut held, now) = (self.held.lock(), stopwatch::micros());
        if held.len() >= MAX {
            held.retain(|_, (until, _)| *until > now);
        }
        if held.len() < MAX {
            held.insert(whole.to_string(), (now.saturating_add(to_micros(ttl)), part));
        }
    }

    /// The positions of the requests that are held in this process among those of a whole reservation.
    pub(crate) fn positions(&self, whole: &ReservationId) -> Vec<usize> {
        let held = self.held.lock();
        if held.is_empty() {
            return Vec::new();
        }
        held.get(&whole.to_string()).map_or_else(Vec::new, |(_, part)| part.positions.clone())
    }

    /// Applies an operation on a whole reservation, to which Redis has answered `settled`, to its requests in this process.
    /// They are forgotten unless `ttl` is their new ttl.
    pub(crate) fn change(
        &self,
        whole: &ReservationId,
        settled: Result<Settled, StoreError>,
        numbers: &[u64],
        ttl: Option<Duration>,
        change: impl FnOnce(&ReservationId, &[u64]) -> Result<Settled, ReservationError>,
    ) -> Result<Settled, StoreError> {
        // A malformed operation changes nothing.
        if self.held.lock().is_empty() || matches!(settled, Err(StoreError::Reservation(_))) {
            return settled;
        }
        let Some((_, part)) = self.held.lock().remove(&whole.to_string()) else { return settled };
        let known = part.numbers(numbers).and_then(|numbers| Ok(change(&part.id, &numbers)?.known));
        if let (Some(ttl), Ok(true)) = (ttl, &known) {
            self.insert(whole, ttl, part);
        }
        let (settled, known) = (settled?, known?);
        Ok(Settled::new(settled.decision, settled.known || known))
    }
}
