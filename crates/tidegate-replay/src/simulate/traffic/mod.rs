//! [`Traffic`]: simulated requests of many clients over time.
//!
//! Each client has its own `behaviour` and its own random numbers. [`RequestStream`] merges the clients in order of time. It holds one
//! request of each client, regardless of the duration. [`csv`] and [`access_log`] write the requests.

pub mod access_log;
mod activity_curve;
mod addresses;
mod adversary;
mod behaviour;
pub mod csv;
mod stream;
mod visitors;

use std::{fmt, str::FromStr, time::Duration};

use tidegate::Limit;

use crate::{logs::MAX_DURATION, micros, replay::MAX_AT_ONCE, window_us};
pub use stream::{RequestKind, RequestStream, SimulatedRequest};

/// Maximum number of clients. Each has its own address.
pub const MAX_CLIENTS: u32 = 10_000_000;
/// Default start of the traffic: Monday, 5 January 2026, 09:00 UTC.
pub const DEFAULT_START_US: u64 = 1_767_603_600_000_000;
/// The latest time that the engine distinguishes from a later one.
const LATEST_US: u64 = 9_000_000_000_000_000;
/// Approximate number of requests that spend a whole limit. For a larger limit, each request costs several units.
const REQUESTS_PER_LIMIT: u64 = 1_000;
/// Shortest mean duration of a request.
const MIN_REQUEST: Duration = Duration::from_millis(1);
/// Window of the limit that sets the size of pages for a limit on requests at once, in mean durations of a request. A page then has
/// as many requests as may run at once, and takes a fifth of the time that one of them takes.
const DURATIONS_PER_WINDOW: u32 = 4;
/// Minimum duration of traffic for a limit, in windows.
const MIN_WINDOWS: u64 = 4;

/// How clients behave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum TrafficShape {
    /// Every client sends at random times, at its own constant rate. A few clients send much, most send little.
    Poisson,
    /// Every client loads pages: a burst of requests, then a pause.
    Bursty,
    /// Every client sends at random times, at a rate that rises and falls as over a day.
    Diurnal,
    /// Clients know how limits are counted: bursts at the boundaries of windows and buckets, then steady attempts.
    Adversarial,
    /// People who read pages, and scrapers, scripts, password guessers and cron jobs.
    Mix,
}

impl TrafficShape {
    /// All shapes.
    pub const ALL: [Self; 5] = [Self::Poisson, Self::Bursty, Self::Diurnal, Self::Adversarial, Self::Mix];

    /// Returns the name of the shape.
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

impl fmt::Display for TrafficShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for TrafficShape {
    type Err = TrafficError;

    fn from_str(text: &str) -> Result<Self, TrafficError> {
        let shape = Self::ALL.into_iter().find(|shape| shape.as_str() == text);
        shape.ok_or_else(|| TrafficError::Shape { text: text.chars().take(40).collect() })
    }
}

/// Options of simulated traffic.
#[derive(Debug, Clone, PartialEq)]
pub struct Traffic {
    /// How clients behave.
    pub shape: TrafficShape,
    /// Number of clients.
    pub clients: u32,
    /// Duration of the traffic.
    pub duration_us: u64,
    /// Requests per minute of a client, on average over all clients. Adversaries have their own rate.
    pub per_minute: f64,
    /// Units that a request costs.
    pub cost: u64,
    /// The limit that adversaries attack, and that sets the size of pages. [`TrafficShape::Mix`] ignores it.
    pub limit: Limit,
    /// Mean duration of a request, in microseconds. Durations are distributed exponentially, and last from 1 ms to 24 hours. 0 for
    /// requests without durations.
    pub mean_request_us: u64,
    /// Start of the traffic, in microseconds since the epoch.
    pub start_us: u64,
    /// Seed of the random numbers. The same seed gives the same requests.
    pub seed: u64,
}

impl Default for Traffic {
    /// Returns an hour of a site with a thousand visitors.
    fn default() -> Self {
        Self {
            shape: TrafficShape::Mix,
            clients: 1_000,
            duration_us: 3_600_000_000,
            per_minute: 6.0,
            cost: 1,
            limit: Limit::new(60, std::time::Duration::from_secs(60)).expect("60/1m is a limit"),
            mean_request_us: 0,
            start_us: DEFAULT_START_US,
            seed: 1,
        }
    }
}

impl Traffic {
    /// Returns traffic that a limit affects: about `requests` requests, and an average demand of `load` times the limit for each client.
    ///
    /// # Errors
    /// If the load is not a positive number.
    pub fn for_limit(
        limit: Limit,
        shape: TrafficShape,
        clients: u32,
        requests: u64,
        load: f64,
        seed: u64,
    ) -> Result<Self, TrafficError> {
        let cost = (limit.max() / REQUESTS_PER_LIMIT).max(1);
        Self::for_windowed(limit, cost, shape, (clients, requests, load), seed)
    }

