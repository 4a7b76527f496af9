//! [`JsonLines`]: one JSON object per line, as Caddy, Traefik, Envoy and many services write.
//!
//! The reader finds the time, the address, the user and the path under their common names. It finds any other field under its own
//! name. `a.b` names the field `b` of the object `a`.

use serde_json::Value;

use super::{LineError, NoField};
use crate::logs::{
    duration,
    fields::{Field, Fields, path_in, snake_case, time_names},
    time,
};

/// Common names of the object with the headers.
const HEADERS: [&str; 4] = ["headers", "request.headers", "request_headers", "req.headers"];

#[derive(Debug)]
pub(in crate::logs) struct JsonLines {
    times: Vec<String>,
    /// The name of the time of the last line.
    time: usize,
    /// Each wanted field, and its possible names, the most likely first.
    wanted: Vec<(Field, Vec<String>)>,
}

impl JsonLines {
    /// Creates a reader of these fields. `time` names the field of the time.
    pub(super) fn new(wanted: &[Field], time: Option<&str>) -> Result<Self, NoField> {
        let names = |field: &Field| match field {
            Field::Cost => Err((field.clone(), "name its field, as in field:api_key".to_owned())),
            Field::Header(name) => {
                let snake = snake_case(name);
                let nested = HEADERS.iter().map(|headers| format!("{headers}.{name}"));
                Ok((field.clone(), nested.chain([name.clone(), format!("http_{snake}"), snake.clone()]).collect()))
            }
            _ => Ok((field.clone(), field.names())),
        };
        let times = time.map_or_else(time_names, |time| vec![time.to_owned()]);
        Ok(Self { times, time: 0, wanted: wanted.iter().map(names).collect::<Result<_, _>>()? })
    }

    /// Returns whether the time of the last line is the start of its request.
    pub(super) fn has_time_of_start(&self) -> bool {
        matches!(self.times[self.time].as_str(), "start_time" | "StartUTC")
    }

    pub(super) fn read(&mut self, line: &[u8], fields: &mut Fields) -> Result<u64, LineError> {
        let object: Value = serde_json::from_slice(line).map_err(|_| "it is not JSON")?;
        if !object.is_object() {
            return Err("it is not a JSON object");
        }
        let text_of_time = self.times.iter().enumerate().find_map(|(i, name)| Some((i, text(find(&object, name)?)?)));
        let (name, text_of_time) = text_of_time.ok_or("it has no time: name its field with --time-field")?;
        let time_us = time::any(text_of_time.as_bytes()).ok_or("its time is invalid")?;
        self.time = name;
        for (number, (field, names)) in self.wanted.iter().enumerate() {
            let named = names.iter().find_map(|name| Some((name, text(find(&object, name)?)?)));
            let Some((name, text)) = named else { continue };
            if let Field::Duration(_) = field {
                fields.unit = duration::unit_of(name);
            }
            let text = match field {
                Field::Ip | Field::Client => without_port(&text),
                Field::Path => &text[path_in(text.as_bytes())],
                _ => text.as_str(),
            };
            if text != "-" {
                fields.text(number, text.as_bytes());
            }
        }
        Ok(time_us)
    }
}

/// Finds the value under a name or a dotted path. The case of nested names is ignored.
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

/// Returns a value as text. A list counts as its first value. Objects and null have no text.
fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(truth) => Some(truth.to_string()),
        Value::Array(values) => text(values.first()?),
        Value::Null | Value::Object(_) => None,
    }
}

/// Returns `1.2.3.4` of `1.2.3.4:5678`, and `::1` of `[::1]:5678`.
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
        let mut json = JsonLines::new(&wanted, None).expect("a field of JSON logs");
        let mut fields = Fields::new(1);
        let time = json.read(line.as_bytes(), &mut fields)?;
        Ok((time, fields.get(0, b"").map(|text| String::from_utf8_lossy(text).into_owned())))
    }

    const TIME: u64 = 1_431_857_103_250_000;

    #[test]
    fn logs_of_common_servers_are_parsed() {
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
    fn a_line_without_an_object_or_a_time_is_an_error() {
        assert!(read("[]", Field::Ip).is_err_and(|why| why.contains("object")));
        assert!(read("{\"time\":1", Field::Ip).is_err_and(|why| why.contains("JSON")));
        assert!(read("{\"when\":1}", Field::Ip).is_err_and(|why| why.contains("--time-field")));
        assert!(read("{\"time\":\"noon\"}", Field::Ip).is_err_and(|why| why.contains("time")));
    }
}
