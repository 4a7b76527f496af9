//! Errors of the TOML parser and of serde, in the words of the person who wrote the file.

use std::ops::Range;

use super::{
    error::nearest,
    place::{header_at, key_at, line_and_column},
    values::KEY,
};

/// Rewrites a message about a place in a text.
pub(super) fn in_plain_words(message: &str, text: &str, place: Option<&Range<usize>>) -> String {
    if message == "duplicate key" {
        return place.map_or_else(|| message.to_owned(), |place| repeated(text, place));
    }
    let rewritten = unknown_key(message).or_else(|| missing_key(message)).or_else(|| wrong_type(message));
    let message =
        rewritten.unwrap_or_else(|| original(message, place.is_some_and(|place| ends_in_a_text(text, place.start))));
    let key = place.filter(|_| message.contains(KEY)).and_then(|place| key_at(text, place));
    message.replace(KEY, &key.map_or_else(String::new, |key| format!("{key} = ")))
}

/// Turns "unknown field `x`, expected one of `a`, `b`" into a suggestion.
fn unknown_key(message: &str) -> Option<String> {
    let rest = message.strip_prefix("unknown field `")?;
    let (unknown, rest) = rest.split_once('`')?;
    let known: Vec<&str> = rest.split('`').skip(1).step_by(2).collect();
    let listed = known.join(", ");
    Some(match nearest(unknown, &known) {
        Some(near) => format!("unknown key `{unknown}`: did you mean `{near}`? Known here: {listed}"),
        None => format!("unknown key `{unknown}`: known here: {listed}"),
    })
}

/// Turns "missing field `x`" into an example.
fn missing_key(message: &str) -> Option<String> {
    let key = message.strip_prefix("missing field `")?.strip_suffix('`')?;
    let example = match key {
        "limits" => "[\"60/1m\"]",
        "descriptors" => "[[\"remote_address\"]]",
        "domain" => "\"edge\"",
        "cost" => "100",
        _ => "…",
    };
    Some(format!("`{key}` is missing: write `{key} = {example}`"))
}

/// Turns "invalid type: integer `5`, expected a table: …" into "`5` is not a table: …".
fn wrong_type(message: &str) -> Option<String> {
    let (found, expected) = message.strip_prefix("invalid type: ")?.split_once(", expected ")?;
    let found = match found {
        "sequence" => "a list".to_owned(),
        "map" => "a table".to_owned(),
        // "integer `5`", "string \"x\"".
        other => other.split_once(' ').map_or(other, |(_, value)| value).replace('"', "`"),
    };
    Some(format!("{found} is not {expected}"))
}

/// Explains a table or a key that is written twice.
fn repeated(text: &str, second: &Range<usize>) -> String {
    if let Some(header) = header_at(text, second.start) {
        let first = text.lines().position(|line| line.trim().starts_with(header));
        let (second_line, _) = line_and_column(text, second.start);
        let first = first.map(|line| line + 1).filter(|line| *line < second_line);
        let first = first.map_or(String::new(), |line| format!(", first in line {line}"));
        let has_a_name = header.starts_with("[policies.") && header.matches('.').count() == 1;
        let remedy = if has_a_name {
            "keep one, or give one of them another name"
        } else {
            "write its settings below one of them"
        };
        return format!("the table `{header}` is written twice{first}: {remedy}");
    }
    let key = text.get(second.clone()).unwrap_or("this key");
    let before = text.get(..second.start).unwrap_or("");
    let lines: Vec<&str> = before.lines().collect();
    let table = lines.iter().rposition(|line| line.trim().starts_with('[')).unwrap_or(0);
    let is_first = |line: &&str| line.split_once('=').is_some_and(|(name, _)| name.trim() == key);
    let first = lines[table..].iter().position(is_first);
    let first = first.map_or(String::new(), |line| format!(", first in line {}", table + line + 1));
    format!("`{key}` is written twice{first}: keep one of them")
}

/// Whether the line of an offset ends inside of a text, because a quote is missing.
fn ends_in_a_text(text: &str, offset: usize) -> bool {
    let start = text.get(..offset).and_then(|before| before.rfind('\n')).map_or(0, |end| end + 1);
    let line = text.get(start..).and_then(|rest| rest.lines().next()).unwrap_or("");
    line.replace("\\\"", "").matches('"').count() % 2 == 1
}

/// Whether the message is the parser's own, and a missing quote may be its cause.
fn is_about_syntax(message: &str) -> bool {
    ["unclosed", "missing comma", "invalid basic string", "string values must be quoted"]
        .iter()
        .any(|start| message.starts_with(start))
}

/// Explains a few messages of the parser, and keeps the others.
fn original(message: &str, is_in_a_text: bool) -> String {
    let hint = match message {
        syntax if is_in_a_text && is_about_syntax(syntax) => "the `\"` at the end of a text is missing",
        comma if comma.starts_with("missing comma between array elements") => {
            "a `,` is missing between two elements of the list"
        }
        quotes if quotes.starts_with("string values must be quoted") => {
            "a text needs quotes, as in `mode = \"shadow\"`"
        }
        value if value.starts_with("key with no value") => "a key needs `=` and a value, as in `drain = \"10s\"`",
        table if table.starts_with("unclosed table") => "the `]` at the end of the table's name is missing",
        array if array.starts_with("unclosed array") => "the `]` at the end of the list is missing",
        _ => return message.to_owned(),
    };
    hint.to_owned()
}
