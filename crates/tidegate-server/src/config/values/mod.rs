//! The values of a configuration file. The error of each type says what would be right.
//!
//! A value does not know its key. [`KEY`] in an error stands for `key = `, and [`Origin`](super::error::Origin) replaces it.

mod list;
mod numbers;
mod table_only;
mod texts;

pub(crate) use list::List;
pub(crate) use numbers::{Count, ShareNumber, Switch, Units};
pub(crate) use table_only::TableOnly;
pub(crate) use texts::{FailureChoice, Listen, Net, Plain, Secret, Size, Text, Time, TimeOrOff};

use toml::Value;

/// Stands for `key = ` in an error of a value.
pub(super) const KEY: char = '\0';

/// A value of a configuration file.
pub(crate) trait FromToml: Sized {
    /// Reads a value. The error is a sentence about the value, with what would be right.
    fn from_toml(value: Value) -> Result<Self, String>;
}

/// Implements `Deserialize` through [`FromToml`].
macro_rules! deserialize_from_toml {
    ($($type:ty),*) => {
        $(impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
                let value = toml::Value::deserialize(source)?;
                <$type as $crate::config::values::FromToml>::from_toml(value).map_err(serde::de::Error::custom)
            }
        })*
    };
}
use deserialize_from_toml;

/// Returns the error for a value that is not of the right kind. `right` is a value that would be.
fn not_a(kind: &str, value: &Value, right: &str) -> String {
    format!("{} is not {kind}: write `{KEY}{right}`", shown(value))
}

/// Returns a value as it is shown in an error.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) if text.chars().count() > 60 => {
            format!("`{}…`", text.chars().take(60).collect::<String>().escape_debug())
        }
        Value::String(text) => format!("`{}`", text.escape_debug()),
        Value::Array(_) => "a list".to_owned(),
        Value::Table(_) => "a table".to_owned(),
        number => format!("`{number}`"),
    }
}
