//! [`Exposition`]: the two formats that Prometheus reads, and which of them a request accepts.

use std::collections::HashMap;

use axum::http::HeaderMap;

/// A format of metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exposition {
    /// The text format of Prometheus, version 0.0.4: the default.
    Text,
    /// `OpenMetrics` 1.0.0.
    OpenMetrics,
}

impl Exposition {
    /// The format that a request prefers.
    pub(crate) fn accepted(headers: &HeaderMap) -> Self {
        let ranges = headers.get_all("accept").iter().filter_map(|value| value.to_str().ok());
        let (mut text, mut open) = (0.0_f64, 0.0_f64);
        for range in ranges.flat_map(|value| value.split(',')).map(str::to_ascii_lowercase) {
            let mut parts = range.split(';').map(str::trim);
            let kind = parts.next().unwrap_or_default();
            let parameters: HashMap<&str, &str> = parts.filter_map(|part| part.split_once('=')).collect();
            let quality = parameters.get("q").map_or(1.0_f64, |quality| quality.parse().unwrap_or(0.0)).min(1.0);
            match (kind, parameters.get("version").map(|version| version.trim_matches('"'))) {
                ("application/openmetrics-text", None | Some("1.0.0")) => open = open.max(quality),
                ("text/plain", None | Some("0.0.4")) | ("text/*" | "*/*", _) => text = text.max(quality),
                _ => {}
            }
        }
        if open > text { Self::OpenMetrics } else { Self::Text }
    }

    /// Its media type.
    pub(crate) fn media_type(self) -> &'static str {
        match self {
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }

    /// Converts a text from `OpenMetrics` to this format.
    pub(super) fn of(self, open_metrics: String) -> String {
        match self {
            Self::OpenMetrics => open_metrics,
            Self::Text => text(&open_metrics),
        }
    }
}

/// Converts `OpenMetrics` to the text format. There the names of counters and infos end like their samples (`_total`,
/// `_info`), infos are gauges, and there are no `UNIT` and `EOF` lines.
fn text(open_metrics: &str) -> String {
    let mut out = String::with_capacity(open_metrics.len());
    let mut help = "";
    for line in open_metrics.lines() {
        if let Some(of) = line.strip_prefix("# HELP ") {
            help = of;
        } else if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|of| of.split_once(' ')) {
            let (suffix, kind) = match kind {
                "counter" => ("_total", "counter"),
                "info" => ("_info", "gauge"),
                "unknown" => ("", "untyped"),
                other => ("", other),
            };
            let help = help.split_once(' ').map_or("", |(_, help)| help);
            out.extend(["# HELP ", name, suffix, " ", help, "\n# TYPE ", name, suffix, " ", kind, "\n"]);
        } else if !line.starts_with('#') {
            out.extend([line, "\n"]);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderMap, HeaderValue};

    use super::{Exposition, text};

    #[test]
    fn the_format_is_what_a_request_prefers() {
        let prometheus = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.3,text/plain;version=0.0.4;q=0.2,*/*;q=0.1";
        for (accept, expected) in [
            (None, Exposition::Text),
            (Some("*/*"), Exposition::Text),
            (Some("application/json"), Exposition::Text),
            (Some("text/plain;version=0.0.4"), Exposition::Text),
            (Some("application/openmetrics-text"), Exposition::OpenMetrics),
            (
                Some("application/openmetrics-text; version=\"1.0.0\"; q=0.9, text/plain; q=0.8"),
                Exposition::OpenMetrics,
            ),
            (Some("application/openmetrics-text; q=0.8, text/plain"), Exposition::Text),
            (Some("application/openmetrics-text; q=0"), Exposition::Text),
            (Some("application/openmetrics-text; version=2.0.0"), Exposition::Text),
            (Some("application/openmetrics-text; q=x"), Exposition::Text),
            (Some(prometheus), Exposition::OpenMetrics),
        ] {
            let mut headers = HeaderMap::new();
            headers.extend(accept.map(|accept| (axum::http::header::ACCEPT, HeaderValue::from_static(accept))));
            assert_eq!(Exposition::accepted(&headers), expected, "{accept:?}");
        }
    }

    #[test]
    fn the_text_format_names_what_its_samples_are_called() {
        let open = "# HELP a_b Things.\n# TYPE a_b counter\na_b_total{x=\"1\"} 2\n# HELP t_seconds Time.\n# TYPE t_seconds histogram\n\
                    # UNIT t_seconds seconds\nt_seconds_sum 0.5\n# HELP v Version.\n# TYPE v info\nv_info{version=\"1\"} 1\n# EOF\n";
        assert_eq!(
            text(open),
            "# HELP a_b_total Things.\n# TYPE a_b_total counter\na_b_total{x=\"1\"} 2\n# HELP t_seconds Time.\n\
             # TYPE t_seconds histogram\nt_seconds_sum 0.5\n# HELP v_info Version.\n# TYPE v_info gauge\nv_info{version=\"1\"} 1\n"
        );
    }
}
