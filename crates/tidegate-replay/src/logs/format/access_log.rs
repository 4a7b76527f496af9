//! [`AccessLog`]: the common and the combined format, the defaults of nginx and Apache.
//!
//! ```text
//! 203.0.113.7 - alice [17/May/2015:10:05:03 +0000] "GET /search?q=1 HTTP/1.1" 200 1234 "https://from.example/" "Mozilla/5.0 …"
//! ```
//! Combined logs have the two quoted texts at the end. The last word after them is the duration, if it is wanted. Other text is
//! ignored.

use std::ops::Range;

use super::{LineError, NoField};
use crate::logs::{
    fields::{Field, FieldColumn, Fields},
    time::{CLF_LEN, ClfTimes},
};

#[derive(Debug, Default)]
pub(in crate::logs) struct AccessLog {
    wanted: Vec<FieldColumn>,
    times: ClfTimes,
}

/// Names of the columns, from left to right.
const COLUMNS: [&[&str]; 8] = [
    &["remote-addr"],
    &["remote-user"],
    &["request"],
    &["status"],
    &["bytes", "body-bytes-sent", "bytes-sent"],
    &["referer", "referrer", "http-referer"],
    &["user-agent", "agent", "http-user-agent"],
    &[],
];
const IP: usize = 0;
const USER: usize = 1;
const REQUEST: usize = 2;
const STATUS: usize = 3;
/// The columns from this one on are headers.
const HEADERS: usize = 5;
const DURATION: usize = 7;

impl AccessLog {
    /// Creates a reader of these fields.
    pub(super) fn new(wanted: &[Field]) -> Result<Self, NoField> {
        let column = |field: &Field| {
            let index = match field {
                Field::Ip | Field::Client => Some(IP),
                Field::User => Some(USER),
                Field::Path => Some(REQUEST),
                Field::Status => Some(STATUS),
                Field::Duration(None) => Some(DURATION),
                Field::Key | Field::Cost | Field::Duration(Some(_)) => None,
                Field::Header(name) | Field::Named(name) => {
                    let name = name.to_ascii_lowercase().replace('_', "-");
                    let index = COLUMNS.iter().position(|names| names.contains(&name.as_str()));
                    index.filter(|index| *index >= HEADERS || matches!(field, Field::Named(_)))
                }
            };
            let known =
                "it has ip, user, path, status, agent (header:user-agent), header:referer, field:request, field:bytes";
            let index = index.ok_or_else(|| (field.clone(), known.to_owned()))?;
            Ok(FieldColumn { index, is_path: *field == Field::Path })
        };
        Ok(Self { wanted: wanted.iter().map(column).collect::<Result<_, _>>()?, times: ClfTimes::default() })
    }

    #[inline]
    pub(super) fn read(&mut self, line: &[u8], fields: &mut Fields) -> Result<u64, LineError> {
        let ip = client(line).ok_or("nothing follows the first word")?;
        let bracket = ip.end + memchr::memchr(b'[', &line[ip.end..]).ok_or(NO_TIME)?;
        let time = line.get(bracket + 1..).and_then(<[u8]>::first_chunk::<CLF_LEN>).ok_or(NO_TIME)?;
        let time_us = self.times.read(time).ok_or(NO_TIME)?;
        let rest = bracket + 1 + CLF_LEN;
        if !line[rest..].starts_with(b"] \"") {
            return Err("no quoted request follows the time");
        }
        let request = rest + 3..rest + 3 + end_of_request(&line[rest + 3..])?;
        let status = request.end + 2..request.end + 5;
        let bytes = status.end + 1..status.end + 1 + digits(&line[status.end + 1..]);
        if bytes.is_empty() {
            return Err("no size follows the status");
        }
        let [referer, agent] = quoted_pair(line, bytes.end)?;
        let user = if self.wanted.iter().any(|column| column.index == USER) {
            user(line, ip.end, bracket).ok_or("no user (or `-`) precedes the time")?
        } else {
            0..0
        };
        let duration = if self.wanted.iter().any(|column| column.index == DURATION) {
            last_word(line, bytes.end.max(agent.end))
        } else {
            0..0
        };
        fields.in_line(line, &self.wanted, &[ip, user, request, status, bytes, referer, agent, duration]);
        Ok(time_us)
    }
}

