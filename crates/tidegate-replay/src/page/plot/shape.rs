//! Lines and areas. They lie in a picture of their own that is stretched to the plot's area; their strokes are not.

use super::Look;
use super::scale::Scale;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Line,
    Area,
}

#[derive(Debug, Clone)]
pub(super) struct Shape {
    pub(super) kind: Kind,
    pub(super) look: Look,
    pub(super) points: Vec<(f64, f64)>,
}

/// The width and the height of the picture.
pub(super) const SIZE: f64 = 1000.0;

impl Shape {
    pub(super) fn svg(&self, x: &Scale, y: &Scale) -> String {
        let places: Vec<(f64, f64)> =
            self.points.iter().map(|(a, b)| (x.place(*a) * SIZE, (1.0 - y.place(*b)) * SIZE)).collect();
        let (Some(first), Some(last)) = (places.first(), places.last()) else { return String::new() };
        let class = self.look.class();
        let line = format!("<path class=\"line {class}\" d=\"{}\"/>", outline(&places, true));
        match self.kind {
            Kind::Line => line,
            Kind::Area => format!(
                "<path class=\"area {class}\" d=\"{}L{} {SIZE}L{} {SIZE}Z\"/>{line}",
                outline(&places, false),
                short(last.0),
                short(first.0),
            ),
        }
    }
}

/// A path from place to place. With `gaps` it leaves out what runs along the axis: that says nothing, and covers what does.
fn outline(places: &[(f64, f64)], gaps: bool) -> String {
    let mut path = String::with_capacity(places.len() * 14);
    for (i, (x, y)) in places.iter().enumerate() {
        let along = i > 0 && *y >= SIZE && places[i - 1].1 >= SIZE;
        let command = if i == 0 || (gaps && along) { 'M' } else { 'L' };
        path.extend([command.to_string(), short(*x), " ".to_owned(), short(*y)]);
    }
    path
}

/// The corners of steps that hold each value until the next point.
pub(super) fn steps(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mut corners = Vec::with_capacity(points.len() * 2);
    for (i, (x, y)) in points.iter().enumerate() {
        if let Some((_, before)) = i.checked_sub(1).and_then(|i| points.get(i)) {
            corners.push((*x, *before));
        }
        corners.push((*x, *y));
    }
    // Three on one line are two.
    let mut kept: Vec<(f64, f64)> = Vec::with_capacity(corners.len());
    for corner in corners {
        while let [.., a, b] = kept[..]
            && same(a.1, b.1)
            && same(b.1, corner.1)
        {
            kept.pop();
        }
        kept.push(corner);
    }
    kept
}

fn same(a: f64, b: f64) -> bool {
    (a - b).abs() <= f64::EPSILON * a.abs()
}

/// A number with at most two places.
pub(super) fn short(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::{short, steps};

    #[test]
    fn steps_hold_a_value_until_the_next() {
        assert_eq!(steps(&[(0.0, 1.0), (1.0, 3.0), (2.0, 3.0)]), [(0.0, 1.0), (1.0, 1.0), (1.0, 3.0), (2.0, 3.0)]);
        assert_eq!(steps(&[(0.0, 0.0), (1.0, 0.0), (2.0, 0.0), (3.0, 0.0)]), [(0.0, 0.0), (3.0, 0.0)]);
        assert_eq!(steps(&[]), []);
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!([0.0, 12.5, 100.0, 33.333].map(short), ["0", "12.5", "100", "33.33"]);
    }
}
