#![doc = include_str!("../README.md")]

mod bins;
mod client_numbers;
pub mod findings;
pub mod formatting;
pub mod logs;
pub mod page;
pub mod replay;
mod short_names;
pub mod simulate;
mod table;
pub mod text;
mod wording;

/// Returns a duration in microseconds.
fn micros(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// Returns the window of a limit in microseconds.
fn window_us(limit: tidegate::Limit) -> u64 {
    micros(limit.window())
}
