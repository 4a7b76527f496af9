//! A parameter of the path, as axum has matched it.
//!
//! axum keeps what it found to itself; the pattern and the path are there, though, and say the same.

use std::borrow::Cow;

use axum::extract::{MatchedPath, OriginalUri};
use percent_encoding::percent_decode_str;

use crate::incoming::Incoming;

/// The value of `{name}` or `{*name}`, decoded as for a handler.
pub(super) fn find<'r>(request: &Incoming<'r>, name: &str) -> Option<Cow<'r, [u8]>> {
    let pattern = request.extension::<MatchedPath>()?.as_str();
    // Nested routers see what is left of the path; the pattern is of the whole.
    let uri = request.extension::<OriginalUri>().map_or(request.uri(), |OriginalUri(uri)| uri);
    value(pattern, uri.path(), name)
}

fn value<'r>(pattern: &str, path: &'r str, name: &str) -> Option<Cow<'r, [u8]>> {
    let mut rest = path;
    for segment in pattern.split('/') {
        let (value, after) = rest.split_once('/').map_or((rest, None), |(value, after)| (value, Some(after)));
        match parameter(segment) {
            Some((before, parameter, behind)) if parameter.trim_start_matches('*') == name => {
                let value = if parameter.starts_with('*') { rest } else { value };
                let value = value.strip_prefix(before)?.strip_suffix(behind)?;
                return Some(percent_decode_str(value).into());
            }
            _ => rest = after?,
        }
    }
    None
}

/// `{name}` of a segment, and what stands before and behind it.
fn parameter(segment: &str) -> Option<(&str, &str, &str)> {
    let start = segment.find('{').filter(|start| !segment[start + 1..].starts_with('{'))?;
    let end = start + segment[start..].find('}')?;
    Some((&segment[..start], &segment[start + 1..end], &segment[end + 1..]))
}
