//! Formats numbers and texts for few columns.

use ratatui::text::Span;

use tidegate_server::dashboard::OutcomeTotals;

/// `0`, `1.2`, `123`, `12.3k`, `4.5M`.
pub(crate) fn rate(per_second: f64) -> String {
    match per_second {
        none if none <= 0.0 => "0".to_owned(),
        few if few < 99.95 => format!("{few:.1}"),
        some if some < 9_999.5 => format!("{some:.0}"),
        many if many < 999_950.0 => format!("{:.1}k", many / 1e3),
        most => format!("{:.1}M", most / 1e6),
    }
}

/// Formats a number per second.
#[expect(clippy::cast_precision_loss, reason = "it is rounded anyway")]
pub(crate) fn per_second(count: u64, seconds: u32) -> String {
    rate(count as f64 / f64::from(seconds.max(1)))
}

/// `2.8%`; a small share above zero is `<0.1%`.
pub(crate) fn share(of_one: f64) -> String {
    match of_one * 100.0 {
        none if none <= 0.0 => "0%".to_owned(),
        little if little < 0.1 => "<0.1%".to_owned(),
        some => format!("{some:.1}%"),
    }
}

/// Formats the share of denials.
#[expect(clippy::cast_precision_loss, reason = "it is rounded anyway")]
pub(crate) fn share_denied(counts: OutcomeTotals) -> String {
    share(counts.denied() as f64 / counts.all().max(1) as f64)
}

/// `12 µs`, `1.8 ms`; a dash without a measurement.
pub(crate) fn micros(micros: Option<f64>) -> String {
    match micros {
        None => "–".to_owned(),
        Some(few) if few < 10.0 => format!("{few:.1} µs"),
        Some(some) if some < 999.5 => format!("{some:.0} µs"),
        Some(many) => format!("{:.1} ms", many / 1e3),
    }
}

/// `12.5 kB`, `6.4 MB`, `1.5 GB`: the units of the configuration.
#[expect(clippy::cast_precision_loss, reason = "it is rounded anyway")]
pub(crate) fn bytes(count: usize) -> String {
    let (unit, size) = match count {
        0..1_000_000 => ("kB", 1e3),
        1_000_000..1_000_000_000 => ("MB", 1e6),
        _ => ("GB", 1e9),
    };
    format!("{:.1} {unit}", count as f64 / size)
}

/// Returns the text if it fits into the columns, otherwise its beginning and `…`.
pub(crate) fn fit(text: &str, columns: usize) -> String {
    if Span::raw(text).width() <= columns {
        return text.to_owned();
    }
    // The last beginning that leaves a column for `…`.
    let beginnings = text.char_indices().map(|(end, _)| &text[..end]);
    let fitting = beginnings.take_while(|beginning| Span::raw(*beginning).width() < columns);
    fitting.last().map_or(String::new(), |beginning| format!("{beginning}…"))
}

#[cfg(test)]
mod tests {
    use super::{bytes, fit, micros, rate, share};

    #[test]
    fn numbers_are_short() {
        let rates = [0.0, 0.1, 12.34, 99.94, 99.96, 123.4, 9_999.4, 12_345.0, 4_500_000.0].map(rate);
        assert_eq!(rates, ["0", "0.1", "12.3", "99.9", "100", "123", "9999", "12.3k", "4.5M"]);
        assert_eq!([0.0, 0.0001, 0.0275, 1.0].map(share), ["0%", "<0.1%", "2.8%", "100.0%"]);
        assert_eq!([None, Some(1.25), Some(80.0), Some(1830.0)].map(micros), ["–", "1.2 µs", "80 µs", "1.8 ms"]);
        assert_eq!([0, 1_500, 6_400_000, 2_000_000_000].map(bytes), ["0.0 kB", "1.5 kB", "6.4 MB", "2.0 GB"]);
    }

    #[test]
    fn long_texts_are_cut() {
        assert_eq!(fit("alice", 5), "alice");
        assert_eq!(fit("alice", 4), "ali…");
        assert_eq!(fit("東京都", 5), "東京…");
        assert_eq!(fit("東京都", 4), "東…");
        assert_eq!((fit("alice", 1).as_str(), fit("alice", 0).as_str()), ("…", ""));
    }
}
