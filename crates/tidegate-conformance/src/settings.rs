//! The number of cases and steps of the suites, with the environment variables that change them.

use std::ops::Range;

use proptest::test_runner::Config;

/// Returns the value of an environment variable if it is a number.
pub(crate) fn number(name: &str) -> Option<usize> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

/// Returns the configuration of a property with `cases` cases, or with `PROPTEST_CASES` cases if that is set.
pub fn config(cases: u32) -> Config {
    let cases = number("PROPTEST_CASES").and_then(|cases| cases.try_into().ok()).unwrap_or(cases);
    Config { cases, max_shrink_iters: 20_000, failure_persistence: None, ..Config::default() }
}

/// Returns the configuration of a property whose cases take long: shrinking is limited.
pub fn long_config(cases: u32) -> Config {
    Config { max_shrink_iters: 4_000, max_shrink_time: 60_000, ..config(cases) }
}

/// Returns the number of steps of a history: fewer than `max`, or fewer than `TIDEGATE_STEPS` if that is more.
pub fn steps(max: usize) -> Range<usize> {
    1..number("TIDEGATE_STEPS").unwrap_or(max).max(max)
}

/// Returns the number of steps of a long history: 300 and more, up to `TIDEGATE_STEPS`.
pub fn long_steps() -> Range<usize> {
    300..number("TIDEGATE_STEPS").unwrap_or(360).max(360)
}
