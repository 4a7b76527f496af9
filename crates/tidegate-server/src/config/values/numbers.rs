//! Values that are written without quotes.

use tidegate::{Cost, Share};
use toml::Value;

use super::{FromToml, KEY, deserialize_from_toml, not_a, shown};

/// A whole number.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Count(pub(crate) usize);

impl FromToml for Count {
    fn from_toml(value: Value) -> Result<Self, String> {
        match value {
            Value::Integer(number) => usize::try_from(number)
                .map(Self)
                .map_err(|_| format!("`{number}` is out of range: write a whole number of 1 or more")),
            Value::Float(number) if number.fract() == 0.0 && (1.0..1e15).contains(&number) => {
                Err(not_a("a whole number", &value, &format!("{number:.0}")))
            }
            Value::String(ref text) => {
                Err(not_without_quotes("a whole number", text, text.parse::<u64>().is_ok(), "1000"))
            }
            other => Err(not_a("a whole number", &other, "1000")),
        }
    }
}

/// True or false.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Switch(pub(crate) bool);

impl FromToml for Switch {
    fn from_toml(value: Value) -> Result<Self, String> {
        match value {
            Value::Boolean(is_on) => Ok(Self(is_on)),
            Value::String(ref text) => {
                Err(not_without_quotes("true or false", text, matches!(text.as_str(), "true" | "false"), "true"))
            }
            other => Err(not_a("true or false", &other, "true")),
        }
    }
}

/// A share such as 0.5: above 0 and at most 1.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ShareNumber(pub(crate) Share);

impl FromToml for ShareNumber {
    fn from_toml(value: Value) -> Result<Self, String> {
        let share = match value {
            Value::Float(share) => share,
            // Every other whole number is out of range.
            #[expect(clippy::cast_precision_loss, reason = "large numbers are out of range, too")]
            Value::Integer(share) => share as f64,
            Value::String(ref text) => {
                return Err(not_without_quotes("a share", text, text.parse::<f64>().is_ok(), "0.5"));
            }
            other => return Err(not_a("a share", &other, "0.5")),
        };
        Share::new(share).map(Self).map_err(|error| error.to_string())
    }
}

/// A cost of at least 1.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Units(pub(crate) Cost);

impl FromToml for Units {
    fn from_toml(value: Value) -> Result<Self, String> {
        match value {
            Value::Integer(units) => match u64::try_from(units).map(Cost::new) {
                Ok(Ok(cost)) => Ok(Self(cost)),
                _ => Err(format!("a cost of {units} is out of range: use 1 to {}", Cost::MAX.get())),
            },
            Value::String(ref text) => Err(not_without_quotes("a cost", text, text.parse::<u64>().is_ok(), "100")),
            other => Err(not_a("a cost", &other, "100")),
        }
    }
}

deserialize_from_toml!(Count, Switch, ShareNumber, Units);

/// Returns the error for a text where a number or a switch is needed. `fits` is whether it is right without its quotes.
fn not_without_quotes(kind: &str, text: &str, fits: bool, example: &str) -> String {
    if fits {
        return format!("`\"{text}\"` is a text, not {kind}: write `{KEY}{text}`, without quotes");
    }
    format!("{} is not {kind}: write `{KEY}{example}`", shown(&Value::String(text.to_owned())))
}
