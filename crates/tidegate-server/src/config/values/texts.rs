//! Values that are written in quotes.

use std::{
    fmt::Display,
    net::{IpAddr, SocketAddr},
    str::FromStr,
    time::Duration,
};

use ipnet::IpNet;
use serde::{Deserialize, Deserializer, de::Error as _};
use tidegate::{Algorithm, AtCapacity, Limit, Mode, OnStoreFailure, Share};
use tidegate_tower::HeaderFormat;
use toml::Value;

use super::{FromToml, KEY, deserialize_from_toml, shown};

/// Any text, such as a URL or the path of a file.
#[derive(Debug, Clone)]
pub(crate) struct Plain(pub(crate) String);

impl FromToml for Plain {
    fn from_toml(value: Value) -> Result<Self, String> {
        match value {
            Value::String(text) => Ok(Self(text)),
            Value::Array(_) | Value::Table(_) => Err(format!("{} is not a text: write `{KEY}\"…\"`", shown(&value))),
            other => Err(format!("`{other}` is not a text: put it in quotes, as in `{KEY}\"{other}\"`")),
        }
    }
}

/// A duration such as `15ms` or `1h30m`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Time(pub(crate) Duration);

impl FromToml for Time {
    fn from_toml(value: Value) -> Result<Self, String> {
        match value {
            Value::String(ref text) => duration(text).map(Self).ok_or_else(|| not_a_duration(&value, "")),
            other => Err(not_a_duration(&other, "")),
        }
    }
}

/// A duration, or `off` (or `0`, as in Redis) for none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TimeOrOff(pub(crate) Option<Duration>);

impl FromToml for TimeOrOff {
    fn from_toml(value: Value) -> Result<Self, String> {
        match value {
            Value::String(ref text) if matches!(text.as_str(), "off" | "0") => Ok(Self(None)),
            Value::String(ref text) => {
                duration(text).map(|time| Self(Some(time))).ok_or_else(|| not_a_duration(&value, ", or `\"off\"`"))
            }
            other => Err(not_a_duration(&other, ", or `\"off\"`")),
        }
    }
}

fn duration(text: &str) -> Option<Duration> {
    tidegate::parse_duration(text).filter(|time| !time.is_zero())
}

fn not_a_duration(value: &Value, or: &str) -> String {
    if let Value::String(text) = value
        && tidegate::parse_duration(text).is_some_and(|time| time.is_zero())
    {
        return format!("`{text}` is too short: use more than zero, as in `{KEY}\"10s\"`{or}");
    }
    let number = match value {
        Value::Integer(number) => u64::try_from(*number).ok(),
        Value::String(text) => text.parse().ok(),
        _ => None,
    };
    let example = number.filter(|number| *number > 0).unwrap_or(10);
    let unit = "write a number and a unit (ms, s, m, h, d or w)";
    format!("{} is not a duration: {unit}, as in `{KEY}\"{example}s\"`{or}", shown(value))
}

/// A number of bytes such as `512MB` (millions) or `512MiB` (powers of 1024).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Size(pub(crate) usize);

impl FromToml for Size {
    fn from_toml(value: Value) -> Result<Self, String> {
        let read = value.as_str().and_then(Self::parse);
        read.ok_or_else(|| {
            let example = match value {
                Value::Integer(bytes @ 1_000..) => format!("{bytes}B"),
                Value::Integer(megabytes @ 1..) => format!("{megabytes}MB"),
                _ => "512MB".to_owned(),
            };
            let unit = "write a number and a unit (B, kB, MB, GB, KiB, MiB or GiB)";
            format!("{} is not a size: {unit}, as in `{KEY}\"{example}\"`", shown(&value))
        })
    }
}

impl Size {
    fn parse(text: &str) -> Option<Self> {
        let digits = text.find(|c: char| !c.is_ascii_digit() && c != '_').unwrap_or(text.len());
        let (number, unit) = text.split_at(digits);
        let unit: usize = match unit.trim() {
            "B" => 1,
            "kB" | "KB" => 1_000,
            "MB" => 1_000_000,
            "GB" => 1_000_000_000,
            "KiB" => 1 << 10,
            "MiB" => 1 << 20,
            "GiB" => 1 << 30,
            _ => return None,
        };
        let number = number.replace('_', "").parse::<usize>().ok().filter(|number| *number > 0)?;
        number.checked_mul(unit).map(Self)
    }
}

/// The address of a listener, or `off`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Listen(pub(crate) Option<SocketAddr>);

