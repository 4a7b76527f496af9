//! The current state of the service as text.

use std::fmt::Write as _;

use super::{snapshot::Snapshot, status_text};
use crate::visible::visible;

/// Number of events that are printed.
const LINES: usize = 10;

pub(crate) fn text(snapshot: &Snapshot, server: &str) -> String {
    let mut text = format!(
        "{}\n{}\n{}\n",
        status_text::service(snapshot, server),
        status_text::store(&snapshot.now.store),
        status_text::decisions(snapshot)
    );
    if let Some(error) = &snapshot.now.configuration_error {
        let _ = writeln!(text, "the configuration was refused: {}", visible(error));
    }
    let head = status_text::HEADINGS.map(str::to_owned);
    let rows = snapshot.now.policies.iter().map(|policy| status_text::row(policy, snapshot, ","));
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
    if let Some(leases) = &snapshot.now.store.leases {
        text.push('\n');
        let _ = writeln!(text, "{}", lease_row(&status_text::LEASE_HEADINGS.map(str::to_owned), "POLICY"));
        for lease in &leases.keys {
            let _ = writeln!(text, "{}", lease_row(&status_text::lease(lease), &visible(&lease.policy)));
        }
    }
    text.push('\n');
    for line in snapshot.journal.iter().skip(snapshot.journal.len().saturating_sub(LINES)) {
        let _ = writeln!(text, "{}", status_text::line(line));
    }
    text
}

fn lease_row([left, of, ends_in, admitted, denied, key]: &[String; 6], policy: &str) -> String {
    format!("{left:>10}  {of:>10}  {ends_in:>8}  {admitted:>12}  {denied:>12}  {policy:<16}  {key}")
}

#[cfg(test)]
mod tests {
    use super::{super::samples, Snapshot, text};

    #[test]
    fn a_script_can_read_it() {
        let snapshot = Snapshot::new(serde_json::from_value(samples::overview()).expect("an overview"));
        insta::assert_snapshot!(text(&snapshot, "http://127.0.0.1:8080"));
    }

    #[test]
    fn leases_are_listed_by_key() {
        let mut overview = samples::overview();
        samples::add_leases(&mut overview);
        overview["journal"] = serde_json::json!([]);
        let snapshot = Snapshot::new(serde_json::from_value(overview).expect("an overview"));
        insta::assert_snapshot!(text(&snapshot, "http://127.0.0.1:8080"));
    }
}
