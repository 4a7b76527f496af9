//! Formats times and durations for people.

use std::time::Duration;

use jiff::Timestamp;
use tidegate::{Clock, format_duration};

/// Returns the time in milliseconds since the epoch.
pub(crate) fn now_ms(clock: &Clock) -> u64 {
    clock.now().as_micros() / 1_000
}

/// `2026-11-16 15:20:58 UTC`.
pub(crate) fn moment(at_ms: u64) -> String {
    written(at_ms, "%Y-%m-%d %H:%M:%S UTC")
}

/// `15:20:58`, in UTC.
pub(crate) fn time_of_day(at_ms: u64) -> String {
    written(at_ms, "%H:%M:%S")
}

fn written(at_ms: u64, form: &str) -> String {
    let at = i64::try_from(at_ms).ok().and_then(|at| Timestamp::from_millisecond(at).ok());
    at.map_or_else(|| format!("{at_ms} ms after 1970"), |at| at.strftime(form).to_string())
}

/// Formats milliseconds in their two largest units, such as `250ms`, `12s`, `2m5s` and `3d4h`. From one second on they are
/// rounded up to seconds.
pub(crate) fn span(ms: u64) -> String {
    let duration = if ms < 1_000 { Duration::from_millis(ms) } else { Duration::from_secs(ms.div_ceil(1_000)) };
    format_duration(duration).max_units(2).to_string()
}

#[cfg(test)]
mod tests {
    use super::{moment, span};

    #[test]
    fn durations_have_at_most_two_units() {
        let texts = [0, 250, 1_000, 11_001, 60_000, 125_000, 7_199_990, 7_290_000, 86_400_000, 273_600_000].map(span);
        assert_eq!(texts, ["0s", "250ms", "1s", "12s", "1m", "2m5s", "2h", "2h1m", "1d", "3d4h"]);
    }

    #[test]
    fn times_are_in_utc_and_very_late_times_are_numbers() {
        assert_eq!(moment(1_794_842_458_000), "2026-11-16 15:20:58 UTC");
        assert_eq!(moment(u64::MAX), "18446744073709551615 ms after 1970");
    }
}
