//! [`Sorting`]: requests that were logged late, put where they belong.
//!
//! Servers write a line when a request ends, and some with the time when it began. Requests are held back until none can come any more
//! that belongs before them; one that is later than that by more is handed out late.

use std::{cmp::Reverse, collections::BinaryHeap, ops::ControlFlow};

use super::Request;

/// Holds requests for a span of the log's time.
pub(super) struct Sorting {
    span_us: u64,
    latest_us: u64,
    taken: u64,
    handed_out_us: u64,
    /// How many were handed out after later ones.
    pub(super) still_late: u64,
    held: BinaryHeap<Reverse<Held>>,
}

/// Time, place in the log, cost and key.
type Held = (u64, u64, u64, Box<[u8]>);

impl Sorting {
    pub(super) fn new(span_us: u64) -> Self {
        Self { span_us, latest_us: 0, taken: 0, handed_out_us: 0, still_late: 0, held: BinaryHeap::new() }
    }

    /// Takes a request; hands out those that nothing can come before.
    pub(super) fn take(
        &mut self,
        request: &Request<'_>,
        each: &mut impl FnMut(&Request<'_>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        self.latest_us = self.latest_us.max(request.time_us);
        self.taken += 1;
        self.held.push(Reverse((request.time_us, self.taken, request.cost, request.key.into())));
        self.hand_out(self.latest_us.saturating_sub(self.span_us), each)
    }

    /// Hands out what is held, up to a time.
    pub(super) fn hand_out(
        &mut self,
        until_us: u64,
        each: &mut impl FnMut(&Request<'_>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        while self.held.peek().is_some_and(|Reverse((time_us, ..))| *time_us <= until_us) {
            if let Some(Reverse((time_us, _, cost, key))) = self.held.pop() {
                self.still_late += u64::from(time_us < self.handed_out_us);
                self.handed_out_us = self.handed_out_us.max(time_us);
                each(&Request { time_us, key: &key, cost })?;
            }
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use super::{Request, Sorting};

    /// Times and places as they are handed out, and how many are late then.
    fn sorted(span: u64, times: &[u64]) -> (Vec<(u64, u64)>, u64) {
        let mut sorting = Sorting::new(span);
        let mut out = Vec::new();
        let mut each = |request: &Request<'_>| {
            out.push((request.time_us, request.cost));
            ControlFlow::Continue(())
        };
        for (time_us, cost) in times.iter().zip(1..) {
            assert!(sorting.take(&Request { time_us: *time_us, key: b"k", cost }, &mut each).is_continue());
        }
        assert!(sorting.hand_out(u64::MAX, &mut each).is_continue());
        (out, sorting.still_late)
    }

    #[test]
    fn what_is_late_by_no_more_than_the_span_comes_in_order() {
        let in_order = vec![(7, 2), (9, 4), (10, 1), (12, 3), (12, 5), (15, 7), (20, 6)];
        assert_eq!(sorted(5, &[10, 7, 12, 9, 12, 20, 15]), (in_order, 0));
        assert_eq!(
            sorted(5, &[10, 20, 3]),
            (vec![(10, 1), (3, 3), (20, 2)], 1),
            "too late is too late, and is not lost"
        );
        assert_eq!(sorted(0, &[2, 1]), (vec![(2, 1), (1, 2)], 1));
    }
}
