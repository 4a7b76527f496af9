//! Places in the text of a TOML file: lines, columns, keys and values.

use std::ops::Range;

use toml::de::{DeTable, DeValue};

/// Returns the line and the column of an offset, both from 1.
pub(super) fn line_and_column(text: &str, offset: usize) -> (usize, usize) {
    let before = text.get(..offset).unwrap_or("");
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().map_or(0, |start| start.chars().count()) + 1;
    (line, column)
}

/// Returns where the value of a key in a table is.
pub(super) fn value_of(text: &str, table: &str, key: &str) -> Option<Range<usize>> {
    let root = DeTable::parse(text).ok()?;
    Some(root.get_ref().get(table)?.get_ref().get(key)?.span())
}

/// Returns the key whose value is at this place, as it is written.
pub(super) fn key_at(text: &str, value: &Range<usize>) -> Option<String> {
    let root = DeTable::parse(text).ok()?;
    key_in(text, root.get_ref(), value)
}

fn key_in(text: &str, table: &DeTable<'_>, place: &Range<usize>) -> Option<String> {
    table.iter().find_map(|(key, value)| {
        if value.span() == *place {
            return text.get(key.span()).map(str::to_owned);
        }
        match value.get_ref() {
            DeValue::Table(inner) => key_in(text, inner, place),
            DeValue::Array(items) => {
                items.iter().find_map(|item| item.get_ref().as_table().and_then(|inner| key_in(text, inner, place)))
            }
            _ => None,
        }
    })
}

/// Returns the header of the table that begins in the line of an offset, such as `[policies.api]`.
pub(super) fn header_at(text: &str, offset: usize) -> Option<&str> {
    let start = text.get(..offset)?.rfind('\n').map_or(0, |end| end + 1);
    let line = text[start..].lines().next()?.trim();
    let end = line.rfind(']')?;
    line.starts_with('[').then(|| &line[..=end])
}