/// Finds the address of the client: the first word, or the second if the first is the requested host (Apache's
/// `vhost_combined`).
#[inline]
fn client(line: &[u8]) -> Option<Range<usize>> {
    let end = memchr::memchr(b' ', line)?;
    if line[..end].ends_with(b",") {
        return Some(0..end - 1);
    }
    match memchr::memrchr(b':', &line[..end]) {
        Some(colon) => Some(after_host(line, colon, end).unwrap_or(0..end)),
        None => Some(0..end),
    }
}

#[cold]
fn after_host(line: &[u8], colon: usize, end: usize) -> Option<Range<usize>> {
    let next = end + 1 + memchr::memchr(b' ', line.get(end + 1..)?)?;
    let port = &line[colon + 1..end];
    let is_port = !port.is_empty() && port.iter().all(u8::is_ascii_digit);
    let is_address = |text: &[u8]| std::str::from_utf8(text).is_ok_and(|text| text.parse::<std::net::IpAddr>().is_ok());
    (is_port && !is_address(&line[..end]) && is_address(&line[end + 1..next])).then_some(end + 1..next)
}

const NO_TIME: LineError = "it has no time such as [17/May/2015:10:05:03 +0000]";

/// Finds the closing quote of the request: the first quote that a status follows. Not every server escapes the quotes within.
#[inline]
fn end_of_request(text: &[u8]) -> Result<usize, LineError> {
    for quote in memchr::memchr_iter(b'"', text) {
        if let Some([b' ', a, b, c, b' ', _]) = text.get(quote + 1..quote + 7)
            && (a.is_ascii_digit() && b.is_ascii_digit() && c.is_ascii_digit())
        {
            return Ok(quote);
        }
    }
    Err("no status and size follow the request")
}

/// Returns the length of a number or `-`.
#[inline]
fn digits(text: &[u8]) -> usize {
    if text.first() == Some(&b'-') {
        return 1;
    }
    text.iter().take_while(|byte| byte.is_ascii_digit()).count()
}

/// Finds the two quoted texts of a combined line. They are empty in a common line. The second one ends at the last quote, because user
/// agents may contain quotes.
#[inline]
fn quoted_pair(line: &[u8], from: usize) -> Result<[Range<usize>; 2], LineError> {
    const CUT: LineError = "it ends within a quoted text";
    let rest = match &line[from..] {
        [b' ', b'"', rest @ ..] => rest,
        [] | [b' ', ..] => return Ok([0..0, 0..0]),
        _ => return Err("the size is not a number"),
    };
    let between = memchr::memchr_iter(b'"', rest).find(|quote| rest[*quote..].starts_with(b"\" \"")).ok_or(CUT)?;
    let last = memchr::memrchr(b'"', rest).ok_or(CUT)?;
    let start = from + 2;
    if last < between + 3 { Err(CUT) } else { Ok([start..start + between, start + between + 3..start + last]) }
}

/// Finds the last word of a line, if it begins after `from`. Of `rt=0.123` it is `0.123`.
fn last_word(line: &[u8], from: usize) -> Range<usize> {
    let end = line.trim_ascii_end().len();
    let start = memchr::memrchr(b' ', &line[..end]).map_or(0, |space| space + 1);
    if start <= from || line[..end].ends_with(b"\"") {
        return 0..0;
    }
    memchr::memrchr(b'=', &line[start..end]).map_or(start, |equals| start + equals + 1)..end
}

/// Finds the name between the second space of a line and its time. The name may contain spaces.
fn user(line: &[u8], from: usize, bracket: usize) -> Option<Range<usize>> {
    let identity = from + 1 + memchr::memchr(b' ', line.get(from + 1..bracket)?)?;
    (identity + 1 < bracket).then(|| identity + 1..bracket - 1)
}
