//! [`ServerClock`]: what the server's clock says now, as far as its answers tell.
//!
//! Each answer says what the server's clock read at some moment between asking and hearing. So its lead over this
//! machine's clock lies between two numbers, and each further answer narrows them. The lower one is used: a deadline told to
//! the server is never later than meant. Where an answer contradicts what was known, one of the clocks was set, and only
//! that answer counts.

use parking_lot::Mutex;

/// The lead of a server's clock over this machine's, in microseconds.
#[derive(Debug, Default)]
pub(crate) struct ServerClock {
    lead: Mutex<Option<(i64, i64)>>,
}

impl ServerClock {
    /// Takes note that the server's clock read `server` between `asked` and `heard`.
    pub(crate) fn note(&self, asked: u64, heard: u64, server: u64) {
        let (least, most) = (lead(server, heard), lead(server, asked));
        let mut known = self.lead.lock();
        *known = match *known {
            Some((low, high)) if least <= high && low <= most => Some((low.max(least), high.min(most))),
            _ => Some((least, most)),
        };
    }

    /// What the server's clock reads at the least when this machine's reads `local`; `None` before the first answer.
    pub(crate) fn at(&self, local: u64) -> Option<u64> {
        let (low, _) = (*self.lead.lock())?;
        Some(local.saturating_add_signed(low))
    }

    /// Forgets what another server said.
    pub(crate) fn forget(&self) {
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
    fn answers_narrow_the_lead_and_a_deadline_is_never_later_than_meant() {
        let clock = ServerClock::default();
        assert_eq!(clock.at(0), None);
        // A lead of 1000 exactly; the answer was made somewhere between.
        clock.note(100, 200, 1150);
        assert_eq!(clock.at(500), Some(1450));
        clock.note(300, 310, 1309);
        assert_eq!(clock.at(500), Some(1499));
        clock.note(400, 900, 1500);
        assert_eq!(clock.at(1000), Some(1999), "a slow answer adds nothing");
    }

    #[test]
    fn a_clock_that_was_set_is_believed_at_once() {
        let clock = ServerClock::default();
        clock.note(100, 110, 1_000_105);
        clock.note(200, 210, 5);
        assert_eq!(clock.at(210), Some(5));
        clock.note(300, 310, 9_000_000);
        assert_eq!(clock.at(310), Some(9_000_000));
        clock.forget();
        assert_eq!(clock.at(310), None);
    }
}
