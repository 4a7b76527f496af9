//! The values of a configuration file. The error of each type says what would be right.

use std::{
    fmt::Display,
    net::{IpAddr, SocketAddr},
    str::FromStr,
    time::Duration,
};

use ipnet::IpNet;
use serde::{Deserialize, Deserializer, de::Error as _};
use tidegate::{Cost, OnStoreFailure, Share};

/// Implements `Deserialize` for a type that is written as text.
macro_rules! from_text {
    ($type:ty, $read:expr) => {
        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
                let text = String::deserialize(source)?;
                let read: fn(&str) -> Result<$type, String> = $read;
                read(&text).map_err(D::Error::custom)
            }
        }
    };
}

/// A duration such as `15ms` or `1h30m`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Time(pub(crate) Duration);

from_text!(Time, |text| {
    let read = tidegate::parse_duration(text).filter(|time| !time.is_zero());
    read.map(Time).ok_or_else(|| format!("`{text}` is not a duration: write `15ms`, `10s`, `1h30m`"))
});

/// A duration, or `off` (or `0`, as in Redis) for none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TimeOrOff(pub(crate) Option<Duration>);

from_text!(TimeOrOff, |text| {
    if matches!(text, "off" | "0") {
        return Ok(TimeOrOff(None));
    }
    let read = tidegate::parse_duration(text).filter(|time| !time.is_zero());
    read.map(|time| TimeOrOff(Some(time)))
        .ok_or_else(|| format!("`{text}` is not a duration: write `30s`, `5m` or `off`"))
});

/// A number of bytes such as `512MB` or `64KB`, in powers of 1000; `MiB` and the like are powers of 1024.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Size(pub(crate) usize);

from_text!(Size, |text| {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '_').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit = match unit.trim() {
        "B" => Some(1),
        "kB" | "KB" => Some(1_000),
        "MB" => Some(1_000_000),
        "GB" => Some(1_000_000_000),
        "KiB" => Some(1 << 10),
        "MiB" => Some(1 << 20),
        "GiB" => Some(1 << 30),
        _ => None,
    };
    let number = number.replace('_', "").parse::<usize>().ok().filter(|number| *number > 0);
    let size = unit.zip(number).and_then(|(unit, number)| number.checked_mul(unit));
    size.map(Size).ok_or_else(|| {
        format!("`{text}` is not a size: write a number and B, kB, MB or GB (or KiB, MiB or GiB), as in `512MB`")
    })
});

/// The address of a transport, or `off`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Listen(pub(crate) Option<SocketAddr>);

from_text!(Listen, |text| {
    if text == "off" {
        return Ok(Listen(None));
    }
    let address = text.replacen("localhost:", "127.0.0.1:", 1);
    address.parse().map(|address| Listen(Some(address))).map_err(|_| {
        format!("`{text}` is not an address: write `127.0.0.1:8080`, `[::1]:8080`, `0.0.0.0:8080` or `off`")
    })
});

/// A value that its own type parses, such as a limit or the name of an algorithm.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Text<T>(pub(crate) T);

impl<'de, T: FromStr<Err: Display>> Deserialize<'de> for Text<T> {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        String::deserialize(source)?.parse().map(Self).map_err(D::Error::custom)
    }
}

/// `open`, `closed`, `local`, `local:0.25` or `{ local = 0.25 }`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FailureChoice(pub(crate) OnStoreFailure);

impl<'de> Deserialize<'de> for FailureChoice {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "write \"open\", \"closed\", \"local\" or { local = 0.25 }")]
        enum Written {
            Word(String),
            Local(Local),
        }
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Local {
            local: f64,
        }
        let choice = match Written::deserialize(source)? {
            Written::Word(word) => word.parse().map_err(D::Error::custom)?,
            Written::Local(Local { local }) => OnStoreFailure::Local(Share::new(local).map_err(D::Error::custom)?),
        };
        Ok(Self(choice))
    }
}

/// A share such as 0.5: above 0 and at most 1.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ShareNumber(pub(crate) Share);

impl<'de> Deserialize<'de> for ShareNumber {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        Share::new(f64::deserialize(source)?).map(Self).map_err(D::Error::custom)
    }
}

/// A cost of at least 1.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Units(pub(crate) Cost);

impl<'de> Deserialize<'de> for Units {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        let units = i64::deserialize(source)?;
        let cost = u64::try_from(units)
            .map_err(|_| D::Error::custom(format!("a cost of {units} is out of range: use 1 to 1000000000000")))?;
        Cost::new(cost).map(Self).map_err(D::Error::custom)
    }
}

/// A network, or one address of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Net(pub(crate) IpNet);

from_text!(Net, |text| {
    let net = text.parse().or_else(|_| text.parse::<IpAddr>().map(IpNet::from));
    net.map(Net).map_err(|_| format!("`{text}` is neither an address nor a network: write `10.0.0.1` or `10.0.0.0/8`"))
});

/// A text that no error and no log shows.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Secret(pub(crate) String);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret")
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        String::deserialize(source).map(Self).map_err(|_| D::Error::custom("a token is a text: put it in quotes"))
    }
}
