//! Ticks of a time axis at whole minutes, hours and days of UTC, and their labels.

use super::{
    scale::{Tick, as_f64},
    ticks,
};
use crate::formatting::strftime;

const SECOND: f64 = 1e6;
const MINUTE: f64 = 60.0 * SECOND;
const HOUR: f64 = 60.0 * MINUTE;
const DAY: f64 = 24.0 * HOUR;

/// Steps from a second to a year.
const STEPS: [(f64, &[f64]); 4] = [
    (SECOND, &[1.0, 2.0, 5.0, 10.0, 15.0, 30.0]),
    (MINUTE, &[1.0, 2.0, 5.0, 10.0, 15.0, 30.0]),
    (HOUR, &[1.0, 2.0, 3.0, 6.0, 12.0]),
    (DAY, &[1.0, 2.0, 4.0, 7.0, 14.0, 28.0, 56.0, 91.0, 182.0, 364.0]),
];

/// Returns ticks between two times.
pub(super) fn ticks(from: f64, to: f64, max_ticks: usize) -> Vec<Tick> {
    ticks::at_multiples(from, to, step(to - from, max_ticks), max_ticks)
}

fn step(span: f64, max_ticks: usize) -> f64 {
    let fine = ticks::step(span, max_ticks, 1.0);
    if fine < SECOND {
        return fine;
    }
    let rough = span / as_f64(max_ticks.saturating_sub(1).max(1) as u64);
    let steps = STEPS.into_iter().flat_map(|(unit, factors)| factors.iter().map(move |factor| unit * factor));
    steps.into_iter().find(|step| *step >= rough).unwrap_or_else(|| ticks::step(span / DAY, max_ticks, 1.0) * DAY)
}

/// Returns the labels of ticks: the time, and the day in a second line where a new day begins.
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
    let first = ticks.iter().position(|tick| !tick.is_minor).unwrap_or(0);
    let mut last_day = None;
    let label = |(i, tick): (usize, &Tick)| {
        let below = day.map(|day| strftime(micros(tick.value), day));
        // A tick that may be hidden does not show the day for the ticks after it.
        let is_new = i >= first && !tick.is_minor && below != last_day;
        if is_new {
            last_day.clone_from(&below);
        }
        (strftime(micros(tick.value), format), below.filter(|_| is_new))
    };
    ticks.iter().enumerate().map(label).collect()
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "times are whole and not negative")]
fn micros(value: f64) -> u64 {
    value.round() as u64
}

#[cfg(test)]
mod tests {
    use super::{super::scale::Scale, as_f64, labels};

    fn shown(from: u64, to: u64, max_ticks: usize) -> Vec<String> {
        let labels = labels(&Scale::time(as_f64(from) * 1e6, as_f64(to) * 1e6).ticks(max_ticks));
        labels.into_iter().map(|(label, below)| below.map_or(label.clone(), |day| format!("{label} {day}"))).collect()
    }

    #[test]
    fn ticks_are_at_whole_hours_and_days() {
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
