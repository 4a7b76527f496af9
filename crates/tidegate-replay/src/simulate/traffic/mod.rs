//! [`Traffic`]: requests of many clients over time, made up.
//!
//! Each client behaves in its own way (`behaviour`) with random numbers of its own; [`Requests`] merges them in order of
//! time and holds one request of each client, however long the traffic lasts. `names` tells who they are, and [`csv`] and
//! [`access_log`] write it all down.

pub mod access_log;
mod behaviour;
pub mod csv;
mod curve;
mod mix;
mod names;
mod requests;

use std::{fmt, str::FromStr};

use serde::Serialize;
use tidegate::Limit;

pub use requests::{Requests, Sent, What};

/// The most clients that there are names for.
pub const MAX_CLIENTS: u32 = 10_000_000;
/// Where traffic begins unless told otherwise: Monday, 5 January 2026, 09:00 UTC.
pub const DEFAULT_START_US: u64 = 1_767_603_600_000_000;
const LATEST_US: u64 = tidegate::Timestamp::MAX.as_micros();
/// About so many requests spend a whole limit: where it allows more units, each request costs several.
const REQUESTS_A_LIMIT: u64 = 1_000;
/// Traffic around a limit lasts this many windows at the least, so that they slide.
const FEWEST_WINDOWS: u64 = 4;

/// How clients behave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Shape {
    /// Every client at random moments, at its own steady rate: a few send much, most send little.
    Poisson,
    /// Pages: a burst of requests, then a pause.
    Bursty,
    /// At random moments, at a rate that rises and falls as over a day.
    Diurnal,
    /// Clients that know how limits are counted: bursts at the edges of windows and of buckets, then steady tries.
    Adversarial,
    /// People who read pages, and among them scrapers, scripts, someone who guesses passwords, and cron jobs.
    Mix,
}

impl Shape {
    /// All shapes.
    pub const ALL: [Self; 5] = [Self::Poisson, Self::Bursty, Self::Diurnal, Self::Adversarial, Self::Mix];

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Poisson => "poisson",
            Self::Bursty => "bursty",
            Self::Diurnal => "diurnal",
            Self::Adversarial => "adversarial",
            Self::Mix => "mix",
        }
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Shape {
    type Err = TrafficError;

    fn from_str(text: &str) -> Result<Self, TrafficError> {
        let shape = Self::ALL.into_iter().find(|shape| shape.as_str() == text);
        shape.ok_or_else(|| TrafficError::Shape { text: text.chars().take(40).collect() })
    }
}

/// What traffic to make up.
#[derive(Debug, Clone, PartialEq)]
pub struct Traffic {
    /// How clients behave.
    pub shape: Shape,
    /// How many there are.
    pub clients: u32,
    /// How long it lasts.
    pub duration_us: u64,
    /// Requests that a client sends in a minute, on average over all clients. Adversaries have their own mind.
    pub per_minute: f64,
    /// What a request costs.
    pub cost: u64,
    /// The limit whose windows adversaries know, and that pages are a part of. [`Shape::Mix`] knows no limit.
    pub limit: Limit,
    /// Where it begins, in microseconds since the epoch.
    pub start_us: u64,
    /// The same seed gives the same requests.
    pub seed: u64,
}

impl Default for Traffic {
    /// An hour of a site with a thousand visitors.
    fn default() -> Self {
        Self {
            shape: Shape::Mix,
            clients: 1_000,
            duration_us: 3_600_000_000,
            per_minute: 6.0,
            cost: 1,
            limit: Limit::new(60, std::time::Duration::from_secs(60)).expect("60/1m is a limit"),
            start_us: DEFAULT_START_US,
            seed: 1,
        }
    }
}

impl Traffic {
    /// Traffic that a limit matters to: about `requests` of them, and each client spends `load` times the limit on average.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "about so many; a float saturates"
    )]
    pub fn around(limit: Limit, shape: Shape, clients: u32, requests: u64, load: f64, seed: u64) -> Self {
        let cost = (limit.max() / REQUESTS_A_LIMIT).max(1);
        let window_us = window_us(limit);
        let per_window = match shape {
            Shape::Adversarial => behaviour::ADVERSARIAL_LOAD,
            _ => load,
        } * (limit.max() as f64 / cost as f64);
        let windows = requests as f64 / (f64::from(clients) * per_window);
        let duration_us = (windows * window_us as f64) as u64;
        Self {
            shape,
            clients,
            duration_us: duration_us.clamp(FEWEST_WINDOWS * window_us, LATEST_US - DEFAULT_START_US),
            per_minute: per_window * 60e6 / window_us as f64,
            cost,
            limit,
            start_us: DEFAULT_START_US,
            seed,
        }
    }

    /// The requests, in order of time.
    ///
    /// # Errors
    /// If an option is out of range.
    pub fn requests(&self) -> Result<Requests, TrafficError> {
        if !(1..=MAX_CLIENTS).contains(&self.clients) {
            return Err(TrafficError::Clients { clients: self.clients });
        }
        if !self.per_minute.is_finite() || self.per_minute <= 0.0 {
            return Err(TrafficError::Rate { per_minute: self.per_minute });
        }
        if self.duration_us == 0 || self.start_us.checked_add(self.duration_us).is_none_or(|end| end > LATEST_US) {
            return Err(TrafficError::Duration);
        }
        if tidegate::Cost::new(self.cost).is_err() {
            return Err(TrafficError::Cost { cost: self.cost });
        }
        Ok(Requests::new(self))
    }

    /// The address of a client: IPv4, for one in eight IPv6, none of them anybody's.
    pub fn name(&self, client: u32) -> String {
        names::name(self.seed, client)
    }
}

/// A limit's window in microseconds.
pub(super) fn window_us(limit: Limit) -> u64 {
    u64::try_from(limit.window().as_micros()).unwrap_or(u64::MAX)
}

/// Why [`Traffic`] can't be made.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum TrafficError {
    /// The text names no shape.
    #[error("`{text}` is no shape of traffic: use poisson, bursty, diurnal, adversarial or mix")]
    Shape {
        /// The beginning of the text.
        text: String,
    },
    /// There are no clients, or too many.
    #[error("{clients} clients are out of range: use 1 to {MAX_CLIENTS}")]
    Clients {
        /// What was asked for.
        clients: u32,
    },
    /// The rate is not one.
    #[error("a rate of {per_minute} requests a minute makes no traffic: use a number above 0")]
    Rate {
        /// What was asked for.
        per_minute: f64,
    },
    /// The load is not one.
    #[error("a load of {load} makes no traffic: use a number above 0, such as 0.5 for half the limit")]
    Load {
        /// What was asked for.
        load: f64,
    },
    /// It lasts no time, or beyond all time.
    #[error("the traffic must last some time, and end before the year 2255")]
    Duration,
    /// The cost is out of range.
    #[error("a cost of {cost} is out of range: use 1 to 1000000000000")]
    Cost {
        /// What was asked for.
        cost: u64,
    },
}
