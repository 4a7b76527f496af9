//! Places in the text of a TOML file: lines, columns, keys and values.

use std::ops::Range;

use toml::de::{DeArray, DeTable, DeValue};

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

/// Returns where the element of a list is that a message begins with, if the list is at this place. The parser knows the
/// place of the whole list only.
pub(super) fn element_at(text: &str, list: &Range<usize>, message: &str) -> Option<Range<usize>> {
    let root = DeTable::parse(text).ok()?;
    let named = |value: &str| {
        message.strip_prefix('`').and_then(|rest| rest.strip_prefix(value)).is_some_and(|rest| rest.starts_with('`'))
    };
    let items = list_in(root.get_ref(), list)?;
    let element = items.iter().find(|item| {
        text.get(item.span()).is_some_and(|written| named(written) || named(written.trim_matches(['"', '\''])))
    })?;
    Some(element.span())
}

fn list_in<'a, 'text>(table: &'a DeTable<'text>, place: &Range<usize>) -> Option<&'a DeArray<'text>> {
    table.iter().find_map(|(_, value)| match value.get_ref() {
        DeValue::Array(items) if value.span() == *place => Some(items),
        DeValue::Array(items) => {
            items.iter().find_map(|item| item.get_ref().as_table().and_then(|inner| list_in(inner, place)))
        }
        DeValue::Table(inner) => list_in(inner, place),
        _ => None,
    })
}

/// Returns the header of the table that begins in the line of an offset, such as `[policies.api]`.
pub(super) fn header_at(text: &str, offset: usize) -> Option<&str> {
    let start = text.get(..offset)?.rfind('\n').map_or(0, |end| end + 1);
    let line = text[start..].lines().next()?.trim();
    let end = line.rfind(']')?;
    line.starts_with('[').then(|| &line[..=end])
}
