//! A brute-force reference limiter, written from the contract alone.
//!
//! It keeps every charge ever made, computes `used(t)` by summing the whole list as the contract's table says,
//! folds a gcra debt event by event as an exact fraction, and finds every wait by bisection. It shares no arithmetic
//! with the library, and is slow on purpose.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `rule` | the words: algorithm, limit, policy |
//! | `fraction` | exact non-negative fractions, for a debt |
//! | `history` | the charges of one limit and what is in use by them |
//! | `subject` | one key under one policy: how `now` is read, charges, refunds |
//! | `reshape` | a changed window, number of buckets or algorithm |
//! | `overrides` | what holds for one key in place of its policy's limits |
//! | `answer` | waits by search, the limit that bound, the whole answer |
//! | `world` | several parts in one decision, shadow and enforcing mixed |

mod answer;
mod fraction;
mod history;
mod overrides;
mod reshape;
mod rule;
mod subject;
mod world;

pub(crate) use answer::{Answer, Verdict};
pub(crate) use overrides::{Overrule, Overruling};
pub(crate) use rule::{Algo, Cap, Micros, Rule, Units};
pub(crate) use subject::Subject;
pub(crate) use world::{Answers, Op, Part, World};

/// Stored numbers and waits saturate here.
pub(crate) const CEILING: i128 = 9_000_000_000_000_000;

/// A `now` that lags by no more than this is never believed.
pub(crate) const MINUTE: Micros = 60_000_000;