impl FromToml for Listen {
    fn from_toml(value: Value) -> Result<Self, String> {
        let text = value.as_str();
        if text == Some("off") {
            return Ok(Self(None));
        }
        let address = text.and_then(|text| text.replacen("localhost:", "127.0.0.1:", 1).parse().ok());
        address.map(|address| Self(Some(address))).ok_or_else(|| {
            let port = match &value {
                Value::Integer(port) => u16::try_from(*port).ok(),
                Value::String(text) => text.trim_start_matches(':').parse().ok(),
                _ => None,
            };
            let example =
                format!("write an IP address and a port, as in `{KEY}\"127.0.0.1:{}\"`", port.unwrap_or(8080));
            format!("{} is not an address: {example}, or `\"off\"`", shown(&value))
        })
    }
}

/// A network, or one address of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Net(pub(crate) IpNet);

impl FromToml for Net {
    fn from_toml(value: Value) -> Result<Self, String> {
        let text = value.as_str().unwrap_or("");
        let net = text.parse().or_else(|_| text.parse::<IpAddr>().map(IpNet::from));
        let wrong =
            || format!("{} is not an address or a network: write `\"10.0.0.1\"` or `\"10.0.0.0/8\"`", shown(&value));
        net.map(Self).map_err(|_| wrong())
    }
}

/// A text that no error and no log shows.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Secret(pub(crate) String);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret")
    }
}

impl FromToml for Secret {
    fn from_toml(value: Value) -> Result<Self, String> {
        match value {
            Value::String(text) => Ok(Self(text)),
            _ => Err(format!("a token is a text: put it in quotes, as in `{KEY}\"…\"`")),
        }
    }
}

/// `open`, `closed`, `local`, `local:0.25` or `{ local = 0.25 }`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FailureChoice(pub(crate) OnStoreFailure);

impl FromToml for FailureChoice {
    fn from_toml(value: Value) -> Result<Self, String> {
        let choice = match &value {
            Value::String(word) => word.parse().map_err(|error: tidegate::OnStoreFailureError| error.to_string())?,
            Value::Table(table) => {
                let share = match (table.len(), table.get("local")) {
                    (1, Some(Value::Float(share))) => *share,
                    (1, Some(Value::Integer(1))) => 1.0,
                    _ => return Err(format!("a table here has one share: write `{KEY}{{ local = 0.25 }}`")),
                };
                OnStoreFailure::Local(Share::new(share).map_err(|error| error.to_string())?)
            }
            other => {
                let right = "`\"open\"`, `\"closed\"`, `\"local\"` or `{ local = 0.25 }`";
                return Err(format!("{} is not a behaviour when the store fails: write {right}", shown(other)));
            }
        };
        Ok(Self(choice))
    }
}

deserialize_from_toml!(Plain, Time, TimeOrOff, Size, Listen, Net, Secret, FailureChoice);

/// A value that its own type parses, such as a limit or the name of an algorithm.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Text<T>(pub(crate) T);

/// A type with a text form, described for errors.
pub(crate) trait Described: FromStr<Err: Display> {
    /// Such as `a limit`.
    const KIND: &'static str;
    const EXAMPLE: &'static str;
}

impl<'de, T: Described> Deserialize<'de> for Text<T> {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        match Value::deserialize(source)? {
            Value::String(text) => text.parse().map(Self).map_err(D::Error::custom),
            other => {
                let (shown, kind, example) = (shown(&other), T::KIND, T::EXAMPLE);
                Err(D::Error::custom(format!("{shown} is not {kind}: write it in quotes, as in `\"{example}\"`")))
            }
        }
    }
}

macro_rules! described {
    ($($type:ty: $kind:literal, $example:literal;)*) => {
        $(impl Described for $type {
            const KIND: &'static str = $kind;
            const EXAMPLE: &'static str = $example;
        })*
    };
}

described! {
    Limit: "a limit", "60/1m";
    Algorithm: "an algorithm", "sliding_log";
    Mode: "a mode", "enforce";
    HeaderFormat: "a format of rate limit headers", "draft-10";
    AtCapacity: "a treatment of new keys at capacity", "shared";
}

#[cfg(test)]
mod tests {
    use super::Size;

    #[test]
    fn units_of_a_size_have_their_standard_meaning() {
        for (text, expected) in [
            ("7B", 7),
            ("64kB", 64_000),
            ("64KB", 64_000),
            ("512MB", 512_000_000),
            ("1_000 MB", 1_000_000_000),
            ("2GB", 2_000_000_000),
            ("64KiB", 65_536),
            ("512MiB", 536_870_912),
            ("1GiB", 1_073_741_824),
        ] {
            assert_eq!(Size::parse(text), Some(Size(expected)), "{text}");
        }
        for wrong in ["", "5", "MB", "0MB", "5TB", "-5MB", "1.5MB", "99999999999999999999GB", "5mb"] {
            assert_eq!(Size::parse(wrong), None, "{wrong}");
        }
    }
}
