//! [`Heat`] and [`HeatTable`]: which keys are requested often enough to lease units for them.

/// The number of requests in the present and the previous term from which a key is hot. In Redis, a lease that settles the
/// earlier one takes as long as three checks, and is renewed after two thirds of its term or later. So a lease for fewer requests
/// would cost more than it saves.
const HOT: u16 = 8;

/// The number of requests of a key in the present term and in the one before.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Heat {
    term: u32,
    now: u16,
    before: u16,
}

impl Heat {
    /// Counts a request in a term, given by its number.
    #[inline]
    pub(crate) fn count(&mut self, term: u32) {
        self.move_to(term);
        self.now = self.now.saturating_add(1);
    }

    /// Makes the key hot: a client asks for a lease only if the key is requested often there.
    pub(crate) fn heat_up(&mut self, term: u32) {
        self.move_to(term);
        self.now = self.now.max(HOT);
    }

    #[inline]
    pub(crate) fn is_hot(mut self, term: u32) -> bool {
        self.move_to(term);
        u32::from(self.now) + u32::from(self.before) >= u32::from(HOT)
    }

    /// Whether there was no request in this term and in the one before.
    pub(crate) fn is_cold(mut self, term: u32) -> bool {
        self.move_to(term);
        (self.now, self.before) == (0, 0)
    }

    #[inline]
    fn move_to(&mut self, term: u32) {
        if self.term != term {
            self.before = if self.term.wrapping_add(1) == term { self.now } else { 0 };
            (self.term, self.now) = (term, 0);
        }
    }
}

/// The heat of keys that have no lease, in a table of fixed size. A key that is requested more often replaces one that is
/// requested less often.
#[derive(Debug)]
pub(crate) struct HeatTable {
    slots: Box<[HeatSlot]>,
}

#[derive(Debug, Clone, Copy, Default)]
struct HeatSlot {
    tag: u32,
    heat: Heat,
}

impl HeatTable {
    /// A table of `slots`, a power of two.
    pub(crate) fn new(slots: usize) -> Self {
        Self { slots: vec![HeatSlot::default(); slots].into() }
    }

    /// Counts a request of a key, given by its fingerprint. Returns the heat of the key.
    #[inline]
    pub(crate) fn count(&mut self, fingerprint: u128, term: u32) -> Heat {
        let tag = (fingerprint >> 96) as u32;
        let at = (fingerprint >> 72) as usize & (self.slots.len() - 1);
        let slot = &mut self.slots[at];
        if slot.tag != tag {
            slot.heat.move_to(term);
            if slot.heat.now > 1 {
                // Another key is requested more often. It loses a request, so that it does not stay for ever.
                slot.heat.now -= 1;
                return Heat::default();
            }
            *slot = HeatSlot { tag, heat: Heat::default() };
        }
        slot.heat.count(term);
        slot.heat
    }
}

#[cfg(test)]
mod tests {
    use super::{HOT, HeatTable};

    #[test]
    fn a_key_is_hot_if_it_is_requested_often_within_two_terms() {
        let mut table = HeatTable::new(1);
        for _ in 1..HOT {
            assert!(!table.count(7 << 96, 1).is_hot(1));
        }
        let heat = table.count(7 << 96, 2);
        assert!(heat.is_hot(2), "the requests of the previous term count");
        assert!(!heat.is_hot(3) && !heat.is_cold(3), "a term later only one request counts");
        assert!(heat.is_cold(4));
    }

    #[test]
    fn a_hot_key_stays_hot_among_many_that_are_requested_once() {
        let mut table = HeatTable::new(1);
        for request in 0..u128::from(HOT) * 4 {
            let _ = table.count(7 << 96, 1);
            let _ = table.count(7 << 96, 1);
            let _ = table.count((8 + request) << 96, 1);
        }
        assert!(table.count(7 << 96, 1).is_hot(1));
    }
}
