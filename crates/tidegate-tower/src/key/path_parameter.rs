//! A parameter of the path, as axum has matched it.
//!
//! axum does not export the parameters that it found, so they are read again from the pattern and the path.

use std::borrow::Cow;

use axum::extract::{MatchedPath, OriginalUri};
use percent_encoding::percent_decode_str;

use crate::head::RequestHead;

/// The value of `{name}` or `{*name}`, decoded as for a handler.
pub(super) fn find<'r>(request: &RequestHead<'r>, name: &str) -> Option<Cow<'r, [u8]>> {
    let pattern = request.extension::<MatchedPath>()?.as_str();
    // A nested router sees the rest of the path, but the pattern is for the whole path.
    let uri = request.extension::<OriginalUri>().map_or(request.uri(), |OriginalUri(uri)| uri);
    value(pattern, uri.path(), name)
}

fn value<'r>(pattern: &str, path: &'r str, name: &str) -> Option<Cow<'r, [u8]>> {
    let mut rest = path;
    for segment in pattern.split('/') {
        let (value, after) = rest.split_once('/').map_or((rest, None), |(value, after)| (value, Some(after)));
        match parameter(segment) {
            Some((before, parameter, after_name)) if parameter.trim_start_matches('*') == name => {
                let value = if parameter.starts_with('*') { rest } else { value };
                let value = value.get(before..)?.strip_suffix(after_name)?;
                return Some(percent_decode_str(value).into());
            }
            _ => rest = after?,
        }
    }
    None
}

/// The length of the text before `{name}` in a segment, the name, and the text after it. `{{` and `}}` are one brace
/// each.
fn parameter(segment: &str) -> Option<(usize, &str, &str)> {
    let (mut start, mut before) = (0, 0);
    while !segment[start..].starts_with('{') || segment[start..].starts_with("{{") {
        let rest = &segment[start..];
        let length = rest.chars().next()?.len_utf8();
        let is_doubled = rest.starts_with("{{") || rest.starts_with("}}");
        start += if is_doubled { 2 } else { length };
        before += length;
    }
    let end = start + segment[start..].find('}')?;
    Some((before, &segment[start + 1..end], &segment[end + 1..]))
}