    /// Returns traffic that a limit on requests at once affects: about `requests` requests that last `mean_request` on average, and an
    /// average of `load` times the limit at once for each client.
    ///
    /// # Errors
    /// If the limit, the duration or the load is out of range.
    pub fn for_requests_at_once(
        max: u64,
        mean_request: Duration,
        shape: TrafficShape,
        (clients, requests, load): (u32, u64, f64),
        seed: u64,
    ) -> Result<Self, TrafficError> {
        if !(1..=MAX_AT_ONCE).contains(&max) {
            return Err(TrafficError::AtOnce { max });
        }
        if !(MIN_REQUEST..=MAX_DURATION).contains(&mean_request) {
            return Err(TrafficError::RequestDuration);
        }
        // The size of pages and attacks follows from a limit with a window: so many requests, one after the other, keep the limit on
        // requests at once full.
        let window = mean_request * DURATIONS_PER_WINDOW;
        let limit =
            Limit::new(max * u64::from(DURATIONS_PER_WINDOW), window).map_err(|_| TrafficError::RequestDuration)?;
        let traffic = Self::for_windowed(limit, 1, shape, (clients, requests, load), seed)?;
        Ok(Self { mean_request_us: micros(mean_request), ..traffic })
    }

    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "approximate numbers; a float saturates"
    )]
    fn for_windowed(
        limit: Limit,
        cost: u64,
        shape: TrafficShape,
        (clients, requests, load): (u32, u64, f64),
        seed: u64,
    ) -> Result<Self, TrafficError> {
        if !load.is_finite() || load <= 0.0 {
            return Err(TrafficError::Load { load });
        }
        let window_us = window_us(limit);
        let per_window = match shape {
            TrafficShape::Adversarial => adversary::LOAD,
            _ => load,
        } * (limit.max() as f64 / cost as f64);
        let windows = requests as f64 / (f64::from(clients) * per_window);
        let duration_us = (windows * window_us as f64) as u64;
        Ok(Self {
            shape,
            clients,
            duration_us: duration_us.clamp(MIN_WINDOWS * window_us, LATEST_US - DEFAULT_START_US),
            per_minute: per_window * 60e6 / window_us as f64,
            cost,
            limit,
            mean_request_us: 0,
            start_us: DEFAULT_START_US,
            seed,
        })
    }

    /// Returns the requests in order of time.
    ///
    /// # Errors
    /// If an option is out of range.
    pub fn requests(&self) -> Result<RequestStream, TrafficError> {
        self.validate()?;
        Ok(RequestStream::new(self))
    }

    /// Returns an error if an option is out of range.
    pub(crate) fn validate(&self) -> Result<(), TrafficError> {
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
        if self.mean_request_us > 0
            && !(MIN_REQUEST..=MAX_DURATION).contains(&Duration::from_micros(self.mean_request_us))
        {
            return Err(TrafficError::RequestDuration);
        }
        Ok(())
    }

    /// Returns the address of a client: IPv6 for one in eight clients, IPv4 for the others. No real client has such an address.
    pub fn address(&self, client: u32) -> String {
        addresses::address(self.seed, client)
    }
}

/// Invalid option of [`Traffic`].
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum TrafficError {
    /// The text is not a shape.
    #[error("`{text}` is not a shape of traffic: use poisson, bursty, diurnal, adversarial or mix")]
    Shape {
        /// Beginning of the text.
        text: String,
    },
    /// The number of clients is out of range.
    #[error("{clients} clients are out of range: use 1 to {MAX_CLIENTS}")]
    Clients {
        /// Number of clients.
        clients: u32,
    },
    /// The rate is not positive.
    #[error("a rate of {per_minute} requests per minute is invalid: use a number above 0")]
    Rate {
        /// The rate.
        per_minute: f64,
    },
    /// The load is not positive.
    #[error("a load of {load} is invalid: use a number above 0, such as 0.25 for a quarter of the limit")]
    Load {
        /// The load.
        load: f64,
    },
    /// The duration is 0 or too long.
    #[error("the duration is invalid: use more than 0, and end before the year 2255")]
    Duration,
    /// The limit on requests at once is too high.
    #[error("a limit of {max} requests at once can't be simulated: use 1 to {MAX_AT_ONCE}")]
    AtOnce {
        /// Maximum of the limit.
        max: u64,
    },
    /// The mean duration of requests is out of range.
    #[error("the mean duration of requests is out of range: use 1ms to 1d")]
    RequestDuration,
    /// The cost is out of range.
    #[error("a cost of {cost} is out of range: use 1 to 1000000000000")]
    Cost {
        /// The cost.
        cost: u64,
    },
}
