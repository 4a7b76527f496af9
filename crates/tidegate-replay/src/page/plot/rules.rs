//! Lines at one value of an axis, and where their labels go.

use super::Look;
use super::scale::Scale;

#[derive(Debug, Clone)]
pub(super) struct Rule {
    pub(super) value: f64,
    pub(super) look: Look,
    pub(super) label: String,
    /// Whether it stands at a value of the horizontal axis.
    pub(super) upright: bool,
}

/// Where a label above the area stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Spot {
    /// 0 is next to the area.
    pub(super) row: usize,
    /// Whether the text ends at the line instead of beginning there.
    pub(super) to_the_left: bool,
}

/// The most characters of a label: half the width of the area on a telephone.
pub(super) const LABEL: usize = 20;
/// What a character takes of the area's width on a telephone.
pub(super) const CHARACTER: f64 = 6.6 / 280.0;

impl Rule {
    pub(super) fn across(value: f64, look: Look, label: &str) -> Self {
        Self { value, look, label: label.to_owned(), upright: true }
    }

    pub(super) fn along(value: f64, look: Look, label: &str) -> Self {
        Self { value, look, label: label.to_owned(), upright: false }
    }
}

/// A spot for each label, so that no two meet even on a narrow page. The one furthest to the right is the lowest: so no line
/// crosses the label of one to its left.
pub(super) fn spots<'a>(rules: impl Iterator<Item = &'a Rule>, x: &Scale) -> Vec<Spot> {
    let mut rows: Vec<Vec<(f64, f64)>> = Vec::new();
    let mut spot = |rule: &Rule| {
        let place = x.place(rule.value);
        let width = super::scale::as_f64(rule.label.chars().count().min(LABEL) as u64 + 2) * CHARACTER;
        let to_the_left = place + width > 1.0 && place > 0.5;
        let taken = if to_the_left { (place - width, place) } else { (place, place + width) };
        if rule.label.is_empty() {
            return Spot { row: 0, to_the_left };
        }
        let free = |row: &Vec<(f64, f64)>| row.iter().all(|(from, to)| taken.1 < *from || taken.0 > *to);
        let row = rows.iter().position(free).unwrap_or(rows.len());
        if row == rows.len() {
            rows.push(Vec::new());
        }
        rows[row].push(taken);
        Spot { row, to_the_left }
    };
    let mut order: Vec<(usize, &Rule)> = rules.enumerate().collect();
    order.sort_by(|(_, a), (_, b)| b.value.total_cmp(&a.value));
    let mut spots: Vec<(usize, Spot)> = order.into_iter().map(|(i, rule)| (i, spot(rule))).collect();
    spots.sort_by_key(|(i, _)| *i);
    spots.into_iter().map(|(_, spot)| spot).collect()
}

#[cfg(test)]
mod tests {
    use super::super::{Look, Scale};
    use super::{Rule, Spot, spots};

    #[test]
    fn labels_that_would_meet_stand_in_rows_of_their_own() {
        let rules = [10.0, 12.0, 95.0].map(|value| Rule::across(value, Look::Note, "p99: 37/1m"));
        let spots = spots(rules.iter(), &Scale::linear(0.0, 100.0));
        assert_eq!(
            spots,
            [
                Spot { row: 1, to_the_left: false },
                Spot { row: 0, to_the_left: false },
                Spot { row: 0, to_the_left: true }
            ]
        );
    }
}
