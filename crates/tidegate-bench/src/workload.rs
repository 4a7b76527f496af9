//! The workloads: keys, their order, and the share of admitted requests.
//!
//! Everything is computed from fixed seeds before the first decision, so that all contenders of a
//! run get the same keys in the same order. The texts of a sequence lie in memory in the order of
//! their use: a server has just read the key from a request, so the key is in the cache and the
//! limiter's memory is not.

use std::time::Duration;

use rand::SeedableRng;
use rand::distr::{Distribution as _, Uniform};
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand_distr::Zipf;
use serde::Serialize;
use tidegate::Limit;

const SEED: u64 = 0x71de_6a7e;
const ZIPF_EXPONENT: f64 = 1.0;

/// The outcome of most requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Most requests are admitted.
    Allowed,
    /// Most requests are denied, because the warm-up has used the quota.
    Denied,
}

/// The distribution of the keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Spread {
    /// All keys equally often.
    Uniform,
    /// A few keys most of the time.
    Zipf,
    /// There is only one key.
    HotKey,
}

/// Threads that decide concurrently, each with its own sequence of keys.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    /// The number of threads.
    pub threads: usize,
    /// The distribution of the keys.
    pub spread: Spread,
}

/// Scenarios that share keys, limit and therefore the contenders' warm state.
#[derive(Clone, Debug)]
pub struct Group {
    /// The number of keys.
    pub keys: usize,
    /// The outcome of most requests.
    pub outcome: Outcome,
    /// The limit of every key.
    pub limit: Limit,
    /// The number of requests for each key in the warm-up.
    pub warm_hits: usize,
    /// The scenarios, in the order of measurement.
    pub scenarios: Vec<Scenario>,
}

/// All groups of a run: few keys, many keys and one hot key.
pub fn groups(many_keys: usize) -> Vec<Group> {
    [1_000, many_keys, 1].into_iter().flat_map(|keys| [allowed(keys), denied(keys)]).collect()
}

/// `max` requests per `seconds`.
pub(crate) fn limit(max: u64, seconds: u64) -> Limit {
    Limit::new(max, Duration::from_secs(seconds)).expect("a valid limit")
}

fn allowed(keys: usize) -> Group {
    // With few keys, a round has so many requests of each key that only a very high limit admits
    // all of them. Its window is short, so that a log contains the requests of one round.
    let limit = if keys < 100_000 { limit(10_000_000, 1) } else { limit(100, 60) };
    Group { keys, outcome: Outcome::Allowed, limit, warm_hits: 1, scenarios: scenarios(keys) }
}

fn denied(keys: usize) -> Group {
    // Two and not one per hour: throttlecrab never denies at a limit of one.
    Group { keys, outcome: Outcome::Denied, limit: limit(2, 3600), warm_hits: 2, scenarios: scenarios(keys) }
}

fn scenarios(keys: usize) -> Vec<Scenario> {
    // Zipf comes last: it uses up the quota of the hottest keys.
    let scenarios: &[(usize, Spread)] = match keys {
        1 => &[(2, Spread::HotKey)],
        _ => &[(1, Spread::Uniform), (2, Spread::Uniform), (1, Spread::Zipf), (2, Spread::Zipf)],
    };
    scenarios.iter().map(|&(threads, spread)| Scenario { threads, spread }).collect()
}

/// The text of a key, 13 characters.
pub fn key(number: u32) -> String {
    format!("user:{number:08}")
}

/// The numbers of all keys in random order.
///
/// # Panics
/// If there are more keys than `u32` can count.
pub fn shuffled(count: usize) -> Vec<u32> {
    let count = u32::try_from(count).expect("no run has that many keys");
    let mut order: Vec<u32> = (0..count).collect();
    order.shuffle(&mut StdRng::seed_from_u64(SEED));
    order
}

/// The texts of keys.
pub fn texts(numbers: &[u32]) -> Vec<String> {
    numbers.iter().copied().map(key).collect()
}

impl Scenario {
    /// One sequence of the keys in `order` per thread, `decisions` in all.
    pub fn sequences(self, order: &[u32], decisions: usize) -> Vec<Vec<String>> {
        (0..self.threads)
            .map(|thread| {
                let rng = StdRng::seed_from_u64(SEED + 1 + thread as u64);
                texts(&self.sequence(order, decisions / self.threads, rng))
            })
            .collect()
    }

    fn sequence(self, order: &[u32], length: usize, mut rng: StdRng) -> Vec<u32> {
        match self.spread {
            Spread::Uniform | Spread::HotKey => {
                let ranks = Uniform::new(0, order.len()).expect("there is a key");
                ranks.sample_iter(&mut rng).take(length).map(|rank| order[rank]).collect()
            }
            Spread::Zipf => {
                let ranks = zipf(order.len());
                ranks.sample_iter(&mut rng).take(length).map(|rank| order[position(rank)]).collect()
            }
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "key counts are far below 2^52")]
fn zipf(keys: usize) -> Zipf<f64> {
    Zipf::new(keys as f64, ZIPF_EXPONENT).expect("there is a key")
}

/// Zipf ranks are whole numbers from one on, given as floats.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "whole and positive")]
fn position(rank: f64) -> usize {
    rank as usize - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    const ZIPF: Scenario = Scenario { threads: 2, spread: Spread::Zipf };

    #[test]
    fn keys_have_thirteen_characters() {
        assert_eq!(texts(&[0, 1]), ["user:00000000", "user:00000001"]);
    }

    #[test]
    fn the_shuffled_order_contains_every_key_once() {
        let mut order = shuffled(1_000);
        assert!(!order.is_sorted());
        order.sort_unstable();
        assert_eq!(order, (0..1_000).collect::<Vec<_>>());
    }

    #[test]
    fn sequences_are_the_same_every_time_and_differ_between_threads() {
        let order = shuffled(1_000);
        let sequences = ZIPF.sequences(&order, 10_000);
        assert_eq!(sequences, ZIPF.sequences(&order, 10_000));
        assert_eq!(sequences.iter().map(Vec::len).collect::<Vec<_>>(), [5_000, 5_000]);
        assert_ne!(sequences[0], sequences[1]);
    }

    #[test]
    fn zipf_prefers_the_first_key_and_reaches_the_others() {
        let order = shuffled(1_000);
        let sequence = &ZIPF.sequences(&order, 200_000)[0];
        let share = |number| sequence.iter().filter(|&text| *text == key(number)).count();
        // One in H(1000) = 7.49 decisions.
        assert!((13_000..13_800).contains(&share(order[0])), "{}", share(order[0]));
        assert!(share(order[500]) > 0);
    }
}
