//! [`Field`]: a field of a log line. [`Fields`]: the values found in one line, copied only where they are escaped.

use std::ops::Range;

use super::duration;

/// A field that a line may have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Field {
    /// Address of the client.
    Ip,
    /// The client: its address in a log, its key in a trace.
    Client,
    /// Name of the user.
    User,
    /// Path of the request, without its query.
    Path,
    /// Status of the response.
    Status,
    /// Header of the request.
    Header(String),
    /// Field with this name in the log.
    Named(String),
    /// Key in a trace.
    Key,
    /// Cost in a trace.
    Cost,
    /// Duration of the request, under this name or a common one.
    Duration(Option<String>),
}

/// Common names of the time and of other fields in logs, the most likely first.
const TIMES: &str =
    "time_us time timestamp @timestamp ts msec time_iso8601 time_local start_time StartUTC datetime date t time_unix";
const IPS: &str = "ip remote_addr client_ip remote_ip clientip clientIp request.client_ip request.remote_ip ClientHost source_ip \
                   downstream_remote_address remote_address client";
const USERS: &str = "user remote_user user_id userId username ClientUsername uid";
const STATUSES: &str = "status status_code statusCode response_code DownstreamStatus response.status";
const PATHS: &str = "path uri request_uri url request.uri RequestPath request_path request";

impl Field {
    /// Returns the names under which a log may have the field, the most likely first.
    pub(super) fn names(&self) -> Vec<String> {
        let common = match self {
            Self::Ip | Self::Client => IPS,
            Self::User => USERS,
            Self::Path => PATHS,
            Self::Status => STATUSES,
            Self::Key => "key",
            Self::Cost => "cost",
            Self::Header(name) => return vec![name.clone(), snake_case(name)],
            Self::Named(name) | Self::Duration(Some(name)) => return vec![name.clone()],
            Self::Duration(None) => return duration::NAMES.map(|(name, _)| name.to_owned()).into(),
        };
        words(common)
    }

    /// Finds the field among columns with these names.
    pub(super) fn column<S: AsRef<str>>(&self, columns: &[S]) -> Option<FieldColumn> {
        Some(FieldColumn { index: first_of(&self.names(), columns)?, is_path: *self == Self::Path })
    }

    /// Returns the name that the user writes.
    pub(super) fn name(&self) -> String {
        match self {
            Self::Header(name) => format!("header:{name}"),
            Self::Named(name) => format!("field:{name}"),
            Self::Client => "client".to_owned(),
            Self::Duration(None) => "duration".to_owned(),
            _ => self.names().swap_remove(0),
        }
    }
}

/// Returns the name of a header as variables and fields have it: `x_api_key` for `X-Api-Key`.
pub(super) fn snake_case(header: &str) -> String {
    header.to_ascii_lowercase().replace('-', "_")
}

/// Returns whether a text can be the name of a field without the prefix `field:`.
pub(super) fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "_-.@".contains(c))
}

/// Returns the names under which a log may have the time, the most likely first.
pub(super) fn time_names() -> Vec<String> {
    words(TIMES)
}

fn words(names: &str) -> Vec<String> {
    names.split_whitespace().map(str::to_owned).collect()
}

/// Returns the index of the first name that a column has.
pub(super) fn first_of<S: AsRef<str>>(names: &[String], columns: &[S]) -> Option<usize> {
    names.iter().find_map(|name| columns.iter().position(|column| column.as_ref() == name))
}

/// The column of a field, and whether only the path in it counts.
#[derive(Debug, Clone, Copy)]
pub(super) struct FieldColumn {
    pub(super) index: usize,
    pub(super) is_path: bool,
}

impl FieldColumn {
    /// Returns the part of the column's text that is the field.
    pub(super) fn part(self, text: &[u8]) -> Range<usize> {
        if self.is_path { path_in(text) } else { 0..text.len() }
    }
}

/// The values found in one line, by field number.
#[derive(Debug, Default)]
pub(super) struct Fields {
    locations: Vec<FieldLocation>,
    /// Unescaped values, which the line does not contain as they are.
    scratch: Vec<u8>,
    /// Unit of the duration by the name under which it was found.
    pub(super) unit: Option<u64>,
}

#[derive(Debug, Clone)]
enum FieldLocation {
    Missing,
    Line(Range<usize>),
    Scratch(Range<usize>),
}

impl Fields {
    pub(super) fn new(wanted: usize) -> Self {
        Self { locations: vec![FieldLocation::Missing; wanted], scratch: Vec::new(), unit: None }
    }

    pub(super) fn clear(&mut self) {
        self.locations.fill(FieldLocation::Missing);
        self.scratch.clear();
    }

    /// Sets all fields to their columns in the line. `-` means that the field is missing.
    pub(super) fn in_line(&mut self, line: &[u8], wanted: &[FieldColumn], columns: &[Range<usize>]) {
        for (location, column) in self.locations.iter_mut().zip(wanted) {
            let Range { start, end } = columns[column.index];
            let part = column.part(&line[start..end]);
            let range = start + part.start..start + part.end;
            *location = if &line[range.clone()] == b"-" { FieldLocation::Missing } else { FieldLocation::Line(range) };
        }
    }

    /// Sets a field to a text.
    pub(super) fn text(&mut self, number: usize, text: &[u8]) {
        let from = self.scratch.len();
        self.scratch.extend_from_slice(text);
        self.locations[number] = FieldLocation::Scratch(from..self.scratch.len());
    }

    /// Returns the value of a field. An empty field is missing.
    #[inline]
    pub(super) fn get<'a>(&'a self, number: usize, line: &'a [u8]) -> Option<&'a [u8]> {
        let text = match &self.locations[number] {
            FieldLocation::Missing => return None,
            FieldLocation::Line(range) => &line[range.clone()],
            FieldLocation::Scratch(range) => &self.scratch[range.clone()],
        };
        (!text.is_empty()).then_some(text)
    }
}

/// Finds the path in a request: `/search` in `GET /search?q=1 HTTP/1.1`, in `/search?q=1` and in `http://host/search`.
pub(super) fn path_in(request: &[u8]) -> Range<usize> {
    let from = match memchr::memchr(b' ', request) {
        Some(space) if !request.starts_with(b"/") => space + 1,
        _ => 0,
    };
    let target = &request[from..];
    let target = &target[..memchr::memchr(b' ', target).unwrap_or(target.len())];
    let host = match memchr::memmem::find(target, b"://") {
        Some(scheme) if !target.starts_with(b"/") => {
            scheme + 3 + memchr::memchr(b'/', &target[scheme + 3..]).unwrap_or(target.len() - scheme - 3)
        }
        _ => 0,
    };
    let end = memchr::memchr2(b'?', b'#', target).unwrap_or(target.len()).max(host);
    from + host..from + end
}

#[cfg(test)]
mod tests {
    use super::path_in;

    #[test]
    fn the_path_is_found_in_every_form_of_a_request() {
        for (request, path) in [
            ("GET /search?q=1 HTTP/1.1", "/search"),
            ("/search?q=1#x", "/search"),
            ("GET http://host/a/b?c HTTP/1.0", "/a/b"),
            ("GET http://host HTTP/1.0", ""),
            ("OPTIONS * HTTP/1.1", "*"),
            ("GET /a", "/a"),
            ("\\x16\\x03", "\\x16\\x03"),
            ("", ""),
            ("GET /x?u=http://y/z HTTP/1.1", "/x"),
        ] {
            assert_eq!(&request[path_in(request.as_bytes())], path, "{request}");
        }
    }
}
