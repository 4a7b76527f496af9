//! The waits that responses request.

use std::time::Duration;

use http::{HeaderMap, HeaderName, StatusCode};
use tidegate_tower::caller::wait_from_headers;

use super::BEGAN;

fn wait(status: u16, headers: &[(&'static str, &str)]) -> Option<Duration> {
    let header = |(name, value): &(&'static str, &str)| {
        (HeaderName::from_static(name), value.parse().expect("a header's value"))
    };
    let headers: HeaderMap = headers.iter().map(header).collect();
    wait_from_headers(StatusCode::from_u16(status).expect("a status"), &headers, BEGAN)
}

#[expect(clippy::unnecessary_wraps, reason = "it is what is compared with")]
fn seconds(wait: f64) -> Option<Duration> {
    Some(Duration::from_secs_f64(wait))
}

#[test]
fn retry_after_is_seconds_or_a_date() {
    for status in [429, 503, 500, 413] {
        assert_eq!(wait(status, &[("retry-after", "120")]), seconds(120.0));
    }
    assert_eq!(wait(200, &[("retry-after", "120")]), None, "a success does not ask to come back");
    assert_eq!(wait(301, &[("retry-after", "120")]), None);
    // BEGAN is Fri, 18 Apr 2025 18:13:20 GMT.
    let date = ("retry-after", "Fri, 18 Apr 2025 18:14:20 GMT");
    assert_eq!(wait(429, &[date]), seconds(60.0));
    let server = ("date", "Fri, 18 Apr 2025 18:14:00 GMT");
    assert_eq!(wait(429, &[date, server]), seconds(20.0), "by the clock of the one who says it");
    assert_eq!(wait(429, &[("retry-after", "Fri, 18 Apr 2025 18:00:00 GMT")]), None, "that is over");
    assert_eq!(wait(429, &[("retry-after", "1.5")]), seconds(1.5));
    assert_eq!(wait(429, &[("retry-after-ms", "250"), ("retry-after", "1")]), seconds(1.0), "to keep to both");
    assert_eq!(wait(429, &[("retry-after-ms", "250")]), seconds(0.25));
}

#[test]
fn retry_after_takes_precedence() {
    let headers = [
        ("retry-after", "7"),
        ("ratelimit", "\"a\";r=0;t=90"),
        ("x-ratelimit-remaining", "0"),
        ("x-ratelimit-reset", "60"),
    ];
    assert_eq!(wait(429, &headers), seconds(7.0));
    assert_eq!(wait(200, &headers), seconds(90.0), "a success ignores Retry-After");
}

#[test]
fn draft_10_requests_a_wait_if_nothing_remains() {
    assert_eq!(wait(200, &[("ratelimit", "\"default\";r=0;t=30")]), seconds(30.0));
    assert_eq!(wait(429, &[("ratelimit", "\"default\";r=0;t=30")]), seconds(30.0));
    assert_eq!(wait(200, &[("ratelimit", "\"default\";r=1;t=30")]), None);
    assert_eq!(wait(200, &[("ratelimit", "\"a\";r=0;t=5, \"b\";r=9;t=700, \"c\";r=0;t=20")]), seconds(20.0));
    assert_eq!(wait(200, &[("ratelimit", "\"a\";r=0;t=5"), ("ratelimit", "\"b\";r=0;t=9")]), seconds(9.0));
    assert_eq!(wait(200, &[("ratelimit", "\"a\";r=0")]), None, "it does not say how long");
    assert_eq!(wait(200, &[("ratelimit", "limit=10, remaining=0, reset=5")]), seconds(5.0), "draft 7, in one header");
    assert_eq!(wait(200, &[("ratelimit", "limit=10, remaining=1, reset=5")]), None);
    for garbage in ["", "\"a\";r=0;t=-5", "\"a\";r=0;t=x", "\"a;r=0;t=5", "a b c", "\"a\";r=\"0\";t=5"] {
        assert_eq!(wait(200, &[("ratelimit", garbage)]), None, "{garbage}");
    }
}

#[test]
fn the_three_headers_request_a_wait_if_nothing_remains() {
    assert_eq!(wait(200, &[("ratelimit-remaining", "0"), ("ratelimit-reset", "17")]), seconds(17.0));
    assert_eq!(wait(200, &[("ratelimit-remaining", "3"), ("ratelimit-reset", "17")]), None);
    let none = ("x-ratelimit-remaining", "0");
    assert_eq!(wait(403, &[none, ("x-ratelimit-reset", "17")]), seconds(17.0));
    assert_eq!(wait(403, &[none, ("x-ratelimit-reset", "1745000060")]), seconds(60.0), "a time in seconds");
    assert_eq!(wait(403, &[none, ("x-ratelimit-reset", "1745000060500")]), seconds(60.5), "in milliseconds");
    assert_eq!(wait(403, &[none, ("x-ratelimit-reset", "1744999999")]), None, "that is over");
    let after = ("x-ratelimit-reset-after", "64.57");
    assert_eq!(wait(429, &[none, ("x-ratelimit-reset", "1745000060"), after]), seconds(64.57));
    assert_eq!(wait(200, &[none]), None, "it does not say how long");
    assert_eq!(wait(200, &[("x-ratelimit-reset", "17")]), None);
}

#[test]
fn several_quotas_of_one_server_are_distinguished() {
    let of = |requests, tokens| {
        wait(
            200,
            &[
                ("x-ratelimit-remaining-requests", requests),
                ("x-ratelimit-reset-requests", "6m0s"),
                ("x-ratelimit-remaining-tokens", tokens),
                ("x-ratelimit-reset-tokens", "1m2.5s"),
            ],
        )
    };
    assert_eq!(of("10", "5000"), None);
    assert_eq!(of("0", "5000"), seconds(360.0));
    assert_eq!(of("10", "0"), seconds(62.5));
    assert_eq!(of("0", "0"), seconds(360.0));
    let short = [("x-ratelimit-remaining-tokens", "0"), ("x-ratelimit-reset-tokens", "7.66ms")];
    assert_eq!(wait(200, &short), seconds(0.00766));
}

#[test]
fn a_failed_grpc_call_requests_a_wait_in_milliseconds() {
    assert_eq!(wait(200, &[("grpc-status", "8"), ("grpc-retry-pushback-ms", "1500")]), seconds(1.5));
    assert_eq!(wait(200, &[("grpc-status", "8"), ("grpc-retry-pushback-ms", "-1")]), None);
}

#[test]
fn a_requested_wait_has_a_maximum() {
    let eleven_days = Some(Duration::from_secs(1_000_000));
    for long in ["1000001", "99999999999999999999999999", "Fri, 31 Dec 9999 23:59:59 GMT"] {
        assert_eq!(wait(429, &[("retry-after", long)]), eleven_days, "{long}");
    }
    assert_eq!(wait(200, &[("ratelimit", "\"a\";r=0;t=999999999999999")]), eleven_days);
}

#[test]
fn invalid_waits_are_ignored() {
    for nothing in ["0", "-5", "soon", "", "NaN", "inf", "1e5", "0x10"] {
        assert_eq!(wait(429, &[("retry-after", nothing)]), None, "{nothing}");
    }
}

#[test]
fn an_out_of_range_time_is_the_maximum_wait() {
    let none = ("x-ratelimit-remaining", "0");
    let nines = "9".repeat(40);
    for long in [format!("1m{nines}.5s"), format!("{nines}.5s"), format!("1h1m{nines}.5ms"), nines] {
        let asked = wait(200, &[none, ("x-ratelimit-reset", &long)]);
        assert_eq!(asked, Some(Duration::from_secs(1_000_000)), "{long}");
    }
}

#[test]
fn the_longest_of_several_retry_times_counts() {
    assert_eq!(wait(429, &[("retry-after", "2"), ("retry-after", "60")]), seconds(60.0));
    assert_eq!(wait(429, &[("retry-after", "60"), ("retry-after", "2")]), seconds(60.0));
    assert_eq!(wait(429, &[("retry-after", "soon"), ("retry-after", "2")]), seconds(2.0));
}

#[test]
fn times_are_relative_to_the_date_of_the_response() {
    // BEGAN is Fri, 18 Apr 2025 18:13:20 GMT: the server is half a minute behind.
    let server = ("date", "Fri, 18 Apr 2025 18:12:50 GMT");
    let none = ("x-ratelimit-remaining", "0");
    assert_eq!(wait(403, &[none, ("x-ratelimit-reset", "1745000010"), server]), seconds(40.0));
}
