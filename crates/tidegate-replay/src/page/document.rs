//! The document around the content of a page: head, style sheet, patterns. A content security policy prevents loading and running
//! anything.

use super::escape;
use crate::formatting::clip;

const STYLE: [&str; 3] =
    [include_str!("style/colours.css"), include_str!("style/page.css"), include_str!("style/plot.css")];

/// Patterns of bars where colours may not be visible: a name, a colour, and a path in a square of 6.
const PATTERNS: [(&str, &str, &str); 8] = [
    ("p-denied", "denied", "M-1 1L1 -1M0 6L6 0M5 7L7 5"),
    ("p1", "s1", "M-1 1L1 -1M0 6L6 0M5 7L7 5"),
    ("p2", "s2", "M-1 5L1 7M0 0L6 6M5 -1L7 1"),
    ("p3", "s3", "M0 3H6"),
    ("p4", "s4", "M3 0V6"),
    ("p5", "s5", "M0 3H6M3 0V6"),
    ("p6", "s6", "M0 0L6 6M0 6L6 0"),
    ("p7", "s7", "M2 3H4"),
];

/// Returns a complete page.
pub(super) fn document(title: &str, content: &str) -> String {
    let pattern = |(id, colour, path): &(&str, &str, &str)| {
        format!(
            "<pattern id=\"{id}\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\">\
             <rect width=\"6\" height=\"6\" style=\"fill:var(--{colour});fill-opacity:.25\"/>\
             <path d=\"{path}\" style=\"stroke:var(--{colour});stroke-width:1.8\"/></pattern>"
        )
    };
    let patterns: String = PATTERNS.iter().map(pattern).collect();
    // A number and its percent sign stay on one line.
    let content = content.replace(" %", "\u{a0}%");
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n\
         <meta name=\"color-scheme\" content=\"light dark\"/>\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\"/>\n\
         <title>{}</title>\n<style>\n{}</style>\n</head>\n<body>\n\
         <svg class=\"patterns\" aria-hidden=\"true\">{patterns}</svg>\n<main>\n{content}</main>\n</body>\n</html>\n",
        escape::text(&clip(title, 200)),
        STYLE.concat(),
    )
}

#[cfg(test)]
mod tests {
    use super::STYLE;

    /// Returns the colours of a scheme by name.
    fn colours(scheme: &str) -> Vec<(String, [f64; 3])> {
        let channel = |hex: &str, i: usize| f64::from(u8::from_str_radix(&hex[i..i + 2], 16).unwrap()) / 255.0;
        let colour = |declaration: &str| {
            let (name, value) = declaration.split_once(':')?;
            let hex = value.trim().strip_prefix('#')?;
            Some((name.trim().to_owned(), [0, 2, 4].map(|i| channel(hex, i))))
        };
        scheme.split([';', '{']).filter_map(colour).collect()
    }

    /// Returns the contrast as the Web Content Accessibility Guidelines define it.
    fn contrast(a: [f64; 3], b: [f64; 3]) -> f64 {
        let linear = |c: f64| if c <= 0.04045 { c / 12.92 } else { ((c + 0.055) / 1.055).powf(2.4) };
        let light = |[r, g, b]: [f64; 3]| 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b) + 0.05;
        (light(a) / light(b)).max(light(b) / light(a))
    }

    #[test]
    fn lines_and_text_have_enough_contrast() {
        let (light, dark) = STYLE[0].split_once("@media").unwrap();
        for scheme in [light, dark].map(colours) {
            let of = |name: &str| scheme.iter().find(|(n, _)| n == name).unwrap_or_else(|| panic!("no {name}")).1;
            let series = (0..8).map(|i| format!("--s{i}"));
            let others = ["--requests", "--denied", "--limit", "--note", "--notice"].map(str::to_owned);
            for name in series.chain(others) {
                let found = contrast(of(&name), of("--paper"));
                assert!(found >= 3.0, "the contrast of {name} is only {found:.1}");
            }
            for (text, paper) in
                [("--ink", "--paper"), ("--ink", "--card"), ("--soft", "--paper"), ("--soft", "--card")]
            {
                let found = contrast(of(text), of(paper));
                assert!(found >= 4.5, "the contrast of {text} on {paper} is only {found:.1}");
            }
            let found = contrast(of("--allowed"), of("--denied"));
            assert!(found >= 1.8, "the contrast of denied and allowed is only {found:.1}");
        }
    }
}
