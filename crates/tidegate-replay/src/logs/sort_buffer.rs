//! [`SortBuffer`]: sorts requests that were logged late.
//!
//! Servers write a line when a request ends, and some write the time at which it began. The buffer holds each request until no
//! earlier request can follow. A request that is later than the span allows stays out of order.

use std::{cmp::Reverse, collections::BinaryHeap, ops::ControlFlow};

use super::{Each, Request};

/// Holds requests for a span of the log's time.
pub(super) struct SortBuffer {
    span_us: u64,
    latest_us: u64,
    pushed: u64,
    flushed_us: u64,
    /// Requests that were released after a later one.
    pub(super) still_late: u64,
    held: BinaryHeap<Reverse<HeldRequest>>,
}

/// Time, position in the log, cost and key.
type HeldRequest = (u64, u64, u64, Box<[u8]>);

impl SortBuffer {
    pub(super) fn new(span_us: u64) -> Self {
        Self { span_us, latest_us: 0, pushed: 0, flushed_us: 0, still_late: 0, held: BinaryHeap::new() }
    }

    /// Adds a request, and releases the requests that no later line can precede.
    pub(super) fn push(&mut self, request: &Request<'_>, each: &mut Each<'_>) -> ControlFlow<()> {
        self.latest_us = self.latest_us.max(request.time_us);
        self.pushed += 1;
        self.held.push(Reverse((request.time_us, self.pushed, request.cost, request.key.into())));
        self.flush(self.latest_us.saturating_sub(self.span_us), each)
    }

    /// Releases all requests up to a time.
    pub(super) fn flush(&mut self, until_us: u64, each: &mut Each<'_>) -> ControlFlow<()> {
        while self.held.peek().is_some_and(|Reverse((time_us, ..))| *time_us <= until_us) {
            if let Some(Reverse((time_us, _, cost, key))) = self.held.pop() {
                self.still_late += u64::from(time_us < self.flushed_us);
                self.flushed_us = self.flushed_us.max(time_us);
                each(&Request { time_us, key: &key, cost })?;
            }
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use super::SortBuffer;
    use crate::logs::released;

    /// Returns the times and positions in the released order, and the number of requests that are still late.
    fn sorted(span: u64, times: &[u64]) -> (Vec<(u64, u64)>, u64) {
        let mut buffer = SortBuffer::new(span);
        let out = released(times, |request, each| match request {
            Some(request) => buffer.push(request, each),
            None => buffer.flush(u64::MAX, each),
        });
        (out, buffer.still_late)
    }

    #[test]
    fn requests_late_by_at_most_the_span_are_sorted() {
        let in_order = vec![(7, 2), (9, 4), (10, 1), (12, 3), (12, 5), (15, 7), (20, 6)];
        assert_eq!(sorted(5, &[10, 7, 12, 9, 12, 20, 15]), (in_order, 0));
        assert_eq!(
            sorted(5, &[10, 20, 3]),
            (vec![(10, 1), (3, 3), (20, 2)], 1),
            "a later request stays out of order and is not lost"
        );
        assert_eq!(sorted(0, &[2, 1]), (vec![(2, 1), (1, 2)], 1));
    }
}
