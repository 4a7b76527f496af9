//! Paths of lines and areas, in a square that is stretched to the plot's area. The strokes are not stretched.

use super::{Style, scale::Scale, svg::short};

/// Width and height of the square.
pub(super) const SIZE: f64 = 1000.0;

pub(super) fn line_path(style: Style, points: &[(f64, f64)], x: &Scale, y: &Scale) -> String {
    let positions = positions(points, x, y);
    if positions.is_empty() {
        return String::new();
    }
    format!("<path class=\"line {}\" d=\"{}\"/>", style.class(), outline(&positions, true))
}

/// Returns a line and a filled area below.
pub(super) fn area_path(style: Style, points: &[(f64, f64)], x: &Scale, y: &Scale) -> String {
    let positions = positions(points, x, y);
    let (Some(first), Some(last)) = (positions.first(), positions.last()) else { return String::new() };
    format!(
        "<path class=\"area {}\" d=\"{}L{} {SIZE}L{} {SIZE}Z\"/>{}",
        style.class(),
        outline(&positions, false),
        short(last.0),
        short(first.0),
        line_path(style, points, x, y),
    )
}

fn positions(points: &[(f64, f64)], x: &Scale, y: &Scale) -> Vec<(f64, f64)> {
    points.iter().map(|(a, b)| (x.position(*a) * SIZE, (1.0 - y.position(*b)) * SIZE)).collect()
}

/// Returns a path. With `gaps`, it skips the segments along the axis, which would cover other lines.
fn outline(positions: &[(f64, f64)], gaps: bool) -> String {
    let mut path = String::with_capacity(positions.len() * 14);
    for (i, (x, y)) in positions.iter().enumerate() {
        let along = i > 0 && *y >= SIZE && positions[i - 1].1 >= SIZE;
        let command = if i == 0 || (gaps && along) { 'M' } else { 'L' };
        path.extend([command.to_string(), short(*x), " ".to_owned(), short(*y)]);
    }
    path
}

/// Returns the corners of steps. Each value applies until the next point.
pub(super) fn steps(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mut corners: Vec<(f64, f64)> = Vec::with_capacity(points.len() * 2);
    for (i, (x, y)) in points.iter().enumerate() {
        let before = i.checked_sub(1).and_then(|i| points.get(i)).map(|(_, before)| (*x, *before));
        for corner in before.into_iter().chain([(*x, *y)]) {
            // The middle of three points on one horizontal line is redundant.
            while let [.., a, b] = corners[..]
                && is_same(a.1, b.1)
                && is_same(b.1, corner.1)
            {
                corners.pop();
            }
            corners.push(corner);
        }
    }
    corners
}

fn is_same(a: f64, b: f64) -> bool {
    (a - b).abs() <= f64::EPSILON * a.abs()
}

#[cfg(test)]
mod tests {
    use super::steps;

    #[test]
    fn each_value_applies_until_the_next_point() {
        assert_eq!(steps(&[(0.0, 1.0), (1.0, 3.0), (2.0, 3.0)]), [(0.0, 1.0), (1.0, 1.0), (1.0, 3.0), (2.0, 3.0)]);
        assert_eq!(steps(&[(0.0, 0.0), (1.0, 0.0), (2.0, 0.0), (3.0, 0.0)]), [(0.0, 0.0), (3.0, 0.0)]);
        assert_eq!(steps(&[]), []);
    }
}
