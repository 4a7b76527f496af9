//! [`SortBuffer`]: sorts requests that were logged late.
//!
//! Servers write a line when a request ends, and some write the time at which it began. The buffer holds each request until no
//! earlier request can follow: until a request is later by more than the span, or until [`MAX_HELD`] more requests were read. So
//! memory is bounded. A request that is later than that stays out of order.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, VecDeque},
    ops::ControlFlow,
};

use super::{Each, Request, RequestBuffer};

/// Maximum number of requests that are read after a request that is still held.
pub(super) const MAX_HELD: u64 = 1 << 18;

/// Number of requests in a segment of the queue.
const SEGMENT: usize = 1024;

/// Holds requests for a span of the input's time.
pub(super) struct SortBuffer {
    span_us: u64,
    max_held: u64,
    latest_us: u64,
    released_us: u64,
    /// Requests that were released after a later one.
    pub(super) still_late: u64,
    in_order: Queue,
    /// Requests that are earlier than the last one in order. Each of them was read after a request in order that is still held, because
    /// that one is later. So the first request in order is always the one that is held the longest.
    late: BinaryHeap<Reverse<LateRequest>>,
}

/// Time, position, cost, duration, and the key followed by the group, with the length of the key.
type LateRequest = (u64, u64, u64, u64, Box<[u8]>, usize);

impl SortBuffer {
    pub(super) fn new(span_us: u64, max_held: u64) -> Self {
        Self {
            span_us,
            max_held,
            latest_us: 0,
            released_us: 0,
            still_late: 0,
            in_order: Queue::default(),
            late: BinaryHeap::new(),
        }
    }

    /// Adds a request, and releases the requests that no later line can precede.
    #[inline]
    pub(super) fn push(&mut self, request: &Request<'_>, each: &mut Each<'_>) -> ControlFlow<()> {
        self.latest_us = self.latest_us.max(request.time_us);
        if self.in_order.last_us().is_some_and(|last| request.time_us < last) {
            let texts = [request.key, request.group].concat().into_boxed_slice();
            let Request { time_us, duration_us, position, cost, key, .. } = *request;
            self.late.push(Reverse((time_us, position, cost, duration_us, texts, key.len())));
        } else {
            self.in_order.push(request);
        }
        let mut until = self.latest_us.saturating_sub(self.span_us);
        if let Some(first) = self.in_order.first()
            && request.position.saturating_sub(first.position) >= self.max_held
        {
            until = until.max(first.time_us);
        }
        self.release(until, each)
    }

    /// Releases all requests up to a time.
    #[inline]
    pub(super) fn release(&mut self, until_us: u64, each: &mut Each<'_>) -> ControlFlow<()> {
        loop {
            let late = self.late.peek().map(|Reverse(late)| (late.0, late.1));
            let in_order = self.in_order.first();
            match (late, in_order) {
                (Some(late), in_order)
                    if late.0 <= until_us
                        && in_order.is_none_or(|request| late < (request.time_us, request.position)) =>
                {
                    self.release_late(each)?;
                }
                (_, Some(request)) if request.time_us <= until_us => {
                    self.still_late += u64::from(request.time_us < self.released_us);
                    self.released_us = self.released_us.max(request.time_us);
                    each(&request)?;
                    self.in_order.pop();
                }
                _ => return ControlFlow::Continue(()),
            }
        }
    }

    fn release_late(&mut self, each: &mut Each<'_>) -> ControlFlow<()> {
        let Some(Reverse((time_us, position, cost, duration_us, texts, key_len))) = self.late.pop() else {
            return ControlFlow::Continue(());
        };
        self.still_late += u64::from(time_us < self.released_us);
        self.released_us = self.released_us.max(time_us);
        let (key, group) = texts.split_at(key_len);
        each(&Request { time_us, duration_us, key, cost, group, position })
    }
}

/// Requests in order of time and position. Segments that are released are used again.
#[derive(Default)]
struct Queue {
    segments: VecDeque<RequestBuffer>,
    /// Number of released requests of the first segment.
    released: usize,
    last_us: u64,
    spare: Vec<RequestBuffer>,
}

