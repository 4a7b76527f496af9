//! Ticks at round numbers: 1, 2 and 5 times a power of ten.

use super::scale::{Tick, as_f64};

/// Returns the smallest round step that gives at most `max_ticks` ticks.
pub(super) fn step(span: f64, max_ticks: usize, min: f64) -> f64 {
    let rough = span / gaps(max_ticks);
    let power = 10f64.powf(rough.log10().floor());
    let round = [1.0, 2.0, 5.0, 10.0].into_iter().map(|n| n * power).find(|step| *step >= rough * 0.999_999);
    round.filter(|step| step.is_normal()).unwrap_or(span).max(min)
}

/// Returns ticks at the multiples of a round step.
pub(super) fn linear(from: f64, to: f64, max_ticks: usize, min_step: f64) -> Vec<Tick> {
    at_multiples(from, to, step(to - from, max_ticks, min_step), max_ticks)
}

/// Returns ticks at the multiples of a step. Every second one is minor.
pub(super) fn at_multiples(from: f64, to: f64, step: f64, max_ticks: usize) -> Vec<Tick> {
    // Rounding may put a tick slightly outside of the range.
    let first = (from / step - 1e-9).ceil();
    let mut ticks: Vec<Tick> = (0..max_ticks)
        .map(|i| first + as_f64(i as u64))
        .take_while(|index| *index <= to / step + 1e-9)
        .map(|index| Tick { value: (index * step).clamp(from, to), is_minor: index.rem_euclid(2.0) > 0.5 })
        .collect();
    ticks.dedup_by(|later, earlier| later.value <= earlier.value);
    ticks
}

/// Returns ticks at the powers of ten, and at 2 and 5 times them if there is room.
pub(super) fn log(from: f64, to: f64, max_ticks: usize) -> Vec<Tick> {
    let (low, high) = ((from.log10() - 1e-9).ceil(), (to.log10() + 1e-9).floor());
    let decades = high - low + 1.0;
    if decades < 2.0 {
        return linear(from, to, max_ticks, 0.0);
    }
    let every = (decades / as_f64(max_ticks.max(1) as u64)).ceil();
    let powers = (0..max_ticks).map(|i| low + as_f64(i as u64) * every).take_while(|power| *power <= high);
    let mut ticks: Vec<Tick> = powers.map(|power| Tick { value: 10f64.powf(power), is_minor: false }).collect();
    if ticks.len() > 6 {
        ticks.iter_mut().skip(1).step_by(2).for_each(|tick| tick.is_minor = true);
    }
    if (decades + 1.0) * 3.0 <= as_f64(max_ticks as u64) {
        // Starts one decade lower, for the ticks between the lower end and the first power.
        let mut power = low - 1.0;
        while power <= high {
            ticks.extend([2.0, 5.0].map(|n| Tick { value: n * 10f64.powf(power), is_minor: true }));
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

fn gaps(max_ticks: usize) -> f64 {
    as_f64(max_ticks.saturating_sub(1).max(1) as u64)
}
