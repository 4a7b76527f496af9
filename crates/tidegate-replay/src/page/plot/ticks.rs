//! Ticks at round numbers: 1, 2 and 5 times a power of ten.

use super::scale::{Tick, as_f64};

/// The smallest round step that makes at most so many ticks of a span.
pub(super) fn step(span: f64, at_most: usize, least: f64) -> f64 {
    let rough = span / gaps(at_most);
    let power = 10f64.powf(rough.log10().floor());
    let round = [1.0, 2.0, 5.0, 10.0].into_iter().map(|n| n * power).find(|step| *step >= rough * 0.999_999);
    round.filter(|step| step.is_normal()).unwrap_or(span).max(least)
}

/// Ticks at the multiples of a round step.
pub(super) fn linear(from: f64, to: f64, at_most: usize, least_step: f64) -> Vec<Tick> {
    at_multiples(from, to, step(to - from, at_most, least_step), at_most)
}

/// Ticks at the multiples of a step; those of every other are minor.
pub(super) fn at_multiples(from: f64, to: f64, step: f64, at_most: usize) -> Vec<Tick> {
    // What rounding puts a hair outside belongs to the end.
    let first = (from / step - 1e-9).ceil();
    let mut ticks: Vec<Tick> = (0..at_most)
        .map(|i| first + as_f64(i as u64))
        .take_while(|index| *index <= to / step + 1e-9)
        .map(|index| Tick { value: (index * step).clamp(from, to), minor: index.rem_euclid(2.0) > 0.5 })
        .collect();
    ticks.dedup_by(|later, earlier| later.value <= earlier.value);
    ticks
}

/// Ticks at the powers of ten; where those are few, at 2 and 5 times them as well.
pub(super) fn log(from: f64, to: f64, at_most: usize) -> Vec<Tick> {
    let (low, high) = ((from.log10() - 1e-9).ceil(), (to.log10() + 1e-9).floor());
    let decades = high - low + 1.0;
    if decades < 2.0 {
        return linear(from, to, at_most, 0.0);
    }
    let every = (decades / as_f64(at_most.max(1) as u64)).ceil();
    let powers = (0..at_most).map(|i| low + as_f64(i as u64) * every).take_while(|power| *power <= high);
    let mut ticks: Vec<Tick> = powers.map(|power| Tick { value: 10f64.powf(power), minor: false }).collect();
    if ticks.len() > 6 {
        ticks.iter_mut().skip(1).step_by(2).for_each(|tick| tick.minor = true);
    }
    if (decades + 1.0) * 3.0 <= as_f64(at_most as u64) {
        // One decade below the first, so that what lies between the lower end and it is marked too.
        let mut power = low - 1.0;
        while power <= high {
            ticks.extend([2.0, 5.0].map(|n| Tick { value: n * 10f64.powf(power), minor: true }));
            power += 1.0;
        }
    }
    ticks.retain_mut(|tick| {
        let inside = tick.value >= from * (1.0 - 1e-9) && tick.value <= to * (1.0 + 1e-9);
        tick.value = tick.value.clamp(from, to);
        inside
    });
    ticks.sort_by(|a, b| a.value.total_cmp(&b.value));
    ticks
}

fn gaps(at_most: usize) -> f64 {
    as_f64(at_most.saturating_sub(1).max(1) as u64)
}
