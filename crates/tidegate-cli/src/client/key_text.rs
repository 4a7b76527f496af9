//! Formats the state of a key for people.

use serde_json::Value;

use crate::{overrides::end_and_note, times, visible::visible};

/// Returns the output of `inspect`.
pub(super) fn key_text(body: &Value) -> String {
    let text = |field: &str| visible(body[field].as_str().filter(|text| !text.is_empty()).unwrap_or("?"));
    let key = body["label"].as_str().filter(|label| !label.is_empty()).map_or("this key".to_owned(), visible);
    let shadow = if body["mode"] == "shadow" { ", shadow" } else { "" };
    let mut lines = vec![format!("{key} under {}, by {}{shadow}", text("policy"), text("algorithm"))];
    let active = &body["override"];
    match active["kind"].as_str() {
        Some("ban") => lines.push(format!("banned {}", end_and_note(active))),
        Some("exempt") => lines.push(format!("exempt {}", end_and_note(active))),
        Some(_) => lines.push(format!("other limits {}", end_and_note(active))),
        None => {}
    }
    lines.extend(body["limits"].as_array().into_iter().flatten().map(limit));
    lines.extend(reservations(body));
    lines.push(match body["newest_charge_us"].as_u64() {
        Some(at) => format!("last charged {}", times::moment(at / 1_000)),
        None => "it has no state".to_owned(),
    });
    lines.join("\n  ") + "\n"
}

/// `2 open holds with 3 units; the first ends in 5s, the last in 1m`, and the same for leases.
fn reservations(body: &Value) -> Vec<String> {
    let all: Vec<&Value> = body["reservations"].as_array().into_iter().flatten().collect();
    let now = body["now_us"].as_u64().unwrap_or(0);
    let of = |kind: &str| {
        let open: Vec<_> = all.iter().filter(|open| open["kind"] == kind).collect();
        let units: u64 = open.iter().filter_map(|open| open["units"].as_u64()).sum();
        let end =
            |open: &Value| times::span(open["until_us"].as_u64().unwrap_or(0).saturating_sub(now).div_ceil(1_000));
        let (count, plural) = (open.len(), if open.len() == 1 { "" } else { "s" });
        let text = format!("{count} open {kind}{plural} with {units} units; ");
        match open.as_slice() {
            [] => None,
            [only] => Some(format!("{text}it ends in {}", end(only))),
            [first, .., last] => Some(format!("{text}the first ends in {}, the last in {}", end(first), end(last))),
        }
    };
    ["hold", "lease"].into_iter().filter_map(of).collect()
}

fn limit(limit: &Value) -> String {
    let number = |field: &str| limit[field].as_u64().unwrap_or(0);
    let state = format!(
        "{}: {} of {} in use, {} remaining",
        limit["limit"].as_str().unwrap_or("?"),
        number("used"),
        number("capacity"),
        number("remaining")
    );
    match limit["next_free_after_ms"].as_u64() {
        Some(next) => {
            let all = times::span(number("reset_after_ms"));
            format!("{state}; the next unit is free in {}, all in {all}", times::span(next))
        }
        None => state,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::key_text;

    #[test]
    fn a_key_is_shown_with_its_override_and_the_times_until_units_are_free() {
        let body = json!({
            "policy": "api", "found": true, "label": "al\u{1b}ice", "newest_charge_us": 1_794_842_458_000_000_u64,
            "now_us": 1_794_842_459_000_000_u64, "algorithm": "sliding_log", "mode": "shadow",
            "override": {"kind": "ban", "limits": [], "algorithm": null, "since_ms": 1, "until_ms": null, "note": "scraper"},
            "limits": [
                {"limit": "60/1m", "capacity": 60, "used": 3, "remaining": 0, "next_free_after_ms": 100, "reset_after_ms": 59112},
                {"limit": "9/1s", "capacity": 9, "used": 0, "remaining": 0, "next_free_after_ms": null, "reset_after_ms": 0},
            ],
            "reservations": [
                {"kind": "hold", "units": 2, "granted_at_us": 1_794_842_458_000_000_u64, "until_us": 1_794_842_464_000_000_u64, "expires": "released"},
                {"kind": "lease", "units": 5, "granted_at_us": 1_794_842_458_000_000_u64, "until_us": 1_794_842_460_000_000_u64, "expires": "spent"},
                {"kind": "hold", "units": 1, "granted_at_us": 1_794_842_458_000_000_u64, "until_us": 1_794_842_519_000_000_u64, "expires": "spent"},
            ],
        });
        insta::assert_snapshot!(key_text(&body), @r"
        al\u{1b}ice under api, by sliding_log, shadow
          banned permanently: scraper
          60/1m: 3 of 60 in use, 0 remaining; the next unit is free in 100ms, all in 1m
          9/1s: 0 of 9 in use, 0 remaining
          2 open holds with 3 units; the first ends in 5s, the last in 1m
          1 open lease with 5 units; it ends in 1s
          last charged 2026-11-16 15:20:58 UTC
        ");
    }
}