impl Queue {
    #[inline]
    fn push(&mut self, request: &Request<'_>) {
        if self.segments.back().is_none_or(|segment| segment.len() >= SEGMENT) {
            self.segments.push_back(self.spare.pop().unwrap_or_default());
        }
        self.last_us = request.time_us;
        if let Some(segment) = self.segments.back_mut() {
            segment.push(request);
        }
    }

    #[inline]
    fn first(&self) -> Option<Request<'_>> {
        self.segments.front()?.get(self.released)
    }

    /// Returns the time of the last request that is held.
    #[inline]
    fn last_us(&self) -> Option<u64> {
        (!self.segments.is_empty()).then_some(self.last_us)
    }

    /// Removes the first request.
    #[inline]
    fn pop(&mut self) {
        self.released += 1;
        if self.segments.front().is_some_and(|segment| segment.len() == self.released) {
            let mut segment = self.segments.pop_front().unwrap_or_default();
            segment.clear();
            self.spare.push(segment);
            self.released = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::SortBuffer;
    use crate::logs::released;

    /// Returns the times and positions from 1 in the released order, and the number of requests that are still late.
    fn sorted(span: u64, max_held: u64, times: &[u64]) -> (Vec<(u64, u64)>, u64) {
        let mut buffer = SortBuffer::new(span, max_held);
        let out = released(times, |request, each| match request {
            Some(request) => buffer.push(request, each),
            None => buffer.release(u64::MAX, each),
        });
        (out, buffer.still_late)
    }

    #[test]
    fn requests_late_by_at_most_the_span_are_sorted() {
        let in_order = vec![(7, 2), (9, 4), (10, 1), (12, 3), (12, 5), (15, 7), (20, 6)];
        assert_eq!(sorted(5, 100, &[10, 7, 12, 9, 12, 20, 15]), (in_order, 0));
        assert_eq!(
            sorted(5, 100, &[10, 20, 3]),
            (vec![(10, 1), (3, 3), (20, 2)], 1),
            "a later request stays out of order and is not lost"
        );
        assert_eq!(sorted(0, 100, &[2, 1]), (vec![(2, 1), (1, 2)], 1));
    }

    #[test]
    fn a_request_is_held_for_at_most_the_maximum_number_of_requests() {
        // The first time is far ahead, so no later time releases it.
        let times = [900, 1, 2, 3, 4, 5, 6];
        assert_eq!(sorted(5, 100, &times).0.last(), Some(&(900, 1)));
        let (out, still_late) = sorted(5, 3, &times);
        assert_eq!(out.iter().map(|(time, _)| *time).collect::<Vec<_>>(), [1, 2, 3, 900, 4, 5, 6]);
        assert_eq!(still_late, 3);
    }

    proptest! {
        /// Whatever the order of the input is, no request is lost, and the buffer never holds more than its maximum.
        #[test]
        fn every_request_is_released_once_and_in_order_if_the_bounds_allow_it(
            times in prop::collection::vec(0..200_u64, 1..300),
            span in 0..250_u64,
            max_held in 1..400_u64,
        ) {
            let (out, still_late) = sorted(span, max_held, &times);
            let mut positions: Vec<u64> = out.iter().map(|(_, position)| *position).collect();
            positions.sort_unstable();
            prop_assert!(positions.into_iter().eq(1..=times.len() as u64));
            prop_assert!(out.iter().all(|(time, position)| times[usize::try_from(position - 1).unwrap()] == *time));
            let late = |i: usize| times[..i].iter().max().is_some_and(|latest| latest - times[i].min(*latest) > span);
            let is_bounded = (0..times.len()).all(|i| !late(i)) && max_held > times.len() as u64;
            prop_assert!(!is_bounded || (still_late == 0 && out.is_sorted()));
            prop_assert_eq!(still_late == 0, out.is_sorted_by_key(|(time, _)| *time));
        }
    }
}
