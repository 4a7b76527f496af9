//! [`ServerClock`]: an estimate of the server's clock.
//!
//! Each answer contains the time of the server's clock at some moment between sending the request and receiving the answer. So
//! its lead over this machine's clock is between two numbers, and each answer narrows them. The lower one is used, so that a
//! deadline that is sent to the server is never later than intended. If an answer contradicts the estimate, one of the clocks
//! was set, and only that answer counts.

use parking_lot::Mutex;

/// The lead of a server's clock over this machine's, in microseconds.
#[derive(Debug, Default)]
pub(crate) struct ServerClock {
    lead: Mutex<Option<(i64, i64)>>,
}

impl ServerClock {
    /// Records that the server's clock read `server` between `sent_at` and `received_at`.
    pub(crate) fn record(&self, sent_at: u64, received_at: u64, server: u64) {
        let (min, max) = (lead(server, received_at), lead(server, sent_at));
        let mut known = self.lead.lock();
        *known = match *known {
            Some((low, high)) if min <= high && low <= max => Some((low.max(min), high.min(max))),
            _ => Some((min, max)),
        };
    }

    /// Returns the earliest time that the server's clock may read when this machine's reads `local`; `None` before the first answer.
    pub(crate) fn at(&self, local: u64) -> Option<u64> {
        let (low, _) = (*self.lead.lock())?;
        Some(local.saturating_add_signed(low))
    }

    /// Discards the estimate, because the server may be another one.
    pub(crate) fn reset(&self) {
        *self.lead.lock() = None;
    }
}

fn lead(server: u64, local: u64) -> i64 {
    server.cast_signed() - local.cast_signed()
}

#[cfg(test)]
mod tests {
    use super::ServerClock;

    #[test]
    fn answers_narrow_the_lead_and_a_deadline_is_never_later_than_intended() {
        let clock = ServerClock::default();
        assert_eq!(clock.at(0), None);
        // The lead is exactly 1000.
        clock.record(100, 200, 1150);
        assert_eq!(clock.at(500), Some(1450));
        clock.record(300, 310, 1309);
        assert_eq!(clock.at(500), Some(1499));
        clock.record(400, 900, 1500);
        assert_eq!(clock.at(1000), Some(1999), "a slow answer adds nothing");
    }

    #[test]
    fn a_clock_that_was_set_takes_effect_at_once() {
        let clock = ServerClock::default();
        clock.record(100, 110, 1_000_105);
        clock.record(200, 210, 5);
        assert_eq!(clock.at(210), Some(5));
        clock.record(300, 310, 9_000_000);
        assert_eq!(clock.at(310), Some(9_000_000));
        clock.reset();
        assert_eq!(clock.at(310), None);
    }
}
