//! How the service is now, as text.

use std::fmt::Write as _;

use super::{
    figures::{per_second, share_denied},
    picture::Picture,
    words,
};
use crate::visible::visible;

/// How many lines of the journal are printed.
const LINES: usize = 10;

pub(crate) fn text(picture: &Picture, server: &str) -> String {
    let mut text = format!(
        "{}\n{}\n{}\n",
        words::service(picture, server),
        words::store(&picture.now.store),
        words::decisions(picture)
    );
    if let Some(error) = &picture.now.configuration_error {
        let _ = writeln!(text, "the configuration was refused: {}", visible(error));
    }
    let head = ["POLICY", "MODE", "LIMITS", "ALLOWED/S", "DENIED/S", "SHADOW/S", "DENIED"].map(str::to_owned);
    let seconds = picture.now.last.seconds;
    let rows = picture.now.policies.iter().map(|policy| {
        [
            visible(&policy.name),
            visible(policy.mode.as_deref().unwrap_or("-")),
            visible(&policy.limits.join(",")),
            per_second(policy.counts.allowed, seconds),
            per_second(policy.counts.denied(), seconds),
            per_second(policy.counts.shadow, seconds),
            share_denied(policy.counts),
        ]
    });
    let rows: Vec<[String; 7]> = std::iter::once(head).chain(rows).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; 7] = std::array::from_fn(width);
    text.push('\n');
    for row in &rows {
        let cells = row.iter().zip(widths).enumerate().map(|(column, (cell, width))| match column {
            0..3 => format!("{cell:<width$}"),
            _ => format!("{cell:>width$}"),
        });
        let _ = writeln!(text, "{}", cells.collect::<Vec<_>>().join("  "));
    }
    text.push('\n');
    for line in picture.journal.iter().skip(picture.journal.len().saturating_sub(LINES)) {
        let _ = writeln!(text, "{}", words::line(line));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{super::samples, Picture, text};

    #[test]
    fn a_script_can_read_it() {
        let picture = Picture::new(serde_json::from_value(samples::overview()).expect("an overview"));
        insta::assert_snapshot!(text(&picture, "http://127.0.0.1:8080"));
    }
}
