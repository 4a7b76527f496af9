//! Measures the time of one contender for the sequences of one scenario.

use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use crate::contenders::Contender;
use crate::stopwatch::{Deadline, now};
use crate::tally::Tally;

/// The results of one round.
#[derive(Clone, Copy, Debug)]
pub struct Round {
    /// Wall time divided by the decisions of all threads.
    pub ns_per_decision: f64,
    /// The share of admitted requests.
    pub allowed: f64,
}

/// Decides `hits` requests for each of `keys`. Returns false if `bound` was too short.
pub fn warm_up(contender: &dyn Contender, keys: &[String], hits: usize, bound: Duration) -> bool {
    let deadline = Deadline::after(bound);
    (0..hits).all(|_| contender.run(keys, deadline).decisions == keys.len())
}

/// Decides all sequences at once, with a thread for each. Returns `None` if `bound` was too short.
///
/// # Panics
/// If the contender panics.
pub fn round(contender: &dyn Contender, sequences: &[Vec<String>], bound: Duration) -> Option<Round> {
    let barrier = Barrier::new(sequences.len());
    let runs: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = sequences
            .iter()
            .map(|sequence| {
                scope.spawn(|| {
                    barrier.wait();
                    let start = now();
                    let tally = contender.run(sequence, Deadline::after(bound));
                    (start, now(), tally)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("a contender does not panic")).collect()
    });

    let start = runs.iter().map(|run| run.0).min()?;
    let end = runs.iter().map(|run| run.1).max()?;
    let total: Tally = runs.iter().map(|run| run.2).sum();
    let wanted: usize = sequences.iter().map(Vec::len).sum();
    (total.decisions == wanted).then(|| Round {
        ns_per_decision: (end - start).as_secs_f64() * 1e9 / as_f64(wanted),
        allowed: as_f64(total.allowed) / as_f64(wanted),
    })
}

/// The middle value, or the mean of the two middle values.
///
/// # Panics
/// If there is no value. Every benchmark has at least one round.
pub fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut sorted: Vec<f64> = values.into_iter().collect();
    sorted.sort_by(f64::total_cmp);
    assert!(!sorted.is_empty(), "there is no value");
    f64::midpoint(sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2])
}

/// A count as a float.
#[expect(clippy::cast_precision_loss, reason = "counts here are far below 2^52")]
pub fn as_f64(count: usize) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_even(key: &String) -> bool {
        key == "even"
    }

    fn many(key: &str, count: usize) -> Vec<String> {
        vec![key.to_owned(); count]
    }

    #[test]
    fn a_round_counts_all_threads() {
        let sequences = vec![many("even", 3_000), many("odd", 1_000)];
        let round = round(&is_even, &sequences, Duration::from_secs(10));
        assert!((round.expect("in time").allowed - 0.75).abs() < 1e-9);
    }

    #[test]
    fn a_contender_past_its_bound_has_no_result() {
        let sequence = many("even", 100_000);
        assert!(!warm_up(&is_even, &sequence, 1, Duration::ZERO));
        assert!(round(&is_even, &[sequence], Duration::ZERO).is_none());
    }

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(Some(median([3.0, 1.0, 2.0])), Some(2.0));
        assert_eq!(Some(median([4.0, 1.0, 2.0, 3.0])), Some(2.5));
    }

    #[test]
    #[should_panic(expected = "there is no value")]
    fn no_values_have_no_median() {
        median([]);
    }
}
