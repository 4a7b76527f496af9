//! The most requests that were certainly admitted in a window.

use std::{cmp::Reverse, collections::BinaryHeap, time::Duration};

/// Times in microseconds between which a request was admitted.
#[derive(Debug, Clone, Copy)]
pub(super) struct Admission {
    pub(super) before: u64,
    pub(super) after: u64,
}

/// The most requests that were certainly admitted within one window.
pub(super) fn worst_window(admissions: &[Admission], window: Duration) -> u64 {
    let mut admissions = admissions.to_vec();
    admissions.sort_by_key(|admission| admission.after);
    let window = u64::try_from(window.as_micros()).expect("in range");
    let (mut inside, mut worst) = (BinaryHeap::new(), 0);
    for Admission { before, after } in admissions {
        inside.push(Reverse(before));
        while inside.peek().is_some_and(|Reverse(first)| first + window <= after) {
            inside.pop();
        }
        worst = worst.max(inside.len());
    }
    u64::try_from(worst).expect("in range")
}

#[test]
fn only_admissions_that_are_certainly_inside_a_window_count() {
    let admissions = [(0, 1), (5, 12), (11, 11), (3, 13)].map(|(before, after)| Admission { before, after });
    assert_eq!(worst_window(&admissions, Duration::from_micros(11)), 3, "from 3 to 13");
    assert_eq!(worst_window(&admissions, Duration::from_micros(10)), 2, "3 is just outside");
    assert_eq!(worst_window(&admissions, Duration::from_micros(14)), 4);
}
