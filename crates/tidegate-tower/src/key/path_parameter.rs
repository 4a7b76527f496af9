//! [`PathParameter`]: counts requests by a parameter of the path, as axum has matched it.
//!
//! axum does not export the parameters that it found, so they are read again from the pattern and the path.

use std::borrow::Cow;

use axum::extract::{MatchedPath, OriginalUri};
use percent_encoding::percent_decode_str;
use tidegate::Key;

use super::{ExtractError, KeyExtractor};
use crate::{head::RequestHead, warnings::Warnings};

/// Counts requests by a parameter of the path that axum has matched, such as `id` of `/users/{id}`. It is
/// percent-decoded, as for handlers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathParameter(Box<str>);

impl PathParameter {
    /// Counts requests by the parameter `{name}` or `{*name}`.
    pub fn new(name: &str) -> Self {
        Self(name.into())
    }
}

impl KeyExtractor for PathParameter {
    fn key<'r>(&self, request: &'r RequestHead<'_>) -> Result<Option<Key<'r>>, ExtractError> {
        Ok(match find(request, &self.0) {
            Some(Cow::Borrowed(value)) => Some(Key::new(value)?),
            Some(Cow::Owned(value)) => Some(value.try_into()?),
            None => None,
        })
    }

    fn name(&self) -> Option<&str> {
        Some(&self.0)
    }
}

/// The value of `{name}` or `{*name}`, decoded as for a handler.
fn find<'r>(request: &RequestHead<'r>, name: &str) -> Option<Cow<'r, [u8]>> {
    let Some(pattern) = request.extensions().get::<MatchedPath>() else {
        request.warn(Warnings::no_matched_path);
        return None;
    };
    // A nested router sees the rest of the path, but the pattern is for the whole path.
    let uri = request.extensions().get::<OriginalUri>().map_or(request.uri(), |OriginalUri(uri)| uri);
    value(pattern.as_str(), uri.path(), name)
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
