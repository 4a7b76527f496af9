//! Every dialect of the rate limit headers.

use serde_json::json;
use tidegate::Clock;
use tidegate_server::config::{Config, SettingSources};

use super::client::{Response, post};
use crate::running::Running;

/// Returns the responses to an admitted and a denied request under a limit of 2 per minute.
fn responses(dialect: &str) -> [Response; 2] {
    let running = Running::start(&format!("[server]\nheaders = \"{dialect}\"\n[policies.api]\nlimits = [\"2/1m\"]\n"));
    let check = |cost: u64| post(running.http, "/v1/check", &json!({ "policy": "api", "key": "alice", "cost": cost }));
    [check(1), check(2)]
}

fn headers_with<'a>(response: &'a Response, prefix: &str) -> Vec<(&'a str, &'a str)> {
    let headers = response.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let mut found: Vec<_> = headers.filter(|(name, _)| name.contains(prefix)).collect();
    found.sort_unstable();
    found
}

fn number(response: &Response, name: &str) -> u64 {
    response.header(name).and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("{name} of {response:?}"))
}

#[test]
fn reset_headers_with_seconds_match_retry_after() {
    for (dialect, prefix) in [("draft-6", "ratelimit-"), ("x-ratelimit-seconds", "x-ratelimit-")] {
        let [first, denied] = responses(dialect);
        assert_eq!((first.status, denied.status), (200, 429), "{dialect}");
        let expected = [("limit", "2"), ("remaining", "1"), ("reset", "60")]
            .map(|(name, value)| (format!("{prefix}{name}"), value.to_owned()));
        let expected: Vec<_> = expected.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(headers_with(&first, "ratelimit"), expected, "{dialect}");
        assert_eq!(first.header("retry-after"), None, "{dialect}");
        let wait = number(&denied, "retry-after");
        assert_eq!(number(&denied, &format!("{prefix}reset")), wait, "{dialect}");
        assert!(wait * 1_000 >= denied.json()["retry_after_ms"].as_u64().expect("a wait"), "{dialect}: {wait} s");
    }
}

#[test]
fn x_ratelimit_reset_is_a_unix_time() {
    let [first, denied] = responses("x-ratelimit");
    let latest = Clock::system().now().as_micros() + 62_000_000;
    let free = first.json()["charged_at_us"].as_u64().expect("it was charged") + 60_000_000;
    let names: Vec<_> = headers_with(&first, "ratelimit").into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"]);
    assert_eq!((number(&first, "x-ratelimit-limit"), number(&first, "x-ratelimit-remaining")), (2, 1));
    for response in [&first, &denied] {
        let reset = number(response, "x-ratelimit-reset") * 1_000_000;
        assert!((free..=latest).contains(&reset), "{reset} is not between {free} and {latest}: {response:?}");
    }
    assert!((1..=60).contains(&number(&denied, "retry-after")), "seconds, in any dialect: {denied:?}");
}

#[test]
fn off_sends_retry_after_only() {
    let [first, denied] = responses("off");
    assert_eq!((headers_with(&first, "ratelimit"), headers_with(&first, "retry")), (vec![], vec![]));
    assert_eq!((headers_with(&denied, "ratelimit"), headers_with(&denied, "retry").len()), (vec![], 1));
}

#[test]
fn an_unknown_dialect_is_refused_with_the_known_ones() {
    let text = "[server]\nheaders = \"draft-7\"\n";
    let error = Config::parse("t.toml", text, &SettingSources::default()).expect_err("no dialect").to_string();
    assert_eq!(
        error,
        "t.toml:2:11: `draft-7` is no format of rate limit headers: use draft-10, draft-6, x-ratelimit, \
         x-ratelimit-seconds or off"
    );
}
