//! Ticks of an axis of time: at whole minutes, hours and days of UTC, and their labels.

use super::scale::{Tick, as_f64};
use super::ticks;
use crate::figures;

const SECOND: f64 = 1e6;
const MINUTE: f64 = 60.0 * SECOND;
const HOUR: f64 = 60.0 * MINUTE;
const DAY: f64 = 24.0 * HOUR;

/// Steps from a second to a year that people think in.
const STEPS: [f64; 27] = [
    SECOND,
    2.0 * SECOND,
    5.0 * SECOND,
    10.0 * SECOND,
    15.0 * SECOND,
    30.0 * SECOND,
    MINUTE,
    2.0 * MINUTE,
    5.0 * MINUTE,
    10.0 * MINUTE,
    15.0 * MINUTE,
    30.0 * MINUTE,
    HOUR,
    2.0 * HOUR,
    3.0 * HOUR,
    6.0 * HOUR,
    12.0 * HOUR,
    DAY,
    2.0 * DAY,
    4.0 * DAY,
    7.0 * DAY,
    14.0 * DAY,
    28.0 * DAY,
    56.0 * DAY,
    91.0 * DAY,
    182.0 * DAY,
    364.0 * DAY,
];

/// Ticks between two moments.
pub(super) fn ticks(from: f64, to: f64, at_most: usize) -> Vec<Tick> {
    ticks::at_multiples(from, to, step(to - from, at_most), at_most)
}

fn step(span: f64, at_most: usize) -> f64 {
    let fine = ticks::step(span, at_most, 1.0);
    if fine < SECOND {
        return fine;
    }
    let rough = span / as_f64(at_most.saturating_sub(1).max(1) as u64);
    STEPS.into_iter().find(|step| *step >= rough).unwrap_or_else(|| ticks::step(span / DAY, at_most, 1.0) * DAY)
}

/// Labels of ticks: what changes from one to the next, and below it the day where a new one begins.
pub(super) fn labels(ticks: &[Tick]) -> Vec<(String, Option<String>)> {
    let step = ticks.windows(2).map(|pair| pair[1].value - pair[0].value).fold(f64::INFINITY, f64::min);
    let (format, day) = match step {
        step if step >= 300.0 * DAY => ("%b %Y", None),
        step if step >= DAY => ("%-d %b", Some("%Y")),
        step if step >= MINUTE => ("%H:%M", Some("%-d %b")),
        step if step >= SECOND => ("%H:%M:%S", Some("%-d %b")),
        step if step >= 1_000.0 => ("%H:%M:%S%.3f", Some("%-d %b")),
        _ => ("%H:%M:%S%.6f", Some("%-d %b")),
    };
    let first = ticks.iter().position(|tick| !tick.minor).unwrap_or(0);
    let mut last_day = None;
    let label = |(i, tick): (usize, &Tick)| {
        let below = day.map(|day| figures::strftime(micros(tick.value), day));
        // A tick that may be left out doesn't carry the day for those after it.
        let new = i >= first && !tick.minor && below != last_day;
        if new {
            last_day.clone_from(&below);
        }
        (figures::strftime(micros(tick.value), format), below.filter(|_| new))
    };
    ticks.iter().enumerate().map(label).collect()
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "moments are whole and not negative")]
fn micros(value: f64) -> u64 {
    value.round() as u64
}

#[cfg(test)]
mod tests {
    use super::super::scale::Scale;
    use super::labels;

    fn shown(from: u64, to: u64, at_most: usize) -> Vec<String> {
        let labels = labels(&Scale::time(from * 1_000_000, to * 1_000_000).ticks(at_most));
        labels.into_iter().map(|(label, below)| below.map_or(label.clone(), |day| format!("{label} {day}"))).collect()
    }

    #[test]
    fn ticks_stand_at_whole_hours_and_days() {
        let from = 1_431_857_103;
        assert_eq!(
            shown(from, from + 83 * 3_600, 8),
            ["12:00", "00:00 18 May", "12:00", "00:00 19 May", "12:00", "00:00 20 May", "12:00"]
        );
        assert_eq!(shown(from, from + 3_600, 5), ["10:15", "10:30 17 May", "10:45", "11:00"]);
        assert_eq!(shown(from, from + 9, 4), ["10:05:05", "10:05:10 17 May"]);
        assert_eq!(shown(from, from + 20 * 86_400, 7)[..2], ["21 May 2015", "25 May"]);
    }
}
