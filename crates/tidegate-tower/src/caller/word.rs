//! The server's word: how long a response asks its client to wait.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::{
    HeaderMap, HeaderValue, StatusCode,
    header::{DATE, RETRY_AFTER},
};
use sfv::{BareItem, Dictionary, List, ListEntry, Parser};
use tidegate::Timestamp;

use super::pauses::LONGEST;

/// How long the response with this status and these headers asks its client to wait before the next call; `now` is when it came.
///
/// `Retry-After` (of any error; in seconds or a date) wins over everything else. Otherwise nothing may be left: `RateLimit` says `r=0`, or
/// `RateLimit-Remaining`, `X-RateLimit-Remaining` or one of `X-RateLimit-Remaining-…` is 0; then the wait is what goes
/// with it, in seconds, as a time, or as `1m30s`. Times are read by the server's own clock, if it tells the `Date`. `None` if
/// there is no such word, also for a 429 or 503 that says no more than that. What is longer than eleven days is read as eleven days.
pub fn wait_asked(status: StatusCode, headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let is_error = status.is_client_error() || status.is_server_error();
    // By the server's clock, if it tells what that shows; a second of it may have passed already.
    let date = text(headers, DATE.as_str()).and_then(|date| httpdate::parse_http_date(date).ok());
    let now = date.unwrap_or_else(|| UNIX_EPOCH + Duration::from_micros(now.as_micros()));
    let said = is_error.then(|| retry_after(headers, now)).flatten();
    let said = said.or_else(|| pushback(headers)).or_else(|| nothing_left(headers, now));
    said.filter(|wait| !wait.is_zero()).map(|wait| wait.min(LONGEST))
}

fn text<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    Some(headers.get(name)?.to_str().ok()?.trim())
}

fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let in_ms = text(headers, "retry-after-ms").and_then(number).map(|wait| span(wait / 1e3));
    // Proxies may add one of their own: to keep to the latest is to keep to all.
    let wait = |said: &HeaderValue| {
        let said = said.to_str().ok()?.trim();
        number(said).map(span).or_else(|| Some(until(httpdate::parse_http_date(said).ok()?, now)))
    };
    headers.get_all(RETRY_AFTER).iter().filter_map(wait).chain(in_ms).max()
}

fn until(at: SystemTime, now: SystemTime) -> Duration {
    at.duration_since(now).unwrap_or_default()
}

/// gRPC's own word for it, where a call failed before it said anything.
fn pushback(headers: &HeaderMap) -> Option<Duration> {
    text(headers, "grpc-retry-pushback-ms")?.parse().ok().map(Duration::from_millis)
}

fn nothing_left(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let structured = headers.get_all("ratelimit").iter().filter_map(|line| structured_wait(line.to_str().ok()?)).max();
    let pairs = headers.iter().filter_map(|(name, value)| {
        let name = name.as_str();
        let (before, kind) = name.split_once("ratelimit-remaining")?;
        let is_known = before.is_empty() || before == "x-";
        if !is_known || number(value.to_str().ok()?.trim())? > 0.0 {
            return None;
        }
        let reset = format!("{before}ratelimit-reset{kind}");
        let after = text(headers, &format!("{reset}-after")).and_then(number).map(span);
        after.or_else(|| moment(text(headers, &reset)?, now))
    });
    structured.max(pairs.max())
}

/// The longest `t` of the items with `r=0`; or, as in draft 7, the `reset` of what has `remaining=0`.
fn structured_wait(line: &str) -> Option<Duration> {
    let number = |item: &BareItem| item.as_integer().and_then(|value| u64::try_from(i64::from(value)).ok());
    let wait = |left: u64, seconds: u64| (left == 0).then_some(Duration::from_secs(seconds));
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
fn moment(text: &str, now: SystemTime) -> Option<Duration> {
    let Some(value) = number(text) else { return tidegate::parse_duration(text).or_else(|| fraction(text)) };
    let since_epoch = match value {
        ..1e9 => return Some(span(value)),
        ..1e11 => span(value),
        _ => span(value / 1e3),
    };
    Some(since_epoch.saturating_sub(until(now, UNIX_EPOCH)))
}

/// `1m4.5s`, `250.5ms`: with a fraction in the last place.
fn fraction(text: &str) -> Option<Duration> {
    let unit = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let digits = unit.rfind(|c: char| c.is_ascii_alphabetic()).map_or(0, |at| at + 1);
    let whole = if digits == 0 { Duration::ZERO } else { tidegate::parse_duration(&text[..digits])? };
    let last = number(&unit[digits..])?;
    match &text[unit.len()..] {
        "ms" => Some(whole.saturating_add(span(last / 1e3))),
        "s" => Some(whole.saturating_add(span(last))),
        _ => None,
    }
}

/// A number that is not negative.
fn number(text: &str) -> Option<f64> {
    let plain = text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    text.parse().ok().filter(|_| plain)
}

/// Seconds, rounded up to a microsecond.
fn span(seconds: f64) -> Duration {
    Duration::try_from_secs_f64((seconds * 1e6).ceil() / 1e6).unwrap_or(Duration::MAX)
}
