//! [`JsonLines`]: one JSON object a line, as Caddy, Traefik, Envoy and many services write them.
//!
//! The time, the address, the user and the path are found by the names that they commonly have; anything else by its own
//! name, `a.b` for a field of an object within.

use serde_json::Value;

use super::Flaw;
use crate::logs::{
    fields::{Field, Fields, path_in},
    moment,
};

const TIMES: [&str; 14] = [
    "time_us",
    "time",
    "timestamp",
    "@timestamp",
    "ts",
    "msec",
    "time_iso8601",
    "time_local",
    "start_time",
    "StartUTC",
    "datetime",
    "date",
    "t",
    "time_unix",
];
const IPS: [&str; 13] = [
    "ip",
    "remote_addr",
    "client_ip",
    "remote_ip",
    "clientip",
    "clientIp",
    "request.client_ip",
    "request.remote_ip",
    "ClientHost",
    "source_ip",
    "downstream_remote_address",
    "remote_address",
    "client",
];
const USERS: [&str; 7] = ["user", "remote_user", "user_id", "userId", "username", "ClientUsername", "uid"];
const PATHS: [&str; 8] = ["path", "uri", "request_uri", "url", "request.uri", "RequestPath", "request_path", "request"];
const HEADERS: [&str; 4] = ["headers", "request.headers", "request_headers", "req.headers"];

#[derive(Debug)]
pub(in crate::logs) struct JsonLines {
    times: Vec<String>,
    wanted: Vec<Wanted>,
}

#[derive(Debug)]
struct Wanted {
    /// Where it may be, the likeliest first.
    names: Vec<String>,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Plain,
    Address,
    Path,
}

impl JsonLines {
    /// A reader that finds these fields, or the one that there is none of. The time is in `time`, if that is said.
    pub(super) fn new<'a>(wanted: &'a [Field], time: Option<&str>) -> Result<Self, &'a Field> {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let times = time.map_or_else(|| owned(&TIMES), |time| vec![time.to_owned()]);
        let mut out = Vec::new();
        for field in wanted {
            let (names, kind) = match field {
                Field::Ip => (owned(&IPS), Kind::Address),
                Field::User => (owned(&USERS), Kind::Plain),
                Field::Path => (owned(&PATHS), Kind::Path),
                Field::Named(name) => (vec![name.clone()], Kind::Plain),
                Field::Header(name) => {
                    let snake = name.to_ascii_lowercase().replace('-', "_");
                    let nested = HEADERS.iter().map(|headers| format!("{headers}.{name}"));
                    (nested.chain([name.clone(), format!("http_{snake}"), snake.clone()]).collect(), Kind::Plain)
                }
                Field::Key => (owned(&["key"]), Kind::Plain),
                Field::Cost => return Err(field),
            };
            out.push(Wanted { names, kind });
        }
        Ok(Self { times, wanted: out })
    }

    pub(super) fn read(&self, line: &[u8], fields: &mut Fields) -> Result<u64, Flaw> {
        let object: Value = serde_json::from_slice(line).map_err(|_| "it is not JSON")?;
        if !object.is_object() {
            return Err("it is not a JSON object");
        }
        let time = self.times.iter().find_map(|name| text(find(&object, name)?));
        let time = time.ok_or("it has no time: name its field with --time-field")?;
        let time_us = moment::any(time.as_bytes()).ok_or("its time can't be read")?;
        for (number, wanted) in self.wanted.iter().enumerate() {
            let Some(text) = wanted.names.iter().find_map(|name| text(find(&object, name)?)) else { continue };
            let text = match wanted.kind {
                Kind::Plain => text.as_str(),
                Kind::Address => without_port(&text),
                Kind::Path => &text[path_in(text.as_bytes())],
            };
            if text != "-" {
                fields.text(number, text.as_bytes());
            }
        }
        Ok(time_us)
    }
}

/// The value under a name: as it is, or field by field; headers are found in any case.
fn find<'a>(object: &'a Value, name: &str) -> Option<&'a Value> {
    if let Some(value) = object.get(name) {
        return Some(value);
    }
    let (outer, inner) = name.split_once('.')?;
    let within = object.get(outer)?;
    let in_any_case =
        || within.as_object()?.iter().find(|(field, _)| field.eq_ignore_ascii_case(inner)).map(|(_, value)| value);
    find(within, inner).or_else(in_any_case)
}

/// A value as text: of a list, its first; of what has no text, none.
fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(truth) => Some(truth.to_string()),
        Value::Array(values) => text(values.first()?),
        Value::Null | Value::Object(_) => None,
    }
}

/// `1.2.3.4` of `1.2.3.4:5678`, `::1` of `[::1]:5678`.
fn without_port(address: &str) -> &str {
    if let Some(rest) = address.strip_prefix('[') {
        return rest.split(']').next().unwrap_or(rest);
    }
    match address.split_once(':') {
        Some((host, port)) if !port.contains(':') && host.contains('.') => host,
        _ => address,
    }
}
