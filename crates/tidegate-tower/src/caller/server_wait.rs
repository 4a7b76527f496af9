//! Reads from a response how long the server requests its client to wait.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::{
    HeaderMap, HeaderValue, StatusCode,
    header::{DATE, RETRY_AFTER},
};
use sfv::{BareItem, Dictionary, List, ListEntry, Parser};
use tidegate::Timestamp;

use super::pauses::MAX_PAUSE;

/// The wait that a response with this status and these headers requests before the next call. `now` is the time at
/// which the response arrived.
///
/// - `Retry-After` of an error, in seconds or as a date, takes precedence.
/// - Otherwise, if `RateLimit` has `r=0`, or `RateLimit-Remaining`, `X-RateLimit-Remaining` or one of
///   `X-RateLimit-Remaining-…` is 0, the wait is that of the matching reset: seconds, a time, or `1m30s`.
///
/// Times are relative to the response's `Date`, if it has one. Returns `None` if the headers request no wait, even for a
/// 429 or 503. A wait is at most 10^6 seconds, about eleven days.
pub fn wait_from_headers(status: StatusCode, headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let is_error = status.is_client_error() || status.is_server_error();
    let date = text(headers, DATE.as_str()).and_then(|date| httpdate::parse_http_date(date).ok());
    let now = date.unwrap_or_else(|| UNIX_EPOCH + Duration::from_micros(now.as_micros()));
    let wait = is_error.then(|| retry_after(headers, now)).flatten();
    let wait = wait.or_else(|| grpc_pushback(headers)).or_else(|| exhausted_quota(headers, now));
    wait.filter(|wait| !wait.is_zero()).map(|wait| wait.min(MAX_PAUSE))
}

fn text<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    Some(headers.get(name)?.to_str().ok()?.trim())
}

fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let in_ms = text(headers, "retry-after-ms").and_then(number).map(|wait| seconds(wait / 1e3));
    // A proxy may add another value. The longest wait satisfies all of them.
    let wait = |value: &HeaderValue| {
        let text = value.to_str().ok()?.trim();
        number(text).map(seconds).or_else(|| Some(until(httpdate::parse_http_date(text).ok()?, now)))
    };
    headers.get_all(RETRY_AFTER).iter().filter_map(wait).chain(in_ms).max()
}

fn until(at: SystemTime, now: SystemTime) -> Duration {
    at.duration_since(now).unwrap_or_default()
}

/// The wait of a gRPC call that failed before it sent a message.
fn grpc_pushback(headers: &HeaderMap) -> Option<Duration> {
    text(headers, "grpc-retry-pushback-ms")?.parse().ok().map(Duration::from_millis)
}

fn exhausted_quota(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let structured = headers.get_all("ratelimit").iter().filter_map(|line| structured_wait(line.to_str().ok()?)).max();
    let pairs = headers.iter().filter_map(|(name, value)| {
        let name = name.as_str();
        let (before, kind) = name.split_once("ratelimit-remaining")?;
        let is_known = before.is_empty() || before == "x-";
        if !is_known || number(value.to_str().ok()?.trim())? > 0.0 {
            return None;
        }
        let reset = format!("{before}ratelimit-reset{kind}");
        let after = text(headers, &format!("{reset}-after")).and_then(number).map(seconds);
        after.or_else(|| reset_wait(text(headers, &reset)?, now))
    });
    structured.max(pairs.max())
}

/// The longest `t` of the items with `r=0`. In draft 7, the `reset` of a dictionary with `remaining=0`.
fn structured_wait(line: &str) -> Option<Duration> {
    let number = |item: &BareItem| item.as_integer().and_then(|value| u64::try_from(i64::from(value)).ok());
    let wait = |remaining: u64, seconds: u64| (remaining == 0).then_some(Duration::from_secs(seconds));
    if let Ok(list) = Parser::new(line).parse::<List>() {
        let waits = list.iter().filter_map(|entry| {
            let ListEntry::Item(item) = entry else { return None };
            let parameter = |name: &str| item.params.get(name).and_then(number);
            wait(parameter("r")?, parameter("t")?)
        });
        return waits.max();
    }
    let fields: Dictionary = Parser::new(line).parse().ok()?;
    let field = |name: &str| match fields.get(name)? {
        ListEntry::Item(item) => number(&item.bare_item),
        ListEntry::InnerList(_) => None,
    };
    wait(field("remaining")?, field("reset")?)
}

/// A wait in seconds, a time in seconds or milliseconds since 1970, or `1m30s`.
fn reset_wait(text: &str, now: SystemTime) -> Option<Duration> {
    let Some(value) = number(text) else { return tidegate::parse_duration(text).or_else(|| fractional_duration(text)) };
    let since_epoch = match value {
        ..1e9 => return Some(seconds(value)),
        ..1e11 => seconds(value),
        _ => seconds(value / 1e3),
    };
    Some(since_epoch.saturating_sub(until(now, UNIX_EPOCH)))
}

/// A duration with a fraction in its last number, such as `1m4.5s` or `250.5ms`.
fn fractional_duration(text: &str) -> Option<Duration> {
    let unit = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let digits = unit.rfind(|c: char| c.is_ascii_alphabetic()).map_or(0, |at| at + 1);
    let whole = if digits == 0 { Duration::ZERO } else { tidegate::parse_duration(&text[..digits])? };
    let last = number(&unit[digits..])?;
    match &text[unit.len()..] {
        "ms" => Some(whole.saturating_add(seconds(last / 1e3))),
        "s" => Some(whole.saturating_add(seconds(last))),
        _ => None,
    }
}

/// A number of digits and a decimal point, so that it is not negative.
fn number(text: &str) -> Option<f64> {
    let plain = text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    text.parse().ok().filter(|_| plain)
}

/// Seconds, rounded up to a microsecond.
fn seconds(value: f64) -> Duration {
    Duration::try_from_secs_f64((value * 1e6).ceil() / 1e6).unwrap_or(Duration::MAX)
}
