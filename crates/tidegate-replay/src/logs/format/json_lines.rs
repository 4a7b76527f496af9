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

#[cfg(test)]
mod tests {
    use super::JsonLines;
    use crate::logs::fields::{Field, Fields};

    fn read(line: &str, field: Field) -> Result<(u64, Option<String>), &'static str> {
        let wanted = [field];
        let json = JsonLines::new(&wanted, None).expect("it can be wanted");
        let mut fields = Fields::new(1);
        let time = json.read(line.as_bytes(), &mut fields)?;
        Ok((time, fields.get(0, b"").map(|text| String::from_utf8_lossy(text).into_owned())))
    }

    const TIME: u64 = 1_431_857_103_250_000;

    #[test]
    fn well_known_servers_are_understood() {
        let caddy =
            r#"{"ts":1431857103.25,"request":{"remote_ip":"1.2.3.4","uri":"/a?b","headers":{"X-Api-Key":["k"]}}}"#;
        let traefik = r#"{"StartUTC":"2015-05-17T10:05:03.25Z","ClientHost":"1.2.3.4","RequestPath":"/a?b"}"#;
        let envoy =
            r#"{"start_time":"2015-05-17T10:05:03.250Z","downstream_remote_address":"1.2.3.4:5678","path":"/a?b"}"#;
        let nginx =
            r#"{"time_local":"17/May/2015:10:05:03 +0000","remote_addr":"1.2.3.4","request":"GET /a?b HTTP/1.1"}"#;
        for line in [caddy, traefik, envoy, nginx] {
            let (time, ip) = read(line, Field::Ip).expect(line);
            assert_eq!((time / 1_000_000, ip.as_deref()), (TIME / 1_000_000, Some("1.2.3.4")), "{line}");
            assert_eq!(read(line, Field::Path).expect(line).1.as_deref(), Some("/a"), "{line}");
        }
        assert_eq!(read(caddy, Field::Header("x-api-key".into())), Ok((TIME, Some("k".to_owned()))));
        assert_eq!(read(caddy, Field::Named("request.uri".into())), Ok((TIME, Some("/a?b".to_owned()))));
        assert_eq!(read(caddy, Field::User), Ok((TIME, None)));
        let v6 = r#"{"time":1431857103,"ip":"[2001:db8::1]:443"}"#;
        assert_eq!(read(v6, Field::Ip).expect(v6).1.as_deref(), Some("2001:db8::1"));
    }

    #[test]
    fn what_is_no_object_with_a_time_is_told() {
        assert!(read("[]", Field::Ip).is_err_and(|why| why.contains("object")));
        assert!(read("{\"time\":1", Field::Ip).is_err_and(|why| why.contains("JSON")));
        assert!(read("{\"when\":1}", Field::Ip).is_err_and(|why| why.contains("--time-field")));
        assert!(read("{\"time\":\"noon\"}", Field::Ip).is_err_and(|why| why.contains("read")));
    }
}
